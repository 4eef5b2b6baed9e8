# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The TIPC driver: reads a configuration, makes the commands of a chain, runs them and reports.

Standard library only, Python 3.8 or newer, independent of pipeline/: a repository released without the alignment kit
keeps its TIPC.
"""
