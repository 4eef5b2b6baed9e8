# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The training histories of both sides as pairs of curves, and how far apart they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from . import show

Series = tuple[list[float], list[float]]  # positions, values
NOT_CURVES = ("iter", "epoch", "order_sha256")
PER_ITERATION = ("loss", "lr")


@dataclass(frozen=True)
class Curve:
    """One quantity of both sides. `axis` is "iter" or "epoch"; a side without the quantity is absent."""

    name: str
    axis: str
    sides: dict[str, Series]

    def difference(self) -> Series:
        """|torch - paddle| at each common position, by place: counters from 0 and from 1 still meet."""
        if len(self.sides) < 2:
            return [], []
        (x, torch), (_, paddle) = self.sides["torch"], self.sides["paddle"]
        values = [abs(a - b) for a, b in zip(torch, paddle, strict=False)]
        return x[: len(values)], values

    def largest(self) -> tuple[float, float] | None:
        """(position, value) of the largest difference, or of the first that is not a number."""
        pairs = list(zip(*self.difference(), strict=True))
        broken = next((pair for pair in pairs if math.isnan(pair[1])), None)
        return broken or max(pairs, key=lambda pair: pair[1], default=None)


def curves(histories: dict[str, dict[str, list]]) -> list[Curve]:
    """All curves found: loss first, then what is recorded every epoch, the learning rate last."""
    names = dict.fromkeys(key for history in histories.values() for key in history if key not in NOT_CURVES)
    ordered = sorted(names, key=lambda name: (name == "lr", name != "loss"))
    found = []
    for name in ordered:
        axis = "iter" if name in PER_ITERATION else "epoch"
        sides = {s: _series(h[name], h.get(axis)) for s, h in histories.items() if h.get(name)}
        if sides:
            found.append(Curve(name, axis, sides))
    return found


def data_order(histories: dict[str, dict[str, list]]) -> tuple[int, int | None] | None:
    """(epochs compared, first one whose order of samples differs or None); None unless both sides tell."""
    orders = [history.get("order_sha256") for history in histories.values()]
    if len(orders) < 2 or not all(orders):
        return None
    epochs = min(map(len, orders))
    return epochs, next((i + 1 for i in range(epochs) if orders[0][i] != orders[1][i]), None)


def _series(values: list[Any], positions: list[Any] | None) -> Series:
    """Without usable positions the values are counted from 1."""
    if not positions or len(positions) != len(values):
        positions = list(range(1, len(values) + 1))
    return [show.to_float(p) for p in positions], [show.to_float(v) for v in values]
