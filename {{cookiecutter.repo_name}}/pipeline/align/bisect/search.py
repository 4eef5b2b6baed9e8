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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.align.bisect.distance import Distance
from pipeline.align.bisect.gradients import Gradient, Gradients
from pipeline.align.bisect.pairing import NEAR, Both, Matched, Pair
from pipeline.align.convert.plan import Row


@dataclass(frozen=True)
class Place:
    """Where two captures part.

    `pair`: the call at which it shows; `inside`: whether its own code is at fault, otherwise the code of `parent` around
    it. `after`, `before`: calls between which the fault lies, None for the beginning or end of the module whose code it
    is. `tensor`: what differs there, such as "output 0"; `agreeing`: the worst distance of what leads there; `missing`:
    the side that has no gradient and why.
    """

    pair: Pair
    inside: bool
    tensor: str
    distance: Distance | None
    agreeing: Distance | None
    parent: Pair | None = None
    after: Pair | None = None
    before: Pair | None = None
    missing: str = ""

    @property
    def owner(self) -> Pair | None:
        """The module whose code is at fault; None for the code outside of the contract."""
        return self.pair if self.inside else self.parent

    def loose(self, side: str) -> list[int]:
        """Unpaired calls of a side ("torch" or "paddle") in the code at fault, without those inside of paired ones."""
        both = self.pair.both
        capture, paired = (both.torch, both.by_torch) if side == "torch" else (both.paddle, both.by_paddle)
        calls, edges = capture.index["calls"], (self.after, self.before, self.owner)
        after, before, owner = (pair and (pair.t if side == "torch" else pair.p) for pair in edges)
        low = after["end"] if after else owner["start"] if owner else 0
        high = before["start"] if before else owner["end"] if owner else None

        def around(call: dict[str, Any]) -> Pair | None:
            while call["parent"] >= 0 and call["parent"] not in paired:
                call = calls[call["parent"]]
            return paired.get(call["parent"])

        return [number for number, call in enumerate(calls) if number not in paired and around(call) is self.owner
                and call["start"] > low and (high is None or call["start"] < high)]  # fmt: skip


def forward(both: Both, seen_at: Pair | None = None) -> Place | None:
    """The first place whose inputs agree and whose outputs do not; None where the final outputs agree.

    `seen_at`: the call by which it must have happened, of a difference that fades before the end.
    """
    root = next((pair for pair in both.pairs if pair.t["path"] == "@forward"), None)
    if seen_at is None and root is not None and root.complete and not _wrong(root.outputs):
        return None
    late = _LateGood(both)
    around = [] if seen_at is None else [seen_at.torch, *(outer.torch for outer in _ancestors(seen_at))]
    for pair, start in _events(both):
        wrong = _wrong(pair.inputs) if start else late.matter(pair)
        if not wrong or (start and (not pair.hard or (pair.complete and not late.matter(pair)))):
            continue
        if seen_at is not None and pair.t["start"] > seen_at.t["end"]:
            return None
        outside = itertools.takewhile(lambda outer: outer.torch not in around, _ancestors(pair))
        if all(_wrong(outer.outputs) for outer in outside if outer.complete):
            worst = max(wrong, key=lambda one: one.distance.ratio)
            place = _place(pair, start, _named("input" if start else "output", worst), worst.distance)
            leads = pair.inputs if not start else place.after.outputs if place.after else []
            return _narrowed(replace(place, agreeing=_worst(m.distance for m in leads if not m.distance.bad)))
    return None


def turned(place: Place) -> Place | None:
    """The code before a layer, where its inputs agree only with their axes in another order: the layer cannot do that."""
    if not place.inside or place.after or place.before:
        return None
    wrong = next((m for m in place.pair.inputs if m.distance.how.startswith("axes")), None)
    return None if wrong is None else _place(place.pair, True, _named("input", wrong), wrong.distance)


def loss(both: Both) -> Place | None:
    """The loss, where the outputs agree and it does not."""
    pair = next((pair for pair in both.pairs if pair.t["path"] == "@loss"), None)
    if pair is None or not pair.complete or not _wrong(pair.outputs):
        return None
    agreeing = _worst(m.distance for m in pair.inputs if not m.distance.bad)
    return Place(pair, True, "the loss", pair.outputs[0].distance, agreeing)


def backward(both: Both, rows: Iterable[Row]) -> Place | None:
    """The first place from the loss backwards whose output gradients agree and whose other gradients do not.

    None where the gradients of all parameters agree.
    """
    gradients = Gradients(both, rows)
    if not gradients.differ():
        return None
    for pair, start in reversed([*_events(both), *_events(both, loss=True)]):
        if not pair.complete:
            continue
        wrong = [one for one in (gradients.at_start(pair) if start else gradients.at_end(pair)) if one.bad]
        if wrong:
            one = max(wrong, key=lambda one: (bool(one.missing), one.distance.ratio if one.distance else 0))
            cut = _cut_off(both, one) if one.missing.endswith("cut off") else None
            agreeing = [g.distance for g in gradients.at_end(pair) if g.distance and not g.bad] if start else []
            place = _place(pair, not start, one.name, one.distance, reverse=True)
            return cut or replace(place, agreeing=_worst(agreeing), missing=one.missing)
    return None


def _cut_off(both: Both, gradient: Gradient) -> Place | None:
    """Where a tensor stops asking for its gradient: the first event in forward order where the two sides differ in that."""
    on_paddle = gradient.missing.startswith("paddle")
    for pair, start in _events(both):
        if start and pair.t["graph"] != pair.p["graph"]:
            return replace(_place(pair, True, "what it returns", None), missing=gradient.missing)
        for m in pair.inputs if start else pair.outputs:
            torch, paddle = (side.index["values"][value]["needs_grad"]
                             for side, value in ((both.torch, m.torch_value), (both.paddle, m.paddle_value)))  # fmt: skip
            if torch != paddle and torch == on_paddle and not m.distance.bad:
                place = _place(pair, start, _named("input" if start else "output", m), None)
                return replace(place, missing=gradient.missing)
    return None


class _LateGood:
    """Tensors that are right after all: a module whose output differs is excused where that very tensor agrees later on.

    That is so where the two modules of a pair end at different points (one with its activation, one without).
    """

    def __init__(self, both: Both):
        self._both, self._sides = both, (both.torch, both.paddle)
        self._learned = all(side.index["failed"] is None for side in self._sides)
        self._loose = [[call for number, call in enumerate(side.index["calls"]) if number not in paired]
                       for side, paired in zip(self._sides, (both.by_torch, both.by_paddle))]  # fmt: skip
        #: Per side, the last time at which the numbers of a value agreed with the other side's.
        self._good: list[dict[int, int]] = [{}, {}]
        for pair, start in _events(both):
            for matched in (pair.inputs if start else pair.outputs) if pair.hard else ():
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
            made_here = all(data > self._data(side, given[1]) for given in call["inputs"])
            if made_here and (self._good[side].get(data, 0) > call["end"] or self._follows(side, value, (pair.p, pair.t)[side])):
                return True
        return False

    def _follows(self, side: int, value: int, other: dict[str, Any]) -> bool:
        """Whether the other side makes this tensor after its own call, in modules that have no counterpart."""
        after = [call for call in self._loose[1 - side] if call["start"] > other["end"]][:NEAR]
        pairs = ((value, one[1]) if side == 0 else (one[1], value) for call in after for one in call["outputs"])
        return any(not self._both.values(*pair).bad for pair in pairs)

    def _data(self, side: int, value: int) -> int:
        return self._sides[side].index["values"][value]["data"]

    def _unused(self, side: int, value: int) -> bool:
        """Whether a differentiable result has no part in the loss."""
        return self._sides[side].index["values"][value]["needs_grad"] and f"g{value}" not in self._sides[side].tensors


def _events(both: Both, loss: bool = False) -> Iterator[tuple[Pair, bool]]:
    """(pair, whether it is the start) in torch's order; without the loss, or of the loss only."""
    pairs = [pair for pair in both.pairs if (pair.t["path"] == "@loss") == loss]
    events = [(pair.t["start"], True, pair) for pair in pairs] + [(pair.t["end"], False, pair) for pair in pairs if pair.complete]
    for _, start, pair in sorted(events, key=lambda event: event[0]):
        yield pair, start


def _named(what: str, matched: Matched) -> str:
    return f"{what} {matched.torch}".strip()


def _wrong(matched: Sequence[Matched]) -> list[Matched]:
    return [one for one in matched if one.distance.bad]


def _worst(distances: Iterable[Distance]) -> Distance | None:
    return max(distances, key=lambda one: one.ratio, default=None)


def _ancestors(pair: Pair) -> Iterator[Pair]:
    """Hard pairs around a call, from the inside out."""
    calls, number = pair.both.torch.index["calls"], pair.t["parent"]
    while number >= 0:
        outer = pair.both.by_torch.get(number)
        if outer is not None and outer.hard:
            yield outer
        number = calls[number]["parent"]


def _place(pair: Pair, around: bool, tensor: str, gap: Distance | None, reverse: bool = False) -> Place:
    """`around`: the fault lies outside of the call, at its start (forward) or its end (backward: `reverse`)."""
    place = Place(pair, not around, tensor, gap, None, parent=next(_ancestors(pair), None) if around else None)
    inside = [one for one in pair.both.pairs if place.owner is not None and place.owner in _ancestors(one) and one is not pair]
    ended = [one for one in inside if one.complete and (not around or one.t["end"] < pair.t["start"])]
    last = max(ended, key=lambda one: one.t["end"], default=None)
    started = [one for one in inside if not around or one.t["start"] > (pair.t["end"] or 0)]
    first = min(started, key=lambda one: one.t["start"], default=None)
    if around:
        return replace(place, after=pair, before=first) if reverse else replace(place, after=last, before=pair)
    return replace(place, before=first) if reverse else replace(place, after=last)


def _narrowed(place: Place) -> Place:
    """The place, or the part of it before a module that both sides run there by the same path, with differing inputs."""
    if place.inside and place.after is None:
        return place
    both, others = place.pair.both, place.loose("paddle")
    names = dict(both.modules)
    for number in place.loose("torch"):
        path = names.get(both.torch.index["calls"][number]["path"])
        other = next((one for one in others if both.paddle.index["calls"][one]["path"] == path), None)
        pair = None if other is None else Pair(number, other, False, both)
        wrong = [] if pair is None else _wrong(pair.inputs)
        if wrong:
            worst = max(wrong, key=lambda one: one.distance.ratio)
            return replace(place, pair=pair, inside=False, parent=place.owner, before=pair, tensor=_named("input", worst),
                           distance=worst.distance)  # fmt: skip
    return place
