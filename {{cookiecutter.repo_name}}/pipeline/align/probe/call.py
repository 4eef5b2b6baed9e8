# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the probe recorded, and the batch that the kit can make of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: Arguments of a module's forward that are the label.
LABEL_NAMES = ("label", "labels", "target", "targets")


@dataclass(frozen=True)
class Leaf:
    """One tensor, array or value of the call. `dtype` is the reference's, `array` as it was stored; None for values."""

    name: str
    kind: str
    array: np.ndarray | None
    dtype: str
    device: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """Everything but the numbers."""
        if self.array is None:
            return {"name": self.name, "kind": self.kind, "text": self.text}
        return {"name": self.name, "kind": self.kind, "shape": list(self.array.shape), "dtype": self.dtype, "device": self.device}


@dataclass(frozen=True)
class Label:
    """The label: where it was seen, the number of classes and the ignored value where the loss says so."""

    leaf: Leaf
    source: str
    classes: int | None = None
    ignored: int | None = None


@dataclass(frozen=True)
class Call:
    """One call of a module."""

    about: dict[str, Any]
    arguments: list[Leaf]
    outputs: list[Leaf]
    label: Label | None

    def inputs(self) -> list[Leaf]:
        """The arrays among the arguments that are not the label."""
        return [leaf for leaf in self.arguments if leaf.array is not None and (not self.label or leaf is not self.label.leaf)]

    def samples(self) -> int:
        """Length of the batch axis, the first of the first input."""
        return len(self.inputs()[0].array)

    def misfit(self) -> str | None:
        """Why the inputs are no batch of the kit; None where they are one."""
        inputs = self.inputs()
        if not inputs:
            return "no argument is an array"
        scalar = next((leaf.name for leaf in inputs if leaf.array.ndim == 0), None)
        if scalar:
            return f"{scalar} has no axis"
        other = next((leaf for leaf in inputs if len(leaf.array) != self.samples()), None)
        if other is not None:
            first = inputs[0]
            return f"the first axis of {first.name} is {self.samples()} long and that of {other.name} is {len(other.array)}"
        strange = next((leaf for leaf in inputs if leaf.array.dtype.kind not in "fiub" or leaf.array.size == 0), None)
        return None if strange is None else f"{strange.name} is {strange.dtype} {list(strange.array.shape)}"

    def batch_size(self, wanted: int) -> int:
        """The smallest size from `wanted` on that no other axis of an output has (step 1 asks for that)."""
        taken = {length for leaf in self.outputs if leaf.array is not None for length in leaf.array.shape[1:]}
        return next(size for size in range(wanted, wanted + len(taken) + 1) if size not in taken)

    def batch(self, wanted: int) -> dict[str, np.ndarray]:
        """input_0 …, label: at most `wanted` samples. Zeros stand for a label that was not seen (step 1 does not look at it)."""
        size = min(self.samples(), wanted)
        taken = {length for leaf in self.outputs if leaf.array is not None for length in leaf.array.shape[1:]}
        size = next((fewer for fewer in range(size, 0, -1) if fewer not in taken), 1)
        label = self.label.leaf.array if self.label else np.zeros(self.samples(), np.int64)
        arrays = {f"input_{index}": leaf.array for index, leaf in enumerate(self.inputs())}
        return {name: value[:size] for name, value in {**arrays, "label": label}.items()}

    def to_json(self) -> dict[str, Any]:
        """The call without its numbers."""
        label = self.label and {**self.label.leaf.to_json(), "seen_in": self.label.source}
        arguments, outputs = ([leaf.to_json() for leaf in leaves] for leaves in (self.arguments, self.outputs))
        return {**self.about, "arguments": arguments, "outputs": outputs, "label": label}


def read(folder: Path) -> Call:
    """The call that launch.py has left in `folder`."""
    about = json.loads((folder / "call.json").read_text(encoding="utf-8"))
    data = (folder / "call.bin").read_bytes()
    arguments, outputs = ([_leaf(entry, data) for entry in about.pop(key)] for key in ("arguments", "outputs"))
    return Call(about, arguments, outputs, _label(folder, arguments))


def _leaf(entry: dict[str, Any], data: bytes) -> Leaf:
    if "place" not in entry:
        return Leaf(entry["name"], entry["kind"], None, "", "", entry["text"])
    count = int(np.prod(entry["shape"], dtype=np.int64))
    array = np.frombuffer(data, entry["stored"], count, entry["place"]).reshape(entry["shape"])
    return Leaf(entry["name"], entry["kind"], array, entry["dtype"], entry["device"], "")


def _label(folder: Path, arguments: list[Leaf]) -> Label | None:
    """The label: an argument of that name, or else the target of the loss where it has one entry per sample."""
    for leaf in arguments:
        if leaf.name.rsplit(".", 1)[-1] in LABEL_NAMES and leaf.array is not None:
            return Label(leaf, f"argument {leaf.name}")
    if not (folder / "label.json").is_file():
        return None
    entry = json.loads((folder / "label.json").read_text(encoding="utf-8"))
    if "place" not in entry:
        return None
    leaf = _leaf(entry, (folder / "label.bin").read_bytes())
    samples = next((len(one.array) for one in arguments if one.array is not None and one.array.ndim), None)
    if leaf.array.ndim == 0 or len(leaf.array) != samples or leaf.array.dtype.kind not in "fiub":
        return None
    return Label(leaf, f"target of {entry['function']}", entry["classes"], entry["ignored"])
