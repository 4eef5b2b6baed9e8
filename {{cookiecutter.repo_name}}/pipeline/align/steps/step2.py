# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 2, data and metric: the samples of both sides, and the metric of the same and of own predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.align.context import Context, collate, dataset_items
from pipeline.align.errors import PortError


def run(context: Context) -> None:
    """Record `data_train`, `data_val`, `metric_same` and `metric`."""
    for split in ("train", "val"):
        _record_data(context, split)
    _record_metric(context)


def chosen(length: int, limit: int) -> np.ndarray:
    """At most `limit` indices of range(length), evenly spaced, first and last included; int64 [count]."""
    if length <= limit:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, limit).round().astype(np.int64))


def _record_data(context: Context, split: str) -> None:
    dataset = context.contract.build_dataset(context.cfg, split)
    indices = chosen(len(dataset), context.cfg.align.data_samples)
    arrays: dict[str, np.ndarray] = {"length": np.array(len(dataset), np.int64), "index": indices}
    fields = list(zip(*dataset_items(dataset, indices, split)))
    for position, column in enumerate(fields):
        name = "label" if position == len(fields) - 1 else f"input_{position}"
        values = [np.asarray(value) for value in column]
        if len({(value.shape, value.dtype) for value in values}) == 1:
            arrays[name] = np.stack(values)
        else:  # samples of several sizes: one array each
            arrays.update({f"{name}[{index}]": value for index, value in zip(indices, values)})
    context.record(f"data_{split}", arrays, weights=False)


def _record_metric(context: Context) -> None:
    """The reference's predictions go to `predictions`; from them both sides compute `metric_same`."""
    dataset = context.contract.build_dataset(context.cfg, "val")
    indices = chosen(len(dataset), context.cfg.align.data_samples)
    size = uneven_batch(len(indices), context.cfg.data.batch_size)
    model, own = context.model(), context.contract.build_metric(context.cfg)
    kept: dict[str, list[np.ndarray]] = {}
    seen = 0
    for batch in _batches(dataset, indices, size):
        tensors = context.tensors(batch)
        with context.backend.no_grad():
            outputs = context.contract.forward(model, tensors)
            own.update(outputs, tensors[-1])
        for name, value in outputs.items():
            kept.setdefault(f"output.{name}", []).append(context.backend.numpy(value))
        kept.setdefault("label", []).append(batch[-1])
        seen += len(batch[-1])
    if seen != len(indices):
        raise PortError(f"the metric saw {seen} of {len(indices)} samples")
    if context.side == "torch":
        context.record("predictions", {name: np.concatenate(value) for name, value in kept.items()})
    context.record("metric_same", _same_metrics(context, context.other("predictions"), size))
    context.record("metric", {name: np.array([value]) for name, value in context.contract.compute(own).items()})


def uneven_batch(count: int, size: int) -> int:
    """A batch size near `size` that leaves a smaller last batch, so that a mean of batch means shows (CASES M1)."""
    size = max(1, min(size, count - 1))
    while size > 2 and count % size == 0:
        size -= 1
    return size


def _batches(dataset: Any, indices: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, ...]]:
    for start in range(0, len(indices), size):
        yield collate(dataset_items(dataset, indices[start : start + size], "val"), "val")


def _same_metrics(context: Context, predictions: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """The metric of all predictions, and of every second one: two metrics may agree on one set by chance.

    What has no value on a half, such as an AUC of one class, is left out; a side that has one alone is found by that.
    """
    found = _metric_of(context, predictions, size)
    for name, half in (("even", slice(0, None, 2)), ("odd", slice(1, None, 2))):
        try:
            values = _metric_of(context, {key: value[half] for key, value in predictions.items()}, size)
        except Exception:  # whatever a metric raises for half of the samples
            continue
        found |= {f"{key} ({name} samples)": value for key, value in values.items() if np.isfinite(value).all()}
    return found


def _metric_of(context: Context, predictions: dict[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    metric = context.contract.build_metric(context.cfg)
    outputs = {name.removeprefix("output."): value for name, value in predictions.items() if name != "label"}
    label = predictions["label"]
    for start in range(0, len(label), size):
        part = slice(start, start + size)
        metric.update(
            {name: context.backend.tensor(np.array(value[part])) for name, value in outputs.items()},
            context.backend.tensor(np.array(label[part])),
        )
    return {name: np.array([value]) for name, value in context.contract.compute(metric).items()}
