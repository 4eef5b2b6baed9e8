#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# Train on several machines; to be run on each of them:
#   MASTER=address:port NNODES=2 NODE_RANK=0 bash launch/multi_node.sh [option of train.py ...]
# MASTER: an address of the machine with rank 0 that all of them reach, and a port that is free there. See common.sh for DEVICES,
# TREE, PYTHON and DRY_RUN. Every machine needs the same files at the same place, and as many devices as the others.

# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ ${MASTER:-} =~ ^[^:]+:[0-9]+$ ]] || fail "MASTER is '${MASTER:-}'; it must be address:port of the machine with rank 0"
[[ ${NNODES:-} =~ ^[1-9][0-9]*$ ]] || fail "NNODES is '${NNODES:-}'; it must be the number of machines"
[[ ${NODE_RANK:-} =~ ^[0-9]+$ && $NODE_RANK -lt $NNODES ]] || fail "NODE_RANK is '${NODE_RANK:-}'; it must be from 0 to $((NNODES - 1))"
choose_devices
if [[ $TREE == paddle ]]; then
    launch --master "$MASTER" --nnodes "$NNODES" --rank "$NODE_RANK" -- "$@"
else
    launch --nnodes "$NNODES" --node_rank "$NODE_RANK" --master_addr "${MASTER%:*}" --master_port "${MASTER##*:}" -- "$@"
fi
