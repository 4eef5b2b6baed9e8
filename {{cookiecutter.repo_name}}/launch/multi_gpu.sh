#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# Train on all GPUs of this machine, one process each: bash launch/multi_gpu.sh [option of train.py ...]
# See common.sh for DEVICES, TREE, PYTHON and DRY_RUN. data.batch_size is that of one process.

# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
choose_devices
if [[ $TREE == paddle ]]; then
    launch -- "$@"
else
    launch --standalone -- "$@"
fi
