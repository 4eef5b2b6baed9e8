# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The contract of the port of the sequence pair. Its twin is torch_ref/reference.py."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle import nn

from data.sentences import Sentences
from metric import WordAccuracy
from models.cloze import Cloze
from parity import cross_entropy
from pipeline.align.paths import ROOT


def build_model(cfg: Any) -> nn.Layer:
    """The network, freshly initialised."""
    return Cloze(cfg.model.vocabulary, cfg.data.length, cfg.model.width, cfg.model.heads, cfg.model.dropout)


def build_dataset(cfg: Any, split: str) -> Sentences:
    """The sentences of "train" or "val"."""
    return Sentences(ROOT / cfg.data.root, split, cfg.data.length, cfg.loss.ignore_index)


def build_loss(cfg: Any) -> Callable[[dict[str, paddle.Tensor], paddle.Tensor], paddle.Tensor]:
    """Cross entropy over the labelled positions; the rarer half of the vocabulary weighs more."""
    weight = paddle.ones([cfg.model.vocabulary])
    weight[cfg.loss.rare_from :] = cfg.loss.rare_weight
    smoothing, ignored = cfg.loss.label_smoothing, cfg.loss.ignore_index
    return lambda outputs, labels: cross_entropy(outputs["logits"], labels, weight, smoothing, ignored)


def build_optimizer(cfg: Any, model: nn.Layer, steps_per_epoch: int) -> tuple[paddle.optimizer.Optimizer, Any]:
    """AdamW behind a clip of the global gradient norm; biases and the scales of normalisation do not decay."""
    parameters = model.parameters()
    decaying = {p.name for p in parameters if p.ndim > 1}
    settings = cfg.optimizer
    schedule = paddle.optimizer.lr.LambdaDecay(settings.learning_rate, warmup_linear(cfg, steps_per_epoch))
    optimizer = paddle.optimizer.AdamW(
        schedule,
        beta1=settings.beta1,
        beta2=settings.beta2,
        epsilon=settings.epsilon,
        parameters=parameters,
        weight_decay=settings.weight_decay,
        apply_decay_param_fun=lambda name: name in decaying,
        grad_clip=nn.ClipGradByGlobalNorm(settings.clip_norm),
    )
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


def forward(model: nn.Layer, batch: tuple[paddle.Tensor, ...]) -> dict[str, paddle.Tensor]:
    """{"logits": float32 [N, L, vocabulary]} for batch = (tokens, lengths, labels)."""
    return {"logits": model(batch[0], batch[1])}
