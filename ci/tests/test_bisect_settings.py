# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The comparison of settings: modules, and optimizers as both frameworks will really apply them."""
from __future__ import annotations

import numpy as np
import paddle
import paddle.nn as pn
import pytest
import torch
import torch.nn as tn

from pipeline.align.bisect import optimizer_paddle, optimizer_torch, optimizers, static
from pipeline.align.convert import describe_paddle, describe_torch


def differ(ours, theirs):
    return static.differences(describe_torch.describe(ours), describe_paddle.describe(theirs), [("", "")])


SAME = [
    (lambda: tn.Conv2d(3, 4, 3, padding=1), lambda: pn.Conv2D(3, 4, 3, padding="SAME")),
    (lambda: tn.Conv2d(3, 4, (3, 5), (1, 2), (1, 2)), lambda: pn.Conv2D(3, 4, [3, 5], [1, 2], [1, 2])),
    (lambda: tn.ConvTranspose2d(3, 4, 4, 2, 1), lambda: pn.Conv2DTranspose(3, 4, 4, 2, 1)),
    (lambda: tn.BatchNorm2d(3), lambda: pn.BatchNorm2D(3)),
    (lambda: tn.BatchNorm1d(3, momentum=0.3), lambda: pn.BatchNorm1D(3, momentum=0.7)),
    (lambda: tn.LayerNorm([3, 4]), lambda: pn.LayerNorm([3, 4])),
    (lambda: tn.GroupNorm(3, 6), lambda: pn.GroupNorm(3, 6)),
    (lambda: tn.InstanceNorm2d(3, affine=True), lambda: pn.InstanceNorm2D(3)),
    (lambda: tn.Embedding(3, 4), lambda: pn.Embedding(3, 4)),
    (lambda: tn.LSTM(3, 4, batch_first=True, bidirectional=True), lambda: pn.LSTM(3, 4, direction="bidirect")),
    (lambda: tn.RNN(3, 4, nonlinearity="relu"), lambda: pn.SimpleRNN(3, 4, activation="relu", time_major=True)),
    (lambda: tn.MultiheadAttention(4, 2, batch_first=True), lambda: pn.MultiHeadAttention(4, 2)),
    (lambda: tn.MaxPool2d(2), lambda: pn.MaxPool2D(2)),
    (lambda: tn.AvgPool2d(3, 2, 1), lambda: pn.AvgPool2D(3, 2, 1, exclusive=False)),
    (lambda: tn.AdaptiveAvgPool2d((2, 2)), lambda: pn.AdaptiveAvgPool2D(2)),
    (lambda: tn.Dropout(0.5), lambda: pn.Dropout(0.5)),
    (lambda: tn.Upsample(scale_factor=2, mode="bilinear"), lambda: pn.Upsample(scale_factor=2, mode="bilinear")),
    (lambda: tn.GELU("tanh"), lambda: pn.GELU(True)),
    (lambda: tn.LeakyReLU(0.2), lambda: pn.LeakyReLU(0.2)),
    (lambda: tn.SiLU(), lambda: pn.Swish()),
    (lambda: tn.Softmax(-1), lambda: pn.Softmax(-1)),
    (lambda: tn.Hardtanh(-2, 2), lambda: pn.Hardtanh(-2, 2)),
    (lambda: tn.Hardshrink(0.4), lambda: pn.Hardshrink(0.4)),
    (lambda: tn.Threshold(0.5, 0), lambda: pn.ThresholdedReLU(0.5, 0)),
    (lambda: tn.Flatten(), lambda: pn.Flatten()),
    (lambda: tn.Unfold(2, 1, 1, 1), lambda: pn.Unfold(2, 1, 1, 1)),
    (lambda: tn.ReflectionPad2d(1), lambda: pn.Pad2D(1, mode="reflect")),
    (lambda: tn.ModuleList(), lambda: pn.LayerList()),
    (lambda: tn.LocalResponseNorm(3), lambda: pn.LocalResponseNorm(3)),
    (lambda: tn.PixelShuffle(2), lambda: pn.PixelShuffle(2)),
]
OTHER = {
    "epsilon": (lambda: tn.LayerNorm(3), lambda: pn.LayerNorm(3, epsilon=1e-6), "1e-06", "1e-05"),
    "momentum": (lambda: tn.BatchNorm2d(3), lambda: pn.BatchNorm2D(3, momentum=0.1), "0.1", "0.9"),
    "stride": (lambda: tn.MaxPool2d(2), lambda: pn.MaxPool2D(2, 1), "1", "2"),
    "padding": (lambda: tn.Conv2d(3, 3, 3, padding=1), lambda: pn.Conv2D(3, 3, 3), "0", "1"),
    "dilation": (lambda: tn.Conv1d(3, 3, 3, dilation=2), lambda: pn.Conv1D(3, 3, 3), "1", "2"),
    "padding_mode": (
        lambda: tn.Conv2d(3, 3, 3, padding=1, padding_mode="circular"),
        lambda: pn.Conv2D(3, 3, 3, padding=1),
        "'zeros'",
        "'circular'",
    ),
    "exclusive": (lambda: tn.AvgPool2d(2), lambda: pn.AvgPool2D(2), "True", "False"),
    "ceil_mode": (lambda: tn.MaxPool2d(2, ceil_mode=True), lambda: pn.MaxPool2D(2), "False", "True"),
    "time_major": (lambda: tn.GRU(3, 4), lambda: pn.GRU(3, 4), "False", "True"),
    "p": (lambda: tn.Dropout(0.1), lambda: pn.Dropout(0.5), "0.5", "0.1"),
    "mode": (
        lambda: tn.Dropout(0.1),
        lambda: pn.Dropout(0.1, mode="downscale_in_infer"),
        "'downscale_in_infer'",
        "'upscale_in_train'",
    ),
    "align_corners": (
        lambda: tn.Upsample(scale_factor=2, mode="bilinear"),
        lambda: pn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        "True",
        "False",
    ),
    "align_mode": (
        lambda: tn.Upsample(scale_factor=2, mode="bilinear"),
        lambda: pn.Upsample(scale_factor=2, mode="bilinear", align_mode=1),
        "1",
        "0",
    ),
    "approximate": (lambda: tn.GELU(), lambda: pn.GELU(True), "True", "False"),
    "negative_slope": (lambda: tn.LeakyReLU(), lambda: pn.LeakyReLU(0.2), "0.2", "0.01"),
    "axis": (lambda: tn.Softmax(1), lambda: pn.Softmax(), "-1", "1"),
    "padding_idx": (lambda: tn.Embedding(3, 4), lambda: pn.Embedding(3, 4, padding_idx=0), "0", "None"),
    "num_heads": (lambda: tn.MultiheadAttention(4, 2, batch_first=True), lambda: pn.MultiHeadAttention(4, 4), "4", "2"),
    "normalize_before": (
        lambda: tn.TransformerEncoderLayer(4, 2, 8, norm_first=True),
        lambda: pn.TransformerEncoderLayer(4, 2, 8),
        "False",
        "True",
    ),
    "type": (lambda: tn.ReLU(), lambda: pn.GELU(), "'GELU'", "'ReLU'"),
}


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: type(pair[0]()).__name__)
def test_equal_settings_in_other_words(pair):
    assert not [one.text for one in differ(*(make() for make in pair))]


@pytest.mark.parametrize("name", OTHER)
def test_differing_settings_name_paddles_argument(name):
    ours, theirs, wrong, right = OTHER[name]
    found = [one.text for one in differ(ours(), theirs())]
    assert any(text.startswith(f"{name} of 'the model' is {wrong} in the port and must be {right}") for text in found), found


def test_dilation_is_lost_where_padding_is_same():
    found = differ(tn.Conv1d(3, 3, 3, padding="same", dilation=2), pn.Conv1D(3, 3, 3, padding="SAME", dilation=2))
    assert [one.setting for one in found] == ["padding"]


def test_attributes_of_own_modules_and_frozen_weights():
    class Ours(tn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.heads, self.fc = 0.5, 4, tn.Linear(2, 2)

    class Theirs(pn.Layer):
        def __init__(self):
            super().__init__()
            self.scale, self.heads, self.fc = 0.25, 4, pn.Linear(2, 2)
            self.fc.weight.stop_gradient = True

    trees = describe_torch.describe(Ours()), describe_paddle.describe(Theirs())
    found = static.differences(*trees, [("", ""), ("fc", "fc")])
    assert [(one.torch, one.setting, one.torch_value, one.paddle_value) for one in found] == [
        ("", "scale", 0.5, 0.25),
        ("fc", "weight frozen", False, True),
    ]


def nets():
    ours, theirs = tn.Sequential(tn.Linear(3, 4), tn.LayerNorm(4)), pn.Sequential(pn.Linear(3, 4), pn.LayerNorm(4))
    return ours, theirs, list(ours.parameters()), list(theirs.parameters())


NAMES = [(name, name) for name in ("0.weight", "0.bias", "1.weight", "1.bias")]


def described(make_ours, make_theirs):
    ours, theirs, mine, other = nets()
    return optimizer_torch.describe(make_ours(mine), ours), optimizer_paddle.describe(make_theirs(other), theirs)


SAME_OPTIMIZERS = {
    "momentum": (
        lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True),
        lambda p: paddle.optimizer.Momentum(0.1, 0.9, p, use_nesterov=True, weight_decay=0.01),
    ),
    "decay as a regularizer": (
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
        lambda p: paddle.optimizer.SGD(0.1, p, weight_decay=paddle.regularizer.L2Decay(0.01)),
    ),
    "groups": (
        lambda p: torch.optim.SGD(
            [{"params": p[:1], "lr": 0.02}, {"params": p[1:], "weight_decay": 0.0}], 0.1, 0.9, weight_decay=0.3
        ),
        lambda p: paddle.optimizer.Momentum(
            0.1, 0.9, [{"params": p[:1], "learning_rate": 0.2, "weight_decay": 0.3}, {"params": p[1:]}]
        ),
    ),
    "adam": (
        lambda p: torch.optim.Adam(p, 0.1, (0.8, 0.99), 1e-6, 0.2),
        lambda p: paddle.optimizer.Adam(0.1, 0.8, 0.99, 1e-6, p, 0.2),
    ),
    "adamw by function": (
        lambda p: torch.optim.AdamW([{"params": p[:1]}, {"params": p[1:], "weight_decay": 0.0}], 0.1),
        lambda p: paddle.optimizer.AdamW(0.1, parameters=p, apply_decay_param_fun=lambda name: name == p[0].name),
    ),
    "adamw by groups": (
        lambda p: torch.optim.AdamW([{"params": p[:1]}, {"params": p[1:], "weight_decay": 0.0}], 0.1),
        lambda p: paddle.optimizer.AdamW(0.1, parameters=[{"params": p[:1]}, {"params": p[1:], "weight_decay": 0.0}]),
    ),
}
OTHER_OPTIMIZERS = {
    "weight_decay is 0.0 in the port and must be 0.01": (
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.01),
        lambda p: paddle.optimizer.SGD(0.1, p),
    ),
    "weight_decay is 0.01 in the port and must be 0.0 for 2 of 4 parameters (0.bias, 1.bias)": (
        lambda p: torch.optim.AdamW([{"params": p[::2]}, {"params": p[1::2], "weight_decay": 0.0}], 0.1),
        lambda p: paddle.optimizer.AdamW(0.1, parameters=p),
    ),
    "learning_rate is 0.002": (
        lambda p: torch.optim.SGD([{"params": p[:1], "lr": 0.02}, {"params": p[1:]}], 0.1),
        lambda p: paddle.optimizer.SGD(0.1, [{"params": p[:1], "learning_rate": 0.02}, {"params": p[1:]}]),
    ),
    "momentum is 0.9 in the port and must be 0.8": (
        lambda p: torch.optim.SGD(p, 0.1, 0.8),
        lambda p: paddle.optimizer.Momentum(0.1, 0.9, p),
    ),
    "nesterov": (lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True), lambda p: paddle.optimizer.Momentum(0.1, 0.9, p)),
    "beta2": (lambda p: torch.optim.Adam(p, 0.1, (0.9, 0.99)), lambda p: paddle.optimizer.Adam(0.1, parameters=p)),
    "epsilon": (lambda p: torch.optim.Adam(p, 0.1, eps=1e-3), lambda p: paddle.optimizer.Adam(0.1, parameters=p)),
    "kind of weight decay": (
        lambda p: torch.optim.AdamW(p, 0.1, weight_decay=0.1),
        lambda p: paddle.optimizer.Adam(0.1, parameters=p, weight_decay=0.1),
    ),
    "the port uses Adam and the reference SGD": (
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: paddle.optimizer.Adam(0.1, parameters=p),
    ),
    "clips gradients (ClipGradByGlobalNorm 2.0)": (
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: paddle.optimizer.SGD(0.1, p, grad_clip=pn.ClipGradByGlobalNorm(2.0)),
    ),
    "the port's optimizer does not have 1 of 4 parameters (0.weight)": (
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: paddle.optimizer.SGD(0.1, p[1:]),
    ),
}


@pytest.mark.parametrize("name", SAME_OPTIMIZERS)
def test_equal_optimizers(name):
    assert not optimizers.differences(*described(*SAME_OPTIMIZERS[name]), NAMES)


@pytest.mark.parametrize("text", OTHER_OPTIMIZERS)
def test_differing_optimizers(text):
    found = optimizers.differences(*described(*OTHER_OPTIMIZERS[text]), NAMES)
    assert any(text in one for one in found), found


def test_updates_speak():
    random = np.random.default_rng(0)
    gradient, weight = random.standard_normal((4, 5)), random.standard_normal((4, 5))
    rate, decay = 0.1, 0.01
    plain, decayed = -rate * gradient, -rate * (gradient + decay * weight)
    assert "2 times the reference's" in optimizers.explain(plain, 2 * plain, weight, rate)
    assert "0.01 times" in optimizers.explain(decayed, plain, weight, rate) and "missing" in optimizers.explain(
        decayed, plain, weight, rate
    )
    assert "added" in optimizers.explain(plain, decayed, weight, rate)
    assert "does not change it" in optimizers.explain(plain, 0 * plain, weight, rate)
    assert optimizers.explain(plain, random.standard_normal((4, 5)), weight, rate) is None
