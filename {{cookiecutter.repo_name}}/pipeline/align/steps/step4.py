# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 4, optimizer, schedule and backward: training steps from the same weights on the same batch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.align.context import Context
from pipeline.align.optimizers import Optimizers, Updates

#: Steps of the optimizer alone; the last one has a zero gradient and shows weight decay and momentum by themselves.
GIVEN_STEPS = 4


def run(context: Context) -> None:
    """Record `lr`, `steps`, `gradients`, `updates`, `optimizer`, `bp_align`, `bp_train`, `dropout` and `buffers`."""
    peak = _record_lr(context)
    _record_given(context, peak)
    _record_eval_steps(context, peak)
    _record_train_steps(context, peak)


def steps_per_epoch(context: Context) -> int:
    """Batches of one epoch, the smaller last one included."""
    return math.ceil(len(context.contract.build_dataset(context.cfg, "train")) / context.cfg.data.batch_size)


def _record_lr(context: Context) -> int:
    """The LR of every iteration of the training. Returns the iteration where they are highest, each for what it reaches."""
    steps = steps_per_epoch(context)
    optimizers = context.contract.build_optimizer(context.cfg, context.model(), steps)
    curves: dict[str, list[float]] = {name: [] for name in optimizers.rates()}
    for _ in range(steps * context.cfg.train.epochs):
        for name, rate in optimizers.rates().items():
            curves[name].append(rate)
        if not optimizers.moves:
            break
        optimizers.advance()
    rates = {name: np.array(curve, np.float64) for name, curve in curves.items()}
    context.record("lr", rates, weights=False, has_schedule=optimizers.scheduled)
    return int(sum(curve / max(curve.max(), 1e-30) for curve in rates.values()).argmax())


def _start(context: Context, peak: int, training: bool) -> tuple[Any, Optimizers]:
    """Model and optimizers, at the highest LR: during warmup the steps would be too small to show a fault."""
    model = context.model(training)
    optimizers = context.contract.build_optimizer(context.cfg, model, steps_per_epoch(context))
    for _ in range(peak):
        optimizers.advance()
    return model, optimizers


def _rounding(state: dict[str, np.ndarray], steps: int) -> dict[str, float]:
    """Difference that rounding alone can make: a unit in the last place of the largest value, at every step."""
    return {
        name: steps * float(np.spacing(np.abs(value).max(initial=0))) for name, value in state.items() if value.dtype.kind == "f"
    }


def _changes(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: after[name] - before[name] for name in before if before[name].dtype.kind == "f"}


def _record_given(context: Context, peak: int) -> None:
    """Updates for gradients that do not come from the model: what differs here is the optimizer's alone."""
    model, optimizers = _start(context, peak, training=False)
    before, given = context.state(model), {}
    for step in range(GIVEN_STEPS):
        last = step == GIVEN_STEPS - 1
        given = {name: np.zeros_like(value) for name, value in given.items()} if last else context.given_gradients(model, step)
        context.backend.set_gradients(model, given)
        optimizers.step()
    context.record("optimizer", _changes(before, context.state(model)), rounding=_rounding(before, GIVEN_STEPS))


def _record_eval_steps(context: Context, peak: int) -> None:
    model, optimizers = _start(context, peak, training=False)
    before, losses, rates = context.state(model), {}, []
    peaks: dict[str, np.ndarray] = {}

    def watch(gradients: dict[str, np.ndarray]) -> None:
        for name, value in gradients.items():
            peaks[name] = np.maximum(np.abs(value), peaks.get(name, 0))

    step, own = _Steps(context, model, optimizers, watch), context.contract.has_training_step
    for number in range(context.cfg.align.train_steps):
        rates.append(max(optimizers.rates().values()))
        with context.backend.without_randomness(model) if own else contextlib.nullcontext():  # it may draw noise in eval mode too
            losses |= step(number)
        if number == 0:
            context.record("gradients", step.gradients, of_update=step.of_update)
    left_on = context.backend.training_modules(model)
    context.record("steps", {"updates": np.array(len(step.made))}, made=step.made)
    context.record("peak_gradients", peaks)
    changes, rounding = _changes(before, context.state(model)), _rounding(before, len(rates))
    betas = [context.backend.betas(optimizer) for optimizer, _ in optimizers.pairs.values()]
    shared = betas[0] if all(one == betas[0] for one in betas) else None
    context.record("updates", changes, betas=shared, learning_rates=rates, rounding=rounding)
    context.record("bp_align", losses, eval_mode={"training_modules": left_on})


class _Steps:
    """Training steps on the fake batch: the default one, or the contract's training_step. See Updates for what is kept."""

    def __init__(self, context: Context, model: Any, optimizers: Optimizers, watch: Callable = lambda gradients: None):
        self._context, self._model, self._optimizers, self._watch = context, model, optimizers, watch
        self._tensors = context.tensors(context.fake_batch())
        self._loss = context.contract.build_loss(context.cfg)
        self._updates = Updates(context, model, optimizers, watch)
        self.made, self.of_update, self.gradients = self._updates.made, {}, {}

    def __call__(self, number: int) -> dict[str, np.ndarray]:
        """One step; returns the losses, "loss_<number>", and of several each by its name as well."""
        contract, numpy = self._context.contract, self._context.backend.numpy
        if contract.has_training_step:
            found = contract.training_step(self._context.cfg, self._model, self._tensors, self._updates)
            self._optimizers.step_schedules()
            self.gradients, self.of_update = self._updates.gradients, self._updates.of_update
            losses = {name: numpy(value).reshape(()) for name, value in found.items()}
            named = {f"loss_{number} ({name})": value for name, value in losses.items() if len(losses) > 1}
            return {f"loss_{number}": losses.get("loss", sum(losses.values())), **named}
        loss = self._loss(contract.forward(self._model, self._tensors), self._tensors[-1])
        loss.backward()
        self.gradients = self._context.gradients(self._model)
        self._watch(self.gradients)
        self._optimizers.step()
        return {f"loss_{number}": numpy(loss)}


def _record_train_steps(context: Context, peak: int) -> None:
    """The same in train mode with dropout at 0, where batch statistics and their running means take part."""
    model, optimizers = _start(context, peak, training=True)
    step, losses = _Steps(context, model, optimizers), {}
    context.backend.random.calls.clear()
    with context.backend.without_randomness(model):
        for number in range(context.cfg.align.train_steps):
            losses |= step(number)
    _record_buffers(context, context.tensors(context.fake_batch()))
    context.record("bp_train", losses, silenced=sorted(context.backend.random.silenced))
    _record_dropout(context)


def _record_dropout(context: Context) -> None:
    """What dropout was applied to: its probabilities, and for each how many numbers in all."""
    random, found = context.backend.random, {}
    for probability, size in random.calls:
        found[probability] = found.get(probability, 0) + size * random.calls[probability, size]
    asked = sorted(found)
    arrays = {"count": np.array(len(asked))}
    if asked:
        arrays |= {"probabilities": np.array(asked, np.float64), "numbers": np.array([found[one] for one in asked], np.float64)}
    calls = [[*key, random.shapes.get(key, []), count] for key, count in sorted(random.calls.items())]
    context.record("dropout", arrays, calls=calls)


def _record_buffers(context: Context, tensors: tuple[Any, ...]) -> None:
    """Running statistics after forward passes in train mode.

    Without an optimizer: Adam moves whatever has a zero gradient by the sign of rounding errors, and the means follow.
    """
    model = context.model(training=True)
    before, norms = context.state(model), NormWatch(context, model)
    with context.backend.without_randomness(model), context.backend.no_grad():
        for _ in range(context.cfg.align.train_steps):
            context.contract.forward(model, tensors)
    after = context.state(model)
    buffers = context.backend.buffer_names(model)
    context.record("buffers", {name: after[name] for name in after if name in buffers}, known_context=norms.context(before))


class NormWatch:
    """How many values per channel each batch normalisation saw at every step, for the rule on running variances."""

    def __init__(self, context: Context, model: Any):
        self._norms = list(context.backend.batch_norms(model))
        self._seen: dict[str, list[int]] = {path: [] for path, _, _ in self._norms}
        self._variance = context.backend.running_variance
        for path, layer, _ in self._norms:
            context.backend.on_input(layer, lambda value, path=path: self._seen[path].append(_values_per_channel(value.shape)))

    def context(self, before: dict[str, np.ndarray]) -> dict[str, dict[str, Any]]:
        """{state name of the running variance: {"kind", "momentum", "n", "initial"}}."""
        described = {}
        for path, _, momentum in self._norms:
            name = f"{path}.{self._variance}" if path else self._variance
            described[name] = {
                "kind": "running_variance",
                "momentum": momentum,
                "n": self._seen[path],
                "initial": before[name].astype(float).tolist(),
            }
        return described


def _values_per_channel(shape: Any) -> int:
    return int(np.prod(list(shape)) // shape[1]) if len(shape) > 1 else int(shape[0])
