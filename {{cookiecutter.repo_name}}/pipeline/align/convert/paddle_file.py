# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Read what paddle.save wrote, without Paddle and without running anything."""

from __future__ import annotations

import math
import mmap
import pickle
import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align.convert.arrays import NUMPY, Array
from pipeline.align.errors import UserError
from pipeline.align.unpickle import Refused, read_pickle

#: What paddle.save adds to a state_dict, and what older versions add where they cut a large tensor.
PADDLE_NAMES, CUT = "StructuredToParameterName@@", "UnpackBigParamInfor@@"
#: The dtypes of arrays; anything else is no weight.
DTYPE = re.compile(r"b1|[iu][1248]|f[248]|c8|c16")


class _Type:
    """A dtype, built here and not by numpy, whose own reading of damaged pickles can crash."""

    def __init__(self, text: str, *flags: Any):
        if not DTYPE.fullmatch(text):
            raise Refused(f"an array of dtype {text[:20]!r}")
        self.value = np.dtype(text)

    def __setstate__(self, state: tuple) -> None:
        self.value = self.value.newbyteorder({"<": "<", ">": ">", "|": "<", "=": "<"}[state[1]])


class _Array:
    """An array, built from the five parts of numpy's state."""

    def __init__(self, *arguments: Any):
        self.value: np.ndarray | None = None

    def __setstate__(self, state: tuple) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _Type) or not isinstance(raw, bytes) or math.prod(shape) * dtype.value.itemsize != len(raw):
            raise ValueError("an array whose parts do not agree")
        self.value = np.frombuffer(raw, dtype.value).reshape(tuple(map(int, shape)), order="F" if fortran else "C")


class _Nested(pickle._Unpickler):  # in Python: damaged files crash the one in C
    """Knows what a nested dictionary of tensors names: Paddle pickles a tensor as tuple((name, array))."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct": _Array, "dtype": _Type, "ndarray": _Array, "tuple": tuple, "OrderedDict": OrderedDict}
        if module not in MODULES or name not in known:
            raise Refused(f"{module}.{name}")
        return known[name]


MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "builtins", "__builtin__", "collections")


def read_paddle(path: Path) -> Any:
    """The saved object with Arrays for tensors, mapped if it is one dictionary of tensors and in memory if it is nested."""
    with open(path, "rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        try:
            value, _ = read_pickle(view)
        except Refused:
            value = _read_nested(path, file)
    return _plain(value, path)


def _read_nested(path: Path, file: Any) -> Any:
    try:
        return _Nested(file, encoding="latin1").load()
    except Refused as refused:
        raise UserError(
            f"{path} is more than weights: it holds {refused}, which only running code from the file can rebuild; save"
            " model.state_dict() instead"
        ) from None
    except Exception as error:  # damaged bytes make unpicklers raise almost anything
        raise UserError(f"{path} is no complete file of paddle.save (cut off or damaged?): {error}") from None


def _plain(value: Any, path: Path) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], _Array):
        value = value[1]
    if isinstance(value, _Array):
        value = value.value
    if isinstance(value, np.ndarray):
        # Paddle saves the bits of bfloat16 as uint16
        name = "bfloat16" if value.dtype == np.uint16 else value.dtype.name
        if name not in NUMPY:
            raise UserError(f"{path} holds an array of dtype {value.dtype}; a tensor of numbers is needed")
        return Array(value.shape, name, lambda: value.astype(NUMPY[name], copy=False))
    if isinstance(value, dict):
        if CUT in value:
            raise UserError(f"{path} holds tensors cut in pieces (pickle protocol 2 or 3); save it again with paddle.save")
        return {key: _plain(one, path) for key, one in value.items() if key != PADDLE_NAMES}
    return [_plain(one, path) for one in value] if isinstance(value, (list, tuple)) else value
