# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The contract of the reference of the adversarial pair. Its twin is paddle/port.py."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

from data.points import Points
from metric import Right
from models.gan import Gan


def build_model(cfg: Any) -> nn.Module:
    """Generator and discriminator, freshly initialised."""
    return Gan(cfg.model.width)


def build_dataset(cfg: Any, split: str) -> Points:
    """The points of "train" or "val"."""
    return Points(split, cfg.data.count)


def build_loss(cfg: Any) -> Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]:
    """The discriminator's loss."""
    return lambda outputs, labels: discriminator_loss(outputs["real"], outputs["fake"], cfg.loss.real)


def discriminator_loss(real: torch.Tensor, fake: torch.Tensor, target: float) -> torch.Tensor:
    """Cross entropy of real points, whose target is below 1, and of made ones."""
    return bce(real, torch.full_like(real, target)) + bce(fake, torch.zeros_like(fake))


def build_optimizer(cfg: Any, model: nn.Module, steps_per_epoch: int) -> dict[str, tuple[torch.optim.Optimizer, Any]]:
    """One optimizer per network; the discriminator's LR falls to 0."""
    settings, total = cfg.optimizer, cfg.train.epochs * steps_per_epoch
    betas = (settings.beta1, settings.beta2)
    first = torch.optim.Adam(
        model.discriminator.parameters(), settings.discriminator_rate, betas, weight_decay=settings.weight_decay
    )
    second = torch.optim.Adam(model.generator.parameters(), settings.generator_rate, betas)
    schedule = torch.optim.lr_scheduler.LambdaLR(first, lambda step: max(0.0, 1 - step / total))
    return {"discriminator": (first, schedule), "generator": (second, None)}


def training_step(
    cfg: Any, model: nn.Module, batch: tuple[torch.Tensor, ...], update: Callable[..., None]
) -> dict[str, torch.Tensor]:
    """The discriminator learns from points that the generator made, then the generator from what it says of them."""
    points, noise, _ = batch
    made = model.generator(noise)
    first = discriminator_loss(model.score(points), model.score(made.detach()), cfg.loss.real)
    update("discriminator", first)
    score = model.score(made)
    second = bce(score, torch.ones_like(score))
    update("generator", second)
    return {"discriminator": first, "generator": second}


def build_metric(cfg: Any) -> Right:
    """How often the discriminator is right."""
    return Right()


def forward(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
    """{"made": float32 [N, 8], "real", "fake": logits [N]} for batch = (points, noise, clouds)."""
    made = model.generator(batch[1])
    return {"made": made, "real": model.score(batch[0]), "fake": model.score(made)}
