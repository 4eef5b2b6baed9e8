#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# Convert the exported model to ONNX and infer with it.
#   bash test_tipc/test_paddle2onnx.sh CONFIG

# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/common_func.sh"
run_driver paddle2onnx "$@"
