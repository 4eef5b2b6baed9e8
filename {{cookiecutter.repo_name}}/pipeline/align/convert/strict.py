# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What both load functions check before they write."""

from __future__ import annotations

from pipeline.align.convert.arrays import Array
from pipeline.align.convert.checkpoint import Checkpoint
from pipeline.align.convert.tree import Tree
from pipeline.align.errors import UserError


def strict_arrays(checkpoint: Checkpoint, model: Tree) -> dict[str, Array]:
    """The file's arrays by first name: all of the model's, nothing else, of equal shapes and dtypes."""
    wanted = {name: ref.shape for name, ref in model.tensors.items()}
    selected = checkpoint.select(wanted, model.aliases, (), (), model.framework)
    for name, array in selected.arrays.items():
        if array.dtype != model.tensors[name].dtype:
            raise UserError(
                f"{checkpoint.label}: {name!r} is {array.dtype}, the {model.framework} model's is {model.tensors[name].dtype};"
                " convert the file for this model (python -m pipeline convert)"
            )
    return selected.arrays
