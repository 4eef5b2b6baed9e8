# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 5, training: how fresh networks are distributed, and the full training of both sides from the same start."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import shutil
import time
from typing import Any

import numpy as np

from pipeline.align import provenance
from pipeline.align.context import Context
from pipeline.align.errors import PortError

#: Fresh networks are drawn until every parameter has this many values, at most so many networks, and at most so many seconds.
WANTED_VALUES, MOST_NETWORKS, MOST_SECONDS = 8000, 100, 3.0
#: But at least so many: of two networks, one of 2**24 random float32 values is equal by chance, of three one of 2**48.
FEWEST_NETWORKS = 3
#: Iterations of the training whose losses must still agree; later ones drift apart by rounding alone.
FIRST = 10
#: Values kept of each parameter.
KEPT_VALUES = 20000


def run(context: Context) -> None:
    """Record `init`, `init_constants`, `evaluation`, `order`, `first_losses` and `train_align`."""
    _record_init(context)
    _record_evaluation(context)
    _record_training(context)


def _record_init(context: Context) -> None:
    """Values of every parameter of freshly initialised networks, enough of them to tell two distributions apart."""
    values: dict[str, list[np.ndarray]] = {}
    constants = Constants()
    started = time.perf_counter()
    for network in range(MOST_NETWORKS):
        context.backend.seed(context.cfg.align.seed + network)
        model = context.contract.build_model(context.cfg)
        state = context.state(model)
        constants.add(state)
        for name, array in state.items():
            if array.dtype.kind == "f" and array.size:
                values.setdefault(name, []).append(array.reshape(-1)[:KEPT_VALUES])
        if network + 1 < FEWEST_NETWORKS:
            continue
        if time.perf_counter() - started > MOST_SECONDS or all(
            sum(map(len, arrays)) >= WANTED_VALUES for arrays in values.values()
        ):
            break
    arrays = {name: np.sort(np.concatenate(parts)) for name, parts in values.items()}
    arrays = {name: value[:: max(1, len(value) // KEPT_VALUES)] for name, value in arrays.items()}
    context.record("init", arrays, weights=False)
    context.record("init_constants", constants.arrays(), weights=False)


class Constants:
    """The elements that are the same in all fresh networks: zeroed rows, tables of positions, ones of a normalisation."""

    def __init__(self) -> None:
        self._first: dict[str, np.ndarray] | None = None
        self._same: dict[str, np.ndarray] = {}
        self._networks = 0

    def add(self, state: dict[str, np.ndarray]) -> None:
        """Take in the parameters and buffers of one more network."""
        self._networks += 1
        if self._first is None:
            self._first = {name: array.copy() for name, array in state.items()}
            self._same = {name: np.ones(array.shape, bool) for name, array in state.items()}
        for name in list(self._same):
            self._same[name] &= state[name] == self._first[name]
            if not self._same[name].any():
                del self._same[name], self._first[name]

    def arrays(self) -> dict[str, np.ndarray]:
        """{name: float64 of its shape, NaN where it is random}; what is random everywhere is left out. "@networks": how many."""
        made = {name: np.where(same, self._first[name], np.nan).astype(np.float64) for name, same in self._same.items()}
        return {"@networks": np.array(self._networks), **made}


def _record_evaluation(context: Context) -> None:
    """What eval.evaluate() of this side's tree makes of the probe weights in a model that comes to it in train mode."""
    evaluate = importlib.import_module("eval").evaluate
    dataset = context.contract.build_dataset(context.cfg, "val")
    loss, scores = evaluate(context.cfg, context.model(training=True), dataset)
    arrays = {"loss": loss, **scores}
    context.record("evaluation", {name: np.array([value], np.float64) for name, value in arrays.items()})


def _record_training(context: Context) -> None:
    """Run train.train() of this side's tree, the same function that `python <tree>/train.py` calls."""
    train = importlib.import_module("train").train
    context.backend.seed(context.cfg.train.seed)
    context.backend.random.calls.clear()
    output = context.paths.work / context.side / "training"
    history = train(context.cfg, weights=context.paths.weight_file(context.side, "init"), output_dir=output)
    metrics = _final_metrics(context, history)
    provenance.write_json(context.paths.history(context.side), history)
    rates = {name: values for name, values in history.items() if name == "lr" or name.startswith("lr:")}
    curves = {name: np.array(values, np.float64) for name, values in rates.items()}
    context.record("order", {"order": _digests(history["order_sha256"]), **curves}, weights=False)
    dropout = context.backend.random.probabilities
    losses, drawn = _without_randomness(context, train)
    losses = losses if drawn or dropout else history["loss"][:FIRST]
    first = {f"loss_{index}": np.array([loss], np.float64) for index, loss in enumerate(losses)}
    context.record("first_losses", first, dropout=dropout, silenced=drawn)
    context.record("train_align", {name: np.array([value]) for name, value in metrics.items()})


class _EnoughLosses(Exception):
    """Ends a training from inside its loss function."""


def _without_randomness(context: Context, train: Any) -> tuple[list[float], list[str]]:
    """The losses of the first FIRST calls of the loss function in the same training, and the random functions held still."""
    losses: list[float] = []
    context.backend.random.silenced.clear()
    still = contextlib.ExitStack()

    def watch(loss: Any) -> Any:
        def watched(outputs: Any, labels: Any) -> Any:
            if len(losses) == FIRST:
                raise _EnoughLosses
            value = loss(outputs, labels)
            losses.append(value.item())
            return value

        return watched

    def watch_step(found: dict[str, Any]) -> dict[str, Any]:
        values = {name: value.item() for name, value in found.items()}
        losses.append(values.get("loss", sum(values.values())))
        if len(losses) == FIRST:
            raise _EnoughLosses
        return found

    def silence(model: Any) -> Any:
        still.enter_context(context.backend.without_randomness(model))
        return model

    output = context.paths.work / context.side / "first_iterations"
    start = context.paths.weight_file(context.side, "init")
    try:
        own = context.contract.has_training_step
        watched = context.contract.changed(*(("training_step", watch_step) if own else ("build_loss", watch)))
        with still, watched, context.contract.changed("build_model", silence):
            train(context.cfg, weights=start, output_dir=output, log=lambda line: None)
    except _EnoughLosses:
        pass
    finally:
        shutil.rmtree(output, ignore_errors=True)
    return losses, sorted(context.backend.random.silenced)


def _final_metrics(context: Context, history: Any) -> dict[str, float]:
    wanted = {"iter", "loss", "lr", "epoch", "eval_loss", "order_sha256"}
    if not isinstance(history, dict) or not wanted <= set(history):
        raise PortError(
            f"train() in {context.paths.tree(context.side).name}/train.py must return a dict with {', '.join(sorted(wanted))}"
        )
    metrics = {name: values[-1] for name, values in history.items() if name not in wanted and ":" not in name and values}
    if not metrics:
        raise PortError(f"train() in {context.paths.tree(context.side).name}/train.py returned no metric")
    return metrics


def _digests(texts: list[str]) -> np.ndarray:
    """The order of every epoch as bytes: uint8 [epochs, 32]."""
    return np.stack([np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8) for text in texts])
