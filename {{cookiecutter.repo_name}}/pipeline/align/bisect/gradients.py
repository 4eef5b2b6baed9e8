# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The captured gradients of both sides, by call: of outputs, of a module's share in its inputs, of parameters."""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.align.bisect.distance import Distance, distance
from pipeline.align.bisect.pairing import Both, Matched, Pair
from pipeline.align.bisect.store import rms
from pipeline.align.convert.plan import Row

#: Error of a sum of n equal float32 numbers, one after the other: n times this. Measured up to four times as much.
SUMMATION = 0.05 * 2.0**-24


@dataclass(frozen=True)
class Gradient:
    """A gradient on both sides. `missing`: the side that has none and why, such as "paddle: frozen"; `parameter`: its row."""

    name: str
    distance: Distance | None
    missing: str = ""
    parameter: Row | None = None

    @property
    def bad(self) -> bool:
        """Whether the two differ."""
        return bool(self.missing) or (self.distance is not None and self.distance.bad)


class Gradients:
    """The gradients of all calls. `rows`: of the conversion plan."""

    def __init__(self, both: Both, rows: Iterable[Row]):
        self._both, self._sides = both, (both.torch, both.paddle)
        self._parameters = [row for row in rows if row.kind == "param"]
        self._rows: dict[int, list[Row]] = {}
        self._terms: dict[str, float] = {}
        first: dict[str, Pair] = {}
        sizes: dict[str, int] = {}
        for pair in both.pairs:
            if pair.hard:
                path = pair.t["path"]
                first.setdefault(path, pair)
                sizes[path] = sizes.get(path, 0) + sum(both.torch.value(value).size for _, value in pair.t["outputs"])
        for row in self._parameters:
            path = row.torch.rpartition(".")[0]
            while path and path not in first:  # the parameter of a module that is not called itself
                path = path.rpartition(".")[0]
            if path in first:
                self._rows.setdefault(first[path].torch, []).append(row)
                self._terms[row.torch] = sizes[path]

    def differ(self) -> bool:
        """Whether any parameter's gradient differs."""
        return any(self.parameter(row).bad for row in self._parameters)

    def parameter(self, row: Row) -> Gradient:
        """The gradient of a parameter, in torch's layout. One that is missing and one of zeros are the same."""
        name, keys = f"gradient of {row.torch}", (f"p.{row.torch}", f"p.{row.paddle}")
        given = [key in side.tensors for key, side in zip(keys, self._sides)]
        if all(given):
            return Gradient(name, parameter_distance(self._both, row, "p", self._summation(row)), parameter=row)
        if not any(given) or not np.any(self._sides[given.index(True)].get(keys[given.index(True)])):
            return Gradient(name, None, parameter=row)
        lacking, own = self._sides[given.index(False)], (row.torch, row.paddle)[given.index(False)]
        frozen = not lacking.index["trainable"].get(own, True)
        return Gradient(name, None, f"{lacking.index['side']}: {'frozen' if frozen else 'none arrives'}", row)

    def at_end(self, pair: Pair) -> list[Gradient]:
        """Gradients of the outputs."""
        found = []
        for m in pair.outputs:
            if not m.distance.bad:
                found += self._one(f"gradient of output {m.torch}".strip(), m, f"g{m.torch_value}", f"g{m.paddle_value}")
        return found

    def at_start(self, pair: Pair) -> list[Gradient]:
        """The call's share in the inputs' gradients, and the gradients of parameters."""
        shares = [{name: share for name, _, share in call["inputs"]} for call in (pair.t, pair.p)]
        found, seen = [], set()
        for m in pair.inputs:
            names = shares[0][m.torch], shares[1][m.paddle]
            if not m.distance.bad and names not in seen:
                seen.add(names)
                keys = f"s{pair.torch}.{names[0]}", f"s{pair.paddle}.{names[1]}"
                found += self._one(f"gradient of input {m.torch}".strip(), m, *keys)
        return found + [self.parameter(row) for row in self._rows.get(pair.torch, ())]

    def _one(self, name: str, matched: Matched, *keys: str) -> Iterator[Gradient]:
        given = [key in side.tensors for key, side in zip(keys, self._sides)]
        if all(given):
            yield Gradient(name, self._both.distance(*keys, matched.torch_value))
        elif any(given) and np.any(self._sides[given.index(True)].get(keys[given.index(True)])):
            lacking, value = self._sides[given.index(False)], (matched.torch_value, matched.paddle_value)[given.index(False)]
            wanted = lacking.index["values"][value]["needs_grad"]
            yield Gradient(name, None, f"{lacking.index['side']}: {'none arrives' if wanted else 'cut off'}")

    def _summation(self, row: Row) -> float:
        """Rounding error of the sum over all positions that a parameter's gradient is.

        Paddle adds one by one in float32. Where all terms are alike, as below a global average, its error is in proportion
        to their number, and a disturbance does not show it.
        """
        gradient = self._both.torch.get(f"p.{row.torch}")
        terms = self._terms.get(row.torch, 0) / max(1, gradient.shape[0] if gradient.ndim else 1)
        return SUMMATION * terms * rms(gradient)


def parameter_distance(both: Both, row: Row, prefix: str, noise: float = 0.0) -> Distance:
    """The distance of what both sides hold for a parameter or buffer, in torch's layout. `noise`: at least."""
    names = f"{prefix}.{row.torch}", f"{prefix}.{row.paddle}"
    torch, paddle = both.torch.get(names[0])[row.part("torch") or ...], row.move(both.paddle.get(names[1]), "torch")
    return distance(torch, paddle, max(noise, both.noise(*names)), both.limit)
