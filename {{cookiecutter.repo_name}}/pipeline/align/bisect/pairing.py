# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Which call of one side is which call of the other.

Modules that hold parameters are paired by the conversion plan, so their calls are paired by number, or by equal inputs
where a module is called several times. Modules without parameters are paired by path, or by kind and order between the
same paired neighbours, and only where their inputs agree: they may be written as functions, split or joined on either
side, and a wrong pair would accuse the innocent. What is not paired counts as code of the module around it.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.align.bisect.distance import LIMIT, Distance, distance
from pipeline.align.bisect.packed import packings, without_fields
from pipeline.align.bisect.store import Capture

#: Calls with equal inputs are looked for among this many.
NEAR = 16
#: How much larger than torch's the noise of Paddle may be.
PEER = 8.0
#: Fragments of class names -> kind, for modules without parameters; in this order.
KINDS = (
    ("dropout", "dropout"), ("droppath", "dropout"), ("softmax", "softmax"), ("pool", "pool"), ("pad", "pad"),
    ("upsampl", "upsample"), ("flatten", "shape"), ("fold", "shape"), ("shuffle", "shape"), ("norm", "norm"),
    ("identity", "identity"),
    ("elu", "activation"), ("swish", "activation"), ("sigmoid", "activation"), ("tanh", "activation"), ("softplus", "activation"),
    ("softsign", "activation"), ("mish", "activation"), ("silu", "activation"), ("shrink", "activation"), ("glu", "activation"),
    ("activation", "activation"),
)  # fmt: skip


def kind_of(class_path: str) -> str:
    """What a module without parameters does, roughly; its own class name where that is not known."""
    name = class_path.rpartition(".")[2].lower()
    return next((kind for fragment, kind in KINDS if fragment in name), name)


@dataclass(frozen=True)
class Matched:
    """A tensor of a call on both sides: names there, values, and their distance."""

    torch: str
    paddle: str
    torch_value: int
    paddle_value: int
    distance: Distance


@dataclass(eq=False)
class Pair:
    """A call on both sides. `hard`: paired by parameters, so that differing inputs are evidence."""

    torch: int
    paddle: int
    hard: bool
    both: Both = field(repr=False)

    @cached_property
    def inputs(self) -> list[Matched]:
        """The inputs of both, matched."""
        return self.both.match(self.t["inputs"], self.p["inputs"])

    @cached_property
    def outputs(self) -> list[Matched]:
        """The outputs of both, matched."""
        return self.both.match(self.t["outputs"], self.p["outputs"])

    @property
    def t(self) -> dict[str, Any]:
        """torch's call."""
        return self.both.torch.index["calls"][self.torch]

    @property
    def p(self) -> dict[str, Any]:
        """Paddle's call."""
        return self.both.paddle.index["calls"][self.paddle]

    @property
    def complete(self) -> bool:
        """Whether the call ended on both sides."""
        return self.t["end"] is not None and self.p["end"] is not None


class Both:
    """The captures of both sides for one mode and step, and the pairs of their calls, in torch's order.

    `modules`: pairs of module paths, from the conversion; `limit`: from where on tensors differ; `jumps`: whether what a
    flipping ReLU may do counts as noise.
    """

    def __init__(
        self, torch: Capture, paddle: Capture, modules: Iterable[tuple[str, str]], limit: float = LIMIT, jumps: bool = True
    ):
        self.torch, self.paddle, self.modules, self.limit, self.jumps = torch, paddle, list(modules), limit, jumps
        self._distances: dict[tuple[str, str], Distance] = {}
        self._packings = packings(torch)
        self.by_torch: dict[int, Pair] = {}
        self.by_paddle: dict[int, Pair] = {}
        self._pair()
        self.pairs = [self.by_torch[number] for number in sorted(self.by_torch)]

    # distances

    def distance(self, torch: str, paddle: str, value: int | None = None) -> Distance:
        """The distance of two captured tensors; `value`: of torch's that the first is about, which may be a packed sequence."""
        if (torch, paddle) not in self._distances:
            ours, theirs, noise = self.torch.get(torch), self.paddle.get(paddle), self.noise(torch, paddle)
            made = distance(ours, theirs, noise, self.limit)
            packing = self._packings.get(self.torch.index["values"][value]["data"]) if made.bad and value is not None else None
            for packed in packing.pack(theirs) if packing else ():
                found = distance(ours, packed, noise, self.limit)
                if found.ratio < made.ratio:
                    made = replace(found, how="packed", shapes=(ours.shape, theirs.shape))
            self._distances[torch, paddle] = made
        return self._distances[torch, paddle]

    def noise(self, torch: str, paddle: str) -> float:
        """The noise at a pair of tensors: torch's, or Paddle's within PEER times that.

        Where the reference computes in a wider type, Paddle's is what there is.
        """
        own = max(self.torch.noise.get(torch, 0.0), self.torch.rounding(torch))
        other = max(self.paddle.noise.get(paddle, 0.0), self.paddle.rounding(paddle))
        wider = np.dtype(self.torch.tensors[torch][2]).itemsize > np.dtype(self.paddle.tensors[paddle][2]).itemsize
        noise = max(own, other if wider else min(other, PEER * own))
        return max(noise, self.torch.jumps.get(torch, 0.0)) if self.jumps else noise

    def values(self, torch: int, paddle: int) -> Distance:
        """The distance of two values."""
        return self.distance(self.torch.key(torch), self.paddle.key(paddle), torch)

    def match(self, torch: Sequence[Sequence], paddle: Sequence[Sequence]) -> list[Matched]:
        """Pair lists of [name, value, ...]: by name; where that does not agree, with any that does; the rest by name and order.

        One side may pass more (a mask, a second result) or the same tensor under several names.
        """
        torch = without_fields(torch)
        names, found, open_, used = {one[0]: one[1] for one in paddle}, [], [], set()
        for name, value, *_ in torch:
            other = names.get(name)
            if other is not None and not self.values(value, other).bad:
                found.append(Matched(name, name, value, other, self.values(value, other)))
                used.add(name)
            else:
                open_.append((name, value))
        for name, value in open_:
            near = sorted(paddle, key=lambda one: one[0] in used)[:NEAR]
            fit = next((one for one in near if not self.values(value, one[1]).bad), None)
            if fit is None:
                left = [one for one in paddle if one[0] not in used]
                fit = next((one for one in left if one[0] == name), left[0] if left else None)
            if fit is not None:
                used.add(fit[0])
                found.append(Matched(name, fit[0], value, fit[1], self.values(value, fit[1])))
        return found

    # pairing

    def _pair(self) -> None:
        calls = {"torch": _by_path(self.torch), "paddle": _by_path(self.paddle)}
        holders = {side.index["side"]: _holders(side) for side in (self.torch, self.paddle)}
        for path in ("@forward", "@loss"):
            for t, p in zip(calls["torch"].get(path, ()), calls["paddle"].get(path, ())):
                self._add(t, p, hard=True)
        soft = []
        for torch, paddle in _groups(self.modules, self.torch.index["aliases"], self.paddle.index["aliases"]):
            mine = [sorted(number for path in paths for number in calls[side].get(path, ()))
                    for side, paths in (("torch", torch), ("paddle", paddle))]  # fmt: skip
            if any(path in holders["torch"] for path in torch) and any(path in holders["paddle"] for path in paddle):
                self._by_number(*mine)
            else:
                soft.append(mine)
        for torch, paddle in soft:
            for t in torch:
                self._soft(t, paddle)
        self._by_order()

    def _add(self, torch: int, paddle: int, hard: bool) -> None:
        self.by_torch[torch] = self.by_paddle[paddle] = Pair(torch, paddle, hard, self)

    def _by_number(self, torch: list[int], paddle: list[int]) -> None:
        """Calls of one module: in order, unless only another order has equal inputs."""
        if max(len(torch), len(paddle)) > 1:
            left = []
            for number, t in enumerate(torch):
                near = sorted((p for p in paddle if p not in self.by_paddle), key=lambda p: paddle.index(p) != number)[:NEAR]
                fit = next((p for p in near if self._agree(t, p)), None)
                self._add(t, fit, hard=True) if fit is not None else left.append(t)
            torch, paddle = left, [p for p in paddle if p not in self.by_paddle]
        for t, p in zip(torch, paddle):
            self._add(t, p, hard=True)

    def _agree(self, torch: int, paddle: int) -> bool:
        t, p = (side.index["calls"][call]["inputs"] for side, call in ((self.torch, torch), (self.paddle, paddle)))
        return bool(t) and bool(p) and not any(one.distance.bad for one in self.match(t, p))

    def _soft(self, torch: int, candidates: Iterable[int]) -> bool:
        """Pair a call without parameters with the first candidate of its kind and inputs."""
        kind = kind_of(self.torch.index["calls"][torch]["kind"])
        near = (p for p in candidates if p not in self.by_paddle and kind_of(self.paddle.index["calls"][p]["kind"]) == kind)
        fit = next((p for _, p in zip(range(NEAR), near) if self._agree(torch, p)), None)
        if fit is not None:
            self._add(torch, fit, hard=False)
        return fit is not None

    def _by_order(self) -> None:
        """Pair what is left without parameters between the same hard neighbours."""
        gaps = [_gaps(side, paired) for side, paired in ((self.torch, self.by_torch), (self.paddle, self.by_paddle))]
        places: dict[Any, list[int]] = defaultdict(list)
        for number, gap in gaps[1].items():
            places[gap].append(number)
        for number, gap in gaps[0].items():
            self._soft(number, places.get(gap, ()))


def _gaps(side: Capture, paired: dict[int, Pair]) -> dict[int, tuple]:
    """{unpaired call: the hard event before it} in order; named after torch's calls, so the same on both sides."""
    calls, found, last = side.index["calls"], {}, ("start", -1)
    holders = _holders(side)
    events = sorted([(call["start"], "start", n) for n, call in enumerate(calls)]
                    + [(call["end"], "end", n) for n, call in enumerate(calls) if call["end"] is not None])  # fmt: skip
    for _, what, number in events:
        pair = paired.get(number)
        if pair is not None and pair.hard:
            last = (what, pair.torch)
        elif pair is None and what == "start" and calls[number]["path"] not in holders:
            found[number] = last
    return found


def _by_path(side: Capture) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for number, call in enumerate(side.index["calls"]):
        found[call["path"]].append(number)
    return found


def _holders(side: Capture) -> set[str]:
    """Paths of modules with parameters or buffers inside."""
    found = set()
    for name in (*side.index["trainable"], *side.index["buffers"]):
        parts = name.split(".")[:-1]
        found.update(".".join(parts[:count]) for count in range(len(parts) + 1))
    return found


def _groups(modules: list[tuple[str, str]], *aliases: dict[str, str]) -> list[tuple[list[str], list[str]]]:
    """Pairs of module paths, joined where a module is used under several paths: ([torch paths], [Paddle paths])."""
    pairs = {tuple(names.get(path, path) for names, path in zip(aliases, pair)) for pair in modules}
    group: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for torch, paddle in sorted(pairs):
        merged = group.get((0, torch), [(0, torch)]), group.get((1, paddle), [(1, paddle)])
        joined = merged[0] if merged[0] is merged[1] else [*merged[0], *merged[1]]
        for member in joined:
            group[member] = joined
    distinct = {id(members): members for members in group.values()}.values()
    return [tuple([path for side, path in members if side == wanted] for wanted in (0, 1)) for members in distinct]
