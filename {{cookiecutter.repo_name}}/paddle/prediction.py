# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What predict.py and infer.py share, so that they print the same: the samples in batches, and the answer for each."""
from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import port
from pipeline.align.errors import UserError


@dataclass(frozen=True)
class Prediction:
    """The class of one sample and its probability."""

    name: str
    label: int
    probability: float

    def __str__(self) -> str:
        return f"{self.name}: class: {self.label} probability: {self.probability:.4f}"


def read_batches(path: Path, cfg: Any, batch_size: int) -> Iterator[tuple[list[str], list[np.ndarray]]]:
    """(names, the network's inputs, each [N, ...]) for up to `batch_size` samples at a time of what `path` holds.

    UserError where it holds none.
    """
    return _batches(iter(port.read_samples(path, cfg)), path, batch_size)


def _batches(samples: Iterator, path: Path, batch_size: int) -> Iterator[tuple[list[str], list[np.ndarray]]]:
    some = list(itertools.islice(samples, batch_size))
    if not some:
        raise UserError(f"nothing to predict in {path}")
    while some:
        yield [name for name, _ in some], [np.stack(field) for field in zip(*(inputs for _, inputs in some))]
        some = list(itertools.islice(samples, batch_size))


def classify(names: Sequence[str], logits: np.ndarray) -> list[Prediction]:
    """The likeliest class of each sample. `logits`: the first output of port.forward, float [N, classes].

    [N] or [N, 1] is the logit of class 1 against class 0.
    """
    logits = logits.astype(np.float64).reshape(len(names), -1)
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = exponents / exponents.sum(axis=1, keepdims=True)
    labels = probabilities.argmax(axis=1)
    return [Prediction(name, int(label), float(row[label])) for name, label, row in zip(names, labels, probabilities)]


def save(path: Path, prediction: Prediction, folder: Path) -> None:
    """What a port keeps of a prediction beside the printed line: see save_prediction in port.py, which not all have."""
    if hasattr(port, "save_prediction"):
        port.save_prediction(path, prediction, folder)
