# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The contract of the port: what the alignment kit, train.py and eval.py ask of it. Its twin is torch_ref/reference.py."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import paddle
from paddle import nn

from data.digits import Digits
from metric import Accuracy
from models.resnet import ResNet
from parity import cross_entropy
from pipeline.align.archive import ensure_unpacked
from pipeline.align.paths import ROOT


def build_model(cfg: Any) -> nn.Layer:
    """The network, freshly initialised."""
    return ResNet(cfg.model.in_channels, cfg.model.width, cfg.model.num_classes)


def build_dataset(cfg: Any, split: str) -> Digits:
    """The data set of "train" or "val"; the archive is unpacked on first use."""
    root = ROOT / cfg.data.root
    ensure_unpacked(ROOT / cfg.data.archive, root)
    return Digits(root, split, cfg.data, cfg.model.num_classes)


def build_loss(cfg: Any) -> Callable[[dict[str, paddle.Tensor], paddle.Tensor], paddle.Tensor]:
    """Cross entropy of outputs["logits"], the mean over the labels that are not loss.ignore_index."""
    smoothing, ignored = cfg.loss.label_smoothing, cfg.loss.ignore_index
    return lambda outputs, labels: cross_entropy(outputs["logits"], labels, smoothing, ignored)


def build_optimizer(cfg: Any, model: nn.Layer, steps_per_epoch: int) -> tuple[paddle.optimizer.Optimizer, Any]:
    """SGD with momentum, and a schedule to be stepped after every iteration.

    Weights decay; biases and the scales of batch normalisation do not.
    """
    # Paddle lists the running statistics of batch normalisation among the parameters.
    parameters = [p for p in model.parameters() if not p.stop_gradient]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": cfg.optimizer.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    schedule = paddle.optimizer.lr.LambdaDecay(cfg.optimizer.learning_rate, warmup_cosine(cfg, steps_per_epoch))
    optimizer = paddle.optimizer.Momentum(schedule, momentum=cfg.optimizer.momentum, parameters=groups)
    return optimizer, schedule


def warmup_cosine(cfg: Any, steps_per_epoch: int) -> Callable[[int], float]:
    """iteration -> factor of the learning rate: linear from schedule.warmup_start to 1, then half a cosine to 0.

    Warmup: arXiv:1706.02677; cosine: arXiv:1608.03983, without restarts.
    """
    start = cfg.schedule.warmup_start
    warmup = round(cfg.schedule.warmup_epochs * steps_per_epoch)
    decay = max(1, cfg.train.epochs * steps_per_epoch - warmup)

    def factor(iteration: int) -> float:
        if iteration < warmup:
            return start + (1 - start) * iteration / warmup
        return 0.5 * (1 + math.cos(math.pi * (iteration - warmup) / decay))

    return factor


def build_metric(cfg: Any) -> Accuracy:
    """Accuracy over all samples."""
    return Accuracy(cfg.loss.ignore_index)


def forward(model: nn.Layer, batch: tuple[paddle.Tensor, ...]) -> dict[str, paddle.Tensor]:
    """{"logits": float32 [N, num_classes]} for batch = (images, labels)."""
    return {"logits": model(batch[0])}
