#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# Check a configuration, install what its interpreter lacks, and lay out the data of a mode. Harmless to repeat; needs the
# network only where a package is missing.
#   bash test_tipc/prepare.sh CONFIG MODE

# shellcheck source=/dev/null
source "$(dirname "${BASH_SOURCE[0]}")/common_func.sh"
run_driver prepare "$@" || exit
mode=${2:-}
cd "$TIPC_ROOT/test_tipc/data" || exit

function fail() {
    echo "error: $1" >&2
    exit 2
}

# unpack ARCHIVE FOLDER: the archive's one folder, whole or not at all
function unpack() {
    local archive=$1 folder=$2 temporary
    [[ -d $folder ]] && return
    [[ -f $archive ]] || fail "neither test_tipc/data/$folder nor test_tipc/data/$archive is there"
    temporary=$(mktemp -d ".$folder.XXXXXX") || exit
    if ! { tar -xf "$archive" -C "$temporary" && mv "$temporary/$folder" "$folder"; }; then
        rm -rf "$temporary"
        fail "cannot unpack test_tipc/data/$archive"
    fi
    rmdir "$temporary"
}

# point LINK TARGET: the configurations name the link, the mode chooses what is behind it
function point() {
    [[ -L $1 || ! -e $1 ]] || fail "test_tipc/data/$1 is in the way: it must be a link to the data of the mode"
    ln -sfn "$2" "$1" || exit
}

# The name of all data, which are the one .tar.gz beside lite_data.tar
function whole_data() {
    local archives=(*.tar.gz)
    [[ -f ${archives[0]} && ${#archives[@]} == 1 ]] || fail "$mode needs all data as the one .tar.gz in test_tipc/data, found: ${archives[*]}"
    echo "${archives[0]%.tar.gz}"
}

whole=lite_data
[[ $mode == *lite_infer || $mode == paddle2onnx_infer ]] || whole=$(whole_data) || exit
case $mode in
    lite_train_*) train=lite_data infer=$whole ;;
    *) train=$whole infer=$whole ;;
esac
for data in "$train" "$infer"; do
    if [[ $data == lite_data ]]; then
        unpack lite_data.tar lite_data
    else
        unpack "$data.tar.gz" "$data"
    fi
done
point train_data "$train"
for part in images infer.txt infer.csv; do
    [[ ! -e $infer/$part ]] || point infer_data "$infer/$part"
done
echo "$mode" >prepared_for
echo "ready for $mode: train on $train, infer on $infer"
