# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The numbers that the table of lint and explain cites, measured again with both frameworks: one function per fact."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import paddle
import paddle.nn.functional as PF
import torch
import torch.nn.functional as TF

NUMBERS: dict[str, Callable[[], float]] = {}


def number(fact: str) -> Callable:
    def add(function: Callable[[], float]) -> Callable[[], float]:
        NUMBERS[fact] = function
        return function

    return add


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def both(array: np.ndarray, grad: bool = False) -> tuple[torch.Tensor, paddle.Tensor]:
    t, p = torch.tensor(array), paddle.to_tensor(array)
    t.requires_grad_(grad)
    p.stop_gradient = not grad
    return t, p


def gap(t: torch.Tensor, p: paddle.Tensor) -> float:
    """Largest absolute difference."""
    return float(np.abs(t.detach().numpy() - p.numpy()).max())


def labels(*shape: int, classes: int, ignored: int = 0) -> np.ndarray:
    found = np.random.default_rng(1).integers(0, classes, shape)
    found.reshape(-1)[:ignored] = -100
    return found


@number("cross-entropy-axis")
def _() -> float:
    (t, p), (tl, pl) = both(draw(4, 4, 4, 4)), both(labels(4, 4, 4, classes=4))
    assert abs(float(TF.cross_entropy(t, tl)) - float(PF.cross_entropy(p, pl, axis=1))) < 1e-6
    return abs(float(TF.cross_entropy(t, tl)) - float(PF.cross_entropy(p, pl)))


@number("cross-entropy-ignored")
def _() -> float:
    (t, p), (tl, pl) = both(draw(8, 5)), both(labels(8, classes=5, ignored=3))
    return float(PF.cross_entropy(p, pl, ignore_index=-100)) / float(TF.cross_entropy(t, tl))


@number("cross-entropy-smoothing")
def _() -> float:
    (t, p), (tl, pl), (tw, pw) = both(draw(8, 5)), both(labels(8, classes=5)), both(np.arange(1, 6, dtype=np.float32))
    return abs(float(TF.cross_entropy(t, tl, tw, label_smoothing=0.1)) - float(PF.cross_entropy(p, pl, pw, label_smoothing=0.1)))


@number("cross-entropy-soft-weight")
def _() -> float:
    soft = np.exp(draw(8, 5, seed=3))
    (t, p), (ts, ps) = both(draw(8, 5)), both(soft / soft.sum(1, keepdims=True))
    tw, pw = both(np.arange(1, 6, dtype=np.float32))
    return abs(float(TF.cross_entropy(t, ts, tw)) - float(PF.cross_entropy(p, ps, pw, soft_label=True)))


@number("bce-logits-zero")
def _() -> float:
    t, p = both(np.zeros(1, np.float32), grad=True)
    TF.binary_cross_entropy_with_logits(t, torch.zeros(1)).backward()
    PF.binary_cross_entropy_with_logits(p, paddle.zeros([1])).backward()
    assert t.grad.item() == 0.5
    return p.grad.item()


@number("smooth-l1-delta")
def _() -> float:
    (t, p), (tl, pl) = both(draw(8, 5)), both(draw(8, 5, seed=2))
    return float(PF.smooth_l1_loss(p, pl, delta=0.5)) / float(TF.smooth_l1_loss(t, tl, beta=0.5))


@number("adaptive-softmax")
def _() -> float:
    layer = paddle.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3, 6])
    twin = torch.nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3, 6])
    return len(list(twin.parameters())) - len(layer.parameters())


def _batch_norm(momentum: float) -> float:
    t, p = torch.nn.BatchNorm2d(3), paddle.nn.BatchNorm2D(3, momentum=momentum)
    for seed in range(10):
        a, b = both(4 * draw(8, 3, 4, 4, seed=seed))
        t(a), p(b)
    return float((p._variance.numpy() / t.running_var.numpy()).mean())


@number("batchnorm-momentum")
def _() -> float:
    assert 0.98 < _batch_norm(0.9) < 1.0
    return _batch_norm(0.1)


@number("batchnorm-variance")
def _() -> float:
    t, p = torch.nn.BatchNorm1d(1, momentum=1.0), paddle.nn.BatchNorm1D(1, momentum=0.0)
    a, b = both(draw(4, 1))
    t(a), p(b)
    return float(t.running_var / p._variance.item())


@number("batchnorm-global-stats")
def _() -> float:
    t, p = torch.nn.BatchNorm2d(3, track_running_stats=False), paddle.nn.BatchNorm2D(3, use_global_stats=False)
    t.eval(), p.eval()
    (a, b), (ga, gb) = both(draw(2, 3, 4, 4), True), both(draw(2, 3, 4, 4, seed=1))
    (t(a) * ga).sum().backward()
    (p(b) * gb).sum().backward()
    return gap(a.grad, b.grad)


@number("groupnorm-affine")
def _() -> float:
    t, p = torch.nn.GroupNorm(2, 4, affine=False), paddle.nn.GroupNorm(2, 4, weight_attr=False, bias_attr=False)
    (a, b), (ga, gb) = both(draw(2, 4, 3, 3), True), both(draw(2, 4, 3, 3, seed=1))
    (t(a) * ga).sum().backward()
    (p(b) * gb).sum().backward()
    return gap(a.grad, b.grad)


@number("groupnorm-mean")
def _() -> float:
    a, b = both(draw(2, 4, 8, 8) + np.float32(1e3))
    return gap(torch.nn.GroupNorm(2, 4)(a), paddle.nn.GroupNorm(2, 4)(b))


@number("avgpool-padding")
def _() -> float:
    a, b = both(np.ones((1, 1, 4, 4), np.float32))
    assert gap(TF.avg_pool2d(a, 3, 2, 1), PF.avg_pool2d(b, 3, 2, 1, exclusive=False)) < 1e-6
    return gap(TF.avg_pool2d(a, 3, 2, 1), PF.avg_pool2d(b, 3, 2, 1))


@number("conv-same-dilation")
def _() -> float:
    (a, b), (w, v) = both(draw(1, 2, 9, 9)), both(draw(3, 2, 3, 3, seed=1))
    assert gap(TF.conv2d(a, w, padding=2, dilation=2), PF.conv2d(b, v, padding=2, dilation=2)) < 1e-5
    return gap(TF.conv2d(a, w, padding="same", dilation=2), PF.conv2d(b, v, padding="SAME", dilation=2))


@number("maxpool-positions")
def _() -> float:
    a, b = both(draw(1, 1, 6, 6))
    assert isinstance(torch.nn.MaxPool2d(3, 2, 1, 1)(a), torch.Tensor)
    return len(paddle.nn.MaxPool2D(3, 2, 1, 1)(b))


@number("conv-transpose-positions")
def _() -> float:
    t, p = torch.nn.ConvTranspose2d(4, 8, 3, 2, 1, 1, 2), paddle.nn.Conv2DTranspose(4, 8, 3, 2, 1, 1, 2)
    return p.weight.shape[1] / t.weight.shape[1]


@number("grid-sample-corners")
def _() -> float:
    (a, b), (g, h) = both(draw(1, 1, 5, 5)), both(np.clip(draw(1, 4, 4, 2, seed=1), -1, 1))
    assert gap(TF.grid_sample(a, g, align_corners=False), PF.grid_sample(b, h, align_corners=False)) < 1e-5
    return gap(TF.grid_sample(a, g, align_corners=False), PF.grid_sample(b, h))


@number("interpolate-align-mode")
def _() -> float:
    a, b = both(draw(1, 1, 5, 5))
    t = TF.interpolate(a, scale_factor=2, mode="bilinear")
    assert gap(t, PF.interpolate(b, scale_factor=2, mode="bilinear")) < 1e-5
    return gap(t, PF.interpolate(b, scale_factor=2, mode="bilinear", align_mode=1))


@number("embedding-padding")
def _() -> float:
    (w, v), (i, j) = both(np.ones((4, 2), np.float32)), both(np.array([0, 2]))
    return gap(TF.embedding(i, w, padding_idx=0), PF.embedding(j, v, padding_idx=0))


@number("kaiming-slope")
def _() -> float:
    weight = torch.empty(256, 512)
    torch.nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
    init = paddle.nn.initializer.KaimingUniform(negative_slope=math.sqrt(5))
    return float(paddle.nn.Linear(512, 256, weight_attr=init).weight.abs().max()) / float(weight.abs().max())


@number("kaiming-linear")
def _() -> float:
    weight = torch.empty(256, 512)
    torch.nn.init.kaiming_uniform_(weight, nonlinearity="relu")
    init = paddle.nn.initializer.KaimingUniform()
    return float(paddle.nn.Linear(512, 256, weight_attr=init).weight.abs().max()) / float(weight.abs().max())


@number("linear-init")
def _() -> float:
    return paddle.nn.Linear(512, 512).weight.abs().max().item() / torch.nn.Linear(512, 512).weight.abs().max().item()


@number("dropout-training")
def _() -> float:
    return float((PF.dropout(paddle.ones([4000]), 0.5) - 1).abs().max())


@number("dropout-mode")
def _() -> float:
    layer = paddle.nn.Dropout(0.5, mode="downscale_in_infer")
    layer.eval()
    return float(layer(paddle.ones([2, 2])).mean())


@number("attention-mask")
def _() -> float:
    t, p = torch.nn.MultiheadAttention(4, 2, batch_first=True), paddle.nn.MultiHeadAttention(4, 2)
    weights = [draw(4, 4, seed=seed) for seed in range(4)]
    with torch.no_grad():
        t.in_proj_weight.copy_(torch.tensor(np.concatenate([w.T for w in weights[:3]])))
        t.out_proj.weight.copy_(torch.tensor(weights[3].T))
    for layer, w in zip((p.q_proj, p.k_proj, p.v_proj, p.out_proj), weights):
        layer.weight.set_value(w)
    a, b = both(draw(1, 5, 4, seed=9))
    future = np.triu(np.ones((5, 5), bool), 1)
    want = t(a, a, a, attn_mask=torch.tensor(future), need_weights=False)[0]
    assert gap(want, p(b, b, b, paddle.to_tensor(~future))) < 1e-5
    return gap(want, p(b, b, b, paddle.to_tensor(future)))


@number("time-first")
def _() -> float:
    t, p = torch.nn.LSTM(3, 4), paddle.nn.LSTM(3, 4)
    for seed, (name, value) in enumerate(t.named_parameters()):
        value.data.copy_(torch.tensor(draw(*value.shape, seed=seed)))
        getattr(p, name).set_value(draw(*value.shape, seed=seed))
    a, b = both(draw(5, 2, 3))
    assert gap(t(a)[0], p(b.transpose([1, 0, 2]))[0].transpose([1, 0, 2])) < 1e-5
    return gap(t(a)[0], p(b)[0]) / float(t(a)[0].abs().max())


def _train(make_torch: Callable, make_paddle: Callable, steps: int = 20) -> float:
    """Largest difference of a parameter of a linear layer with bias after some steps."""
    t, p = torch.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    with torch.no_grad():
        t.weight.copy_(torch.tensor(draw(2, 3))), t.bias.copy_(torch.tensor(draw(2, seed=1)))
    p.weight.set_value(draw(2, 3).T), p.bias.set_value(draw(2, seed=1))
    ot, op = make_torch(t), make_paddle(p)
    for step in range(steps):
        a, b = both(draw(8, 3, seed=10 + step))
        ot.zero_grad(), op.clear_grad()
        (t(a) ** 2).mean().backward(), (p(b) ** 2).mean().backward()
        ot.step(), op.step()
    return max(gap(t.weight.T, p.weight), gap(t.bias, p.bias))


@number("adamw-default-decay")
def _() -> float:
    return _train(
        lambda m: torch.optim.AdamW(m.parameters(), 0.1), lambda m: paddle.optimizer.AdamW(0.1, parameters=m.parameters())
    )


@number("adamw-decay-names")
def _() -> float:
    def reference(m):
        return torch.optim.AdamW([{"params": [m.weight]}, {"params": [m.bias], "weight_decay": 0.0}], 0.1, weight_decay=0.1)

    def port(m, wanted):
        return paddle.optimizer.AdamW(0.1, parameters=m.parameters(), weight_decay=0.1, apply_decay_param_fun=wanted)

    assert _train(reference, lambda m: port(m, lambda name: name == m.weight.name)) < 1e-5
    return _train(reference, lambda m: port(m, lambda name: "bias" not in name))


@number("adamw-regularizer")
def _() -> float:
    def port(m):
        m.bias.regularizer = paddle.regularizer.L2Decay(0.0)
        return paddle.optimizer.AdamW(0.1, parameters=m.parameters(), weight_decay=0.1)

    return _train(
        lambda m: torch.optim.AdamW([{"params": [m.weight]}, {"params": [m.bias], "weight_decay": 0.0}], 0.1, weight_decay=0.1),
        port,
    )


@number("group-lr")
def _() -> float:
    layer = paddle.nn.Linear(1, 1)
    before = layer.weight.item()
    optimizer = paddle.optimizer.SGD(0.1, parameters=[{"params": layer.parameters(), "lr": 0.01}])
    layer(paddle.ones([1, 1])).sum().backward()
    optimizer.step()
    return (before - layer.weight.item()) / 0.01


@number("group-learning-rate")
def _() -> float:
    layer = paddle.nn.Linear(1, 1)
    before = layer.weight.item()
    optimizer = paddle.optimizer.SGD(0.1, parameters=[{"params": layer.parameters(), "learning_rate": 0.01}])
    layer(paddle.ones([1, 1])).sum().backward()
    optimizer.step()
    return (before - layer.weight.item()) / 0.01


@number("clip-groups")
def _() -> float:
    layers = [paddle.nn.Linear(1, 1, bias_attr=False) for _ in range(2)]
    before = [layer.weight.item() for layer in layers]
    groups = [{"params": layer.parameters()} for layer in layers]
    optimizer = paddle.optimizer.SGD(1.0, parameters=groups, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
    sum(layer(10 * paddle.ones([1, 1])).sum() for layer in layers).backward()
    optimizer.step()
    return math.hypot(*(old - layer.weight.item() for old, layer in zip(before, layers)))


@number("momentum-default")
def _() -> float:
    return paddle.optimizer.Momentum(0.1, parameters=paddle.nn.Linear(1, 1).parameters())._momentum


@number("rmsprop")
def _() -> float:
    return _train(
        lambda m: torch.optim.RMSprop(m.parameters(), 0.01), lambda m: paddle.optimizer.RMSProp(0.01, parameters=m.parameters())
    )


@number("adagrad-epsilon")
def _() -> float:
    return paddle.optimizer.Adagrad(0.1, parameters=paddle.nn.Linear(1, 1).parameters())._epsilon


@number("adadelta-defaults")
def _() -> float:
    return _train(lambda m: torch.optim.Adadelta(m.parameters()), lambda m: paddle.optimizer.Adadelta(parameters=m.parameters()))


@number("asgd")
def _() -> float:
    return _train(
        lambda m: torch.optim.ASGD(m.parameters(), 0.1), lambda m: paddle.optimizer.ASGD(0.1, parameters=m.parameters())
    )


@number("clear-grad")
def _() -> float:
    t, p = torch.nn.Parameter(torch.ones(1)), paddle.create_parameter([1], "float32")
    p.set_value(np.ones(1, np.float32))
    ot, op = torch.optim.AdamW([t], 0.1, weight_decay=0.0), paddle.optimizer.AdamW(0.1, parameters=[p], weight_decay=0.0)
    for step in range(2):
        ot.zero_grad(), op.clear_grad()
        if step == 0:
            (2 * t).sum().backward(), (2 * p).sum().backward()
        ot.step(), op.step()
    return gap(t, p)


def _rates(schedule, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        found.append(schedule())
        schedule.step()
    return found


@number("polynomial-end")
def _() -> float:
    return _rates(paddle.optimizer.lr.PolynomialDecay(0.1, 10), 12)[-1]


@number("onecycle-end")
def _() -> float:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    reference = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
    for _ in range(19):
        optimizer.step(), reference.step()
    return _rates(paddle.optimizer.lr.OneCycleLR(0.1, 20), 20)[-1] / optimizer.param_groups[0]["lr"]


@number("noam-start")
def _() -> float:
    return _rates(paddle.optimizer.lr.NoamDecay(512, 4000), 1)[0]


@number("scheduler-get-lr")
def _() -> float:
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.1, 10)
    for _ in range(8):
        schedule.step()
    return schedule.get_lr() / schedule()


@number("drop-last")
def _() -> float:
    loader = paddle.io.DataLoader(paddle.io.TensorDataset([paddle.arange(10)]), batch_size=4, drop_last=True)
    return sum(len(batch[0]) for batch in loader)


@number("median")
def _() -> float:
    a, b = both(np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    assert gap(torch.median(a), paddle.median(b, mode="min")) == 0
    return gap(torch.median(a), paddle.median(b))


@number("log-softmax")
def _() -> float:
    a, b = both(np.array([[0.0, 100.0]], np.float32))
    return gap(TF.log_softmax(a, -1), PF.log_softmax(b, -1))


@number("silu")
def _() -> float:
    x = paddle.to_tensor([-95.0], stop_gradient=False)
    PF.silu(x).sum().backward()
    return x.grad.item()


@number("split")
def _() -> float:
    a, b = both(draw(6))
    assert len(torch.split(a, 2)) == 3
    return len(paddle.split(b, 2))


@number("ctc-logits")
def _() -> float:
    (t, p), (tl, pl) = both(draw(6, 2, 5)), both(np.array([[1, 2], [3, 4]], np.int32))
    lengths = [np.array([6, 6]), np.array([2, 2])]
    want = TF.ctc_loss(t.log_softmax(-1), tl, *(torch.tensor(one) for one in lengths))
    sizes = [paddle.to_tensor(one) for one in lengths]
    return max(gap(want, PF.ctc_loss(x, pl, *sizes)) for x in (p, PF.log_softmax(p, -1)))


@number("instancenorm-affine")
def _() -> float:
    return len(paddle.nn.InstanceNorm2D(3).parameters()) - len(list(torch.nn.InstanceNorm2d(3).parameters()))


@number("layernorm-axes")
def _() -> float:
    return len(paddle.nn.LayerNorm([3, 4]).weight.shape)


@number("ignored-all")
def _() -> float:
    (t, p), (tl, pl) = both(draw(2, 3)), both(np.array([-100, -100]))
    assert math.isnan(TF.cross_entropy(t, tl))
    return float(PF.cross_entropy(p, pl))


@number("layer-attribute")
def _() -> float:
    t, p = torch.nn.BatchNorm1d(1).eval(), paddle.nn.BatchNorm1D(1)
    p.eval()
    t.eps = p.eps = 1.0
    return gap(t(torch.ones(2, 1)), p(paddle.ones([2, 1])))


@number("layer-keyword")
def _() -> float:
    found = []
    for build, mean in ((torch.nn.BatchNorm1d, "running_mean"), (paddle.nn.BatchNorm1D, "_mean")):
        norm = build(1, momentum=0.1)
        norm(both(np.array([[0.0], [2.0]], np.float32))[build is paddle.nn.BatchNorm1D])
        found.append(float(getattr(norm, mean).item()))
    try:
        paddle.nn.BatchNorm1D(1, eps=1e-3)
    except TypeError:
        return found[1] / found[0]
    return 0.0


if __name__ == "__main__":
    torch.manual_seed(0)
    paddle.seed(0)
    print(json.dumps({name: measure() for name, measure in NUMBERS.items()}))
