#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# The basic chain: train, evaluate, export and infer, for every combination that the configuration lists.
#   bash test_tipc/test_train_inference_python.sh CONFIG MODE [GPU_ID] [--strict]

# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/common_func.sh"
run_driver train_infer "$@"
