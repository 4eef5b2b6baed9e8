# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Parts of the steps by themselves: sampling, uneven batches, the initialisation test, random layers."""

import math
import types

import numpy as np
import paddle
import pytest
import torch

from pipeline.align import draws_paddle, draws_torch
from pipeline.align.init_test import constants_differ, difference, ks_p_value, ks_statistic
from pipeline.align.random_layers import Normals, RandomSwitch, enlarging, moved
from pipeline.align.steps.step2 import _same_metrics, chosen, uneven_batch
from pipeline.align.steps.step5 import Constants


@pytest.mark.parametrize("length, limit, count", [(10, 20, 10), (1000, 64, 64), (1, 5, 1), (10**7, 3, 3)])
def test_chosen_samples_are_spread_and_include_both_ends(length, limit, count):
    indices = chosen(length, limit)
    assert len(indices) == count == len(set(indices.tolist())) and indices[0] == 0 and indices[-1] == length - 1


@pytest.mark.parametrize("count, size", [(100, 50), (100, 32), (7, 7), (2, 2), (12, 4), (8, 100)])
def test_the_last_batch_is_smaller(count, size):
    batch = uneven_batch(count, size)
    assert 1 <= batch <= size and batch < count and (count % batch or batch <= 2)


class Hits:
    """A metric that fails, as scikit-learn's do, where there is one class only. `sign`: -1 for the opposite."""

    def __init__(self, sign: int = 1):
        self.sign, self.labels, self.right = sign, [], []

    def update(self, outputs, labels):
        self.labels += labels.tolist()
        self.right += ((self.sign * outputs["logits"] > 0) == (labels == 1)).tolist()

    def compute(self):
        if len(set(self.labels)) < 2:
            raise ValueError("only one class")
        return {"hits": sum(self.right) / len(self.right)}


def metrics_of(metric, logits, labels):
    contract = types.SimpleNamespace(build_metric=lambda cfg: metric(), compute=lambda one: one.compute())
    context = types.SimpleNamespace(cfg=None, contract=contract, backend=types.SimpleNamespace(tensor=lambda value: value))
    found = _same_metrics(context, {"output.logits": np.array(logits), "label": np.array(labels)}, 3)
    return {name: float(value[0]) for name, value in found.items()}


def test_opposite_metrics_that_agree_on_all_samples_differ_on_halves():
    logits, labels = [1, 1, -1, -1], [1, 0, 0, 1]
    right, wrong = metrics_of(Hits, logits, labels), metrics_of(lambda: Hits(-1), logits, labels)
    assert right == {"hits": 0.5, "hits (even samples)": 1.0, "hits (odd samples)": 0.0}
    assert wrong == {"hits": 0.5, "hits (even samples)": 0.0, "hits (odd samples)": 1.0}
    right = metrics_of(Hits, [1, -1, 1, -1], [1, 1, 1, 0])  # every second one has one class
    assert right == {"hits": 0.75, "hits (odd samples)": 0.5}


def test_ks_statistic_against_its_definition():
    assert ks_statistic(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert ks_statistic(np.array([1.0, 3.0]), np.array([2.0, 4.0])) == 0.5


def test_ks_p_value_against_the_published_table():
    # critical value at 5 % for large samples: 1.358 sqrt((n + m) / (n m))
    n = 100_000
    assert ks_p_value(1.358 * math.sqrt(2 / n), n, n) == pytest.approx(0.05, rel=0.01)
    assert ks_p_value(0.0, 10, 10) == 1


def test_equal_distributions_pass_and_torchs_default_differs_from_paddles():
    random = np.random.default_rng(0)
    for _ in range(200):
        assert difference(random.uniform(-1, 1, 500), random.uniform(-1, 1, 700), 50) is None
    fan_in, fan_out = 64, 10  # torch.nn.Linear against Paddle's XavierUniform (semantics of the initialisers)
    torch = random.uniform(-1, 1, 2000) / math.sqrt(fan_in)
    paddle = random.uniform(-1, 1, 2000) * math.sqrt(6 / (fan_in + fan_out))
    assert "std" in difference(torch, paddle, 50)
    assert "constant 0" in difference(torch, np.zeros(10), 50)
    assert difference(np.ones(4, np.float32), np.ones(9, np.float32), 1) is None
    assert difference(np.zeros(4), np.full(4, 1e-3), 1) is not None


def test_constants_of_fresh_networks_are_found_and_compared():
    constants = Constants()
    table = np.array([[0.0, 1.0], [-np.inf, 2.0]], np.float32)
    for seed in range(3):
        random = np.random.default_rng(seed).standard_normal((3, 4)).astype(np.float32)
        random[1] = 0  # a padding row
        constants.add({"weight": random, "noise": random[0], "table": table, "count": np.array(7)})
    arrays = constants.arrays()
    assert set(arrays) == {"@networks", "weight", "table", "count"} and arrays["@networks"] == 3
    assert np.isnan(arrays["weight"][[0, 2]]).all() and (arrays["weight"][1] == 0).all()
    weight, shown = arrays["weight"], arrays["table"]
    assert constants_differ(weight, weight) is None and constants_differ(shown, shown) is None
    assert constants_differ(shown, shown + [[0, 5e-5], [0, 0]]) is None  # rounding of a computed table
    said = constants_differ(weight, weight * np.nan)
    assert said == "4 of 12 elements are constant in the reference, random in the port: [1, 0]"
    assert "constant in the port" in constants_differ(weight * np.nan, weight)
    assert "reference 1, port 1.001" in constants_differ(shown, shown + [[0, 1e-3], [0, 0]])
    assert "reference -inf, port 0" in constants_differ(shown, np.where(np.isinf(shown), 0, shown))


def test_random_functions_run_with_probability_zero_inside_only():
    seen = []

    def dropout(x, p=0.5, training=True):
        seen.append(p)
        return x

    functional = types.SimpleNamespace(dropout=dropout)
    switch = RandomSwitch(functional)
    one = np.ones(1)
    functional.dropout(one, 0.3)
    with switch.off():
        functional.dropout(one, 0.3)
        functional.dropout(one, p=0.4, training=True)
    functional.dropout(one, p=0.2)
    assert seen == [0.3, 0.0, 0.0, 0.2] and switch.silenced == {"dropout"}


def test_dropout_is_counted_by_what_it_is_applied_to():
    """The same for a layer on attention weights and for the function that hides them, in either framework's layout."""

    def dropout(x, p=0.5, training=True):
        return x

    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=True):
        return query

    counts = []
    for module, query, key in (("torch", (2, 3, 5, 8), (2, 3, 7, 8)), ("paddle", (2, 5, 3, 8), (2, 7, 3, 8))):
        scaled_dot_product_attention.__module__ = f"{module}.nn.functional"
        functional = types.SimpleNamespace(dropout=dropout, scaled_dot_product_attention=scaled_dot_product_attention)
        switch = RandomSwitch(functional)
        functional.scaled_dot_product_attention(np.zeros(query), np.zeros(key), np.zeros(key), dropout_p=0.1)
        counts.append(switch.calls)
        assert switch.shapes[0.1, 210] == [2, 3, 5, 7]
    functional = types.SimpleNamespace(dropout=dropout)
    switch = RandomSwitch(functional)
    with switch.off():
        functional.dropout(np.zeros((6, 5, 7)), 0.1)
    functional.dropout(np.zeros((6, 5, 7)), 0.1, training=False)
    functional.dropout(np.zeros((6, 5, 7)), 0.0)
    counts.append(switch.calls)
    assert counts == [{(0.1, 2 * 3 * 5 * 7): 1}] * 3 and switch.probabilities == [0.1]


TORCH_KEEPS = {
    "bernoulli in place": lambda keep: torch.empty(3, 1).bernoulli_(keep),
    "bernoulli": lambda keep: torch.bernoulli(torch.full((3, 1), keep)),
    "method": lambda keep: torch.full((3, 1), keep).bernoulli(),
    "floor": lambda keep: (keep + torch.rand(3, 1)).floor_(),
    "less": lambda keep: (torch.rand(3, 1) < keep).float(),
    "uniform": lambda keep: (torch.empty(3, 1).uniform_(0, 1) < keep).float(),
    "greater": lambda keep: (torch.rand_like(torch.empty(3, 1)) > 1 - keep).float(),
}
PADDLE_KEEPS = {
    "bernoulli": lambda keep: paddle.bernoulli(paddle.full([3, 1], keep)),
    "in place": lambda keep: paddle.empty([3, 1]).bernoulli_(keep),
    "floor": lambda keep: (keep + paddle.rand([3, 1])).floor(),
    "less": lambda keep: (paddle.uniform([3, 1], min=0, max=1) < keep).astype("float32"),
    "rand_like": lambda keep: (paddle.rand_like(paddle.ones([3, 1])) > 1 - keep).astype("float32"),
}


@pytest.mark.parametrize("keep", [0.55, 0.9])
def test_paths_are_kept_however_their_random_numbers_are_drawn(keep):
    for draws, keeps in ((draws_torch, TORCH_KEEPS), (draws_paddle, PADDLE_KEEPS)):
        switch = RandomSwitch(types.SimpleNamespace(), draws)
        for name, drawn in keeps.items():
            with switch.off():
                assert np.asarray(drawn(keep)).tolist() == [[1.0]] * 3, name
            assert switch.silenced, name
            assert len({np.asarray(drawn(0.5)).tobytes() for _ in range(60)}) > 1, name  # random again outside
            switch.silenced.clear()


def test_normal_noise_is_the_same_on_both_sides():
    """By shape and count, so that its scale shows and the order among shapes does not."""
    torch_side, paddle_side = (RandomSwitch(types.SimpleNamespace(), draws) for draws in (draws_torch, draws_paddle))
    with torch_side.off():
        ours = [torch.randn(2, 3), torch.randn(4), torch.randn_like(torch.ones(2, 3)), torch.empty(2, 3).normal_(3.0, 0.5),
                torch.normal(1.0, torch.full((4,), 2.0)), torch.normal(0.0, 1.0, (4,))]  # fmt: skip
    with paddle_side.off():
        theirs = [paddle.randn([4]), paddle.randn([2, 3]), paddle.randn_like(paddle.ones([2, 3])),
                  paddle.empty([2, 3]).normal_(3.0, 0.5), paddle.normal(1.0, paddle.full([4], 2.0)),
                  paddle.standard_normal([4])]  # fmt: skip
    ours[0], ours[1] = ours[1], ours[0]
    for one, other in zip(ours, theirs):
        assert one.numpy().dtype == other.numpy().dtype and np.array_equal(one.numpy(), other.numpy())
    assert len({one.numpy().tobytes() for one in ours}) == len(ours)  # each draw is another one
    many = Normals()((100_000,))
    assert abs(many.mean()) < 0.01 and abs(many.std() - 1) < 0.01
    with torch_side.off():
        assert np.array_equal(torch.randn(4).numpy(), ours[0].numpy())  # the next pass begins again


def test_uniform_numbers_are_at_their_midpoints():
    with RandomSwitch(types.SimpleNamespace(), draws_torch).off():
        assert torch.empty(1).uniform_(-1, 4).item() == 1.5
    with RandomSwitch(types.SimpleNamespace(), draws_paddle).off():
        assert paddle.empty([1]).uniform_(-1, 4).item() == 1.5


def test_small_weights_are_enlarged_to_keep_the_size_of_activations():
    assert 0.02 * enlarging(0.02, 64) == pytest.approx(64**-0.5)
    assert enlarging(0.1, 1) == 1.0  # a factor, such as that of weight normalisation
    assert enlarging(0.125, 64) == 1.0 and enlarging(0.1, 64) == 1.0 and enlarging(0.0, 64) == 1.0


def test_moved_values_differ_everywhere_and_stay_positive_where_asked():
    random = np.random.default_rng(0)
    for values in (np.ones((3, 5), np.float32), np.zeros(7, np.float32)):
        got = moved(random, values)
        assert got.dtype == values.dtype and got.shape == values.shape and (got != values).all()
    assert (moved(random, np.ones(1000), positive=True) > 0.4).all()
