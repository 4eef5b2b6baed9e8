# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a capture leaves on disk: one raw file of tensors and one JSON index per side, mode and step.

Tensors go to the file as they appear, so that a capture needs no memory beside the model's own, and are read through a
memory map.
"""
from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align import provenance
from pipeline.align.errors import UserError
from pipeline.align.paths import Paths

#: Elements that are worked on at a time.
BLOCK = 1 << 16
#: Unit roundoff by dtype: half the distance from 1 to the next number.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "complex64": 2.0**-24, "complex128": 2.0**-53}
#: A difference grows out of proportion when it is this many times what the scale of the disturbance makes of it; more for
#: a few numbers, which may have moved little at first by chance.
JUMP = 3.0


def stem(paths: Paths, side: str, mode: str, step: int) -> Path:
    """Both files of a capture without their suffix. `mode`: "eval", "train" or "given"; `step`: 0 or 1."""
    return paths.work / side / "bisect" / f"{mode}_{step}"


class Writer:
    """Appends tensors under keys; `close` writes the index, after which the capture can be read."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        path.with_suffix(".json").unlink(missing_ok=True)
        self._file = open(path.with_suffix(".bin"), "wb", buffering=1 << 20)
        self.tensors: dict[str, tuple[int, list[int], str, float]] = {}

    def put(self, key: str, array: np.ndarray) -> None:
        """Append a tensor; of one that comes again under its key, the last counts."""
        array = np.asarray(array, order="C")
        size = rms(array) if array.dtype.kind in "fc" else 1.0
        self.tensors[key] = (self._file.tell(), list(array.shape), array.dtype.str, size)
        self._file.write(array.reshape(-1).view(np.uint8).data if array.size else b"")

    def close(self, index: dict[str, Any]) -> None:
        """Write the index."""
        self._file.close()
        provenance.write_json(self.path.with_suffix(".json"), {**index, "tensors": self.tensors})


class Meter:
    """Takes the tensors of a second, disturbed run, and keeps only how far each is from the first run's.

    `scale`: size of the disturbance in units of rounding. At scale 1 the root mean square of the difference is the noise of
    the first run's index. What a larger disturbance moves out of proportion are elements that jump, such as gradients
    where a ReLU or a maximum flips. They jump rarely; their mean square grows as the scale does, so that its expectation at
    scale 1, in the index as "jumps", is known from many.
    """

    def __init__(self, capture: Capture, scale: float):
        self._capture, self._scale = capture, scale
        self._moved: dict[str, float] = {}

    def put(self, key: str, array: np.ndarray) -> None:
        """Compare with the first run; a tensor that has no counterpart of its shape there is left out."""
        if key in self._capture.tensors:
            first = self._capture.get(key)
            if first.shape == array.shape and first.dtype.kind in "fc":
                self._moved[key] = rms(first, array)

    def close(self, index: dict[str, Any]) -> None:
        """Add noise or jumps to the first run's index."""
        noise, jumps = self._capture.noise, {}
        for key, moved in self._moved.items():
            count = max(1, math.prod(self._capture.tensors[key][1]))
            if moved > JUMP * (1 + 8 / count) * self._scale * noise.get(key, 0.0):
                jumps[key] = moved / math.sqrt(self._scale)
        self._capture.index["noise" if self._scale == 1 else "jumps"] = self._moved if self._scale == 1 else jumps
        provenance.write_json(self._capture.path.with_suffix(".json"), self._capture.index)


class Capture:
    """A finished capture, open for reading. `index`: what the capture loop described (see capture.py)."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self.index: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            file = path.with_suffix(".bin")
            self._raw = np.asarray(np.memmap(file, np.uint8, "r")) if file.stat().st_size else np.empty(0, np.uint8)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}.json is missing or damaged ({error}); run: python -m pipeline bisect") from None
        self.tensors: dict[str, list] = self.index["tensors"]
        self.noise: dict[str, float] = self.index.get("noise", {})
        self.jumps: dict[str, float] = self.index.get("jumps", {})

    def value(self, number: int) -> np.ndarray:
        """The numbers of a value."""
        return self.get(self.key(number))

    def key(self, number: int) -> str:
        """Key of the numbers of a value."""
        return f"v{self.index['values'][number]['data']}"

    def rounding(self, key: str) -> float:
        """Half a unit in the last place of a number of the tensor's typical size."""
        _, _, dtype, size = self.tensors[key]
        return size * ROUNDOFF.get(np.dtype(dtype).name, 0.0)

    def get(self, key: str) -> np.ndarray:
        """The tensor of a key, a view of the file; KeyError where there is none."""
        offset, shape, dtype, _ = self.tensors[key]
        size = math.prod(shape) * np.dtype(dtype).itemsize
        return self._raw[offset : offset + size].view(dtype).reshape(shape)


def rms(a: np.ndarray, b: np.ndarray | None = None) -> float:
    """Root mean square of an array, or of the difference of two, where finite; block by block."""
    a, b, total = a.reshape(-1), None if b is None else b.reshape(-1), 0.0
    for start in range(0, a.size, BLOCK):
        block = slice(start, start + BLOCK)
        with np.errstate(invalid="ignore", over="ignore"):
            part = np.abs(a[block] if b is None else a[block] - b[block]).astype(np.float64)
        part[~np.isfinite(part)] = 0
        total += float(part @ part)
    return math.sqrt(total / max(1, a.size))
