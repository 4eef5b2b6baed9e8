# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One step of the optimizer: mixed precision, a batch in parts, several processes, clipping."""
from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import ranks
import torch
from nonfinite import find_first

import reference
from pipeline.align.errors import PortError

AMP_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Stepper:
    """Takes the steps of one training. Settings: train.amp, train.accumulate, train.clip_grad_norm."""

    def __init__(self, cfg: Any, model: torch.nn.Module, optimizer: torch.optim.Optimizer):
        self.model, self.optimizer, self.train = model, optimizer, cfg.train
        self.device = next(model.parameters()).device
        self.network = ranks.parallel(model)
        self.loss_function = reference.build_loss(cfg)
        self.amp = cfg.train.amp
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.amp == "fp16")

    def __call__(self, batch: tuple[torch.Tensor, ...], weight: float) -> float:
        """One step on a batch; returns the mean loss over the samples of all processes.

        `weight`: of this process's mean loss (see split_order). PortError, before the step, where the loss is not finite.
        """
        batch = tuple(tensor.to(self.device) for tensor in batch)
        self.optimizer.zero_grad()
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
            raise PortError(f"{value} with LR {self.optimizer.param_groups[0]['lr']:g}: {where}")
        self._update()
        return value

    def _forward(self, batch: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
        """The outputs in float32, so that the loss is computed in it."""
        if not self.amp:
            return reference.forward(self.network, batch)
        with torch.autocast(self.device.type, AMP_TYPES[self.amp]):
            outputs = reference.forward(self.network, batch)
        low = (torch.float16, torch.bfloat16)
        return {name: tensor.float() if tensor.dtype in low else tensor for name, tensor in outputs.items()}

    def _update(self) -> None:
        if self.train.clip_grad_norm is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.train.clip_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
