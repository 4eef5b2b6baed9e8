# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Likely causes of what was found at a place: settings, what runs there on one side only, and simple relations of the numbers."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pipeline.align.bisect.pairing import Pair
from pipeline.align.bisect.search import Place
from pipeline.align.bisect.static import Difference

#: A relation holds when less than this part of the difference is left.
LEFT = 1e-3
#: Elements that are looked at, at most and at least: a few numbers are in any relation.
SAMPLE, FEWEST = 1 << 20, 8
#: Known differences of the frameworks, by fragments of Paddle's class name.
TRAPS = {
    "Embedding": "with padding_idx Paddle returns zeros for that id whatever its row holds, torch returns the row",
    "MultiHeadAttention": "a boolean mask keeps where true in Paddle and masks where true in torch; Paddle's layer is always batch-first",
    "GroupNorm": "Paddle's GroupNorm loses precision where the mean of its input is large",
    "Silu": "the gradient of Paddle's Silu is NaN below -88; paddle.nn.Swish is the same function without that",
    "LogSoftmax": "Paddle's log_softmax is cut at -64; x - logsumexp(x) is not",
    "LSTM": "Paddle's recurrent layers are batch-first by default, torch's time-first",
    "GRU": "Paddle's recurrent layers are batch-first by default, torch's time-first",
    "SimpleRNN": "Paddle's recurrent layers are batch-first by default, torch's time-first",
}


def causes(place: Place, settings: list[Difference], stage: str) -> list[str]:
    """The likely causes, the likeliest first."""
    found = [*_training(place.pair), *(one.text for one in _settings_at(place, settings))]
    if stage == "forward":
        if not (place.inside and all(is_layer(call["kind"]) for call in (place.pair.t, place.pair.p))):
            found += _ran_on_one_side(place)
        relation = _relation(place)
        found += [relation] if relation else []
    if not found and place.inside:
        kind = place.pair.p["kind"].rpartition(".")[2]
        found += [trap for name, trap in TRAPS.items() if kind == name]
    return found


def is_layer(kind: str) -> bool:
    """Whether a class is one of the frameworks' own."""
    return kind.startswith(("torch.nn.", "paddle.nn."))


def _training(pair: Pair) -> list[str]:
    modes = pair.t["training"], pair.p["training"]
    if None in modes or modes[0] == modes[1]:
        return []
    names = {True: "train", False: "eval"}
    return [f"'{pair.p['path']}' is in {names[modes[1]]} mode in the port and in {names[modes[0]]} mode in the reference"]


def _settings_at(place: Place, settings: list[Difference]) -> list[Difference]:
    """Differences of the very module; else of modules inside it that have no paired calls; else of the code's own module."""
    here = [one for one in settings if one.torch == place.pair.t["path"]] if place.inside else []
    if not here and place.inside:
        start = place.pair.t["path"] + "." if place.pair.t["path"] else ""
        paired = {pair.t["path"] for pair in place.pair.both.pairs}
        here = [one for one in settings if one.torch.startswith(start) and one.torch not in paired]
    if not here and place.parent is not None:
        here = [one for one in settings if one.torch == place.parent.t["path"]]
    return here


def _ran_on_one_side(place: Place) -> list[str]:
    """Unpaired calls in the code at fault."""
    texts = []
    for side, paired, edge in (("torch", place.pair.both.by_torch, "t"), ("paddle", place.pair.both.by_paddle, "p")):
        calls = getattr(place.pair.both, side).index["calls"]
        owner = place.pair if place.inside else place.parent
        start = getattr(place.after, edge)["end"] if place.after else getattr(owner, edge)["start"] if owner else 0
        end = getattr(place.before, edge)["start"] if place.before else getattr(owner, edge)["end"] if owner else None
        inside = [call for number, call in enumerate(calls)
                  if number not in paired and call["start"] > (start or 0) and (end is None or call["start"] < end)]  # fmt: skip
        names = [f"'{call['path']}' ({call['kind'].rpartition('.')[2]})" for call in inside]
        texts.append(f"{', '.join(names[:4])}{' and more' if len(names) > 4 else ''}" if names else "")
    if not any(texts):
        return []
    sides = [f"{name} runs {text}" for name, text in zip(("torch", "Paddle"), texts) if text]
    return ["there " + " and ".join(sides) + ("" if all(texts) else ", which the other side does not, at least not as a module")]


def _relation(place: Place) -> str | None:
    """What simple operation takes torch's tensor to Paddle's."""
    both, inside = place.pair.both, place.inside
    matched = [one for one in (place.pair.outputs if inside else place.pair.inputs) if one.distance.bad]
    if not matched or place.distance is None:
        return None
    one = max(matched, key=lambda one: one.distance.ratio)
    a, b = (side.get(f"v{side.index['values'][value]['data']}") for side, value in ((both.torch, one.torch_value), (both.paddle, one.paddle_value)))
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return None
    if a.shape != b.shape:
        return f"shape {list(a.shape)} in torch, {list(b.shape)} in Paddle"
    nearby: dict[str, np.ndarray] = {}
    for pair in (place.pair, place.parent, place.after):
        for m in (*pair.inputs, *pair.outputs) if pair is not None else ():
            value = both.torch.get(f"v{both.torch.index['values'][m.torch_value]['data']}")
            if not m.distance.bad and value.shape == a.shape:
                nearby[f"the {'input' if m in pair.inputs else 'output'} of '{pair.t['path'] or 'the model'}'"] = value
    if a.size > SAMPLE:
        a, b, nearby = a[:1], b[:1], {name: value[:1] for name, value in nearby.items()}
    return relation(a, b, nearby)


def relation(torch: np.ndarray, paddle: np.ndarray, nearby: Mapping[str, np.ndarray]) -> str | None:
    """A simple operation that makes Paddle's tensor from torch's or the other way, or from tensors nearby; None if none does."""
    a, b = torch.astype(np.float64), paddle.astype(np.float64)
    if a.size < FEWEST or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    gap = np.linalg.norm(a - b)

    def same(x: Any, y: Any) -> bool:
        return bool(np.linalg.norm(x - y) <= LEFT * min(gap, max(np.linalg.norm(a), np.linalg.norm(b))))

    if not np.any(b):
        return "the port's is zero everywhere"
    factor = float((a * b).sum() / (a * a).sum()) if np.any(a) else 0.0
    if factor and same(factor * a, b):
        return f"the port's is {factor:.6g} times the reference's"
    sums = [[axis for axis in range(x.ndim) if x.shape[axis] > 1 and np.allclose(x.sum(axis), 1, atol=1e-4)] for x in (a, b)]
    if all(sums) and sums[0] != sums[1]:
        return f"the port's sums to 1 along axis {sums[1][0]}, the reference's along axis {sums[0][0]}, as softmax over another axis would"
    if all(sums) and a.min() > 0 and b.min() > 0:
        logs = [np.log(x) - np.log(x).mean(sums[0][0], keepdims=True) for x in (a, b)]
        factor = float((logs[0] * logs[1]).sum() / (logs[0] ** 2).sum()) if np.any(logs[0]) else 0.0
        if np.linalg.norm(logs[1] - factor * logs[0]) <= LEFT * np.linalg.norm(logs[1]):
            return f"what goes into the port's softmax is {factor:.4g} times the reference's"
    for name, value in nearby.items():
        value = value.astype(np.float64)
        for text, made in ((f"the port's lacks the sum with {name}", a - value), (f"the port's adds {name}", a + value), (f"the port's is {name}", value)):
            if same(made, b):
                return text
    for text, x, y in (
        ("the port lacks a ReLU", np.maximum(b, 0), a), ("the port has a ReLU more", np.maximum(a, 0), b),
        ("the port adds a constant to the reference's", a - a.mean(), b - b.mean()),
    ):  # fmt: skip
        if same(x, y):
            return text
    for axis in range(a.ndim):
        if a.shape[axis] > 1:
            if same(np.flip(a, axis), b):
                return f"the port's has axis {axis} the other way round"
            for shift in (1, -1):
                if same(np.roll(a, shift, axis), b):
                    return f"the port's is shifted by {shift} along axis {axis}"
            if same(np.sort(a, axis), np.sort(b, axis)) and a.ndim > 1:
                return f"the port's has the same numbers in another order along axis {axis}"
    return None
