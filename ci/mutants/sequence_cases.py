# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Wrong and right ports of the sequence pair."""
from __future__ import annotations

from pathlib import Path

from catalog import Track, mutant, right

TRACK = Track("sequence", Path(__file__).with_name("sequence"), (), (), (right("as-written"),))
