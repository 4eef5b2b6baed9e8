# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The contract of the reference: what the alignment kit, train.py and eval.py ask of it. Its twin is paddle/port.py."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from data.digits import Digits
from metric import Accuracy
from models.resnet import ResNet
from pipeline.align.archive import ensure_unpacked
from pipeline.align.paths import ROOT


def build_model(cfg: Any) -> nn.Module:
    """The network, freshly initialised."""
    return ResNet(cfg.model.in_channels, cfg.model.width, cfg.model.num_classes)


def build_dataset(cfg: Any, split: str) -> Digits:
    """The data set of "train" or "val"; the archive is unpacked on first use."""
    root = ROOT / cfg.data.root
    ensure_unpacked(ROOT / cfg.data.archive, root)
    return Digits(root, split, cfg.data, cfg.model.num_classes)


def build_loss(cfg: Any) -> Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """Cross entropy of outputs["logits"], the mean over the labels that are not loss.ignore_index."""
    criterion = nn.CrossEntropyLoss(ignore_index=cfg.loss.ignore_index, label_smoothing=cfg.loss.label_smoothing)
    return lambda outputs, labels: criterion(outputs["logits"], labels)


def build_optimizer(cfg: Any, model: nn.Module, steps_per_epoch: int) -> tuple[torch.optim.Optimizer, Any]:
    """SGD with momentum, and a schedule to be stepped after every iteration.

    Weights decay; biases and the scales of batch normalisation do not.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": cfg.optimizer.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(groups, lr=cfg.optimizer.learning_rate, momentum=cfg.optimizer.momentum)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_cosine(cfg, steps_per_epoch))
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


def forward(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """{"logits": float32 [N, num_classes]} for batch = (images, labels)."""
    return {"logits": model(batch[0])}
