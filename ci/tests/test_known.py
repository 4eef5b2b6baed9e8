# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Known differences: the formula is verified with both frameworks' real numbers, and anything beside it stays red."""
from __future__ import annotations

import math

import numpy as np
import pytest

from pipeline.align.compare import compare_arrays
from pipeline.align.known import REGISTRY, adam_bound, explain
from pipeline.align.records import read_record, write_record
from pipeline.align.thresholds import threshold
from pipeline.align.verdict import Rules, compare_records

BUFFERS, UPDATES = threshold("buffers"), threshold("updates")


def running_variances(batches: list[np.ndarray], momentum: float, initial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(torch's, Paddle's) running variance of float64 batches [n, channels], from their definitions."""
    torch = paddle = initial
    for batch in batches:
        torch = (1 - momentum) * torch + momentum * batch.var(0, ddof=1)
        paddle = (1 - momentum) * paddle + momentum * batch.var(0)
    return torch.astype(np.float32), paddle.astype(np.float32)


def setting(n: int | list[int], steps: int = 50, momentum: float = 0.1):
    random = np.random.default_rng(21)
    counts = [n] * steps if isinstance(n, int) else n
    initial = random.uniform(0.5, 2, 7)
    batches = [random.standard_normal((count, 7)) * random.uniform(0.5, 3, 7) for count in counts]
    context = {"kind": "running_variance", "momentum": momentum, "n": counts, "initial": initial.tolist()}
    return *running_variances(batches, momentum, initial), context


@pytest.mark.parametrize("n", [2, 4, 16, 256])
@pytest.mark.parametrize("momentum", [0.1, 0.01, 0.9])
def test_the_biased_running_variance_is_explained(n, momentum):
    torch, paddle, context = setting(n, momentum=momentum)
    assert not compare_arrays("v", torch, paddle, BUFFERS).passed
    rule = explain(torch, paddle, context, BUFFERS)
    assert rule.id == "running_variance" and "n / (n - 1)" in rule.formula


def test_anything_beside_the_formula_is_not_explained():
    torch, paddle, context = setting(4, steps=5)
    assert explain(torch, paddle, context, BUFFERS)
    assert not explain(torch, paddle * np.float32(1.01), context, BUFFERS)
    assert not explain(torch, np.where(np.arange(7) == 3, paddle * 1.01, paddle).astype(np.float32), context, BUFFERS)
    assert not explain(torch * 0, paddle * 0, context, BUFFERS)
    for n in ([4] * 6, [5] * 5, [], [1] * 5, None):
        assert not explain(torch, paddle, {**context, "n": n}, BUFFERS), n
    for change in ({"momentum": 0.2}, {"momentum": "x"}, {"initial": [1.0] * 7}, {"initial": [1.0]}, {"kind": 3}):
        assert not explain(torch, paddle, {**context, **change}, BUFFERS), change
    for broken in (None, {}, {"kind": "running_variance"}):
        assert explain(torch, paddle, broken, BUFFERS) is None
    bad = paddle.copy()
    bad[0] = np.nan
    assert explain(torch, bad, context, BUFFERS) is None and explain(torch, paddle[:3], context, BUFFERS) is None


def test_a_copied_momentum_is_not_explained():
    """CASES W8: the port passes 0.1 where Paddle wants 0.9."""
    random = np.random.default_rng(22)
    batches = [random.standard_normal((8, 7)) for _ in range(5)]
    initial = np.ones(7)
    torch, _ = running_variances(batches, 0.1, initial)
    _, paddle = running_variances(batches, 0.9, initial)
    for momentum in (0.1, 0.9):
        context = {"kind": "running_variance", "momentum": momentum, "n": [8] * 5, "initial": initial.tolist()}
        assert not explain(torch, paddle, context, BUFFERS)


def test_batches_of_several_sizes_are_bounded():
    torch, paddle, context = setting([16, 16, 16, 4])
    assert explain(torch, paddle, context, BUFFERS)
    for wrong in (torch * np.float32(1.2), paddle * np.float32(0.99)):
        assert not explain(wrong, paddle, context, BUFFERS)


def test_both_frameworks_keep_what_the_formula_says():
    """CASES W9: 50 steps of batch normalisation over N values; the ratio tends to n / (n - 1)."""
    import paddle
    import torch

    for n in (2, 4, 16, 256):
        ours, theirs = torch.nn.BatchNorm1d(5), paddle.nn.BatchNorm1D(5)
        random = np.random.default_rng(n)
        for _ in range(50):
            batch = random.standard_normal((n, 5)).astype(np.float32) + 1
            ours(torch.from_numpy(batch))
            theirs(paddle.to_tensor(batch))
        v_torch, v_paddle = ours.running_var.numpy(), theirs._variance.numpy()
        context = {"kind": "running_variance", "momentum": 1 - theirs._momentum, "n": [n] * 50, "initial": [1.0] * 5}
        assert explain(v_torch, v_paddle, context, BUFFERS)
        assert np.median(v_torch / v_paddle) == pytest.approx(n / (n - 1), rel=0.01)
        assert compare_arrays("m", ours.running_mean.numpy(), theirs._mean.numpy(), BUFFERS).passed


def test_the_bound_of_adam():
    """One step moves by at most lr (bias correction makes m / sqrt(v) a sign), and gradients of random size never exceed it."""
    assert adam_bound([0.1], (0.9, 0.999)) == pytest.approx(0.1)
    assert adam_bound([0.1, 0.2], (0.0, 0.5)) == pytest.approx(0.1 + 0.2 / math.sqrt(2 / 3))
    random = np.random.default_rng(23)
    for _ in range(200):
        gradients = random.standard_normal(8) * 10.0 ** random.uniform(-8, 0, 8)
        m = v = moved = 0.0
        for t, g in enumerate(gradients, 1):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            moved += 0.01 * (m / (1 - 0.9**t)) / math.sqrt(v / (1 - 0.999**t))
        assert abs(moved) <= adam_bound([0.01] * 8, (0.9, 0.999)) * (1 + 1e-12)


def test_adam_and_a_gradient_of_zero_in_both_frameworks():
    """The bias of a convolution before batch normalisation: its gradient is rounding, and Adam moves it by whole steps."""
    import paddle
    import torch

    weight = np.random.default_rng(24).standard_normal((4, 3, 3, 3)).astype(np.float32)
    batch = np.random.default_rng(25).standard_normal((6, 3, 8, 8)).astype(np.float32)
    target = np.random.default_rng(26).standard_normal((6, 4, 6, 6)).astype(np.float32)
    moved, gradients, scales = {}, {}, {}

    conv, norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
    conv.weight.data, conv.bias.data = torch.from_numpy(weight.copy()), torch.zeros(4)
    adam = torch.optim.Adam(conv.parameters(), 0.01)
    for _ in range(5):
        adam.zero_grad()
        (norm(conv(torch.from_numpy(batch))) * torch.from_numpy(target)).mean().backward()
        gradients["torch"] = max(gradients.get("torch", 0), float(conv.bias.grad.abs().max()))
        scales["torch"] = float(conv.weight.grad.abs().max())
        adam.step()
    moved["torch"] = conv.bias.detach().numpy()

    conv, norm = paddle.nn.Conv2D(3, 4, 3), paddle.nn.BatchNorm2D(4)
    conv.weight.set_value(weight)
    conv.bias.set_value(np.zeros(4, np.float32))
    adam = paddle.optimizer.Adam(0.01, parameters=conv.parameters())
    for _ in range(5):
        adam.clear_grad()
        (norm(conv(paddle.to_tensor(batch))) * paddle.to_tensor(target)).mean().backward()
        gradients["paddle"] = max(gradients.get("paddle", 0), float(conv.bias.grad.abs().max()))
        adam.step()
    moved["paddle"] = conv.bias.numpy()

    context = {"kind": "adam_zero_gradient", "gradients": list(gradients.values()), "module_gradient": scales["torch"],
               "learning_rates": [0.01] * 5, "betas": [0.9, 0.999]}  # fmt: skip
    assert np.abs(moved["torch"] - moved["paddle"]).max() > 1e-4
    assert explain(moved["torch"], moved["paddle"], context, UPDATES).id == "adam_zero_gradient"
    assert not explain(moved["torch"] + np.float32(0.2), moved["paddle"], context, UPDATES)
    assert not explain(moved["torch"], moved["paddle"], {**context, "gradients": [1e-9, scales["torch"] / 100]}, UPDATES)
    assert not explain(moved["torch"], moved["paddle"], {**context, "gradients": [1e-9]}, UPDATES)
    assert not explain(moved["torch"], moved["paddle"], {**context, "gradients": [1e-9, math.nan]}, UPDATES)


def test_the_verdict_shows_the_rule_and_passes(tmp_path):
    torch, paddle, context = setting(4, steps=5)
    good = np.arange(1, 8, dtype=np.float32)
    write_record(tmp_path / "t.npy", {"bn._variance": torch, "bn._mean": good}, {"framework": "torch"})
    write_record(tmp_path / "p.npy", {"bn._variance": paddle, "bn._mean": good}, {"known_context": {"bn._variance": context}})
    a, b = read_record(tmp_path / "t.npy"), read_record(tmp_path / "p.npy")
    result = compare_records("buffers", a, b, BUFFERS)
    assert result.passed and [(entry["id"], entry["key"]) for entry in result.known] == [("running_variance", "bn._variance")]
    assert result.keys[0].known == "running_variance" and result.keys[0].mean > 0 and set(result.known[0]) == {
        "id", "title", "formula", "source", "key"}  # fmt: skip
    assert not compare_records("buffers", a, b, BUFFERS, Rules(context={})).passed
    assert not compare_records("buffers", a, b, BUFFERS, Rules(context={"bn._variance": {**context, "n": [5] * 5}})).passed
    write_record(tmp_path / "p.npy", {"bn._variance": paddle, "bn._mean": good + 1}, {"known_context": {"bn._variance": context}})
    assert not compare_records("buffers", a, read_record(tmp_path / "p.npy"), BUFFERS).passed


def test_every_rule_states_its_formula_and_source():
    for rule in REGISTRY:
        assert rule.title and rule.formula and rule.source and rule.applies({"kind": rule.id}) and not rule.applies({})
