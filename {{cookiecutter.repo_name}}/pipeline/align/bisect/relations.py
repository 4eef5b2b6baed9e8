# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Simple operations that take the reference's tensor to the port's, or that make both from tensors nearby."""
from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

#: A relation holds when less than this part of the difference is left.
LEFT = 1e-3
#: Elements that are looked at, at most and at least: a few numbers are in any relation.
MOST, FEWEST = 1 << 18, 8
#: Positions along an axis that are tried.
POSITIONS = 64
REDUCTIONS: dict[str, Callable] = {"the mean": np.mean, "the sum": np.sum, "the maximum": np.max, "the minimum": np.min}


def relation(torch: np.ndarray, paddle: np.ndarray, nearby: Mapping[str, np.ndarray]) -> str | None:
    """What the port's tensor is in terms of the reference's (of its shape) or of tensors nearby; None if nothing fits.

    `nearby`: tensors on which both sides agree, by name, of any shape.
    """
    if torch.shape != paddle.shape or torch.dtype.kind != "f" or paddle.dtype.kind != "f" or torch.size < FEWEST:
        return None
    if torch.size > MOST:
        nearby = {name: value[:1] for name, value in nearby.items() if value.ndim and len(value) == len(torch)}
        torch, paddle = torch[:1], paddle[:1]
    a, b = torch.astype(np.float64), paddle.astype(np.float64)
    others = {name: value.astype(np.float64) for name, value in nearby.items() if value.dtype.kind == "f" and value.size <= MOST}
    if not all(np.isfinite(value).all() for value in (a, b, *others.values())):
        return None
    left = LEFT * min(float(np.linalg.norm(a - b)), max(float(np.linalg.norm(a)), float(np.linalg.norm(b))))
    found = _of_itself(a, b, left) or _softmax(a, b)
    found = found or _both_from(a, b, lambda x: _combined(x, others, left))
    found = found or _both_from(a, b, lambda x: _reduced(x, others, left))
    return found or next(_rearranged(a, b, left), None)


def _same(x: np.ndarray, y: np.ndarray, left: float) -> bool:
    return float(np.linalg.norm(x - y)) <= left


def _of_itself(a: np.ndarray, b: np.ndarray, left: float) -> str | None:
    if not np.any(b):
        return "the port's is zero everywhere"
    factor = float((a * b).sum() / (a * a).sum()) if np.any(a) else 0.0
    if factor and abs(factor - 1) > LEFT**2 and _same(factor * a, b, left):
        return f"the port's is {factor:.6g} times the reference's"
    if _same(np.maximum(b, 0), a, left):
        return "the port lacks a ReLU"
    if _same(np.maximum(a, 0), b, left):
        return "the port has a ReLU more"
    if _same(a - a.mean(), b - b.mean(), left):
        return "the port adds a constant to the reference's"
    return None


def _softmax(a: np.ndarray, b: np.ndarray) -> str | None:
    """Both are the results of softmax."""
    axes = [[axis for axis in range(x.ndim) if x.shape[axis] > 1 and np.allclose(x.sum(axis), 1, atol=1e-4)] for x in (a, b)]
    if not all(axes) or min(a.min(), b.min()) < 0:
        return None
    if axes[0] != axes[1]:
        return f"softmax over another axis: the port's sums to 1 along axis {axes[1][0]}, the reference's along axis {axes[0][0]}"
    if min(a.min(), b.min()) > 0:
        x, y = (np.log(v) - np.log(v).mean(axes[0][0], keepdims=True) for v in (a, b))
        factor = float((x * y).sum() / (x * x).sum()) if np.any(x) else 0.0
        if abs(factor - 1) > LEFT and _same(factor * x, y, LEFT * float(np.linalg.norm(y))):
            return f"what goes into the port's softmax is {factor:.4g} times the reference's"
    return None


def _both_from(a: np.ndarray, b: np.ndarray, explain: Callable[[np.ndarray], str | None]) -> str | None:
    """What both sides are, where both can be explained; the port's alone otherwise."""
    port = explain(b)
    reference = explain(a) if port else None
    return f"the port's is {port}" + (f", the reference's is {reference}" if reference else "") if port else None


def _combined(x: np.ndarray, others: Mapping[str, np.ndarray], left: float) -> str | None:
    """`x` as a sum of tensors nearby with factors."""
    same = {name: value for name, value in others.items() if value.shape == x.shape and np.any(value)}
    for count in (1, 2, 3):
        for names in itertools.combinations(same, count):
            matrix = np.stack([same[name].ravel() for name in names], 1)
            factors, *_ = np.linalg.lstsq(matrix, x.ravel(), rcond=None)
            if min(abs(factors)) > LEFT and _same(matrix @ factors, x.ravel(), left):
                terms = [name if abs(f - 1) < LEFT else f"{f:.4g} times {name}" for f, name in zip(factors, names)]
                return " plus ".join(terms)
    return None


def _reduced(x: np.ndarray, others: Mapping[str, np.ndarray], left: float) -> str | None:
    """`x` as the mean, sum, maximum or minimum of a tensor nearby, or as its values at a position along one axis."""
    for name, value in others.items():
        axes = range(value.ndim)
        for gone in itertools.combinations(axes, value.ndim - x.ndim) if value.ndim > x.ndim else ():
            if tuple(value.shape[axis] for axis in axes if axis not in gone) != x.shape:
                continue
            for text, reduce in REDUCTIONS.items():
                if _same(reduce(value, gone), x, left):
                    return f"{text} over {'axis' if len(gone) == 1 else 'axes'} {', '.join(map(str, gone))} of {name}"
            for position in range(min(value.shape[gone[0]], POSITIONS) if len(gone) == 1 else 0):
                if _same(value.take(position, gone[0]), x, left):
                    return f"position {position} of {value.shape[gone[0]]} along axis {gone[0]} of {name}"
    return None


def _rearranged(a: np.ndarray, b: np.ndarray, left: float) -> Iterator[str]:
    for axis in range(a.ndim):
        if a.shape[axis] > 1:
            if _same(np.flip(a, axis), b, left):
                yield f"the port's has axis {axis} the other way round"
            for shift in (1, -1):
                if _same(np.roll(a, shift, axis), b, left):
                    yield f"the port's is shifted by {shift} along axis {axis}"
            if a.ndim > 1 and _same(np.sort(a, axis), np.sort(b, axis), left):
                yield f"the port's has the same numbers in another order along axis {axis}"
