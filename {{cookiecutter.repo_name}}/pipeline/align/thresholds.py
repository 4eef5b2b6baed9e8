# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How large a difference may be: one table of limits per kind of number, one of factors per dtype.

A difference d is judged beside the size of what it belongs to: |d| / max(|reference element|, typical size of the array),
called relative below. Limits were set from measurements of right ports, float32 on CPU, both frameworks and float64:
- outputs: mean relative difference 3e-8 to 7e-7 (30 to 161 layers, 12 transformer layers), 2.5e-6 for the worst (VGG
  against float64); largest 1e-7 to 6e-6, worst 1.3e-5. A wrong epsilon (1e-6 for 1e-5, variance 1) gives 4.5e-6.
- gradients in eval mode: mean 1e-7 to 3e-4, largest 1e-6 to 6e-2, where one unit of a ReLU falls to the other side.
- losses near zero: 1 - p is known to half a unit of float32 at one, 6e-8, whatever the loss.
- gradients that are zero by construction, beside the largest of their module: 3e-7 (bias of attention keys), 2e-5 (bias of
  a convolution before batch normalisation, train mode).
- float16: outputs mean 7e-4, largest 5e-3; bfloat16: mean 6e-3, largest 4e-2.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.align.errors import UserError


@dataclass(frozen=True)
class Limits:
    """mean: absolute limit of the mean difference, as the guides have it, for arrays of a typical size up to 1.

    mean_relative, max_relative: of the mean and the largest relative difference. floor: smaller differences are rounding.
    None: no such limit; without relative limits `mean` holds for arrays of any size.
    """

    mean: float | None
    mean_relative: float | None
    max_relative: float | None
    floor: float = 0.0


_MODEL = Limits(1e-6, 2e-6, 1e-4)
_SCALAR = Limits(1e-6, 2e-6, 2e-6, floor=2.5e-7)
_GRADIENT = Limits(None, 1e-3, 0.1)
FLOAT32 = {
    "forward": _MODEL,
    "data": _MODEL,
    "loss": _SCALAR,
    "metric": _SCALAR,
    "backward": Limits(1e-6, 5e-6, 5e-6, floor=2.5e-7),
    "train_mode": Limits(None, 1e-4, 1e-4, floor=1e-6),
    "gradients": _GRADIENT,
    "updates": _GRADIENT,
    "optimizer": Limits(None, 1e-4, 1e-3),
    "buffers": Limits(None, 1e-4, 1e-3, floor=1e-7),
    "lr": Limits(None, 1e-6, 1e-6),
    "training": Limits(0.0015, None, None),
}
#: Factors for (mean, mean_relative, floor) and for max_relative. Python floats are recorded as float64 whatever precision
#: they were computed in, and Paddle keeps many constants in float32, so float64 is judged like float32.
BY_DTYPE = {
    **dict.fromkeys(("float32", "float64", "complex64", "complex128"), (1, 1)),
    "float16": (1000, 300),
    "bfloat16": (8000, 2500),
}
#: No rounding is larger than this part of a value, in any dtype.
MOST_MEAN, MOST_MAX = 0.1, 1.0


@dataclass(frozen=True)
class Threshold:
    """The limits of one kind of number for every floating dtype. Integers, booleans and text are always compared exactly."""

    name: str
    by_dtype: Mapping[str, Limits]

    def limits(self, dtype: str) -> Limits:
        """The limits for arrays computed in `dtype`."""
        return self.by_dtype.get(dtype, self.by_dtype["float32"])

    @property
    def number(self) -> float:
        """The one number to show for it: the absolute limit of float32, else the relative one."""
        limits = self.limits("float32")
        return limits.mean if limits.mean is not None else limits.mean_relative


def threshold(name: str, value: float | Mapping[str, float] | None = None) -> Threshold:
    """The threshold called `name` in FLOAT32.

    `value` comes from port.yaml's align.thresholds: a number replaces the mean limit (the relative one where there is
    none), and the other limits of all dtypes move by the same factor; {dtype: number} does so for single dtypes.
    Raises UserError.
    """
    if name not in FLOAT32:
        raise UserError(f"port.yaml: there is no threshold 'align.thresholds.{name}'; there are {', '.join(FLOAT32)}")
    base = FLOAT32[name]
    if value is not None and not isinstance(value, Mapping):
        base = _moved(base, value, name)
    limits = {dtype: _scaled(base, *factors) for dtype, factors in BY_DTYPE.items()}
    for dtype, number in (value.items() if isinstance(value, Mapping) else ()):
        if dtype not in limits:
            raise UserError(f"port.yaml: align.thresholds.{name}.{dtype} names no dtype; there are {', '.join(BY_DTYPE)}")
        limits[dtype] = _moved(limits[dtype], number, f"{name}.{dtype}")
    return Threshold(name, limits)


def _moved(limits: Limits, number: object, name: str) -> Limits:
    if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < float("inf"):
        raise UserError(f"port.yaml: align.thresholds.{name} must be a number from 0, not {number!r}")
    own = limits.mean if limits.mean is not None else limits.mean_relative
    return _scaled(limits, number / own, number / own)


def _scaled(limits: Limits, factor: float, max_factor: float) -> Limits:
    def times(value: float | None, by: float, most: float) -> float | None:
        return None if value is None else min(value * by, max(most, value))

    return dataclasses.replace(
        limits,
        mean=None if limits.mean is None else limits.mean * factor,
        mean_relative=times(limits.mean_relative, factor, MOST_MEAN),
        max_relative=times(limits.max_relative, max_factor, MOST_MAX),
        floor=limits.floor * factor,
    )
