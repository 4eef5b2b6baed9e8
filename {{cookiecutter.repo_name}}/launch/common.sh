#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# What the launchers share; to be sourced. Read from the environment:
#   DEVICES  GPU numbers such as 0,1, or cpu:N for N processes on the CPU; by default every GPU that nvidia-smi lists
#   TREE     paddle (the port, by default) or torch_ref (the reference)
#   PYTHON   the interpreter; by default .venv/bin/python where there is one, otherwise python3
#   DRY_RUN  1: print the command instead of running it

function fail() {
    echo "error: $1" >&2
    exit 2
}

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
TREE=${TREE:-paddle}
[[ $TREE == paddle || $TREE == torch_ref ]] || fail "TREE is '$TREE'; it must be paddle or torch_ref"
[[ -n ${PYTHON:-} ]] || PYTHON=$([[ -x .venv/bin/python ]] && echo .venv/bin/python || echo python3)

# The GPUs of this machine as 0,1,...; nothing where there is none
function all_gpus() {
    command -v nvidia-smi >/dev/null || return 0
    nvidia-smi --list-gpus 2>/dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -s -d,
}

# choose_devices: sets KIND (gpu or cpu), GPUS (their numbers) and COUNT (processes of this machine)
function choose_devices() {
    local script=${0##*/}
    DEVICES=${DEVICES:-$(all_gpus)}
    [[ -n $DEVICES ]] || fail "no GPU found (nvidia-smi lists none); on the CPU: DEVICES=cpu:2 bash launch/$script"
    if [[ $DEVICES =~ ^cpu(:([1-9][0-9]*))?$ ]]; then
        KIND=cpu GPUS='' COUNT=${BASH_REMATCH[2]:-1}
    elif [[ $DEVICES =~ ^[0-9]+(,[0-9]+)*$ ]]; then
        KIND=gpu GPUS=$DEVICES COUNT=$(tr ',' '\n' <<<"$DEVICES" | sort -u | wc -l)
        [[ $COUNT == $(tr ',' '\n' <<<"$DEVICES" | wc -l) ]] || fail "DEVICES is '$DEVICES'; a GPU is named twice"
    else
        fail "DEVICES is '$DEVICES'; it must be GPU numbers such as 0,1, or cpu:N"
    fi
    SETTINGS=(-o "train.device=$KIND")
}

# run COMMAND...: with the chosen GPUs visible
function run() {
    [[ $KIND == cpu ]] || export CUDA_VISIBLE_DEVICES=$GPUS
    if [[ ${DRY_RUN:-} == 1 ]]; then
        [[ $KIND == cpu ]] || printf 'CUDA_VISIBLE_DEVICES=%s ' "$GPUS"
        printf '%q ' "$@"
        echo
    else
        exec "$@"
    fi
}

# launch [option of the engine ...] -- [option of train.py ...]: one process per device
function launch() {
    local engine=()
    while [[ $1 != -- ]]; do engine+=("$1") && shift; done
    shift
    if [[ $TREE == paddle ]]; then
        local devices=(--nproc_per_node "$COUNT")
        [[ $KIND == cpu ]] || devices=(--devices "$(seq -s, 0 $((COUNT - 1)))")  # of the visible ones
        run "$PYTHON" -m paddle.distributed.launch "${devices[@]}" --log_dir output/log "${engine[@]}" \
            paddle/train.py "${SETTINGS[@]}" "$@"
    else
        run "$PYTHON" -m torch.distributed.run --nproc_per_node "$COUNT" "${engine[@]}" torch_ref/train.py "${SETTINGS[@]}" "$@"
    fi
}
