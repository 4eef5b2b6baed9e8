# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Load a torch file by running the code it names: only where the user says that it is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.align.convert import describe_torch
from pipeline.align.convert.arrays import from_numpy
from pipeline.align.errors import UserError


def load_trusted(path: Path) -> dict[Any, Any]:
    """torch.load with weights_only=False, as nested dicts with Arrays; a whole network stands for its state_dict."""
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # the file's own code may raise anything
        raise UserError(f"{path} cannot be loaded even by running its code: {type(error).__name__}: {error}") from None
    value = _plain(loaded)
    if not isinstance(value, dict):
        raise UserError(f"{path} holds a {type(loaded).__name__}, not a network or a dictionary of tensors")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return dict(describe_torch.state(value))
    if isinstance(value, torch.Tensor):
        return describe_torch.as_array(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return from_numpy(value)
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
