# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Load a weight file into a Paddle model, strictly: everything is checked before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle

from pipeline.align.convert import describe_paddle, tree
from pipeline.align.convert.checkpoint import read_source
from pipeline.align.convert.strict import strict_arrays


def load_into_paddle(model: paddle.nn.Layer, path: str | Path) -> None:
    """Load a file with this model's own state names (safetensors or .pdparams); tied parameters stay tied.

    Raises UserError, and changes nothing, where a tensor is missing, unexpected, or of another shape or dtype.
    """
    described = tree.Tree(describe_paddle.describe(model))
    arrays = strict_arrays(read_source(path), described)
    tensors = describe_paddle.state_tensors(model)
    with paddle.no_grad():
        for name, array in arrays.items():
            tensors[name].set_value(np.ascontiguousarray(array.read()).reshape(array.shape))
