#!/bin/bash
# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0

# What the scripts of this folder share; to be sourced. The chains themselves are in driver/, in Python.

# Everything is relative to the root of the repository, wherever the scripts are called from.
TIPC_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# An interpreter for the driver, any Python from 3.8 on. Not the configuration's, which is part of what is tested; hence the
# system's own come first.
function driver_python() {
    local candidate
    for candidate in /usr/bin/python3 /usr/local/bin/python3 $(type -aP python3 python); do
        if [[ -x $candidate ]] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
            echo "$candidate"
            return 0
        fi
    done
    echo "error: no Python 3.8 or newer to run the driver with; install one" >&2
    return 2
}

# run_driver CHAIN CONFIG [argument ...]
function run_driver() {
    local chain=$1 arguments=("${@:2}") python
    if [[ $PWD != "$TIPC_ROOT" && -f ${arguments[0]:-} ]]; then
        arguments[0]=$(realpath "${arguments[0]}")
    fi
    python=$(driver_python) || return
    cd "$TIPC_ROOT" || return
    PYTHONDONTWRITEBYTECODE=1 "$python" -m test_tipc.driver "$chain" "${arguments[@]}"
}
