# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Torch-exact stand-ins for the few things that Paddle computes or initialises differently."""
from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import nn
from paddle.nn.initializer import Constant, KaimingUniform, Uniform


def torch_linear_attrs(in_features: int) -> dict[str, Any]:
    """Arguments that give paddle.nn.Linear the initialisation of torch.nn.Linear: U(-1/sqrt(in), 1/sqrt(in)) for both."""
    bound = 1 / math.sqrt(in_features)
    return {
        "weight_attr": KaimingUniform(negative_slope=math.sqrt(5), nonlinearity="leaky_relu"),
        "bias_attr": Uniform(-bound, bound),
    }


class PaddedEmbedding(nn.Embedding):
    """torch.nn.Embedding with padding_idx=0: row 0 starts at 0 and gets no gradient from here, but is returned as it is.

    Paddle's own padding_idx returns zeros for it, which the output head, tied to this weight, trains away from 0.
    """

    def __init__(self, words: int, width: int, weight_attr: Any):
        super().__init__(words, width, weight_attr=weight_attr)
        with paddle.no_grad():
            self.weight[0] = 0.0

    def forward(self, tokens: paddle.Tensor) -> paddle.Tensor:
        """int64 [...] -> float32 [..., width]"""
        x = super().forward(tokens)
        return paddle.where((tokens == 0).unsqueeze(-1), x.detach(), x)


def init_encoder_layer(layer: nn.TransformerEncoderLayer) -> None:
    """Start as torch.nn.TransformerEncoderLayer does.

    torch draws the queries', keys' and values' weights from Xavier's distribution of the three as one matrix, and their
    biases are 0, as is that of the output.
    """
    attention = layer.self_attn
    bound = math.sqrt(6 / (4 * attention.embed_dim))
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        Uniform(-bound, bound)(projection.weight)
        Constant(0.0)(projection.bias)
    for linear in (attention.out_proj, layer.linear1, layer.linear2):
        attrs = torch_linear_attrs(linear.weight.shape[0])
        attrs["weight_attr"](linear.weight)
        attrs["bias_attr"](linear.bias)
    Constant(0.0)(attention.out_proj.bias)


def cross_entropy(
    logits: paddle.Tensor, labels: paddle.Tensor, weight: paddle.Tensor, label_smoothing: float, ignore_index: int
) -> paddle.Tensor:
    """torch.nn.functional.cross_entropy with class weights: the weighted mean over the labels that are not `ignore_index`.

    logits: float [..., C]; labels: int64 [...]; weight: float [C]; returns a scalar. Paddle's own function raises where
    label smoothing meets an ignored label, and smooths with other weights.
    """
    counted = labels != ignore_index
    chosen = paddle.where(counted, labels, paddle.zeros_like(labels))
    share = paddle.where(counted, weight[chosen], paddle.zeros_like(weight[chosen]))
    log_probability = logits - paddle.logsumexp(logits, axis=-1, keepdim=True)
    losses = -paddle.take_along_axis(log_probability, chosen.unsqueeze(-1), axis=-1).squeeze(-1)
    smooth = -(log_probability * weight).mean(axis=-1)
    smooth = paddle.where(counted, smooth, paddle.zeros_like(smooth))
    return ((1 - label_smoothing) * (losses * share).sum() + label_smoothing * smooth.sum()) / share.sum()
