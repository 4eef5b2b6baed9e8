# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What bisect found, as one paragraph, a table and JSON."""
from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.align.bisect.distance import Distance
from pipeline.align.bisect.gradients import Gradients
from pipeline.align.bisect.pairing import Pair
from pipeline.align.bisect.search import Place
from pipeline.align.table import columns, number

#: Calls of the neighbourhood before and after the finding.
AROUND = 4
#: Why a gradient is missing.
MISSING = {
    "frozen": "the parameter is frozen", "cut off": "the tensor is detached, or all that it depends on is frozen",
    "none arrives": "what uses it is detached",
}  # fmt: skip


@dataclass
class Finding:
    """stage: "failure", "random", "forward", "loss", "backward", "schedule", "optimizer" or "buffers"; mode: "eval",
    "train", or "given" for the optimizer with given gradients; step: 1 or 2.

    where: the place in words, torch, paddle: {"path", "kind"} of the module whose call shows the fault; parent: the module
    whose own code is at fault, where that is not the module itself; after, before: torch paths between which the fault
    lies; tensor, distance: what differs; parameters: Paddle names that differ (optimizer and buffers); causes: likely
    causes with what to change; table: the neighbourhood, one row per call.
    """

    stage: str
    mode: str
    step: int
    where: str
    paragraph: str = ""
    torch: dict[str, str] | None = None
    paddle: dict[str, str] | None = None
    parent: dict[str, str] | None = None
    after: str | None = None
    before: str | None = None
    tensor: str = ""
    distance: dict[str, Any] | None = None
    parameters: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    table: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """JSON-able; numbers that JSON does not have are null."""
        return _finite(asdict(self))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def text(finding: Finding) -> str:
    """The paragraph, the table of the neighbourhood and the notes, for a terminal."""
    parts = [finding.paragraph + "\n"]
    if finding.table:
        rows = [["", "call (torch)", "call (paddle)", "type", *(title for title, _ in _columns(finding.stage))]]
        for row in finding.table:
            rows.append([">" if row["here"] else "", row["torch"], row["paddle"], row["kind"],
                         *(_cell(row[key]) for _, key in _columns(finding.stage))])  # fmt: skip
        parts.append(columns(rows))
    parts += [f"note: {note}\n" for note in finding.notes]
    return "\n".join(parts)


def _columns(stage: str) -> list[tuple[str, str]]:
    if stage == "backward":
        return [("output gradient", "end"), ("input gradient", "start"), ("parameter gradient", "own")]
    return [("input", "start"), ("output", "end")]


def _cell(value: dict[str, Any] | None) -> str:
    if value is None:
        return "-"
    if value["mean"] is None:
        return value["how"]
    return f"{number(value['mean'])}{' !' if value['bad'] else ''}"


def name_of(call: dict[str, Any]) -> str:
    """A call for people."""
    return {"": "the model", "@forward": "forward() in port.py", "@loss": "the loss"}.get(call["path"], f"'{call['path']}'")


def describe(call: dict[str, Any]) -> dict[str, str]:
    """Path and class of a call's module."""
    return {"path": call["path"], "kind": call["kind"].rpartition(".")[2]}


def both_names(pair: Pair) -> str:
    """A pair for people: path and type, of both sides where they differ."""
    torch, paddle = describe(pair.t), describe(pair.p)
    same = torch["kind"].lower() == paddle["kind"].lower()
    kinds = torch["kind"] if same else f"{torch['kind']} in torch, {paddle['kind']} in Paddle"
    if pair.t["path"].startswith("@"):
        return name_of(pair.t)
    if torch["path"] == paddle["path"]:
        return f"{name_of(pair.t)} ({kinds})"
    return f"{name_of(pair.p)} (torch: {name_of(pair.t)}; {kinds})"


def in_words(place: Place) -> str:
    """The place of a finding."""
    if place.parent is None and place.inside and not place.after and not place.before:
        return both_names(place.pair) + _turn(place.pair)
    owner = place.pair if place.inside else place.parent
    code = f"the forward code of {both_names(owner)}" if owner is not None else "the code that calls the model"
    code = name_of(owner.t) if owner is not None and owner.t["path"].startswith("@") else code
    edges = [
        f"after {name_of(place.after.t)}{_turn(place.after)}" if place.after else "",
        f"before {name_of(place.before.t)}{_turn(place.before)}" if place.before else "",
    ]
    if all(edges):
        return f"{code}, between {edges[0].removeprefix('after ')} and {edges[1].removeprefix('before ')}"
    return f"{code}{', ' if any(edges) else ''}{''.join(edges)}"


def _turn(pair: Pair) -> str:
    """Which call of a module this is, where there are several."""
    path = pair.t["path"]
    calls = [number for number, call in enumerate(pair.both.torch.index["calls"]) if call["path"] == path]
    return f" (call {calls.index(pair.torch) + 1} of {len(calls)})" if len(calls) > 1 else ""


def sentence(place: Place, stage: str) -> str:
    """What goes wrong where, with numbers."""
    agree = ""
    if place.agreeing:
        agree = " (exactly)" if place.agreeing.ratio == 0 else f" (to {place.agreeing.ratio:.2g} times rounding)"
    if stage == "loss":
        return f"The loss differs although the outputs of the network agree{agree}: {numbers(place.distance)}."
    what = {"forward": "The forward pass", "backward": "The gradient"}[stage]
    if place.missing:
        side, _, why = place.missing.partition(": ")
        name = {"torch": "torch", "paddle": "Paddle"}[side]
        return f"{what} goes wrong in {in_words(place)}: {place.tensor} has no gradient in {name}: {MISSING[why]}."
    if place.pair.t["path"] == "@loss":
        tensor = place.tensor.replace("input ", "")
        return f"The {tensor} of the loss is wrong although the loss agrees: {numbers(place.distance)}."
    lead = {"forward": "its inputs", "backward": "the gradients of its outputs"}[stage]
    if not place.inside:
        lead = {"forward": "the tensors before", "backward": "the gradients that arrive from the loss"}[stage]
    subject = place.tensor if place.inside else f"{place.tensor} of {name_of(place.pair.t)}"
    return f"{what} goes wrong in {in_words(place)}: {lead} agree{agree}, {subject} does not: {numbers(place.distance)}."


def numbers(distance: Distance) -> str:
    """A distance in words."""
    if distance.how and not distance.bad:
        return f"the same numbers, but with its {distance.how}"
    if distance.how == "shapes":
        return f"shape {list(distance.shapes[0])} in torch, {list(distance.shapes[1])} in Paddle"
    if distance.max is not None and distance.max == float("inf"):
        return f"not finite on one side only, at {list(distance.index)}"
    text = f"mean difference {number(distance.mean)}, largest {number(distance.max)} at {list(distance.index)}"
    if 0 < distance.ratio < float("inf"):
        text += f", {distance.ratio:.3g} times what rounding explains"
    return text


def neighbourhood(place: Place, gradients: Gradients | None) -> list[dict[str, Any]]:
    """Rows of the calls around a finding, in execution order."""
    both = place.pair.both
    pairs = sorted({*both.pairs, place.pair}, key=lambda pair: pair.t["end"] or float("inf"))
    at = pairs.index(place.pair)
    rows = []
    for pair in pairs[max(0, at - AROUND) : at + AROUND + 1]:
        row = {"torch": pair.t["path"], "paddle": pair.p["path"], "kind": describe(pair.t)["kind"], "here": pair is place.pair}
        if gradients is None:
            row.update(start=_most(m.distance for m in pair.inputs), end=_most(m.distance for m in pair.outputs), own=None)
        else:
            start, end = (gradients.at_start(pair), gradients.at_end(pair)) if pair.complete else ([], [])
            row["start"] = _most(one.distance for one in start if one.parameter is None)
            row["own"] = _most(one.distance for one in start if one.parameter is not None)
            row["end"] = _most(one.distance for one in end)
        rows.append(row)
    return rows


def _most(distances: Any) -> dict[str, Any] | None:
    worst = max((one for one in distances if one is not None), key=lambda one: one.ratio, default=None)
    return None if worst is None else worst.to_json()
