# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Find the place where two captures part: the first event whose surroundings agree and which itself does not.

Every paired call gives two events, its start (inputs) and its end (outputs), in torch's order: what is inside a module
ends before the module does, so the innermost one is met first. Backward, the same events are met from the last to the
first: the end with the gradients of outputs, the start with the module's share of its inputs' gradients and with the
gradients of its parameters.
"""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipeline.align.bisect.distance import Distance, distance
from pipeline.align.bisect.pairing import NEAR, Both, Matched, Pair
from pipeline.align.bisect.store import rms
from pipeline.align.convert.plan import Row


#: Error of a sum of n equal float32 numbers, one after the other: n times this. Measured up to four times as much.
SUMMATION = 0.05 * 2.0**-24


@dataclass(frozen=True)
class Place:
    """Where two captures part.

    `pair`: the call at which it shows; `inside`: whether its own code is at fault, otherwise the code of `parent` around
    it. `after`, `before`: calls between which the fault lies, None for the beginning or end of the module whose code it
    is. `tensor`: what differs there, such as "output 0"; `agreeing`: the worst distance of what leads there.
    """

    pair: Pair
    inside: bool
    parent: Pair | None
    after: Pair | None
    before: Pair | None
    tensor: str
    distance: Distance | None
    agreeing: Distance | None
    missing: str = ""


def forward(both: Both, seen_at: Pair | None = None) -> Place | None:
    """The first place whose inputs agree and whose outputs do not; None where the final outputs agree.

    `seen_at`: the call by which it must have happened, of a difference that fades before the end.
    """
    root = next((pair for pair in both.pairs if pair.t["path"] == "@forward"), None)
    if seen_at is None and root is not None and root.complete and not _wrong(root.outputs):
        return None
    late = _LateGood(both)
    around = [] if seen_at is None else [seen_at, *_ancestors(seen_at)]
    for pair, start in _events(both):
        wrong = _wrong(pair.inputs) if start else late.matter(pair)
        if not wrong or (start and (not pair.hard or (pair.complete and not late.matter(pair)))):
            continue
        if seen_at is not None and pair.t["start"] > seen_at.t["end"]:
            return None
        between = itertools.takewhile(lambda outer: all(outer.torch != one.torch for one in around), _ancestors(pair))
        if all(_wrong(outer.outputs) for outer in between if outer.complete):
            worst = max(wrong, key=lambda one: one.distance.ratio)
            seen = [] if start else [m.distance for m in pair.inputs if not m.distance.bad]
            return _narrowed(_place(pair, start, f"{'input' if start else 'output'} {worst.torch}".strip(), worst.distance, seen))
    return None


def loss(both: Both) -> Place | None:
    """The loss, where the outputs agree and it does not."""
    pair = next((pair for pair in both.pairs if pair.t["path"] == "@loss"), None)
    if pair is None or not pair.complete or not _wrong(pair.outputs):
        return None
    seen = [m.distance for m in pair.inputs if not m.distance.bad]
    return Place(pair, True, None, None, None, "the loss", pair.outputs[0].distance, _worst(seen))


def backward(both: Both, rows: Iterable[Row]) -> Place | None:
    """The first place from the loss backwards whose output gradients agree and whose other gradients do not.

    None where the gradients of all parameters agree.
    """
    gradients = Gradients(both, rows)
    if not gradients.differ():
        return None
    for pair, start in reversed(list(_events(both))):
        if not pair.complete:
            continue
        wrong = [one for one in (gradients.at_start(pair) if start else gradients.at_end(pair)) if one.bad]
        if wrong:
            one = max(wrong, key=lambda one: (bool(one.missing), one.distance.ratio if one.distance else 0))
            if one.missing and one.parameter is None:
                return _detached(both, one) or _place(pair, not start, one.name, None, [], one.missing, reverse=True)
            seen = [g.distance for g in gradients.at_end(pair) if g.distance and not g.bad] if start else []
            return _place(pair, not start, one.name, one.distance, seen, one.missing, reverse=True)
    return None


@dataclass(frozen=True)
class Gradient:
    """A gradient on both sides. `missing`: the side that has none, with what is known about why; `parameter`: its row."""

    name: str
    distance: Distance | None
    missing: str = ""
    parameter: Row | None = None

    @property
    def bad(self) -> bool:
        """Whether the two differ."""
        return bool(self.missing) or (self.distance is not None and self.distance.bad)


class Gradients:
    """The captured gradients of both sides, by call."""

    def __init__(self, both: Both, rows: Iterable[Row]):
        self._both = both
        self._rows: dict[int, list[Row]] = {}
        self.all = [row for row in rows if row.kind == "param" and row.torch is not None and row.paddle is not None]
        self._outputs: dict[str, int] = {}
        first: dict[str, Pair] = {}
        sizes: dict[str, int] = {}
        for pair in both.pairs:
            if pair.hard:
                path = pair.t["path"]
                first.setdefault(path, pair)
                sizes[path] = sizes.get(path, 0) + sum(both.elements(value) for _, value in pair.t["outputs"])
        for row in self.all:
            path = row.torch.rpartition(".")[0]
            while path and path not in first:
                path = path.rpartition(".")[0]
            if path in first:
                self._rows.setdefault(first[path].torch, []).append(row)
                self._outputs[row.torch] = sizes[path]

    def differ(self) -> bool:
        """Whether any parameter's gradient differs."""
        return any(self.parameter(row).bad for row in self.all)

    def parameter(self, row: Row) -> Gradient:
        """The gradient of a parameter, in torch's layout."""
        name = f"gradient of {row.torch}"
        keys = f"p.{row.torch}", f"p.{row.paddle}"
        given = [key in side.tensors for key, side in zip(keys, (self._both.torch, self._both.paddle))]
        if all(given):
            return Gradient(name, parameter_distance(self._both, row, "p", self._summation(row)), parameter=row)
        side, key = (self._both.torch, keys[0]) if given[0] else (self._both.paddle, keys[1])
        if not any(given) or not np.any(side.get(key)):
            return Gradient(name, None, parameter=row)
        lacking = self._both.paddle if given[0] else self._both.torch
        frozen = not lacking.index["trainable"].get(row.paddle if given[0] else row.torch, True)
        return Gradient(name, None, f"{lacking.index['side']}: {'frozen' if frozen else 'none arrives'}", row)

    def _summation(self, row: Row) -> float:
        """Rounding error of the sum over all positions that a parameter's gradient is.

        Paddle adds one by one in float32. Where all terms are alike, as below a global average, its error is in proportion
        to their number, and a disturbance does not show it.
        """
        gradient = self._both.torch.get(f"p.{row.torch}")
        count = self._outputs.get(row.torch, 0) / max(1, gradient.shape[0] if gradient.ndim else 1)
        return SUMMATION * count * rms(gradient)

    def at_end(self, pair: Pair) -> list[Gradient]:
        """Gradients of the outputs."""
        return [one for m in pair.outputs if not m.distance.bad
                for one in self._pair(f"gradient of output {m.torch}".strip(), m, f"g{m.torch_value}", f"g{m.paddle_value}")]  # fmt: skip

    def at_start(self, pair: Pair) -> list[Gradient]:
        """The share in the inputs' gradients, and the gradients of parameters."""
        shares = [{name: share for name, _, share in call["inputs"]} for call in (pair.t, pair.p)]
        found, seen = [], set()
        for m in pair.inputs:
            names = shares[0][m.torch], shares[1][m.paddle]
            if not m.distance.bad and names not in seen:
                seen.add(names)
                keys = f"s{pair.torch}.{names[0]}", f"s{pair.paddle}.{names[1]}"
                found += self._pair(f"gradient of input {m.torch}".strip(), m, *keys)
        return found + [self.parameter(row) for row in self._rows.get(pair.torch, ())]

    def _pair(self, name: str, matched: Matched, torch: str, paddle: str) -> Iterator[Gradient]:
        sides = (self._both.torch, self._both.paddle)
        given = [key in side.tensors for key, side in zip((torch, paddle), sides)]
        if all(given):
            yield Gradient(name, self._both.distance(torch, paddle))
        elif any(given):
            has, lacks = sides if given[0] else sides[::-1]
            if np.any(has.get(torch if given[0] else paddle)):
                value = lacks.index["values"][matched.paddle_value if given[0] else matched.torch_value]
                yield Gradient(name, None, f"{lacks.index['side']}: {'none arrives' if value['needs_grad'] else 'cut off'}")


def parameter_distance(both: Both, row: Row, prefix: str, noise: float = 0.0) -> Distance:
    """The distance of what both sides hold for a parameter or buffer, in torch's layout. `noise`: at least."""
    names = f"{prefix}.{row.torch}", f"{prefix}.{row.paddle}"
    part = row.part("torch")
    torch = both.torch.get(names[0])
    return distance(torch if part is None else torch[part], row.move(both.paddle.get(names[1]), "torch"), max(noise, both.noise(*names)), both.limit)


def _detached(both: Both, gradient: Gradient) -> Place | None:
    """Where a tensor stops asking for its gradient: the first event in forward order where the two sides differ in that."""
    side = gradient.missing.partition(":")[0]
    if not gradient.missing.endswith("cut off"):
        return None
    for pair, start in _events(both):
        for m in pair.inputs if start else pair.outputs:
            flags = [side_.index["values"][value]["needs_grad"] for side_, value in ((both.torch, m.torch_value), (both.paddle, m.paddle_value))]
            if flags[0] != flags[1] and not m.distance.bad and flags[0] == (side == "paddle"):
                return _place(pair, start, f"{'input' if start else 'output'} {m.torch}".strip(), None, [], f"{side}: cut off")
    return None


class _LateGood:
    """Tensors that are right after all: a module whose output differs is excused where that very tensor agrees later on.

    That is so where the two modules of a pair end at different points (one with its activation, one without).
    """

    def __init__(self, both: Both):
        self._both, self._sides = both, (both.torch, both.paddle)
        self._good: list[dict[int, int]] = [{}, {}]
        self._learned = all(side.index["failed"] is None for side in self._sides)
        self._loose = [[call for number, call in enumerate(side.index["calls"]) if number not in paired]
                       for side, paired in zip(self._sides, (both.by_torch, both.by_paddle))]  # fmt: skip
        for pair, start in _events(both):
            if pair.hard:
                for matched in pair.inputs if start else pair.outputs:
                    if not matched.distance.bad:
                        for side, (call, value) in enumerate(((pair.t, matched.torch_value), (pair.p, matched.paddle_value))):
                            data = self._data(side, value)
                            self._good[side][data] = max(self._good[side].get(data, 0), call["start" if start else "end"])

    def matter(self, pair: Pair) -> list[Matched]:
        """The outputs whose difference matters."""
        return [m for m in _wrong(pair.outputs) if not self._excuses(pair, m)]

    def _excuses(self, pair: Pair, matched: Matched) -> bool:
        values = matched.torch_value, matched.paddle_value
        if self._learned and all(self._unused(side, value) for side, value in enumerate(values)):
            return True
        for side, (call, value) in enumerate(zip((pair.t, pair.p), values)):
            data = self._data(side, value)
            if all(data > self._data(side, given[1]) for given in call["inputs"]):  # made here, not passed through
                if self._good[side].get(data, 0) > call["end"] or self._comes_later(side, value, (pair.p, pair.t)[side]):
                    return True
        return False

    def _comes_later(self, side: int, value: int, other: dict[str, Any]) -> bool:
        """Whether the other side, in modules that have no counterpart, makes this tensor after its own call."""
        after = [call for call in self._loose[1 - side] if call["start"] > other["end"]][:NEAR]
        pairs = ((value, one[1]) if side == 0 else (one[1], value) for call in after for one in call["outputs"])
        return any(not self._both.values(*pair).bad for pair in pairs)

    def _data(self, side: int, value: int) -> int:
        return self._sides[side].index["values"][value]["data"]

    def _unused(self, side: int, value: int) -> bool:
        """Whether a differentiable result has no part in the loss."""
        return self._sides[side].index["values"][value]["needs_grad"] and f"g{value}" not in self._sides[side].tensors


def _events(both: Both) -> Iterator[tuple[Pair, bool]]:
    """(pair, whether it is the start) in torch's order, without the loss."""
    pairs = [pair for pair in both.pairs if pair.t["path"] != "@loss"]
    events = [(pair.t["start"], True, pair) for pair in pairs] + [(pair.t["end"], False, pair) for pair in pairs if pair.complete]
    for _, start, pair in sorted(events, key=lambda event: event[0]):
        yield pair, start


def _wrong(matched: Iterable[Matched]) -> list[Matched]:
    return [one for one in matched if one.distance.bad]


def _worst(distances: list[Distance]) -> Distance | None:
    return max(distances, key=lambda one: one.ratio, default=None)


def _ancestors(pair: Pair) -> Iterator[Pair]:
    """Hard pairs around a call, from the inside out."""
    calls, number = pair.both.torch.index["calls"], pair.t["parent"]
    while number >= 0:
        outer = pair.both.by_torch.get(number)
        if outer is not None and outer.hard:
            yield outer
        number = calls[number]["parent"]


def _narrowed(place: Place) -> Place:
    """The place, or the part of it before a module that both sides run there by the same path, with differing inputs."""
    if place.inside and place.after is None:
        return place
    both, owner = place.pair.both, place.pair if place.inside else place.parent
    names = dict(both.modules)
    starts, ends = ([call[key] if call else None for call in calls] for key, calls in (
        ("end", [place.after.t, place.after.p] if place.after else [None, None]),
        ("start", [place.before.t, place.before.p] if place.before else [None, None])))  # fmt: skip
    limits = [(starts[side] or (call["start"] if call else 0), ends[side] or (call["end"] if call else None))
              for side, call in enumerate((owner.t, owner.p) if owner else (None, None))]  # fmt: skip

    def loose(side: int) -> Iterator[int]:
        calls, paired = ((both.torch, both.by_torch), (both.paddle, both.by_paddle))[side]
        for number, call in enumerate(calls.index["calls"]):
            low, high = limits[side]
            if number not in paired and call["start"] > low and (high is None or call["start"] < high):
                yield number

    others = list(loose(1))
    for number in loose(0):
        path = both.torch.index["calls"][number]["path"]
        other = next((one for one in others if both.paddle.index["calls"][one]["path"] == names.get(path)), None)
        if other is not None:
            pair = Pair(number, other, False, both)
            wrong = _wrong(pair.inputs)
            if wrong:
                worst = max(wrong, key=lambda one: one.distance.ratio)
                return replace(place, pair=pair, inside=False, parent=owner, before=pair, tensor=f"input {worst.torch}", distance=worst.distance)
    return place


def _place(pair: Pair, around: bool, tensor: str, gap: Distance | None, seen: list[Distance], missing: str = "", reverse: bool = False) -> Place:
    """`around`: the fault lies outside of the call, at its start (forward) or its end (backward)."""
    owner = next(_ancestors(pair), None) if around else pair
    inside = [one for one in pair.both.pairs if owner is not None and one is not pair and owner in _ancestors(one)]
    edge = pair.t["end"] if reverse == around else pair.t["start"]
    if not around:
        edge = pair.t["start"] if reverse else pair.t["end"]
    before = [one for one in inside if one.complete and one.t["end"] < edge]
    later = [one for one in inside if one.t["start"] > edge]
    last = max(before, key=lambda one: one.t["end"], default=None)
    following = min(later, key=lambda one: one.t["start"], default=None)
    if around:
        after, upto = (pair, following) if reverse else (last, pair)
    else:  # in the call's own code: before its first inner call (backward) or after its last (forward)
        first = min(inside, key=lambda one: one.t["start"], default=None)
        after, upto = (None, first) if reverse else (last, None)
    return Place(pair, not around, owner if around else None, after, upto, tensor, gap, _worst(seen), missing)
