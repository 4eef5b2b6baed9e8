# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Fake data: one batch from a seeded generator, read by both sides, as port.yaml's `fake_data` describes it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError
from pipeline.align.settings import Settings

INPUT_KEYS = {"shape", "dtype", "low", "high"}
LABEL_KEYS = {*INPUT_KEYS, "ignored"}


def make_batch(cfg: Settings) -> dict[str, np.ndarray]:
    """The batch: input_0 …, label; every array is [batch_size, *shape] in the dtype that the settings name.

    Floats are normal with the limits as 2 standard deviations around their middle; integers are uniform in [low, high).
    A limit is a number, or a list with one for each place of the last axis.
    With `label.ignored` the first label is that value, so that the loss check sees an ignored label.
    """
    section = cfg.fake_data
    random = np.random.default_rng(section.seed)
    if not section.inputs:
        raise UserError("port.yaml: 'fake_data.inputs' is empty; describe each input of the model: {shape, dtype, low, high}")
    batch = {}
    for index, spec in enumerate(section.inputs):
        batch[f"input_{index}"] = _draw(random, spec, section.batch_size, f"fake_data.inputs[{index}]", INPUT_KEYS)
    label = dict(section.label)
    batch["label"] = _draw(random, label, section.batch_size, "fake_data.label", LABEL_KEYS)
    if label.get("ignored") is not None:
        batch["label"].reshape(section.batch_size, -1)[0, 0] = label["ignored"]
    return batch


def _draw(random: np.random.Generator, spec: Any, count: int, where: str, known: set[str]) -> np.ndarray:
    if not isinstance(spec, Mapping) or not {"shape", "dtype", "low", "high"} <= set(spec) or not set(spec) <= known:
        raise UserError(f"port.yaml: '{where}' must have the keys {', '.join(sorted(known))}; found {spec!r}")
    shape = spec["shape"]
    if not isinstance(shape, list) or not all(isinstance(n, int) and n > 0 for n in shape):
        raise UserError(f"port.yaml: '{where}.shape' must be a list of positive sizes without the batch axis, not {shape!r}")
    try:
        dtype = np.dtype(spec["dtype"])
    except TypeError:
        raise UserError(f"port.yaml: '{where}.dtype' is no numpy dtype: {spec['dtype']!r}") from None
    low, high = (_limit(spec[key], shape, f"{where}.{key}") for key in ("low", "high"))
    if not (low < high).all():
        raise UserError(f"port.yaml: '{where}' needs numbers low < high, not {spec['low']!r} and {spec['high']!r}")
    size = (count, *shape)
    if dtype.kind == "f":
        return random.normal((low + high) / 2, (high - low) / 4, size).astype(dtype)
    if dtype.kind in "iu":
        return random.integers(np.ceil(low).astype(np.int64), np.ceil(high).astype(np.int64), size).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, size).astype(dtype)
    raise UserError(f"port.yaml: '{where}.dtype' must be a float, integer or bool type, not {dtype}")


def _limit(value: Any, shape: list[int], where: str) -> np.ndarray:
    """A number, or one for each place of the last axis, such as the columns of a table whose categories differ in number."""
    numbers = value if isinstance(value, list) else [value]
    if not all(isinstance(number, (int, float)) for number in numbers):
        raise UserError(f"port.yaml: '{where}' must be a number or a list of numbers, not {value!r}")
    if isinstance(value, list) and shape[-1:] != [len(value)]:
        raise UserError(f"port.yaml: '{where}' has {len(value)} numbers for the shape {shape}; its last axis needs one for each")
    return np.array(value)


def write_batch(path: Path, batch: Mapping[str, np.ndarray]) -> None:
    """Write a batch as .npz (equal arrays give equal bytes), whole or not at all."""
    with replacing(path) as file:
        np.savez(file, **batch)


def read_batch(path: Path) -> tuple[np.ndarray, ...]:
    """The arrays of a batch file in order: inputs, then the label."""
    try:
        with np.load(path, allow_pickle=False) as file:
            inputs = sorted((name for name in file.files if name != "label"), key=lambda name: int(name.split("_")[1]))
            return tuple(file[name] for name in [*inputs, "label"])
    except FileNotFoundError:
        raise UserError(f"{path} is missing; run: python -m pipeline fake-data") from None
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is no batch file ({error}); run: python -m pipeline fake-data") from None


def ensure_batch(cfg: Settings, path: Path) -> bool:
    """Write the fake batch unless the file holds exactly this batch already. Returns True where it was written."""
    batch = make_batch(cfg)
    try:
        old = read_batch(path)
    except UserError:
        old = ()
    same = len(old) == len(batch) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(old, batch.values())
    )
    if not same:
        write_batch(path, batch)
    return not same
