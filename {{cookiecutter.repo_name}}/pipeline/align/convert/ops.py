# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The linear maps from a torch tensor to a Paddle tensor of the same numbers, and back.

An op is a name, and names joined by "|" are applied from left to right (a reshape first):
    id        same shape                  T             2-D transpose
    flat row reshape                      same numbers in row-major order, another shape
    perm 1,0,2                            axes permuted
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.align.errors import UserError

RESHAPES = ("flat", "row", "reshape")


def parse(op: str) -> list[tuple[str, tuple[int, ...]]]:
    """[(name, axes)]; raises UserError for an unknown op."""
    steps: list[tuple[str, tuple[int, ...]]] = []
    for part in op.split("|"):
        name, _, axes = part.strip().partition(" ")
        order = tuple(int(axis) for axis in axes.split(",")) if axes.replace(",", "").isdigit() else ()
        if (
            name not in ("id", "T", "perm", *RESHAPES)
            or bool(axes) != (name == "perm")
            or sorted(order) != list(range(len(order)))
        ):
            raise UserError(f"unknown op {part.strip()!r}; use id, T, reshape or perm with axes such as 'perm 1,0,2'")
        if steps and name in RESHAPES:
            raise UserError(f"op {op!r}: a reshape comes first")
        steps.append((name, order))
    return steps


def transposes(op: str) -> bool:
    """Whether the op changes the order of the numbers."""
    return any(name in ("T", "perm") for name, _ in parse(op))


def fits(op: str, torch_shape: tuple[int, ...], paddle_shape: tuple[int, ...]) -> bool:
    """Whether the op takes one shape to the other; a reshape in the middle fits if the rest does."""
    steps = parse(op)
    if any(name in RESHAPES for name, _ in steps):
        if math.prod(torch_shape) != math.prod(paddle_shape):
            return False
        return all(len(paddle_shape) == 2 for name, _ in steps if name == "T")
    shape = torch_shape
    for name, order in steps:
        if (name == "T" and len(shape) != 2) or (name == "perm" and len(order) != len(shape)):
            return False
        shape = shape[::-1] if name == "T" else tuple(shape[axis] for axis in order) if name == "perm" else shape
    return shape == paddle_shape


def forward(op: str, array: np.ndarray, paddle_shape: tuple[int, ...]) -> np.ndarray:
    """The torch array in Paddle's layout (a view where numpy can)."""
    steps = parse(op)
    for i, (name, order) in enumerate(steps):
        if name in RESHAPES:
            array = array.reshape(_before(steps[i + 1 :], paddle_shape))
        else:
            array = _permute(name, order, array)
    return array


def backward(op: str, array: np.ndarray, torch_shape: tuple[int, ...]) -> np.ndarray:
    """The Paddle array in torch's layout (a view where numpy can)."""
    for name, order in reversed(parse(op)):
        if name in RESHAPES:
            array = array.reshape(torch_shape)
        else:
            array = _permute(name, tuple(np.argsort(order)), array)
    return array


def _permute(name: str, order: tuple[int, ...], array: np.ndarray) -> np.ndarray:
    return array.T if name == "T" else array.transpose(order) if name == "perm" else array


def _before(steps: list[tuple[str, tuple[int, ...]]], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `steps` (without reshapes) take to `shape`."""
    for name, order in reversed(steps):
        if name == "T":
            shape = shape[::-1]
        elif name == "perm":
            shape = tuple(shape[axis] for axis in np.argsort(order))
    return shape
