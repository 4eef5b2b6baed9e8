# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Arrays whose values are read only when asked for, in every dtype of the frameworks, and exact casts between dtypes.

numpy has no bfloat16: its 16 bits travel as uint16 with the dtype name "bfloat16" beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.align.errors import UserError

#: dtype name -> numpy dtype that holds its values or bits.
NUMPY = {
    "bool": np.dtype(bool),
    "bfloat16": np.dtype("<u2"),
    **{
        name: np.dtype(name).newbyteorder("<")
        for name in (
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "float32",
            "float64",
            "complex64",
            "complex128",
        )
    },
}
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
#: dtype name -> those that hold every one of its values.
WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
    "complex64": ("complex128",),
    **{name: tuple(wide for wide in INTEGERS if np.can_cast(name, wide)) for name in INTEGERS},
}
#: Elements that are cast at a time: bounds the memory beside the result.
BLOCK = 1 << 16
#: Rows and columns of a transpose that are copied at a time.
TILE = (1024, 32)


@dataclass(frozen=True)
class Array:
    """A tensor of a file or a model. `read()` gives its values, or bits for bfloat16, as a numpy array (often a view)."""

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]


def from_numpy(array: np.ndarray) -> Array:
    """A numpy array as an Array; raises UserError for dtypes that no tensor has."""
    name = array.dtype.name
    if name not in NUMPY:
        raise UserError(f"an array of dtype {array.dtype} cannot be converted; a tensor of numbers is needed")
    return Array(array.shape, name, lambda: array.astype(NUMPY[name], copy=False))


def cast(source: np.ndarray, old: str, new: str, into: np.ndarray, name: str) -> str:
    """Write `source` (dtype name `old`) into `into` (same shape, dtype name `new`); returns how, for the report.

    Returns "" for equal dtypes, "float16 -> float32 (exact)" where every value survives, "... (rounded)" where a
    narrower float had to be rounded. Raises UserError where a value does not fit: overflow to infinity, integers out of
    range, or a change between floats, integers, booleans and complex numbers.
    """
    if old != new and not _may_cast(old, new):
        raise UserError(
            f"{name} is {old} in the file but {new} in the model; such a cast would change what it means"
            " (a quantised or wrong file?)"
        )
    exact = True
    for old_block, new_block in _blocks(source, into):
        if old == new:
            new_block[...] = old_block
        elif new in WIDER.get(old, ()):
            _widen(old_block, old, new_block)
        else:
            exact &= _narrow(old_block, old, new, new_block, name)
    return "" if old == new else f"{old} -> {new} ({'exact' if exact else 'rounded'})"


def _may_cast(old: str, new: str) -> bool:
    groups = (FLOATS, INTEGERS, ("complex64", "complex128"))
    return any(old in group and new in group for group in groups)


def _blocks(source: np.ndarray, into: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of blocks that cover both arrays: tiles that fit the cache for a transpose (four times faster than numpy's
    own), otherwise about BLOCK elements, along the longest axis.
    """
    if source.size <= BLOCK:
        yield source, into
    elif source.ndim == 2 and source.strides[0] < source.strides[1]:
        rows, columns = TILE
        for i in range(0, source.shape[0], rows):
            for j in range(0, source.shape[1], columns):
                yield source[i : i + rows, j : j + columns], into[i : i + rows, j : j + columns]
    else:
        axis = int(np.argmax(source.shape))
        half = source.shape[axis] // 2
        for part in (slice(None, half), slice(half, None)):
            where = (slice(None),) * axis + (part,)
            yield from _blocks(source[where], into[where])


def _widen(source: np.ndarray, old: str, into: np.ndarray) -> None:
    """A cast in which every value survives."""
    if old == "bfloat16" and into.dtype == np.float32:
        bits = into.view(np.uint32)
        bits[...] = source
        bits <<= 16
    else:
        into[...] = widen(source) if old == "bfloat16" else source


def _narrow(source: np.ndarray, old: str, new: str, into: np.ndarray, name: str) -> bool:
    """A cast in which values may be rounded; whether none was. Raises UserError for values that do not fit."""
    values = widen(source) if old == "bfloat16" else source
    with np.errstate(over="ignore", invalid="ignore"):
        if new == "bfloat16":
            into[...] = _to_bfloat16(values.astype(np.float32))
            back = widen(into)
        else:
            into[...] = values
            back = into
    if values.dtype.kind in "iu":
        if not np.array_equal(back, values):
            raise UserError(f"{name} has integers that do not fit into {new}; the model must hold it as {old}")
        return True
    if np.any(np.isinf(back) & ~np.isinf(values)):
        raise UserError(f"{name} has values too large for {new} (they would become infinite); the model must hold it as {old}")
    return bool(np.all((back == values) | np.isnan(values)))


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16 bits (uint16) as the float32 of the same value."""
    wide = bits.astype(np.uint32, order="K")
    wide <<= 16
    return wide.view(np.float32)


def _to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 rounded to the nearest bfloat16, ties to even, as bits."""
    bits = np.ascontiguousarray(values).view(np.uint32).reshape(values.shape)
    rounded = ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal element by element, NaN to NaN, in blocks."""
    if one.shape != other.shape:
        return False
    if one.flags.c_contiguous and other.flags.c_contiguous:
        one, other = one.reshape(-1), other.reshape(-1)
    if one.ndim == 0:
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
    step = max(1, BLOCK * len(one) // max(one.size, 1))
    parts = ((one[i : i + step], other[i : i + step]) for i in range(0, len(one), step))
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in parts)
