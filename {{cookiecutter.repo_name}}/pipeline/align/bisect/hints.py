# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Likely causes of what was found at a place: settings, what runs there on one side only, and simple relations of the numbers."""
from __future__ import annotations

import numpy as np

from pipeline.align.bisect.finding import name_of
from pipeline.align.bisect.pairing import Both, Pair
from pipeline.align.bisect.relations import LEFT, relation
from pipeline.align.bisect.search import Place
from pipeline.align.bisect.static import Difference

#: So many modules before the place are looked at for how the numbers came about.
LAST = 5
#: Paddle cuts log-probabilities there.
CUT = 64
#: Known differences of the frameworks, by Paddle's class name, or by the beginning of torch's.
TRAPS = {
    "Embedding": "with padding_idx Paddle returns zeros for that id whatever its row holds, torch returns the row",
    "MultiHeadAttention": "true in a boolean mask keeps in Paddle and masks in torch; Paddle's layer is always batch-first",
    "GroupNorm": "Paddle's GroupNorm loses precision where the mean of its input is large",
    "Silu": "the gradient of Paddle's Silu is NaN below -88; paddle.nn.Swish is the same function without that",
    "Parametrized": "torch's parametrizations.spectral_norm updates u before v; utils.spectral_norm and Paddle's v before u",
    "LogSoftmax": "Paddle's log_softmax is cut at -64; x - logsumexp(x) is not",
    "LSTM": "Paddle's recurrent layers are batch-first by default, torch's time-first",
    "GRU": "Paddle's recurrent layers are batch-first by default, torch's time-first",
    "SimpleRNN": "Paddle's recurrent layers are batch-first by default, torch's time-first",
}


def causes(place: Place, settings: list[Difference], stage: str) -> list[str]:
    """The likely causes, the likeliest first."""
    found = [*_modes(place.pair), *(one.text for one in _settings_at(place, settings))]
    if stage == "forward":
        if not (place.inside and all(is_layer(call["kind"]) for call in (place.pair.t, place.pair.p))):
            found += _order(place) or _ran_on_one_side(place)
        found += [text for text in [_relation(place)] if text]
    if not found and place.inside and stage == "forward":
        kinds = [call["kind"].rpartition(".")[2] for call in (place.pair.t, place.pair.p)]
        found += [trap for name, trap in TRAPS.items() if kinds[1] == name or kinds[0].startswith(name)]
    return found


def is_layer(kind: str) -> bool:
    """Whether a class is one of the frameworks' own."""
    return kind.startswith(("torch.nn.", "paddle.nn."))


def _modes(pair: Pair) -> list[str]:
    """Differing modes of the module: train or eval, and no_grad."""
    name = name_of(pair.p)
    if pair.t["graph"] != pair.p["graph"]:
        return [f"{name} runs under no_grad in {'the reference' if pair.p['graph'] else 'the port'}"]
    modes = pair.t["training"], pair.p["training"]
    if None in modes or modes[0] == modes[1]:
        return []
    names = {True: "train", False: "eval"}
    return [f"{name} is in {names[modes[1]]} mode in the port and in {names[modes[0]]} mode in the reference"]


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
    for side in ("torch", "paddle"):
        calls = getattr(place.pair.both, side).index["calls"]
        loose = [calls[number] for number in place.loose(side)]
        names = [f"'{call['path']}' ({call['kind'].rpartition('.')[2]})" for call in loose]
        texts.append(f"{', '.join(names[:4])}{' and more' if len(names) > 4 else ''}")
    if not any(texts):
        return []
    sides = [f"{name} runs {text}" for name, text in zip(("torch", "Paddle"), texts) if text]
    return ["there " + " and ".join(sides) + ("" if all(texts) else ", which the other side does not, at least not as a module")]


def _order(place: Place) -> list[str]:
    """Modules that the two sides run in another order in the code at fault."""
    inner = _inner(place)
    ours, theirs = (sorted(inner, key=lambda pair: pair.t["start"]), sorted(inner, key=lambda pair: pair.p["start"]))
    first = next(((x, y) for x, y in zip(ours, theirs) if x is not y), None)
    if first is None:
        return []
    x, y = (f"'{pair.t['path']}'" for pair in first)
    return [f"the reference runs {x} before {y}, the port {y} before {x}"]


def _run_before(place: Place) -> list[Pair]:
    """The last modules that the code at fault has called."""
    inner = [pair for pair in _inner(place) if pair.complete and (place.inside or pair.t["end"] < place.pair.t["start"])]
    return sorted(inner, key=lambda pair: pair.t["end"])[-LAST:]


def _inner(place: Place) -> list[Pair]:
    owner = place.owner
    return [pair for pair in place.pair.both.pairs if owner is not None and pair.t["parent"] == owner.torch]


def _relation(place: Place) -> str | None:
    """What the numbers of the tensor that differs say."""
    both = place.pair.both
    wrong = [one for one in (place.pair.outputs if place.inside else place.pair.inputs) if one.distance.bad]
    if not wrong or place.distance is None:
        return None
    one = max(wrong, key=lambda one: one.distance.ratio)
    nearby: dict[str, np.ndarray] = {}
    for pair, what in ((place.owner, "input"), *((pair, "output") for pair in _run_before(place))):
        tensors = [] if pair is None else pair.outputs if what == "output" else pair.inputs
        for m in tensors:
            if not m.distance.bad:
                name = f"{what} {m.torch} of {name_of(pair.t)}" if len(tensors) > 1 else f"the {what} of {name_of(pair.t)}"
                nearby[name] = both.torch.value(m.torch_value)
    return relation(both.torch.value(one.torch_value), both.paddle.value(one.paddle_value), nearby)


def of_loss(both: Both) -> list[str]:
    """What settings and numbers of a loss that differs say."""
    settings = [side.index["loss"] for side in (both.torch, both.paddle)]
    texts = [f"{name} is {settings[1][name]!r} in the port and must be {settings[0][name]!r}"
             for name in settings[0] if name in settings[1] and settings[0][name] != settings[1][name]]  # fmt: skip
    pair = next(pair for pair in both.pairs if pair.t["path"] == "@loss")
    torch, paddle = (float(side.value(value).ravel()[0]) for side, value in
                     ((both.torch, pair.outputs[0].torch_value), (both.paddle, pair.outputs[0].paddle_value)))  # fmt: skip
    for one in pair.inputs:
        wanted, given = list(both.torch.value(one.torch_value).shape), list(both.paddle.value(one.paddle_value).shape)
        if wanted != given:
            texts.append(f"it gets the shape {given} for {one.paddle} and must get {wanted}")
    arrays = [both.torch.value(one.torch_value) for one in pair.inputs]
    count = next((len(array) for array in arrays if array.ndim), 1)
    for factor, text in ((count, "sums, the reference takes the mean"), (1 / count, "takes the mean, the reference sums")):
        if count > 1 and abs(paddle - factor * torch) <= LEFT * abs(paddle):
            texts.append(f"the port's is {factor:.6g} times the reference's: it {text}")
    spans = [float(np.ptp(array, axis=-1).max()) for array in arrays if array.dtype.kind == "f" and array.ndim > 1 and array.size]
    if max(spans, default=0) > CUT:
        texts.append(f"outputs of a sample span {max(spans):.3g}; Paddle's log_softmax, also in cross_entropy, is cut at -{CUT}")
    return texts
