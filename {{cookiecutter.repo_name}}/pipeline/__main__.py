# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Entry point of `python -m pipeline <command>`."""
import sys

from pipeline.align.cli import main

sys.exit(main())
