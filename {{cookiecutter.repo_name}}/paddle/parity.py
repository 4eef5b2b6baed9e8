# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Torch-exact stand-ins for the few things that Paddle computes or initialises differently.

`python -m pipeline explain SUBJECT` says what differs and by how much. A port that does not need one does not import it.
Optimizers and schedules are in parity_optimizers.py and can be imported from here.
"""
from __future__ import annotations

import math
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.nn.initializer import KaimingUniform, Uniform
from parity_optimizers import SGD as SGD
from parity_optimizers import OneCycleLR as OneCycleLR
from parity_optimizers import RMSProp as RMSProp
from parity_optimizers import clear_grad as clear_grad


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


def log_softmax(x: paddle.Tensor, axis: int = -1) -> paddle.Tensor:
    """torch.nn.functional.log_softmax; Paddle's own is cut at -64."""
    return x - paddle.logsumexp(x, axis=axis, keepdim=True)


def cross_entropy(
    logits: paddle.Tensor, labels: paddle.Tensor, label_smoothing: float = 0.0, ignore_index: int = -100,
    weight: paddle.Tensor | None = None, reduction: str = "mean", axis: int = 1,
) -> paddle.Tensor:  # fmt: skip
    """torch.nn.functional.cross_entropy.

    logits: float [N, C, ...], classes on `axis`; labels: int64 [N, ...], or probabilities, float of the shape of the logits
    (ignore_index then means nothing); weight: float [C]. reduction: "mean" (over the weights of the labels that are not
    ignored; NaN where every label is), "sum", or "none" with shape [N, ...]. Paddle's own function divides by N where
    ignore_index is negative, and raises or differs where label smoothing meets ignored labels, weights or an axis.
    """
    log_probability = log_softmax(logits, axis=axis)
    if labels.is_floating_point():
        count = logits.shape[axis]
        wanted = labels * (1 - label_smoothing) + label_smoothing / count if label_smoothing else labels
        terms = log_probability if weight is None else log_probability * _along(weight, logits, axis)
        losses = -(wanted * terms).sum(axis=axis)
        return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses
    losses, shares = _picked(log_probability, labels, ignore_index, weight, axis)
    if label_smoothing:
        terms = log_probability if weight is None else log_probability * _along(weight, logits, axis)
        smooth = paddle.where(labels != ignore_index, -terms.mean(axis=axis), paddle.zeros_like(losses))
        losses = (1 - label_smoothing) * losses + label_smoothing * smooth
    return _reduced(losses, shares, reduction)


def nll_loss(
    log_probability: paddle.Tensor, labels: paddle.Tensor, weight: paddle.Tensor | None = None, ignore_index: int = -100,
    reduction: str = "mean", axis: int = 1,
) -> paddle.Tensor:  # fmt: skip
    """torch.nn.functional.nll_loss. Paddle's own with ignored labels writes outside of its memory on a CPU."""
    return _reduced(*_picked(log_probability, labels, ignore_index, weight, axis), reduction)


def _picked(log_probability: paddle.Tensor, labels: paddle.Tensor, ignore_index: int, weight: paddle.Tensor | None, axis: int):
    """(weighted losses, weights) of the labels, both 0 where they are ignored."""
    counted = labels != ignore_index
    chosen = paddle.where(counted, labels, paddle.zeros_like(labels))
    losses = -paddle.take_along_axis(log_probability, chosen.unsqueeze(axis), axis=axis).squeeze(axis)
    shares = counted.astype(losses.dtype)
    if weight is not None:
        shares = shares * weight.gather(chosen.flatten()).reshape(chosen.shape)
    return paddle.where(counted, losses, paddle.zeros_like(losses)) * shares, shares


def _along(weight: paddle.Tensor, logits: paddle.Tensor, axis: int) -> paddle.Tensor:
    """Class weights in a shape that multiplies the logits."""
    return weight.reshape([-1 if index == axis % logits.ndim else 1 for index in range(logits.ndim)])


def _reduced(losses: paddle.Tensor, shares: paddle.Tensor, reduction: str) -> paddle.Tensor:
    if reduction == "none":
        return losses
    return losses.sum() / shares.sum() if reduction == "mean" else losses.sum()


def binary_cross_entropy_with_logits(
    logits: paddle.Tensor, labels: paddle.Tensor, weight: paddle.Tensor | None = None, reduction: str = "mean",
    pos_weight: paddle.Tensor | None = None,
) -> paddle.Tensor:  # fmt: skip
    """torch.nn.functional.binary_cross_entropy_with_logits; labels: float. Paddle's own gradient is 1 too small at logit 0."""
    positive = 1.0 if pos_weight is None else (pos_weight - 1) * labels + 1
    losses = (1 - labels) * logits + positive * F.softplus(-logits)
    losses = losses if weight is None else losses * weight
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def smooth_l1_loss(x: paddle.Tensor, y: paddle.Tensor, beta: float = 1.0, reduction: str = "mean") -> paddle.Tensor:
    """torch.nn.functional.smooth_l1_loss. Paddle's is the Huber loss: beta times this one."""
    distance = (x - y).abs()
    losses = paddle.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta) if beta else distance
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


class RMSNorm(nn.Layer):
    """torch.nn.RMSNorm over the last axes. epsilon: None is the smallest of the dtype, as in torch."""

    def __init__(self, normalized_shape: int | list[int], epsilon: float | None = None):
        super().__init__()
        shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self.epsilon, self.axes = epsilon, list(range(-len(shape), 0))
        self.weight = self.create_parameter(shape, default_initializer=nn.initializer.Constant(1.0))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        epsilon = paddle.finfo(x.dtype).eps if self.epsilon is None else self.epsilon
        return x * paddle.rsqrt((x * x).mean(axis=self.axes, keepdim=True) + epsilon) * self.weight


class GroupNorm(nn.GroupNorm):
    """paddle.nn.GroupNorm, channels first, with the variance around the mean: Paddle's loses its digits at large means."""

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        parts = x.reshape([x.shape[0], self._num_groups, -1])
        parts = parts - parts.mean(axis=-1, keepdim=True)
        parts = parts - parts.mean(axis=-1, keepdim=True)  # what rounding of a large mean has left
        parts = parts * paddle.rsqrt((parts * parts).mean(axis=-1, keepdim=True) + self._epsilon)
        y, shape = parts.reshape(x.shape), [1, -1] + [1] * (x.ndim - 2)
        y = y if self.weight is None else y * self.weight.reshape(shape)
        return y if self.bias is None else y + self.bias.reshape(shape)


class _UnbiasedVariance:
    """Keeps the running variance of torch: of n values per channel, n/(n-1) times what Paddle keeps."""

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        if not self.training or self._use_global_stats:
            return super().forward(x)
        before = self._variance.clone()
        y = super().forward(x)
        with paddle.no_grad():
            kept = self._momentum * before
            count = x.size // self._variance.size
            self._variance.set_value(kept + (self._variance - kept) * (count / (count - 1)))
        return y


class BatchNorm1D(_UnbiasedVariance, nn.BatchNorm1D):
    """paddle.nn.BatchNorm1D with torch's running variance. momentum is Paddle's: 1 minus torch's."""


class BatchNorm2D(_UnbiasedVariance, nn.BatchNorm2D):
    """paddle.nn.BatchNorm2D with torch's running variance. momentum is Paddle's: 1 minus torch's."""


class BatchNorm3D(_UnbiasedVariance, nn.BatchNorm3D):
    """paddle.nn.BatchNorm3D with torch's running variance. momentum is Paddle's: 1 minus torch's."""


class Embedding(nn.Embedding):
    """paddle.nn.Embedding that returns the row of padding_idx whatever it holds; the row starts at 0 and has no gradient."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, **more: Any):
        super().__init__(num_embeddings, embedding_dim, **more)
        self.padding = None if padding_idx is None else padding_idx % num_embeddings
        if padding_idx is not None:
            with paddle.no_grad():
                self.weight[self.padding] = 0.0

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        rows = F.embedding(x, self.weight)
        return rows if self.padding is None else paddle.where((x == self.padding).unsqueeze(-1), rows.detach(), rows)


@paddle.no_grad()
def initialise(model: nn.Layer) -> None:
    """Draw all parameters of `model` again as torch's layers of the same type do by default; other layers stay as they are."""
    inside = set()
    for layer in model.sublayers(include_self=True):
        if id(layer) in inside:
            continue
        if isinstance(layer, nn.MultiHeadAttention):
            inside |= {id(one) for one in layer.sublayers()}
            _attention(layer)
        elif isinstance(layer, nn.Linear):
            _uniform(layer, 1 / math.sqrt(layer.weight.shape[0]))
        elif isinstance(layer, nn.Bilinear):
            _uniform(layer, 1 / math.sqrt(layer.weight.shape[1]))
        elif isinstance(layer, nn.layer.conv._ConvNd):
            _uniform(layer, 1 / math.sqrt(layer.weight.size // layer.weight.shape[0]))
        elif isinstance(layer, nn.layer.rnn.RNNBase):
            inside |= {id(one) for one in layer.sublayers()}
            for parameter in layer.parameters():
                _fill(parameter, 1 / math.sqrt(layer.hidden_size))
        elif isinstance(layer, nn.layer.rnn.RNNCellBase):
            _uniform(layer, 1 / math.sqrt(layer.hidden_size))
        elif isinstance(layer, nn.Embedding):
            layer.weight.set_value(paddle.randn(layer.weight.shape, layer.weight.dtype))
            padding = getattr(layer, "padding", None) if isinstance(layer, Embedding) else layer._padding_idx
            if padding is not None and padding >= 0:
                layer.weight[padding] = 0.0
        elif isinstance(layer, nn.PReLU):
            layer._weight.fill_(0.25)


def _uniform(layer: nn.Layer, bound: float) -> None:
    for parameter in layer.parameters(include_sublayers=False):
        _fill(parameter, bound)


def _fill(parameter: paddle.Tensor, bound: float) -> None:
    parameter.set_value(paddle.uniform(parameter.shape, parameter.dtype, -bound, bound))


def _attention(layer: nn.MultiHeadAttention) -> None:
    """Xavier's bound for the three input projections as one matrix, or for each where their sizes differ; biases 0."""
    size = layer.embed_dim
    together = layer.kdim == size and layer.vdim == size
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj):
        _fill(projection.weight, math.sqrt(6 / (4 * size if together else sum(projection.weight.shape))))
    _fill(layer.out_proj.weight, 1 / math.sqrt(size))
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        if projection.bias is not None:
            projection.bias.fill_(0.0)
