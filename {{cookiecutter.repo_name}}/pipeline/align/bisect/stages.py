# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The stages that bisect goes through until something differs: forward, loss, backward, schedule, optimizer step, buffers."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.align.bisect import hints, optimizers, search
from pipeline.align.bisect.distance import Distance, distance
from pipeline.align.bisect.finding import Finding, both_names, describe, in_words, neighbourhood, numbers, sentence
from pipeline.align.bisect.gradients import Gradients, parameter_distance
from pipeline.align.bisect.looks import Looks
from pipeline.align.bisect.pairing import Both
from pipeline.align.bisect.search import Place
from pipeline.align.bisect.static import Difference
from pipeline.align.bisect.store import rms
from pipeline.align.convert import Plan
from pipeline.align.convert.plan import Row

#: Learning rates agree to this part of themselves; Paddle stores some of them as float32.
RATE = 1e-6


@dataclass(frozen=True)
class Known:
    """What the descriptions of both models say. `settings`: that differ; `momenta`: of torch's batch normalisations by path;
    `layouts`: torch paths of layers that take their axes in another order on the other side.
    """

    settings: list[Difference]
    momenta: dict[str, float]
    layouts: set[str]


class Stages:
    """Looks at the captures of one mode and step, of both sides. `first`: those of step 1, while this is step 2."""

    def __init__(self, both: Both, plan: Plan, known: Known, first: Both | None):
        self.both, self.plan, self.known, self.first = both, plan, known, first
        self.mode, self.step = both.torch.index["mode"], both.torch.index["step"]
        self.rows = [row for row in plan.rows if row.torch is not None and row.paddle is not None]
        self.looks = Looks(both, {one.torch for one in known.settings})

    def find(self, before_random: bool = False) -> Finding | None:
        """The first thing that differs; with `before_random` only in what comes before random numbers are drawn."""
        if self.mode == "given":
            return self.optimizer()
        if before_random:
            place = self.looks.find(search.forward)
            return self._at(place, "forward") if place is not None and self._time(place) < self._first_random() else None
        for stage in (self.forward, self.loss, self.backward, self.schedule, self.optimizer, self.buffers):
            found = stage()
            if found is not None:
                return found
        return None

    def forward(self) -> Finding | None:
        """Outputs of the network."""
        place = self.looks.find(search.forward)
        if place is not None and place.pair.t["path"] not in self.known.layouts:
            layers = all(hints.is_layer(call["kind"]) for call in (place.pair.t, place.pair.p))
            place = (search.turned(place) if layers else None) or place
        return self._at(place, "forward")

    def loss(self) -> Finding | None:
        """The loss of agreeing outputs."""
        found = self._at(search.loss(self.both), "loss")
        if found is not None:
            found.causes += hints.of_loss(self.both)
            _write(found)
        return found

    def backward(self) -> Finding | None:
        """Gradients of all parameters; where they differ because the forward pass does a little, that is where it began."""
        if self._failed():
            return None
        place = self.looks.find(lambda both: search.backward(both, self.rows))
        faint = search.backward(self.looks.plain, self.rows) if place is None else place
        earlier = None if faint is None else self.looks.before(faint)
        return self._at(place, "backward") if earlier is None else self._at(earlier, "forward")

    def schedule(self) -> Finding | None:
        """The learning rate of every iteration."""
        rates = self._rates()
        count = min((len(one) for one in rates if len(one) > 1), default=1)
        rates = [np.resize(one, count) if len(one) == 1 else one for one in rates]  # without a schedule the first rate stays
        torch, paddle = rates[0][:count], rates[1][:count]
        wrong = np.abs(torch - paddle) > RATE * np.abs(torch).max(initial=0)
        if self.step or not wrong.any():
            return None
        first = int(wrong.argmax())
        found = self._new("schedule", "the learning rate schedule (build_optimizer)")
        names = self.both.torch.index["optimizer"].get("names", ["main"])
        which, iteration = divmod(first, max(1, count // len(names)))
        found.tensor = f"learning rate of iteration {iteration}" + (f" of {names[which]!r}" if len(names) > 1 else "")
        found.distance = {"torch": float(torch[first]), "paddle": float(paddle[first])}
        found.paragraph = (
            f"{found.tensor}: {torch[first]:.6g} in torch, {paddle[first]:.6g} in Paddle;"
            f" {int(wrong.sum())} of {count} iterations differ."
        )
        for a, b, text in ((torch[:-1], paddle[1:], "late"), (torch[1:], paddle[:-1], "early")):
            if len(a) > 1 and np.allclose(a, b, rtol=RATE, atol=0) and np.ptp(a):
                found.causes.append(f"the port's schedule is one iteration {text}: step it once after every optimizer.step()")
        if np.ptp(torch) == 0 and np.ptp(paddle):
            found.causes.append("the reference's learning rate never changes")
        if first and np.ptp(paddle) == 0:
            found.causes.append("the port's learning rate never changes: pass the schedule itself to the optimizer and return it")
        ratio = paddle / np.where(torch == 0, np.nan, torch)
        if not found.causes and np.isfinite(ratio).all() and np.ptp(ratio) < 1e-6 * abs(ratio[0]):
            found.causes.append(f"the port's is {ratio[0]:.4g} times the reference's throughout")
        _write(found)
        return found

    def _rates(self) -> list[np.ndarray]:
        """The learning rate of one parameter in every iteration on both sides: of one whose rates agree at the peak, if any.

        What the optimizer calls its rate is that of a group in torch and a base that groups multiply in Paddle.
        """
        sides = (self.both.torch.index, self.both.paddle.index)
        own = [index["optimizer"]["parameters"] for index in sides]
        pairs = [(own[0][row.torch]["learning_rate"], own[1][row.paddle]["learning_rate"])
                 for row in self.rows if row.torch in own[0] and row.paddle in own[1]]  # fmt: skip
        chosen = next((pair for pair in pairs if abs(pair[0] - pair[1]) <= RATE * abs(pair[0])), pairs[0] if pairs else None)
        rates = [np.array(index["learning_rates"]) for index in sides]
        if chosen is None or any(len(index["optimizer"].get("names", ())) > 1 for index in sides):
            return rates
        return [curve * (rate / curve.max() if curve.max() else 1.0) for curve, rate in zip(rates, chosen)]

    def optimizer(self) -> Finding | None:
        """What the optimizer step made of agreeing gradients."""
        if self._failed() or self.mode == "train":
            return None
        rows = self._stored("param")
        wrong = [row for row in rows if self._after(row).bad]
        if not wrong:
            return None
        found = self._new("optimizer", f"the optimizer step ({self.both.paddle.index['optimizer']['kind']})")
        found.parameters = [row.paddle for row in wrong]
        worst = max(wrong, key=lambda row: self._after(row).ratio)
        found.tensor, found.distance = worst.paddle, self._after(worst).to_json()
        pairs = [(row.torch, row.paddle) for row in rows]
        found.causes += optimizers.differences(self.both.torch.index["optimizer"], self.both.paddle.index["optimizer"], pairs)
        found.causes += sorted(set(filter(None, (self._explained(row) for row in wrong[:3]))))
        which = "All parameters" if len(wrong) == len(rows) else f"{len(wrong)} of {len(rows)} parameters"
        found.paragraph = (
            f"{which} change differently from equal gradients: {', '.join(found.parameters[:4])}"
            f"{', ...' if len(wrong) > 4 else ''}; farthest off is {worst.paddle}, {numbers(self._after(worst))}."
        )
        _write(found)
        return found

    def sums_differ(self) -> bool:
        """Whether parameters after the step differ, though no more than their gradients explain."""
        return not self._failed() and any(parameter_distance(self.both, row, "a").bad for row in self._stored("param"))

    def buffers(self) -> Finding | None:
        """Running statistics and other buffers after the step."""
        if self._failed():
            return None
        wrong = [(row, gap) for row in self._stored("buffer") if (gap := self._buffer(row)).bad]
        if not wrong:
            return None
        row, gap = wrong[0]
        pair = next((pair for pair in self.both.pairs if pair.hard and pair.t["path"] == row.torch.rpartition(".")[0]), None)
        found = self._new("buffers", both_names(pair) if pair else f"'{row.paddle.rpartition('.')[0]}'")
        if pair is not None:
            found.torch, found.paddle = describe(pair.t), describe(pair.p)
            found.causes += [one.text for one in self.known.settings if one.torch == pair.t["path"]]
        found.parameters = [one.paddle for one, _ in wrong]
        found.tensor, found.distance = row.paddle, gap.to_json()
        found.paragraph = f"{row.paddle} after the step: {numbers(gap)}; {len(wrong)} buffers differ."
        _write(found)
        return found

    def _time(self, place: Place) -> int:
        return place.pair.t["end"] if place.inside and place.pair.complete else place.pair.t["start"]

    def _first_random(self) -> int:
        """When the first random number is drawn, in torch's time or that of the counterpart of Paddle's call."""
        times = []
        for side, key in ((self.both.torch, "t"), (self.both.paddle, "p")):
            drawn = side.index["random"]
            if drawn:
                path = drawn["before"] or drawn["path"]
                times += [pair.t["start"] for pair in self.both.pairs if getattr(pair, key)["path"] == path][:1] or [0]
        return min(times, default=0)

    def _stored(self, kind: str) -> list[Row]:
        """Rows of a kind ("param" or "buffer") whose tensors are known after the step."""
        held = self.both.torch.tensors, self.both.paddle.tensors
        return [row for row in self.rows if row.kind == kind and f"a.{row.torch}" in held[0] and f"a.{row.paddle}" in held[1]]

    def _after(self, row: Row) -> Distance:
        """The distance of a parameter after the step, beyond what the distance of its gradient explains."""
        torch, paddle = (f"{key}.{name}" for key, name in (("p", row.torch), ("p", row.paddle)))
        share = 0.0
        if torch in self.both.torch.tensors and paddle in self.both.paddle.tensors:
            gradient = parameter_distance(self.both, row, "p")
            share = min(1.0, gradient.mean / gradient.size) if gradient.size and gradient.mean is not None else 0.0
        start, prefix = (self.first, "a") if self.first else (self.both, "b")
        moved = rms(self.both.torch.get(f"a.{row.torch}"), start.torch.get(f"{prefix}.{row.torch}"))
        return parameter_distance(self.both, row, "a", share * moved)

    def _buffer(self, row: Row) -> Distance:
        """The distance of a buffer; of a running variance, from what Paddle's biased estimate has to be.

        v_torch = k v0 + (1 - k) var n / (n - 1), v_paddle = k v0 + (1 - k) var, with k = (1 - momentum)^calls.
        """
        path, _, name = row.torch.rpartition(".")
        counts = [self._values(pair) for pair in self.both.pairs if pair.hard and pair.t["path"] == path and pair.t["training"]]
        if name != "running_var" or path not in self.known.momenta or not counts or min(counts) < 2:
            return self._after(row)
        start = self.first or self.both
        prefix = "a" if self.first else "b"
        torch, paddle = self.both.torch.get(f"a.{row.torch}"), row.move(self.both.paddle.get(f"a.{row.paddle}"), "torch")
        before = start.torch.get(f"{prefix}.{row.torch}"), row.move(start.paddle.get(f"{prefix}.{row.paddle}"), "torch")
        kept, count = (1 - self.known.momenta[path]) ** len(counts), len(counts) / sum(1 / n for n in counts)
        expected = kept * before[1] + (torch.astype(np.float64) - kept * before[0]) * (count - 1) / count
        noise = self.both.noise(f"a.{row.torch}", f"a.{row.paddle}")
        biased = distance(expected.astype(torch.dtype), paddle, noise, self.both.limit)
        return min(biased, self._after(row), key=lambda one: one.ratio)  # parity's layers have torch's estimate

    def _values(self, pair: Any) -> int:
        """Values per channel of what a batch normalisation took."""
        shape = self.both.torch.value(pair.t["inputs"][0][1]).shape
        return int(np.prod(shape) // shape[1]) if len(shape) > 1 else int(shape[0])

    def _explained(self, row: Row) -> str | None:
        start, prefix = (self.first, "a") if self.first else (self.both, "b")
        part = row.part("torch") or ...
        before, after = start.torch.get(f"{prefix}.{row.torch}")[part], self.both.torch.get(f"a.{row.torch}")[part]
        ported = [row.move(side.paddle.get(f"{key}.{row.paddle}"), "torch") for side, key in ((start, prefix), (self.both, "a"))]
        rate = self.both.torch.index["optimizer"]["parameters"].get(row.torch, {}).get("learning_rate", 1.0)
        return optimizers.explain(after - before, ported[1] - ported[0], before, rate or 1.0)

    def _failed(self) -> bool:
        return any(side.index["failed"] for side in (self.both.torch, self.both.paddle))

    def _new(self, stage: str, where: str) -> Finding:
        return Finding(stage, self.mode, self.step + 1, where)

    def _at(self, place: Place | None, stage: str) -> Finding | None:
        if place is None:
            return None
        found = self._new(stage, in_words(place))
        found.torch, found.paddle = describe(place.pair.t), describe(place.pair.p)
        found.parent = describe(place.parent.t) if place.parent else None
        found.after, found.before = (one.t["path"] if one else None for one in (place.after, place.before))
        found.tensor, found.distance = place.tensor, place.distance.to_json() if place.distance else None
        found.causes = hints.causes(place, self.known.settings, stage)
        tied = [name for name, first in self.plan.aliases["torch"].items() if place.tensor == f"gradient of {first}"]
        if tied and not place.missing:
            found.causes.append(f"it is also {', '.join(tied)}: one of its uses may be cut off, or not be tied in the port")
        found.table = neighbourhood(place, Gradients(self.both, self.rows) if stage == "backward" else None)
        found.paragraph = sentence(place, stage)
        _write(found)
        return found


def _write(found: Finding) -> None:
    """Complete the paragraph with mode, step and likely causes."""
    body = found.paragraph.partition(" Likely cause: ")[0]
    if not body.startswith(("In ", "With ")):
        where = "With given gradients" if found.mode == "given" else f"In {found.mode} mode"
        body = f"{where}, {'first' if found.step == 1 else 'second'} step: {body}"
    found.paragraph = body + (f" Likely cause: {'; '.join(found.causes)}." if found.causes else "")
