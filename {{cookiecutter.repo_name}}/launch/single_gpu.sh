#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# Train on one GPU, by default the first: bash launch/single_gpu.sh [option of train.py ...]
# See common.sh for DEVICES, TREE, PYTHON and DRY_RUN. The settings are those of port.yaml; -o changes them for this run.

# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
choose_devices
GPUS=${GPUS%%,*}
run "$PYTHON" "$TREE/train.py" "${SETTINGS[@]}" "$@"
