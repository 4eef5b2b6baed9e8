# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The contract of the reference of the sequence pair. Its twin is paddle/port.py."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from data.sentences import Sentences
from metric import WordAccuracy
from models.cloze import Cloze
from pipeline.align.paths import ROOT


def build_model(cfg: Any) -> nn.Module:
    """The network, freshly initialised."""
    return Cloze(cfg.model.vocabulary, cfg.data.length, cfg.model.width, cfg.model.heads, cfg.model.dropout)


def build_dataset(cfg: Any, split: str) -> Sentences:
    """The sentences of "train" or "val"."""
    return Sentences(ROOT / cfg.data.root, split, cfg.data.length, cfg.loss.ignore_index)


def build_loss(cfg: Any) -> Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """Cross entropy over the labelled positions; the rarer half of the vocabulary weighs more."""
    weight = torch.ones(cfg.model.vocabulary)
    weight[cfg.loss.rare_from :] = cfg.loss.rare_weight
    criterion = nn.CrossEntropyLoss(weight, ignore_index=cfg.loss.ignore_index, label_smoothing=cfg.loss.label_smoothing)
    return lambda outputs, labels: criterion.to(labels.device)(outputs["logits"].transpose(1, 2), labels)


def build_optimizer(cfg: Any, model: nn.Module, steps_per_epoch: int) -> tuple[torch.optim.Optimizer, Any]:
    """AdamW behind a clip of the global gradient norm; biases and the scales of normalisation do not decay."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": cfg.optimizer.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    settings = cfg.optimizer
    optimizer = torch.optim.AdamW(groups, settings.learning_rate, betas=(settings.beta1, settings.beta2), eps=settings.epsilon)

    def clip(*_: Any) -> None:
        nn.utils.clip_grad_norm_(parameters, settings.clip_norm)

    optimizer.register_step_pre_hook(clip)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup_linear(cfg, steps_per_epoch))
    return optimizer, schedule


def warmup_linear(cfg: Any, steps_per_epoch: int) -> Callable[[int], float]:
    """iteration -> factor of the learning rate: up to 1 over the warmup, then down to 0 at the end, both in equal steps."""
    warmup = round(cfg.schedule.warmup_epochs * steps_per_epoch)
    total = cfg.train.epochs * steps_per_epoch

    def factor(iteration: int) -> float:
        if iteration < warmup:
            return (iteration + 1) / warmup
        return max(0.0, (total - iteration) / (total - warmup))

    return factor


def build_metric(cfg: Any) -> WordAccuracy:
    """Accuracy of the masked words."""
    return WordAccuracy(cfg.loss.ignore_index)


def forward(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """{"logits": float32 [N, L, vocabulary]} for batch = (tokens, lengths, labels)."""
    return {"logits": model(batch[0], batch[1])}
