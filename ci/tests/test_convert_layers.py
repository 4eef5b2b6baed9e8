# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Every layer type of the rule table: converted both ways with random weights, the outputs of both frameworks are equal."""

import numpy as np
import paddle
import pytest
import torch

from convert_models import assert_converts, make_plan, scramble, to_paddle
from pipeline.align.errors import UserError

T, P = torch.nn, paddle.nn
RANDOM = np.random.default_rng(7)


def normal(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def ids(top, *shape):
    return RANDOM.integers(0, top, shape)


IMAGE = (normal(2, 4, 9, 8),)
SIGNAL, VOLUME = (normal(2, 4, 11),), (normal(2, 4, 6, 5, 7),)
CASES = {
    "Linear": (T.Linear(5, 3), P.Linear(5, 3), (normal(2, 5),)),
    "Linear square": (T.Linear(8, 8), P.Linear(8, 8), (normal(2, 8),)),
    "Linear without bias": (T.Linear(8, 8, bias=False), P.Linear(8, 8, bias_attr=False), (normal(2, 8),)),
    "compat Linear square": (T.Linear(8, 8), paddle.compat.nn.Linear(8, 8), (normal(2, 8),)),
    "Conv1d": (T.Conv1d(4, 6, 3, padding=1), P.Conv1D(4, 6, 3, padding=1), SIGNAL),
    "Conv1d groups": (T.Conv1d(4, 4, 3, groups=2), P.Conv1D(4, 4, 3, groups=2), SIGNAL),
    "Conv2d": (T.Conv2d(4, 4, 3, stride=2), P.Conv2D(4, 4, 3, stride=2), IMAGE),
    "Conv2d depthwise": (T.Conv2d(4, 8, 3, groups=4), P.Conv2D(4, 8, 3, groups=4), IMAGE),
    "Conv2d 4x4 kernel square": (T.Conv2d(4, 4, 4), P.Conv2D(4, 4, 4), IMAGE),
    "Conv3d": (T.Conv3d(4, 2, 3, dilation=2), P.Conv3D(4, 2, 3, dilation=2), VOLUME),
    "Conv3d groups": (T.Conv3d(4, 4, 2, groups=2, bias=False), P.Conv3D(4, 4, 2, groups=2, bias_attr=False), VOLUME),
    "ConvTranspose1d": (T.ConvTranspose1d(4, 6, 3, 2), P.Conv1DTranspose(4, 6, 3, 2), SIGNAL),
    "ConvTranspose2d square": (T.ConvTranspose2d(4, 4, 3, 2), P.Conv2DTranspose(4, 4, 3, 2), IMAGE),
    "ConvTranspose2d groups": (T.ConvTranspose2d(4, 8, 3, groups=2), P.Conv2DTranspose(4, 8, 3, groups=2), IMAGE),
    "ConvTranspose3d": (T.ConvTranspose3d(4, 3, 2, groups=1), P.Conv3DTranspose(4, 3, 2, groups=1), VOLUME),
    "BatchNorm1d": (T.BatchNorm1d(4), P.BatchNorm1D(4), SIGNAL),
    "BatchNorm2d": (T.BatchNorm2d(4, eps=1e-3), P.BatchNorm2D(4, epsilon=1e-3), IMAGE),
    "BatchNorm2d not affine": (T.BatchNorm2d(4, affine=False), P.BatchNorm2D(4, weight_attr=False, bias_attr=False), IMAGE),
    "BatchNorm3d": (T.BatchNorm3d(4), P.BatchNorm3D(4), VOLUME),
    "BatchNorm2d to the old BatchNorm": (T.BatchNorm2d(4), P.BatchNorm(4), IMAGE),
    "SyncBatchNorm to BatchNorm2D": (T.SyncBatchNorm(4), P.BatchNorm2D(4), IMAGE),
    "LayerNorm": (T.LayerNorm(8), P.LayerNorm(8), IMAGE),
    "LayerNorm of two dimensions": (T.LayerNorm((9, 8)), P.LayerNorm((9, 8)), IMAGE),
    "LayerNorm of three dimensions": (T.LayerNorm((4, 9, 8)), P.LayerNorm((4, 9, 8)), IMAGE),
    "GroupNorm": (T.GroupNorm(2, 4), P.GroupNorm(2, 4), IMAGE),
    "InstanceNorm1d": (T.InstanceNorm1d(4, affine=True), P.InstanceNorm1D(4), SIGNAL),
    "InstanceNorm2d": (T.InstanceNorm2d(4, affine=True), P.InstanceNorm2D(4), IMAGE),
    "InstanceNorm3d": (T.InstanceNorm3d(4, affine=True), P.InstanceNorm3D(4), VOLUME),
    "Embedding": (T.Embedding(11, 5), P.Embedding(11, 5), (ids(11, 3, 4),)),
    "Embedding square": (T.Embedding(6, 6), P.Embedding(6, 6), (ids(6, 3, 4),)),
    "PReLU": (T.PReLU(4), P.PReLU(4), IMAGE),
    "PReLU shared": (T.PReLU(), P.PReLU(), IMAGE),
    "Bilinear": (T.Bilinear(4, 5, 3), P.Bilinear(4, 5, 3), (normal(2, 4), normal(2, 5))),
    "Bilinear cube": (T.Bilinear(4, 4, 4), P.Bilinear(4, 4, 4), (normal(2, 4), normal(2, 4))),
}


@pytest.mark.parametrize("name", CASES)
def test_layer(name, tmp_path):
    assert_converts(*CASES[name], tmp_path)


CELLS = {"LSTM": (T.LSTM, P.LSTM), "GRU": (T.GRU, P.GRU), "RNN": (T.RNN, P.SimpleRNN)}


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, False), (1, True), (2, True)])
def test_recurrent(name, layers, both, tmp_path):
    ours, theirs = CELLS[name]
    direction = "bidirect" if both else "forward"
    made = assert_converts(
        ours(5, 5, layers, batch_first=True, bidirectional=both),
        theirs(5, 5, layers, direction=direction),
        (normal(2, 4, 5),),
        tmp_path,
    )
    # Paddle's state_dict lists every tensor twice; each is converted once
    assert len(made.rows) == 4 * layers * (1 + both)
    assert len(made.aliases["paddle"]) == len(made.rows)


@pytest.mark.parametrize(("layers", "both"), [(1, False), (2, True)])
def test_lstm_with_projection(layers, both, tmp_path):
    direction = "bidirect" if both else "forward"
    ours = T.LSTM(5, 4, layers, batch_first=True, bidirectional=both, proj_size=3)
    assert_converts(ours, P.LSTM(5, 4, layers, direction=direction, proj_size=3), (normal(2, 4, 5),), tmp_path)


@pytest.mark.parametrize(
    ("ours", "theirs", "state"), [(T.LSTMCell, P.LSTMCell, 2), (T.GRUCell, P.GRUCell, 1), (T.RNNCell, P.SimpleRNNCell, 1)]
)
def test_recurrent_cell(ours, theirs, state, tmp_path):
    inputs = (normal(2, 4), *(normal(2, 4) for _ in range(state)))
    assert_converts(
        ours(4, 4),
        theirs(4, 4),
        inputs,
        tmp_path,
        torch_call=lambda m, x, *s: m(x, s if state == 2 else s[0]),
        paddle_call=lambda m, x, *s: m(x, s if state == 2 else s[0])[1],
    )


@pytest.mark.parametrize("both", [False, True])
def test_recurrent_against_a_wrapped_cell(both, tmp_path):
    cells = [P.GRUCell(5, 4) for _ in range(2)]
    theirs = P.BiRNN(*cells) if both else P.RNN(cells[0])
    assert_converts(
        T.GRU(5, 4, batch_first=True, bidirectional=both),
        theirs,
        (normal(2, 3, 5),),
        tmp_path,
        torch_call=lambda m, x: m(x)[0],
        paddle_call=lambda m, x: m(x)[0],
    )


def test_recurrent_without_bias_against_biases_at_zero(tmp_path):
    """Paddle crashes without biases, so a right port keeps them at zero."""
    ours, theirs = T.LSTM(5, 4, bias=False, batch_first=True), P.LSTM(5, 4)
    scramble(theirs, 1)
    made = to_paddle(ours, theirs, tmp_path)
    x = normal(2, 3, 5)
    with torch.no_grad():
        assert np.abs(ours(torch.from_numpy(x))[0].numpy() - theirs(paddle.to_tensor(x))[0].numpy()).max() < 1e-5
    assert [row.op for row in made.rows if row.torch is None] == ["fill 0", "fill 0"]


class Ours(T.Module):
    """Attention of torch, batch first."""

    def __init__(self, **options):
        super().__init__()
        self.attn = T.MultiheadAttention(8, 2, batch_first=True, **options)

    def forward(self, q, k, v):
        return self.attn(q, k, v, need_weights=False)[0]


class Theirs(P.Layer):
    def __init__(self, **options):
        super().__init__()
        self.attn = P.MultiHeadAttention(8, 2, **options)

    def forward(self, q, k, v):
        return self.attn(q, k, v)


def test_attention(tmp_path):
    made = assert_converts(Ours(), Theirs(), (normal(2, 5, 8), normal(2, 6, 8), normal(2, 6, 8)), tmp_path)
    cut = [row for row in made.rows if row.torch == "attn.in_proj_weight"]
    assert [(row.paddle, row.torch_part, row.op) for row in cut] == [
        ("attn.q_proj.weight", (0, 0, 8), "T"),
        ("attn.k_proj.weight", (0, 8, 16), "T"),
        ("attn.v_proj.weight", (0, 16, 24), "T"),
    ]


def test_attention_without_bias(tmp_path):
    assert_converts(Ours(bias=False), Theirs(bias_attr=False), (normal(2, 5, 8),) * 3, tmp_path)


def test_attention_with_other_sizes_of_keys_and_values(tmp_path):
    ours, theirs = Ours(kdim=6, vdim=7), Theirs(kdim=6, vdim=7)
    assert_converts(ours, theirs, (normal(2, 5, 8), normal(2, 4, 6), normal(2, 4, 7)), tmp_path)


def test_attention_to_the_compatible_attention(tmp_path):
    class Compatible(P.Layer):
        def __init__(self):
            super().__init__()
            self.attn = paddle.compat.nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, q, k, v):
            return self.attn(q, k, v, need_weights=False)[0]

    made = assert_converts(Ours(), Compatible(), (normal(2, 5, 8),) * 3, tmp_path)
    assert {row.op for row in made.rows} == {"id"}


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_encoder(norm_first, tmp_path):
    ours = T.TransformerEncoder(T.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=norm_first), 2, T.LayerNorm(8))
    theirs = P.TransformerEncoder(P.TransformerEncoderLayer(8, 2, 12, normalize_before=norm_first), 2, P.LayerNorm(8))
    assert_converts(ours, theirs, (normal(2, 5, 8),), tmp_path)


def test_transformer_encoder_layer_whose_matrices_are_square(tmp_path):
    assert_converts(
        T.TransformerEncoderLayer(8, 2, 8, batch_first=True), P.TransformerEncoderLayer(8, 2, 8), (normal(2, 5, 8),), tmp_path
    )


def test_transformer_decoder(tmp_path):
    ours = T.TransformerDecoder(T.TransformerDecoderLayer(8, 2, 12, batch_first=True), 2)
    theirs = P.TransformerDecoder(P.TransformerDecoderLayer(8, 2, 12), 2)
    made = assert_converts(
        ours, theirs, (normal(2, 5, 8), normal(2, 6, 8)), tmp_path, paddle_call=lambda m, x, y: m(x, y, None, None)
    )
    assert {row.paddle.split(".")[2] for row in made.rows if row.torch.split(".")[2] == "multihead_attn"} == {"cross_attn"}


def test_transformer(tmp_path):
    ours, theirs = T.Transformer(8, 2, 1, 1, 12, batch_first=True), P.Transformer(8, 2, 1, 1, 12)
    assert_converts(ours, theirs, (normal(2, 5, 8), normal(2, 6, 8)), tmp_path)


def test_transformer_layer_without_biases(tmp_path):
    """torch drops the biases of LayerNorm too, Paddle keeps them: they are filled with zero and said to be."""
    ours = T.TransformerEncoderLayer(8, 2, 12, batch_first=True, bias=False)
    theirs = P.TransformerEncoderLayer(8, 2, 12, bias_attr=False)
    scramble(ours)
    scramble(theirs)
    made = to_paddle(ours, theirs, tmp_path)
    assert sorted(row.paddle for row in made.rows if row.torch is None) == ["norm1.bias", "norm2.bias"]
    x = normal(2, 5, 8)
    ours.eval(), theirs.eval()
    with torch.no_grad():
        assert np.abs(ours(torch.from_numpy(x)).numpy() - theirs(paddle.to_tensor(x)).numpy()).max() < 1e-5


def test_adaptive_softmax_whose_tail_paddle_does_not_register(tmp_path):
    ours = T.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10], div_value=2.0, head_bias=True)
    theirs = P.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10], div_value=2.0, head_bias=True)
    assert_converts(
        ours,
        theirs,
        (normal(6, 16), ids(20, 6)),
        tmp_path,
        torch_call=lambda m, x, y: m.log_prob(x),
        paddle_call=lambda m, x, y: m.log_prob(x),
    )


NORMED = {
    "Linear": (lambda: T.Linear(6, 6), lambda: P.Linear(6, 6), (normal(2, 6),)),
    "Conv2d": (lambda: T.Conv2d(4, 4, 3), lambda: P.Conv2D(4, 4, 3), IMAGE),
    "ConvTranspose2d": (lambda: T.ConvTranspose2d(4, 4, 3), lambda: P.Conv2DTranspose(4, 4, 3), IMAGE),
}


@pytest.mark.parametrize("name", NORMED)
@pytest.mark.parametrize("new", [False, True])
def test_weight_norm(name, new, tmp_path):
    ours, theirs, inputs = NORMED[name]
    norm = T.utils.parametrizations.weight_norm if new else T.utils.weight_norm
    assert_converts(norm(ours()), P.utils.weight_norm(theirs(), dim=1 if name == "Linear" else 0), inputs, tmp_path)


def test_weight_norm_over_everything(tmp_path):
    assert_converts(
        T.utils.weight_norm(T.Conv2d(4, 4, 3), dim=None), P.utils.weight_norm(P.Conv2D(4, 4, 3), dim=None), IMAGE, tmp_path
    )


@pytest.mark.parametrize("name", NORMED)
@pytest.mark.parametrize("new", [False, True])
def test_spectral_norm(name, new, tmp_path):
    ours, theirs, inputs = NORMED[name]
    norm = T.utils.parametrizations.spectral_norm if new else T.utils.spectral_norm
    assert_converts(norm(ours()), P.utils.spectral_norm(theirs()), inputs, tmp_path)


def test_weight_norm_of_another_axis_is_refused():
    """Square, so shapes fit; but the norm is over the other axis."""
    with pytest.raises(UserError, match=r"dim 0 in torch and 0 in Paddle.*must be 1"):
        make_plan(T.utils.weight_norm(T.Linear(6, 6)), P.utils.weight_norm(P.Linear(6, 6), dim=0))


POINTWISE = {
    "Conv1d to Linear": (T.Conv1d(6, 6, 1), P.Linear(6, 6), 1, 0),
    "Conv2d to Linear": (T.Conv2d(6, 6, 1), P.Linear(6, 6), 2, 0),
    "Conv3d to Linear": (T.Conv3d(6, 5, 1), P.Linear(6, 5), 3, 0),
    "Linear to Conv1D": (T.Linear(6, 6), P.Conv1D(6, 6, 1), 0, 1),
    "Linear to Conv2D": (T.Linear(6, 6), P.Conv2D(6, 6, 1), 0, 2),
    "Linear to Conv3D": (T.Linear(6, 5), P.Conv3D(6, 5, 1), 0, 3),
    "Conv2d to Conv1D": (T.Conv2d(6, 6, 1), P.Conv1D(6, 6, 1), 2, 1),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_convolution_and_linear_layer(name, tmp_path):
    ours, theirs, ours_dims, theirs_dims = POINTWISE[name]

    def call(dims, swap):
        def run(model, x):  # x: (batch, 6)
            y = model(x.reshape([2, 6] + [1] * dims) if dims else x)
            return y.reshape([2, -1])

        return run

    assert_converts(ours, theirs, (normal(2, 6),), tmp_path, torch_call=call(ours_dims, 0), paddle_call=call(theirs_dims, 0))


def test_wider_convolution_is_no_linear_layer():
    with pytest.raises(UserError, match="not a 1x1 convolution"):
        make_plan(T.Sequential(T.Conv2d(4, 6, 2)), P.Sequential(P.Linear(4, 6)))


def test_sync_batch_norm_keeps_its_four_tensors(tmp_path):
    ours, theirs = scramble(T.SyncBatchNorm(4)), P.SyncBatchNorm(4)
    to_paddle(ours, theirs, tmp_path)
    for name, other in (("weight", "weight"), ("bias", "bias"), ("running_mean", "_mean"), ("running_var", "_variance")):
        assert np.array_equal(ours.state_dict()[name].numpy(), theirs.state_dict()[other].numpy())


def test_group_norm_without_affine_against_frozen_constants(tmp_path):
    """The way around Paddle's wrong gradient: weight 1 and bias 0 that do not train."""
    ours, theirs = T.GroupNorm(2, 4, affine=False), P.GroupNorm(2, 4)
    theirs.weight.stop_gradient = theirs.bias.stop_gradient = True
    theirs.weight.set_value(np.full(4, 3, np.float32))
    made = to_paddle(T.Sequential(ours, scramble(T.Conv2d(4, 4, 1))), P.Sequential(theirs, P.Conv2D(4, 4, 1)), tmp_path)
    assert {row.paddle: row.fill for row in made.rows if row.torch is None} == {"0.weight": 1.0, "0.bias": 0.0}
    assert theirs.weight.numpy().tolist() == [1, 1, 1, 1]


NOT_CONVERTIBLE = {
    "running statistics of InstanceNorm": (
        T.InstanceNorm2d(4, affine=True, track_running_stats=True),
        P.InstanceNorm2D(4),
        "running statistics",
    ),
    "bias_k": (T.MultiheadAttention(8, 2, add_bias_kv=True), P.MultiHeadAttention(8, 2), "bias_k"),
    "no running statistics": (T.BatchNorm2d(4, track_running_stats=False), P.BatchNorm2D(4), "track_running_stats=False"),
    "cumulative average": (T.BatchNorm2d(4, momentum=None), P.BatchNorm2D(4), "momentum=None"),
    "affine on one side": (T.BatchNorm2d(4, affine=False), P.BatchNorm2D(4), "no counterpart"),
    "bias on one side": (T.Linear(4, 4, bias=False), P.Linear(4, 4), "no counterpart"),
    "bias on the other": (T.Linear(4, 4), P.Linear(4, 4, bias_attr=False), "no counterpart"),
    "other layer count": (T.LSTM(4, 4, 2), P.LSTM(4, 4, 1), "2 layers"),
    "other head count": (T.MultiheadAttention(8, 2), P.MultiHeadAttention(8, 4), "2 heads"),
    "other group count": (T.Conv2d(4, 4, 3, groups=2), P.Conv2D(2, 4, 3), "2 groups"),
    "norm on one side": (T.utils.weight_norm(T.Linear(4, 4)), P.Linear(4, 4), "weight_norm"),
    "unknown parametrisation": (T.utils.parametrizations.orthogonal(T.Linear(4, 4)), P.Linear(4, 4), "parametrisation"),
}


@pytest.mark.parametrize("name", NOT_CONVERTIBLE)
def test_not_convertible(name):
    ours, theirs, reason = NOT_CONVERTIBLE[name]
    with pytest.raises(UserError, match=reason):
        make_plan(ours, theirs)


def test_embedding_and_an_output_head(tmp_path):
    """torch multiplies by the table, the port has a Linear layer for it; and the other way round."""
    ours, theirs = T.Module(), P.Layer()
    ours.head, theirs.head = T.Embedding(6, 6), P.Linear(6, 6, bias_attr=False)
    assert_converts(
        ours,
        theirs,
        (normal(2, 6),),
        tmp_path,
        torch_call=lambda m, x: x @ m.head.weight.T,
        paddle_call=lambda m, x: m.head(x),
    )
    ours.head, theirs.head = T.Linear(6, 6, bias=False), P.Embedding(6, 6)
    assert_converts(
        ours,
        theirs,
        (normal(2, 6),),
        tmp_path,
        torch_call=lambda m, x: m.head(x),
        paddle_call=lambda m, x: paddle.matmul(x, m.head.weight, transpose_y=True),
    )
