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
import ranks
import torch
from nonfinite import find_first

import reference
from pipeline.align.errors import PortError, UserError

AMP_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Update:
    """What training_step calls for every step of an optimizer. `done`: how many each has made, in this and earlier iterations."""

    def __init__(self, stepper: Stepper):
        self._stepper, self.done = stepper, dict.fromkeys(stepper.optimizers, 0)

    def __call__(self, name: str, loss: torch.Tensor, clear: str | None = None) -> None:
        """Backward of the scalar `loss`, and a step of the optimizer `name`; then gradients are cleared.

        `clear`: "model", those of all of the model, or "optimizer", those of that optimizer's parameters, so that what the loss
        leaves elsewhere adds to the next one; by default train.clear_grad. PortError for a loss that is not finite.
        """
        self._stepper.step_for(name, loss, clear)
        self.done[name] += 1


class Stepper:
    """Takes the steps of one training. Settings: train.amp, accumulate, clip_grad_norm and clear_grad."""

    def __init__(self, cfg: Any, model: torch.nn.Module, optimizers: Mapping[str, torch.optim.Optimizer]):
        self.cfg, self.model, self.optimizers, self.train = cfg, model, optimizers, cfg.train
        self.own = hasattr(reference, "training_step")
        if self.own and cfg.train.accumulate > 1:
            raise UserError("train.accumulate must be 1 with a training_step of your own, which decides what a step is")
        self.device = next(model.parameters()).device
        self.network = model if self.own else ranks.parallel(model)
        self.loss_function = reference.build_loss(cfg)
        self.amp = cfg.train.amp
        self.update = Update(self)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.amp == "fp16")

    def __call__(self, batch: tuple[torch.Tensor, ...], weight: float) -> dict[str, float]:
        """One step on a batch; returns the mean losses by name over the samples of all processes.

        `weight`: of this process's mean loss (see split_order). PortError, before the step, where the loss is not finite.
        """
        batch = tuple(tensor.to(self.device) for tensor in batch)
        return self._own_step(batch, weight) if self.own else {"loss": self._step(batch, weight)}

    def _step(self, batch: tuple[torch.Tensor, ...], weight: float) -> float:
        """Forward, loss, backward, and a step of every optimizer."""
        size, value = len(batch[-1]), 0.0
        parts = [part for part in np.array_split(np.arange(size), self.train.accumulate) if len(part)]
        for number, part in enumerate(parts):
            some = batch if len(parts) == 1 else tuple(tensor[part[0] : part[-1] + 1] for tensor in batch)
            share = weight * len(part) / size
            last = number == len(parts) - 1
            with contextlib.nullcontext() if last or not hasattr(self.network, "no_sync") else self.network.no_sync():
                loss = self.loss_function(self._forward(some), some[-1])
                self.scaler.scale(loss if share == 1 else loss * share).backward()
            value += loss.item() * share
        value = ranks.total([value])[0] / ranks.count()
        if not math.isfinite(value):
            where = find_first(self.model, batch, reference.forward)
            raise PortError(f"{value} with LR {self._lr():g}: {where}")
        for optimizer in self.optimizers.values():
            self._apply(optimizer, list(self.model.parameters()))
        self._clear(self.optimizers.values(), self.train.clear_grad)
        return value

    def _own_step(self, batch: tuple[torch.Tensor, ...], weight: float) -> dict[str, float]:
        """training_step of reference.py, which calls `update` for every loss that it takes a step for."""
        self.weight = weight
        with self._autocast():
            losses = reference.training_step(self.cfg, self.model, batch, self.update)
        values = ranks.total([loss.item() * weight for loss in losses.values()])
        return {name: value / ranks.count() for name, value in zip(losses, values)}

    def step_for(self, name: str, loss: torch.Tensor, clear: str | None) -> None:
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

    def _forward(self, batch: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
        """The outputs in float32, so that the loss is computed in it."""
        with self._autocast():
            outputs = reference.forward(self.network, batch)
        low = (torch.float16, torch.bfloat16)
        return {name: tensor.float() if tensor.dtype in low else tensor for name, tensor in outputs.items()}

    def _autocast(self, enabled: bool = True) -> contextlib.AbstractContextManager:
        return torch.autocast(self.device.type, AMP_TYPES[self.amp], enabled) if self.amp else contextlib.nullcontext()

    def _lr(self) -> float:
        return next(iter(self.optimizers.values())).param_groups[0]["lr"]

    def _apply(self, optimizer: torch.optim.Optimizer, clipped: list[torch.Tensor]) -> None:
        if self.train.clip_grad_norm is not None:
            self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(clipped, self.train.clip_grad_norm)
        self.scaler.step(optimizer)
        self.scaler.update()

    def _clear(self, optimizers: Iterable[torch.optim.Optimizer], scope: str) -> None:
        if scope == "model":
            self.model.zero_grad()
        for optimizer in optimizers:
            optimizer.zero_grad()


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """All parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
