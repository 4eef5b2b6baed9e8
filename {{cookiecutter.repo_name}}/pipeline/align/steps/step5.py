# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 5, training: how fresh networks are distributed, and the full training of both sides from the same start."""

from __future__ import annotations

import hashlib
import importlib
import time
from typing import Any

import numpy as np

from pipeline.align import provenance
from pipeline.align.context import Context
from pipeline.align.errors import PortError

#: Fresh networks are drawn until every parameter has this many values, at most so many networks, and at most so many seconds.
WANTED_VALUES, MOST_NETWORKS, MOST_SECONDS = 8000, 100, 3.0
#: Iterations of the training whose losses must still agree; later ones drift apart by rounding alone.
FIRST = 10
#: Values kept of each parameter.
KEPT_VALUES = 20000


def run(context: Context) -> None:
    """Record `init`, `order`, `first_losses` and `train_align`."""
    _record_init(context)
    _record_training(context)


def _record_init(context: Context) -> None:
    """Values of every parameter of freshly initialised networks, enough of them to tell two distributions apart."""
    values: dict[str, list[np.ndarray]] = {}
    started = time.perf_counter()
    for network in range(MOST_NETWORKS):
        context.backend.seed(context.cfg.align.seed + network)
        model = context.contract.build_model(context.cfg)
        state = context.state(model)
        for name, array in state.items():
            if array.dtype.kind == "f" and array.size:
                values.setdefault(name, []).append(array.reshape(-1)[:KEPT_VALUES])
        if time.perf_counter() - started > MOST_SECONDS or all(
            sum(map(len, arrays)) >= WANTED_VALUES for arrays in values.values()
        ):
            break
    arrays = {name: np.sort(np.concatenate(parts)) for name, parts in values.items()}
    arrays = {name: value[:: max(1, len(value) // KEPT_VALUES)] for name, value in arrays.items()}
    context.record("init", arrays, weights=False)


def _record_training(context: Context) -> None:
    """Run train.train() of this side's tree, the same function that `python <tree>/train.py` calls."""
    train = importlib.import_module("train").train
    context.backend.seed(context.cfg.train.seed)
    context.backend.random.probabilities.clear()
    output = context.paths.work / context.side / "training"
    history = train(context.cfg, weights=context.paths.weight_file(context.side, "init"), output_dir=output)
    metrics = _final_metrics(context, history)
    provenance.write_json(context.paths.history(context.side), history)
    context.record(
        "order", {"order": _digests(history["order_sha256"]), "lr": np.array(history["lr"], np.float64)}, weights=False
    )
    first = {f"loss_{index}": np.array([loss], np.float64) for index, loss in enumerate(history["loss"][:FIRST])}
    context.record("first_losses", first, dropout=sorted(context.backend.random.probabilities))
    context.record("train_align", {name: np.array([value]) for name, value in metrics.items()})


def _final_metrics(context: Context, history: Any) -> dict[str, float]:
    wanted = {"iter", "loss", "lr", "epoch", "eval_loss", "order_sha256"}
    if not isinstance(history, dict) or not wanted <= set(history):
        raise PortError(
            f"train() in {context.paths.tree(context.side).name}/train.py must return a dict with {', '.join(sorted(wanted))}"
        )
    metrics = {name: values[-1] for name, values in history.items() if name not in wanted and values}
    if not metrics:
        raise PortError(f"train() in {context.paths.tree(context.side).name}/train.py returned no metric")
    return metrics


def _digests(texts: list[str]) -> np.ndarray:
    """The order of every epoch as bytes: uint8 [epochs, 32]."""
    return np.stack([np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8) for text in texts])
