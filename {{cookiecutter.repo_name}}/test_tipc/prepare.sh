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

case $mode in
    lite_train_lite_infer | paddle2onnx_infer) train=lite_data infer=lite_data ;;
    lite_train_whole_infer) train=lite_data infer=digits ;;
    *) train=digits infer=digits ;;
esac
for data in "$train" "$infer"; do
    if [[ $data == digits ]]; then
        unpack digits.tar.gz digits
    else
        unpack lite_data.tar lite_data
    fi
done
point train_data "$train"
point infer_data "$infer/images"
echo "$mode" >prepared_for
echo "ready for $mode: train on $train, infer on $infer"
