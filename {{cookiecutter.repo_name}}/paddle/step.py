# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One step of the optimizer: mixed precision, a batch in parts, several processes, clipping."""
from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import paddle
import ranks
from nonfinite import find_first

import port
from pipeline.align.errors import PortError, UserError

AMP_TYPES = {"bf16": "bfloat16", "fp16": "float16"}


class Update:
    """What training_step calls for every step of an optimizer. `done`: how many each has made, in this and earlier iterations."""

    def __init__(self, stepper: Stepper):
        self._stepper, self.done = stepper, dict.fromkeys(stepper.optimizers, 0)

    def __call__(self, name: str, loss: paddle.Tensor, clear: str | None = None) -> None:
        """Backward of the scalar `loss`, and a step of the optimizer `name`; then gradients are cleared.

        `clear`: "model", those of all of the model, or "optimizer", those of that optimizer's parameters, so that what the loss
        leaves elsewhere adds to the next one; by default train.clear_grad. PortError for a loss that is not finite.
        """
        self._stepper.step_for(name, loss, clear)
        self.done[name] += 1


class Stepper:
    """Takes the steps of one training. Settings: train.amp, accumulate, clip_grad_norm and clear_grad."""

    def __init__(self, cfg: Any, model: paddle.nn.Layer, optimizers: Mapping[str, paddle.optimizer.Optimizer]):
        self.cfg, self.model, self.optimizers, self.train = cfg, model, optimizers, cfg.train
        self.own = hasattr(port, "training_step")
        if self.own and cfg.train.accumulate > 1:
            raise UserError("train.accumulate must be 1 with a training_step of your own, which decides what a step is")
        self.network = paddle.DataParallel(model) if ranks.count() > 1 and not self.own else model
        self.loss_function = port.build_loss(cfg)
        # Paddle computes in float32 on a CPU whatever auto_cast says, with a warning for every call.
        self.amp = cfg.train.amp if paddle.get_device() != "cpu" else None
        self.update = Update(self)
        self.scaler = paddle.amp.GradScaler(enable=self.amp == "fp16")

    def __call__(self, batch: tuple[paddle.Tensor, ...], weight: float) -> dict[str, float]:
        """One step on a batch; returns the mean losses by name over the samples of all processes.

        `weight`: of this process's mean loss (see split_order). PortError, before the step, where the loss is not finite.
        """
        return self._own_step(batch, weight) if self.own else {"loss": self._step(batch, weight)}

    def _step(self, batch: tuple[paddle.Tensor, ...], weight: float) -> float:
        """Forward, loss, backward, and a step of every optimizer."""
        size, value = len(batch[-1]), 0.0
        parts = [part for part in np.array_split(np.arange(size), self.train.accumulate) if len(part)]
        for number, part in enumerate(parts):
            some = batch if len(parts) == 1 else tuple(tensor[part[0] : part[-1] + 1] for tensor in batch)
            share = weight * len(part) / size
            last = number == len(parts) - 1
            with contextlib.nullcontext() if last or self.network is self.model else self.network.no_sync():
                loss = self.loss_function(self._forward(some), some[-1])
                self.scaler.scale(loss if share == 1 else loss * share).backward()
            value += loss.item() * share
        value = ranks.total([value])[0] / ranks.count()
        if not math.isfinite(value):
            where = find_first(self.model, batch, port.forward)
            raise PortError(f"{value} with LR {self._lr():g}: {where}")
        for optimizer in self.optimizers.values():
            self._apply(optimizer, self.model.parameters())
        self._clear(self.optimizers.values(), self.train.clear_grad)
        return value

    def _own_step(self, batch: tuple[paddle.Tensor, ...], weight: float) -> dict[str, float]:
        """training_step of port.py, which calls `update` for every loss that it takes a step for."""
        self.weight = weight
        with self._autocast():
            losses = port.training_step(self.cfg, self.model, batch, self.update)
        values = ranks.total([loss.item() * weight for loss in losses.values()])
        return {name: value / ranks.count() for name, value in zip(losses, values)}

    def step_for(self, name: str, loss: paddle.Tensor, clear: str | None) -> None:
        """One update, see Update."""
        if name not in self.optimizers:
            raise PortError(f"training_step updates {name!r}, but build_optimizer has {', '.join(self.optimizers)}")
        if not math.isfinite(loss.item()):
            raise PortError(f"{loss.item()} for {name} with LR {self._lr():g}")
        optimizer = self.optimizers[name]
        with self._autocast(False):
            self.scaler.scale(loss if self.weight == 1 else loss * self.weight).backward()
        parameters = parameters_of(optimizer)
        ranks.average_gradients(parameters)
        self._apply(optimizer, parameters)
        self._clear([optimizer], clear or self.train.clear_grad)

    def _forward(self, batch: tuple[paddle.Tensor, ...]) -> dict[str, paddle.Tensor]:
        """The outputs in float32, so that the loss is computed in it."""
        with self._autocast():
            outputs = port.forward(self.network, batch)
        low = (paddle.float16, paddle.bfloat16)
        return {name: tensor.astype("float32") if tensor.dtype in low else tensor for name, tensor in outputs.items()}

    def _autocast(self, enabled: bool = True) -> contextlib.AbstractContextManager:
        if not self.amp:
            return contextlib.nullcontext()
        return paddle.amp.auto_cast(enabled, dtype=AMP_TYPES[self.amp], level="O1")

    def _lr(self) -> float:
        return next(iter(self.optimizers.values())).get_lr()

    def _apply(self, optimizer: paddle.optimizer.Optimizer, clipped: list[paddle.Tensor]) -> None:
        if self.train.clip_grad_norm is not None:
            self.scaler.unscale_(optimizer)
            paddle.nn.utils.clip_grad_norm_(clipped, self.train.clip_grad_norm)
        self.scaler.step(optimizer)
        self.scaler.update()

    def _clear(self, optimizers: Iterable[paddle.optimizer.Optimizer], scope: str) -> None:
        # Zeros instead of no gradient would let weight decay and momentum move parameters that took no part.
        if scope == "model":
            self.model.clear_gradients(set_to_zero=False)
        for optimizer in optimizers:
            optimizer.clear_grad(set_to_zero=False)


def parameters_of(optimizer: paddle.optimizer.Optimizer) -> list[paddle.Tensor]:
    """All parameters of an optimizer, with groups or without."""
    groups = optimizer._param_groups or ()
    return [one for group in groups for one in (group["params"] if isinstance(group, dict) else [group])]
