# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Paddle's CPU defects, worked around by guards_paddle.py: the numbers are those of torch, and each use leaves a note."""
from __future__ import annotations

import numpy as np
import paddle
import pytest
import torch

from pipeline.align import guards_paddle

NOTES: set[str] = set()
RANDOM = np.random.default_rng(0)
CELLS = {"LSTM": "LSTM", "GRU": "GRU", "RNN": "SimpleRNN"}


@pytest.fixture(autouse=True)
def guards():
    NOTES.clear()
    guards_paddle.install(NOTES)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def both(x):
    return torch.tensor(x, requires_grad=True), paddle.to_tensor(x, stop_gradient=False)


def close(ours, theirs):
    np.testing.assert_allclose(theirs.numpy(), ours.detach().numpy(), rtol=1e-5, atol=1e-5)


def recurrent(name, bias=True, **more):
    """The same layer in both frameworks, batch first, with equal weights."""
    bidirectional = more.pop("bidirectional", False)
    options = {key: value for key, value in more.items() if key != "time_major"}
    ours = getattr(torch.nn, name)(4, 3, bias=bias, batch_first=True, bidirectional=bidirectional, **options)
    attributes = {} if bias else {"bias_ih_attr": False, "bias_hh_attr": False}
    theirs = getattr(paddle.nn, CELLS[name])(4, 3, direction="bidirect" if bidirectional else "forward", **attributes, **more)
    for key, value in ours.named_parameters():
        getattr(theirs, key).set_value(value.detach().numpy())
    return ours, theirs


def compare_recurrent(ours, theirs):
    x, y = both(draw(2, 5, 4))
    first, second = ours(x), theirs(y)
    close(first[0], second[0])
    for a, b in zip(
        first[1] if isinstance(first[1], tuple) else [first[1]], second[1] if isinstance(second[1], tuple) else [second[1]]
    ):
        close(a, b)
    weight = draw(*first[0].shape)
    (first[0] * torch.tensor(weight)).sum().backward()
    (second[0] * paddle.to_tensor(weight)).sum().backward()
    close(x.grad, y.grad)
    for key, value in ours.named_parameters():
        if value.grad is not None:
            close(value.grad, getattr(theirs, key).grad)


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_sequences_of_several_lengths_end_as_in_the_kernel(name, time_major):
    _, layer = recurrent(name, num_layers=2, bidirectional=True, **({"time_major": True} if time_major else {}))
    layer.eval()
    x, lengths = paddle.to_tensor(draw(*((7, 5) if time_major else (5, 7)), 4)), paddle.to_tensor([7, 3, 1, 5, 2])
    with paddle.no_grad():  # the kernel itself, which the guard leaves alone where nothing is differentiated
        expected = layer(x, sequence_length=lengths)[0]
    assert not NOTES
    got = layer(x, sequence_length=lengths)[0]
    assert len(NOTES) == 1
    np.testing.assert_allclose(got.numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_backward_in_eval_mode(name):
    ours, theirs = recurrent(name, num_layers=2, bidirectional=True)
    theirs.eval()
    compare_recurrent(ours.eval(), theirs)
    assert len(NOTES) == 1 and "eval mode has no backward" in next(iter(NOTES))


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_with_frozen_weights(name):
    ours, theirs = recurrent(name)
    ours.weight_hh_l0.requires_grad_(False)
    theirs.weight_hh_l0.stop_gradient = True
    compare_recurrent(ours, theirs)
    assert theirs.weight_hh_l0.grad is None
    assert "frozen weights" in next(iter(NOTES))


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_without_biases(name):
    """Unguarded, this ends the process with signal 11."""
    compare_recurrent(*recurrent(name, bias=False))
    assert "without biases" in next(iter(NOTES))


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_with_given_states_and_lengths(name):
    ours, theirs = recurrent(name, bias=False)
    state, x, lengths = draw(1, 2, 3), draw(2, 5, 4), [5, 3]
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), lengths, batch_first=True)
    states = (torch.tensor(state), torch.tensor(state)) if name == "LSTM" else torch.tensor(state)
    expected = torch.nn.utils.rnn.pad_packed_sequence(ours(packed, states)[0], batch_first=True)[0]
    given = (paddle.to_tensor(state), paddle.to_tensor(state)) if name == "LSTM" else paddle.to_tensor(state)
    found = theirs(paddle.to_tensor(x), given, paddle.to_tensor(lengths))[0].numpy()
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_working_recurrent_layers_are_left_alone():
    ours, theirs = recurrent("LSTM", num_layers=2)
    compare_recurrent(ours, theirs)
    theirs.eval()
    with paddle.no_grad():
        theirs(paddle.to_tensor(draw(2, 5, 4)))
    assert not NOTES


def test_group_norm_without_affine():
    x, y = both(draw(2, 6, 3, 3))
    weight = draw(2, 6, 3, 3)
    first = torch.nn.GroupNorm(3, 6, affine=False)(x)
    layer = paddle.nn.GroupNorm(3, 6, weight_attr=False, bias_attr=False)
    second = layer(y)
    close(first, second)
    (first * torch.tensor(weight)).sum().backward()
    (second * paddle.to_tensor(weight)).sum().backward()
    close(x.grad, y.grad)
    assert layer.weight is None and not list(layer.parameters())
    assert "GroupNorm" in next(iter(NOTES))


def test_batch_norm_with_batch_statistics_in_eval_mode():
    x, y = both(draw(4, 3, 2, 2))
    weight = draw(4, 3, 2, 2)
    first = torch.nn.BatchNorm2d(3, track_running_stats=False).eval()(x)
    layer = paddle.nn.BatchNorm2D(3, use_global_stats=False)
    layer.eval()
    second = layer(y)
    close(first, second)
    (first * torch.tensor(weight)).sum().backward()
    (second * paddle.to_tensor(weight)).sum().backward()
    close(x.grad, y.grad)
    assert not layer.training and layer._momentum == 0.9
    np.testing.assert_array_equal(layer._mean.numpy(), np.zeros(3))
    np.testing.assert_array_equal(layer._variance.numpy(), np.ones(3))
    assert "use_global_stats" in next(iter(NOTES))


@pytest.mark.parametrize("training", [True, False])
def test_sync_batch_norm_on_the_cpu(training):
    x, y = both(draw(4, 3, 2, 2))
    plain, layer = torch.nn.BatchNorm2d(3).train(training), paddle.nn.SyncBatchNorm(3)
    layer.train() if training else layer.eval()
    first, second = plain(x), layer(y)
    close(first, second)
    close(plain.running_mean, layer._mean)
    assert "SyncBatchNorm" in next(iter(NOTES))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(8, 5), (4, 5, 3), (4, 5, 3, 2)])
def test_nll_loss_with_ignored_labels(reduction, weighted, shape):
    """Unguarded, this writes outside of the tensor."""
    x, y = both(draw(*shape))
    labels = RANDOM.integers(0, 5, (shape[0], *shape[2:]))
    labels.flat[[0, 3]] = -100
    weight = RANDOM.random(5).astype("float32") if weighted else None
    first = torch.nn.NLLLoss(weight=torch.tensor(weight) if weighted else None, reduction=reduction)(x, torch.tensor(labels))
    second = paddle.nn.NLLLoss(weight=paddle.to_tensor(weight) if weighted else None, reduction=reduction)(
        y, paddle.to_tensor(labels)
    )
    close(first, second)
    first.backward()
    second.backward()
    close(x.grad, y.grad)
    assert "ignored labels" in next(iter(NOTES))


def test_nll_loss_without_ignored_labels_is_paddles():
    x, labels = draw(4, 5), np.array([0, 1, 2, 3])
    first = torch.nn.functional.nll_loss(torch.tensor(x), torch.tensor(labels))
    close(first, paddle.nn.functional.nll_loss(paddle.to_tensor(x), paddle.to_tensor(labels)))
    assert not NOTES


def test_installing_again_replaces_the_notes():
    other: set[str] = set()
    guards_paddle.install(other)
    paddle.nn.SyncBatchNorm(3)(paddle.to_tensor(draw(2, 3, 2, 2)))
    assert other and not NOTES
