# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Torch-exact stand-ins for the few things that Paddle computes or initialises differently."""
from __future__ import annotations

import math
from typing import Any

import paddle
from paddle.nn.initializer import KaimingUniform, Uniform


def torch_linear_attrs(in_features: int) -> dict[str, Any]:
    """Arguments that give paddle.nn.Linear the initialisation of torch.nn.Linear.

    torch draws weight and bias from U(-1/sqrt(in_features), 1/sqrt(in_features)); Paddle would draw the weight from
    Xavier's uniform distribution, which also depends on the outputs, and start the bias at 0.
    """
    bound = 1 / math.sqrt(in_features)
    return {
        "weight_attr": KaimingUniform(negative_slope=math.sqrt(5), nonlinearity="leaky_relu"),
        "bias_attr": Uniform(-bound, bound),
    }


def cross_entropy(
    logits: paddle.Tensor, labels: paddle.Tensor, label_smoothing: float = 0.0, ignore_index: int = -100
) -> paddle.Tensor:
    """torch.nn.functional.cross_entropy: the mean over the labels that are not `ignore_index`.

    logits: float [N, C]; labels: int64 [N]; returns a scalar, NaN where every label is ignored. Paddle's own function
    divides by N where ignore_index is negative, raises where label smoothing meets an ignored label, and cuts
    log-probabilities at -64.
    """
    counted = labels != ignore_index
    chosen = paddle.where(counted, labels, paddle.zeros_like(labels))
    log_probability = logits - paddle.logsumexp(logits, axis=-1, keepdim=True)
    losses = -paddle.take_along_axis(log_probability, chosen.unsqueeze(-1), axis=-1).squeeze(-1)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_probability.mean(axis=-1)
    losses = paddle.where(counted, losses, paddle.zeros_like(losses))
    return losses.sum() / counted.astype(losses.dtype).sum()
