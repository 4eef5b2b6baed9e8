# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""paddle/parity.py against torch: values and gradients to 1e-6 of their size, optimizers after 20 steps, distributions."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import paddle
import pytest
import torch
import torch.nn.functional as TF

from conftest import TEMPLATE
from convert_models import assert_converts

sys.path.insert(0, str(TEMPLATE / "paddle"))
try:
    import parity
finally:
    sys.path.pop(0)

CLOSE = 2e-6


def gap(ours: torch.Tensor, theirs: paddle.Tensor) -> float:
    """The largest difference as a part of the largest value, at least 1."""
    a, b = ours.detach().numpy().astype(np.float64), theirs.detach().numpy().astype(np.float64)
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.array_equal(np.isnan(a), np.isnan(b))
    return float(np.nanmax(np.abs(a - b), initial=0) / max(1.0, np.nanmax(np.abs(a), initial=0)))


def agree(ours, theirs, *arrays: np.ndarray, limit: float = CLOSE) -> None:
    """Values and gradients of a function of float arrays on both sides."""
    x = [torch.tensor(array, requires_grad=True) for array in arrays]
    y = [paddle.to_tensor(array, stop_gradient=False) for array in arrays]
    a, b = ours(*x), theirs(*y)
    assert gap(a, b) <= limit
    weights = np.random.default_rng(9).normal(size=tuple(a.shape)).astype(arrays[0].dtype)
    (a * torch.tensor(weights)).sum().backward()
    (b * paddle.to_tensor(weights)).sum().backward()
    for one, other in zip(x, y):
        assert gap(one.grad, other.grad) <= limit


def logits(*shape: int, scale: float = 3.0, dtype: str = "float32") -> np.ndarray:
    return (scale * np.random.default_rng(1).normal(size=shape)).astype(dtype)


SHAPES = [(6, 5), (3, 5, 4), (2, 5, 3, 4)]
REDUCTIONS = ["mean", "sum", "none"]
OPTIONS = list(itertools.product([False, True], [0.0, 0.2], REDUCTIONS))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ignored", [None, -100, 2])
@pytest.mark.parametrize(
    ("weighted", "smoothing", "reduction"), OPTIONS
)
def test_cross_entropy(shape, ignored, weighted, smoothing, reduction):
    random = np.random.default_rng(2)
    labels = random.integers(0, 5, (shape[0], *shape[2:]))
    index = -100 if ignored is None else ignored
    if ignored == -100:
        labels.flat[0] = -100
    weight = random.uniform(0.5, 2, 5).astype(np.float32) if weighted else None
    agree(
        lambda x: TF.cross_entropy(
            x, torch.tensor(labels), None if weight is None else torch.tensor(weight), ignore_index=index,
            label_smoothing=smoothing, reduction=reduction,
        ),
        lambda x: parity.cross_entropy(
            x, paddle.to_tensor(labels), smoothing, index, None if weight is None else paddle.to_tensor(weight), reduction
        ),
        logits(*shape),
    )  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("weighted", "smoothing", "reduction"), OPTIONS
)
def test_cross_entropy_of_probabilities(shape, weighted, smoothing, reduction):
    random = np.random.default_rng(3)
    wanted = np.exp(random.normal(size=shape))
    wanted = (wanted / wanted.sum(1, keepdims=True)).astype(np.float32)
    weight = random.uniform(0.5, 2, 5).astype(np.float32) if weighted else None
    agree(
        lambda x: TF.cross_entropy(
            x, torch.tensor(wanted), None if weight is None else torch.tensor(weight), label_smoothing=smoothing,
            reduction=reduction,
        ),
        lambda x: parity.cross_entropy(
            x, paddle.to_tensor(wanted), smoothing, -100, None if weight is None else paddle.to_tensor(weight), reduction
        ),
        logits(*shape),
    )  # fmt: skip


def test_losses_at_the_edges():
    ignored = np.full(6, -100)
    for loss in (parity.cross_entropy, lambda x, y: parity.nll_loss(x, y)):
        assert math.isnan(loss(paddle.to_tensor(logits(6, 5)), paddle.to_tensor(ignored)).item())
    assert math.isnan(TF.cross_entropy(torch.tensor(logits(6, 5)), torch.tensor(ignored)).item())
    labels = np.arange(6) % 5
    for scale, dtype in ((1e4, "float32"), (3.0, "float64")):
        agree(
            lambda x: TF.cross_entropy(x, torch.tensor(labels)),
            lambda x: parity.cross_entropy(x, paddle.to_tensor(labels)),
            logits(6, 5, scale=scale, dtype=dtype),
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("weighted", "ignored", "reduction"), list(itertools.product([False, True], [-100, 2], REDUCTIONS))
)
def test_nll_loss(shape, weighted, ignored, reduction):
    random = np.random.default_rng(4)
    labels = random.integers(0, 5, (shape[0], *shape[2:]))
    labels.flat[-1] = ignored
    weight = random.uniform(0.5, 2, 5).astype(np.float32) if weighted else None
    agree(
        lambda x: TF.nll_loss(
            TF.log_softmax(x, 1), torch.tensor(labels), None if weight is None else torch.tensor(weight), ignore_index=ignored,
            reduction=reduction,
        ),
        lambda x: parity.nll_loss(
            parity.log_softmax(x, 1), paddle.to_tensor(labels), None if weight is None else paddle.to_tensor(weight), ignored,
            reduction,
        ),
        logits(*shape),
    )  # fmt: skip


@pytest.mark.parametrize("weighted, positive", itertools.product([False, True], repeat=2))
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_with_logits(weighted, positive, reduction):
    random, x = np.random.default_rng(6), logits(6, 5)
    x.flat[:9] = (0, 0, -0.0, -0.0, 1e-30, 30, -30, 200, -200)
    labels = random.integers(0, 2, x.shape).astype(np.float32)
    labels.flat[:4] = (0, 1, 0, 1)
    weights = [random.uniform(0.5, 2, shape).astype(np.float32) if given else None
               for given, shape in ((weighted, x.shape), (positive, 5))]  # fmt: skip
    ours, theirs = ([None if one is None else make(one) for one in weights] for make in (torch.tensor, paddle.to_tensor))
    agree(
        lambda v: TF.binary_cross_entropy_with_logits(
            v, torch.tensor(labels), ours[0], reduction=reduction, pos_weight=ours[1]
        ),
        lambda v: parity.binary_cross_entropy_with_logits(v, paddle.to_tensor(labels), theirs[0], reduction, theirs[1]),
        x,
    )


def test_log_softmax_is_not_cut():
    x = np.array([[0.0, -100.0, 50.0]], np.float32)
    agree(lambda v: TF.log_softmax(v, -1), lambda v: parity.log_softmax(v, -1), x)
    assert paddle.nn.functional.log_softmax(paddle.to_tensor(x)).min().item() > -65  # what it stands in for
    agree(lambda v: TF.log_softmax(v, 1), lambda v: parity.log_softmax(v, 1), logits(3, 5, 4))


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_smooth_l1_loss(beta, reduction):
    x, y = logits(4, 5), logits(4, 5)[::-1].copy()
    agree(
        lambda a, b: TF.smooth_l1_loss(a, b, beta=beta, reduction=reduction),
        lambda a, b: parity.smooth_l1_loss(a, b, beta, reduction), x, y,
    )  # fmt: skip


@pytest.mark.parametrize(("shape", "epsilon"), [(8, None), (8, 1e-3), ([4, 8], None)])
def test_rms_norm(shape, epsilon):
    ours, theirs = torch.nn.RMSNorm(shape, epsilon), parity.RMSNorm(shape, epsilon)
    weight = np.random.default_rng(5).normal(size=tuple(ours.weight.shape)).astype(np.float32)
    ours.weight.data = torch.tensor(weight)
    theirs.weight.set_value(weight)
    agree(ours, theirs, logits(3, 4, 8))


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 4, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(shape, affine):
    attr = None if affine else False
    ours, theirs = torch.nn.GroupNorm(3, 6, affine=affine), parity.GroupNorm(3, 6, weight_attr=attr, bias_attr=attr)
    agree(ours, theirs, logits(*shape), limit=5e-6)


def test_group_norm_at_a_large_mean():
    x = logits(2, 6, 64).astype(np.float64) + 1e4
    x = x.astype(np.float32)
    right = torch.nn.GroupNorm(3, 6).double()(torch.tensor(x).double()).detach().numpy()
    assert np.abs(parity.GroupNorm(3, 6)(paddle.to_tensor(x)).numpy() - right).max() < 2e-6
    assert np.abs(paddle.nn.GroupNorm(3, 6)(paddle.to_tensor(x)).numpy() - right).max() > 1e-4  # what it stands in for


@pytest.mark.parametrize(("kind", "shape"), [("1", (2, 4)), ("1", (3, 4, 5)), ("2", (2, 4, 3, 3)), ("3", (2, 4, 2, 3, 3))])
def test_batch_norm_keeps_torchs_variance(kind, shape):
    ours = getattr(torch.nn, f"BatchNorm{kind}d")(4, momentum=0.3)
    theirs = getattr(parity, f"BatchNorm{kind}D")(4, momentum=0.7)
    for step in range(5):
        x = np.random.default_rng(step).normal(1, 4, shape).astype(np.float32)
        agree(ours, theirs, x, limit=1e-5)
        assert gap(ours.running_mean, theirs._mean) < CLOSE and gap(ours.running_var, theirs._variance) < CLOSE
    ours.eval(), theirs.eval()
    agree(ours, theirs, x)
    assert gap(ours.running_var, theirs._variance) < CLOSE


def test_embedding_returns_its_padding_row():
    table = logits(7, 3)
    ours, theirs = torch.nn.Embedding(7, 3, padding_idx=-1), parity.Embedding(7, 3, padding_idx=-1)
    assert ours.weight[6].abs().sum() == 0 == theirs.weight[6].abs().sum()
    ours.weight.data = torch.tensor(table)
    theirs.weight.set_value(table)
    ids = np.array([[6, 1], [2, 6]])
    a, b = ours(torch.tensor(ids)), theirs(paddle.to_tensor(ids))
    assert gap(a, b) == 0 and a[0, 0].abs().sum() > 0
    (a * a).sum().backward(), (b * b).sum().backward()
    assert gap(ours.weight.grad, theirs.weight.grad) < CLOSE and theirs.weight.grad[6].abs().sum() == 0


def trained(side: str, make) -> np.ndarray:
    """The weights after 20 steps of a small regression under a moving learning rate."""
    random = np.random.default_rng(6)
    weight, inputs = random.normal(size=(5, 3)).astype(np.float32), random.normal(size=(20, 4, 5)).astype(np.float32)
    if side == "torch":
        w = torch.nn.Parameter(torch.tensor(weight))
        optimizer = make([w])
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + 0.2 * i))
        for x in inputs:
            optimizer.zero_grad()
            (torch.tensor(x) @ w).pow(2).sum().backward()
            optimizer.step()
            schedule.step()
        return w.detach().numpy()
    w = paddle.create_parameter([5, 3], "float32")
    w.set_value(weight)
    schedule = paddle.optimizer.lr.LambdaDecay(0.01, lambda i: 1 / (1 + 0.2 * i))
    optimizer = make([w], schedule)
    for x in inputs:
        (paddle.to_tensor(x) @ w).pow(2).sum().backward()
        optimizer.step()
        schedule.step()
        parity.clear_grad(optimizer)
        assert w.grad is None
    return w.numpy()


@pytest.mark.parametrize("options", [
    {}, {"alpha": 0.9, "eps": 1e-3}, {"momentum": 0.9}, {"centered": True},
    {"centered": True, "momentum": 0.5, "weight_decay": 0.1},
])  # fmt: skip
@pytest.mark.parametrize("grouped", [False, True])
def test_rmsprop(options, grouped):
    ours = trained("torch", lambda p: torch.optim.RMSprop(p, 0.01, **options))
    own = {"epsilon" if name == "eps" else name: value for name, value in options.items()}
    theirs = trained("paddle", lambda p, rate: parity.RMSProp(rate, parameters=[{"params": p}] if grouped else p, **own))
    assert np.abs(ours - theirs).max() < 2e-6


@pytest.mark.parametrize("options", [
    {}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5}, {"momentum": 0.8, "nesterov": True},
    {"momentum": 0.9, "weight_decay": 0.1},
])  # fmt: skip
@pytest.mark.parametrize("grouped", [False, True])
def test_sgd(options, grouped):
    ours = trained("torch", lambda p: torch.optim.SGD(p, 0.01, **options))
    theirs = trained("paddle", lambda p, rate: parity.SGD(rate, parameters=[{"params": p}] if grouped else p, **options))
    assert np.abs(ours - theirs).max() < 2e-6


@pytest.mark.parametrize(
    "options", [{}, {"anneal_strategy": "linear"}, {"three_phase": True}, {"pct_start": 0.2, "div_factor": 10.0}]
)
def test_one_cycle(options):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    ours = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40, cycle_momentum=False, **options)
    theirs = parity.OneCycleLR(0.1, 40, **options)
    for _ in range(39):
        assert theirs.get_lr() == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step(), ours.step(), theirs.step()


def bound_of(parameter) -> tuple[float, float]:
    values = parameter.numpy()
    return float(np.abs(values).max()), float(values.std())


UNIFORM = [
    (paddle.nn.Linear(400, 90), "weight", 400), (paddle.nn.Linear(400, 90), "bias", 400),
    (paddle.nn.Conv2D(32, 64, 3, groups=2), "weight", 16 * 9), (paddle.nn.Conv1D(64, 128, 5), "bias", 64 * 5),
    (paddle.nn.Conv2DTranspose(32, 64, 3), "weight", 64 * 9), (paddle.nn.Conv3D(8, 64, 3), "weight", 8 * 27),
    (paddle.nn.Bilinear(50, 20, 30), "weight", 50), (paddle.nn.LSTM(30, 100), "weight_ih_l0", 100),
    (paddle.nn.GRUCell(30, 100), "weight_hh", 100),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(UNIFORM)))
def test_initialise_draws_as_torch(number):
    """Uniform in +-1/sqrt(fan_in): the largest value is near the bound, the standard deviation is bound / sqrt(3)."""
    layer, name, fan_in = UNIFORM[number]
    paddle.seed(1)
    parity.initialise(layer)
    parameter = getattr(layer, name)
    largest, deviation = bound_of(parameter)
    bound, error = 1 / math.sqrt(fan_in), 5 / math.sqrt(parameter.size)
    assert largest <= bound and largest > bound * (1 - error)
    assert deviation == pytest.approx(bound / math.sqrt(3), rel=error)


def test_initialise_of_other_layers():
    paddle.seed(2)
    attention = paddle.nn.MultiHeadAttention(64, 4)
    table = parity.Embedding(500, 20, padding_idx=3)
    slope = paddle.nn.PReLU(4, init=0.9)
    for layer in (attention, table, slope):
        parity.initialise(layer)
    assert bound_of(attention.q_proj.weight)[0] <= math.sqrt(6 / 256) < 1.05 * bound_of(attention.q_proj.weight)[0]
    assert bound_of(attention.out_proj.weight)[0] <= 1 / 8 < 1.05 * bound_of(attention.out_proj.weight)[0]
    assert attention.q_proj.bias.abs().max() == 0 == attention.out_proj.bias.abs().max()
    ours = torch.nn.MultiheadAttention(64, 4)
    assert ours.in_proj_weight.abs().max() <= math.sqrt(6 / 256) and ours.out_proj.weight.abs().max() <= 1 / 8
    assert table.weight[3].abs().max() == 0 and table.weight.std().item() == pytest.approx(1, rel=0.05)
    assert slope._weight.numpy().tolist() == [0.25] * 4


def test_the_kit_converts_models_of_these_layers(tmp_path):
    """They follow the rules of the layers that they stand in for."""
    ours = torch.nn.ModuleDict({
        "table": torch.nn.Embedding(9, 6, padding_idx=0), "rms": torch.nn.RMSNorm(6), "norm": torch.nn.BatchNorm1d(4),
        "group": torch.nn.GroupNorm(2, 4),
    })  # fmt: skip
    theirs = paddle.nn.LayerDict({
        "table": parity.Embedding(9, 6, padding_idx=0), "rms": parity.RMSNorm(6), "norm": parity.BatchNorm1D(4),
        "group": parity.GroupNorm(2, 4),
    })  # fmt: skip

    def call(model, ids):
        return model["group"](model["norm"](model["rms"](model["table"](ids))))

    assert_converts(ours, theirs, [np.arange(8).reshape(2, 4) % 5], tmp_path, torch_call=call, paddle_call=call)
