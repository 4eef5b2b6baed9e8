# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Load a weight file into a torch model, strictly: everything is checked before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from pipeline.align.convert import describe_torch, tree
from pipeline.align.convert.checkpoint import read_source
from pipeline.align.convert.strict import strict_arrays


def load_into_torch(model: torch.nn.Module, path: str | Path) -> None:
    """Load a file with this model's own state names (safetensors or torch's own); tied parameters stay tied.

    Raises UserError, and changes nothing, where a tensor is missing, unexpected, or of another shape or dtype.
    """
    described = tree.Tree(describe_torch.describe(model))
    arrays = strict_arrays(read_source(path), described)
    tensors = describe_torch.unwrap(model).state_dict(keep_vars=True)
    with torch.no_grad():
        for name, array in arrays.items():
            tensors[name].copy_(as_tensor(array.read(), array.dtype))


def as_tensor(array: np.ndarray, dtype: str) -> torch.Tensor:
    """A tensor of the array's values; bits of bfloat16 become bfloat16."""
    copied = torch.from_numpy(np.array(array))
    return copied.view(torch.bfloat16) if dtype == "bfloat16" else copied
