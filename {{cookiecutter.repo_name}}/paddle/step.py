# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One step of the optimizer: mixed precision, a batch in parts, several processes, clipping."""
from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import paddle
import ranks
from nonfinite import find_first

import port
from pipeline.align.errors import PortError

AMP_TYPES = {"bf16": "bfloat16", "fp16": "float16"}


class Stepper:
    """Takes the steps of one training. Settings: train.amp, train.accumulate, train.clip_grad_norm."""

    def __init__(self, cfg: Any, model: paddle.nn.Layer, optimizer: paddle.optimizer.Optimizer):
        self.model, self.optimizer, self.train = model, optimizer, cfg.train
        self.network = paddle.DataParallel(model) if ranks.count() > 1 else model
        self.loss_function = port.build_loss(cfg)
        # Paddle computes in float32 on a CPU whatever auto_cast says, with a warning for every call.
        self.amp = cfg.train.amp if paddle.get_device() != "cpu" else None
        self.scaler = paddle.amp.GradScaler(enable=self.amp == "fp16")

    def __call__(self, batch: tuple[paddle.Tensor, ...], weight: float) -> float:
        """One step on a batch; returns the mean loss over the samples of all processes.

        `weight`: of this process's mean loss (see split_order). PortError, before the step, where the loss is not finite.
        """
        # Zeros instead of no gradient would let weight decay and momentum move parameters that took no part.
        self.optimizer.clear_grad(set_to_zero=False)
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
            raise PortError(f"{value} with LR {self.optimizer.get_lr():g}: {where}")
        self._update()
        return value

    def _forward(self, batch: tuple[paddle.Tensor, ...]) -> dict[str, paddle.Tensor]:
        """The outputs in float32, so that the loss is computed in it."""
        if not self.amp:
            return port.forward(self.network, batch)
        with paddle.amp.auto_cast(dtype=AMP_TYPES[self.amp], level="O1"):
            outputs = port.forward(self.network, batch)
        low = (paddle.float16, paddle.bfloat16)
        return {name: tensor.astype("float32") if tensor.dtype in low else tensor for name, tensor in outputs.items()}

    def _update(self) -> None:
        if self.train.clip_grad_norm is not None:
            self.scaler.unscale_(self.optimizer)
            paddle.nn.utils.clip_grad_norm_(self.model.parameters(), self.train.clip_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
