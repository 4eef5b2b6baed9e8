# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Whether two samples of fresh parameters come from one distribution: constants exactly, the rest by Kolmogorov-Smirnov."""

from __future__ import annotations

import math

import numpy as np

#: A pair of samples of one distribution is called different less often than this, over all parameters of a network.
FALSE_ALARM = 1e-6
#: Relative difference of constants that both sides compute, such as tables of sines.
ROUNDING = 1e-4


def ks_statistic(a: np.ndarray, b: np.ndarray) -> float:
    """Largest distance of the two empirical distribution functions (Smirnov 1939), in [0, 1]."""
    a, b = np.sort(a, axis=None), np.sort(b, axis=None)
    points = np.concatenate([a, b])
    return float(np.abs(np.searchsorted(a, points, "right") / len(a) - np.searchsorted(b, points, "right") / len(b)).max())


def ks_p_value(statistic: float, n: int, m: int) -> float:
    """Asymptotic probability of a distance at least this large when both samples share one distribution."""
    scale = math.sqrt(n * m / (n + m))
    x = (scale + 0.12 + 0.11 / scale) * statistic  # Stephens 1970: good for small samples too
    if x < 0.2:
        return 1.0
    return min(1.0, max(0.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, 101))))


def difference(torch_values: np.ndarray, paddle_values: np.ndarray, parameters: int) -> str | None:
    """Why the two samples differ in distribution, or None. `parameters`: how many are tested in all."""
    describe = f"reference {summary(torch_values)}, port {summary(paddle_values)}"
    constants = [values.min() == values.max() for values in (torch_values, paddle_values)]
    if any(constants):
        same = all(constants) and np.float32(torch_values[0]) == np.float32(paddle_values[0])
        return None if same else describe
    p = ks_p_value(ks_statistic(torch_values, paddle_values), len(torch_values), len(paddle_values))
    return None if p > FALSE_ALARM / max(1, parameters) else f"{describe}, p = {p:.0e}"


def constants_differ(reference: np.ndarray, port: np.ndarray) -> str | None:
    """Why the constant elements of two fresh tensors of one shape, NaN where they are random, are not the same, or None."""
    random = [np.isnan(values) for values in (reference, port)]
    for ours, theirs, names in ((*random, ("port", "reference")), (*random[::-1], ("reference", "port"))):
        only = ours & ~theirs
        if only.any():
            where = _first(only)
            return f"{only.sum()} of {only.size} elements are constant in the {names[0]}, random in the {names[1]}: {where}"
    scale = np.abs(reference[np.isfinite(reference)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):  # infinity minus itself
        wrong = ~(random[0] | (reference == port) | (np.abs(reference - port) <= ROUNDING * scale))
    if not wrong.any():
        return None
    where = tuple(np.argwhere(wrong)[0])
    values = f"reference {reference[where]:.6g}, port {port[where]:.6g}"
    return f"{wrong.sum()} of {wrong.size} constant elements differ, first {_first(wrong)}: {values}"


def _first(mask: np.ndarray) -> list[int]:
    return [int(index) for index in np.argwhere(mask)[0]]


def summary(values: np.ndarray) -> str:
    """Mean, standard deviation and limits in a few words."""
    if values.min() == values.max():
        return f"constant {values[0]:.4g}"
    return f"mean {values.mean():.3g} std {values.std():.4g} in [{values.min():.3g}, {values.max():.3g}]"
