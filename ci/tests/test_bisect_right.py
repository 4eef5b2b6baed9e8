# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Right ports that are written differently: bisect finds nothing; with a fault planted, it names the fault and not the style."""
from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import bisect_pairs
from bisect_pairs import Pair
from test_bisect_faults import CNN_PADDLE, CNN_TORCH, SEQ_TORCH, TOKENS, VIT_TORCH


@dataclass
class Style:
    """A right port; `fault`: (old, new) planted, then the place: `path` or `parent` that must be named."""

    torch: str
    paddle: str
    inputs: str = TOKENS
    weights_map: dict = field(default_factory=dict)
    fault: tuple[str, str] = ("", "")
    path: str | None = None
    parent: str | None = None
    stage: str = "forward"


IMAGE = "{shape: [3, 8, 8], dtype: float32, low: -2.0, high: 2.0}"
RENAMED = CNN_PADDLE
for old, new in (
    ("conv1", "a"),
    ("bn1", "na"),
    ("conv2", "b"),
    ("bn2", "nb"),
    ("stem", "first"),
    ("blocks", "body"),
    ("self.fc", "self.head"),
    ("Block", "Unit"),
):
    RENAMED = RENAMED.replace(old, new)

FUNCTIONS = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, padding=1)
        self.fc = nn.Linear(8, 5)
        self.blocks = nn.LayerList()
        for _ in range(3):
            block = nn.Layer()
            block.conv1, block.bn1 = nn.Conv2D(8, 8, 3, padding=1, bias_attr=False), nn.BatchNorm2D(8)
            block.conv2, block.bn2 = nn.Conv2D(8, 8, 3, padding=1), nn.BatchNorm2D(8)
            self.blocks.append(block)
    def forward(self, x):
        x = F.avg_pool2d(self.stem(x), 3, stride=2, padding=1, exclusive=False)
        for b in self.blocks:
            x = F.relu(x + b.bn2(b.conv2(F.relu(b.bn1(b.conv1(x))))))
        return self.fc(F.dropout(F.adaptive_avg_pool2d(x, 1).flatten(1), 0.3, training=self.training))
"""
# The activation belongs to the unit in torch and to the block in Paddle, which also splits its own forward differently.
UNITS_TORCH = """
class ConvBN(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU()
    def forward(self, x): return self.act(self.bn(self.conv(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 1)
        self.u1, self.u2, self.u3 = ConvBN(8), ConvBN(8), ConvBN(8)
        self.fc = nn.Linear(8, 5)
    def forward(self, x): return self.fc(self.u3(self.u2(self.u1(self.stem(x)))).mean((2, 3)))
"""
UNITS_PADDLE = """
class ConvBN(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.conv, self.bn = nn.Conv2D(c, c, 3, padding=1), nn.BatchNorm2D(c)
    def forward(self, x): return self.bn(self.conv(x))
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 1)
        self.u1, self.u2, self.u3 = ConvBN(8), ConvBN(8), ConvBN(8)
        self.act, self.fc = nn.ReLU(), nn.Linear(8, 5)
    def forward(self, x):
        x = self.stem(x)
        for u in (self.u1, self.u2, self.u3): x = self.act(u(x))
        return self.fc(x.mean((2, 3)))
"""
FLAT_PADDLE = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2D(3, 8, 1)]
        for _ in range(3): layers += [nn.Conv2D(8, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(8, 5))
    def forward(self, x): return self.body(x)
"""
# Fused attention in torch, separate projections and its own softmax in Paddle; time first against batch first.
TIME_TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 12, num_layers=2, dropout=0.2)
        self.mix = nn.MultiheadAttention(12, 3)
        self.act, self.fc = nn.GELU(), nn.Linear(12, 5)
    def forward(self, x):
        y, (h, c) = self.lstm(self.emb(x.t()))
        y = y + self.mix(y, y, y)[0]
        return self.fc(self.act(y[-1] + h[1]))
"""
TIME_PADDLE = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 12, num_layers=2, dropout=0.2)
        self.mix = nn.MultiHeadAttention(12, 3)
        self.act, self.fc = nn.GELU(), nn.Linear(12, 5)
    def forward(self, x):
        y, (h, c) = self.lstm(self.emb(x))
        y = y + self.mix(y)
        return self.fc(self.act(y[:, -1] + h[1]))
"""
# One module called in a loop, branches in another order, an unused head, a module that works in place.
SHARED_TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.left, self.right = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.act, self.spare, self.fc = nn.ReLU(inplace=True), nn.Linear(12, 3), nn.Linear(12, 5)
    def forward(self, x):
        for _ in range(3): x = self.act(self.inner(x)) + x
        y = self.left(x)
        self.act(y)
        z = torch.tanh(self.right(x))
        self.spare(z)
        return self.fc(y * z)
"""
SHARED_PADDLE = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner, self.left, self.right = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)
        self.spare, self.fc, self.tanh = nn.Linear(12, 3), nn.Linear(12, 5), nn.Tanh()
    def forward(self, x):
        for _ in range(3): x = F.relu(self.inner(x)) + x
        z = self.tanh(self.right(x))
        self.spare(z + 1.0)
        y = self.left(x)
        F.relu_(y)
        return self.fc(y * z)
"""
VECTOR = "{shape: [12], dtype: float32, low: -2.0, high: 2.0}"
# qkv in one matrix on one side.
QKV_TORCH = VIT_TORCH.replace(
    "self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))",
    "self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)",
).replace(
    "q, k, v = (f(x).reshape(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))",
    "q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)",
)
QKV_PADDLE = """
class Attention(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.h = 4
        self.qkv, self.o, self.drop = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Dropout(0.1)
    def forward(self, x):
        q, k, v = [y.reshape([0, 0, self.h, -1]) for y in self.qkv(x).chunk(3, -1)]
        a = paddle.einsum("nqhd,nkhd->nhqk", q, k) * (q.shape[-1] ** -0.5)
        return self.o(paddle.einsum("nhqk,nkhd->nqhd", self.drop(F.softmax(a)), v).flatten(2))
class Mlp(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
    def forward(self, x): return self.fc2(F.gelu(self.fc1(x)))
class Layer(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(d), Attention(d), nn.LayerNorm(d), Mlp(d)
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb, self.norm, self.fc = nn.Embedding(20, 16), nn.LayerNorm(16), nn.Linear(16, 5)
        self.layers = nn.LayerList([Layer(16) for _ in range(3)])
    def forward(self, x):
        x = self.emb(x)
        for layer in self.layers: x = layer(x)
        return self.fc(self.norm(x[:, 0]))
"""
CHANNELS_LAST = (
    CNN_PADDLE.replace("nn.Conv2D(", "Conv(")
    .replace("nn.BatchNorm2D(c)", "nn.BatchNorm2D(c, data_format='NHWC')")
    .replace("exclusive=False", "exclusive=False, data_format='NHWC'")
    .replace("x.mean((2, 3))", "x.mean((1, 2))")
    .replace("self.stem(x)", "self.stem(x.transpose([0, 2, 3, 1]))")
)
CHANNELS_LAST = "\ndef Conv(*args, **kwargs): return nn.Conv2D(*args, **kwargs, data_format='NHWC')\n" + CHANNELS_LAST
SEQ_PADDLE = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 10, direction="bidirect", time_major=True)
        self.mix = nn.MultiHeadAttention(20, 4)
        self.gru = nn.GRU(20, 9)
        self.fc = nn.Linear(9, 5)
    def forward(self, x):
        y, _ = self.lstm(self.emb(x.t()))
        bias = paddle.where(x > 14, -1e9 * paddle.ones(x.shape), paddle.zeros(x.shape)).unsqueeze([1, 2])
        y, _ = self.gru(self.mix(y.transpose([1, 0, 2]), attn_mask=bias))
        return self.fc(y[:, -1])
"""
#: The frameworks' defects that the kit works around: no bias in a recurrent layer, GroupNorm without affine, frozen weights.
DEFECTS_TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(20, 12), nn.RNN(12, 8, bias=False, batch_first=True)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.gru.weight_hh_l0.requires_grad_(False)
        self.norm, self.fc = nn.GroupNorm(2, 8, affine=False), nn.Linear(8, 5)
    def forward(self, x):
        y, _ = self.rnn(self.emb(x))
        y, _ = self.gru(y)
        return self.fc(self.norm(y.transpose(1, 2)).mean(-1))
"""
DEFECTS_PADDLE = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(20, 12), nn.SimpleRNN(12, 8, bias_ih_attr=False, bias_hh_attr=False)
        self.gru = nn.GRU(8, 8)
        self.gru.weight_hh_l0.stop_gradient = True
        self.norm, self.fc = nn.GroupNorm(2, 8, weight_attr=False, bias_attr=False), nn.Linear(8, 5)
    def forward(self, x):
        y, _ = self.rnn(self.emb(x))
        y, _ = self.gru(y)
        return self.fc(self.norm(y.transpose([0, 2, 1])).mean(-1))
"""


def net(base: str, init: str, result: str) -> str:
    """A network of one statement each."""
    return f"""
class Net(nn.{base}):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {result}
"""


ENCODER = [
    net(
        "Module",
        "self.emb, self.fc = nn.Embedding(20, 16), nn.Linear(16, 5)\n"
        "        layer = nn.TransformerEncoderLayer(16, 4, 32, norm_first=True, activation='gelu')\n"
        "        self.enc = nn.TransformerEncoder(layer, 2)",
        "return self.fc(self.enc(self.emb(x.t())).mean(0))",
    ),
    net(
        "Layer",
        "self.emb, self.fc = nn.Embedding(20, 16), nn.Linear(16, 5)\n"
        "        layer = nn.TransformerEncoderLayer(16, 4, 32, normalize_before=True, activation='gelu')\n"
        "        self.enc = nn.TransformerEncoder(layer, 2)",
        "return self.fc(self.enc(self.emb(x)).mean(1))",
    ),
]
# A dataclass with keyword arguments on one side, a dict with positional ones on the other.
OUTPUTS = [
    """
import dataclasses
@dataclasses.dataclass
class Out:
    last: object
    hidden: object = None
class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 8), nn.Linear(8, 8)
    def forward(self, x, scale=None, mask=None):
        h = torch.tanh(self.a(x)) * scale
        return Out(self.b(h), (h,))
"""
    + net(
        "Module",
        "self.enc, self.fc = Enc(), nn.Linear(8, 5)",
        "o = self.enc(x, scale=torch.ones(8) / 2); return self.fc(o.last + o.hidden[0])",
    ),
    """
class Enc(nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(12, 8), nn.Linear(8, 8)
    def forward(self, x, scale):
        h = paddle.tanh(self.a(x)) * scale
        return {"hidden": [h], "last": self.b(h)}
"""
    + net(
        "Layer",
        "self.enc, self.fc = Enc(), nn.Linear(8, 5)",
        "o = self.enc(x, paddle.ones([8]) / 2); return self.fc(o['last'] + o['hidden'][0])",
    ),
]
TIED = [
    net(
        "Module",
        "self.emb, self.a, self.out = nn.Embedding(5, 12), nn.Linear(12, 12), nn.Linear(12, 5, bias=False)\n"
        "        self.out.weight = self.emb.weight",
        "return self.out(torch.tanh(self.a(self.emb(x % 5)).mean(1)))",
    ),
    net(
        "Layer",
        "self.emb, self.a = nn.Embedding(5, 12), nn.Linear(12, 12)",
        "return paddle.matmul(paddle.tanh(self.a(self.emb(x % 5)).mean(1)), self.emb.weight, transpose_y=True)",
    ),
]
NORMS = [
    net(
        "Module",
        "self.a, self.b = nn.utils.weight_norm(nn.Linear(12, 8)), nn.utils.spectral_norm(nn.Linear(8, 8))\n"
        "        self.n, self.fc = nn.LayerNorm(8, elementwise_affine=False), nn.Linear(8, 5)\n"
        "        self.bn = nn.BatchNorm1d(8, affine=False)",
        "return self.fc(self.bn(torch.tanh(self.bn(self.n(self.b(self.a(x))))) * 2 + 1))",
    ),
    net(
        "Layer",
        "self.a, self.b = nn.utils.weight_norm(nn.Linear(12, 8), dim=1), nn.utils.spectral_norm(nn.Linear(8, 8))\n"
        "        self.n, self.fc = nn.LayerNorm(8, weight_attr=False, bias_attr=False), nn.Linear(8, 5)\n"
        "        self.bn = nn.BatchNorm1D(8, weight_attr=False, bias_attr=False)",
        "return self.fc(self.bn(paddle.tanh(self.bn(self.n(self.b(self.a(x))))) * 2 + 1))",
    ),
]
DOUBLE = [
    net(
        "Module",
        "self.a, self.fc = nn.Linear(12, 16).double(), nn.Linear(16, 5).double()",
        "return self.fc(torch.tanh(self.a(x.double())))",
    ),
    net("Layer", "self.a, self.fc = nn.Linear(12, 16), nn.Linear(16, 5)", "return self.fc(paddle.tanh(self.a(x)))"),
]
# Random numbers that no switch reaches, in train mode.
DROP_PATH = [
    net(
        "Module",
        "self.a, self.b, self.fc = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 5)",
        "h = self.a(x); return self.fc(h + self.b(h) * (torch.rand(len(h), 1).round() if self.training else 1))",
    ),
    net(
        "Layer",
        "self.a, self.b, self.fc = nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 5)",
        "h = self.a(x); return self.fc(h + self.b(h) * (paddle.rand([len(h), 1]).round() if self.training else 1))",
    ),
]
OWN_DROPOUT = [
    net(
        "Module",
        "self.a, self.drop, self.fc = nn.Linear(12, 16), nn.Dropout(0.3), nn.Linear(16, 5)",
        "return self.fc(self.drop(self.a(x)))",
    ),
    net(
        "Layer",
        "self.a, self.fc = nn.Linear(12, 16), nn.Linear(16, 5)",
        "h = self.a(x); return self.fc(h * paddle.bernoulli(paddle.full(h.shape, 0.7)) / 0.7 if self.training else h)",
    ),
]
FROZEN = [
    net(
        "Module",
        "self.a, self.bn, self.fc, self.idle = nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Linear(16, 5), nn.Linear(3, 3)\n"
        "        self.a.requires_grad_(False)",
        "return self.fc(self.bn(self.a(x)))",
    ),
    net(
        "Layer",
        "self.a, self.bn, self.fc, self.idle = nn.Linear(12, 16), nn.BatchNorm1D(16), nn.Linear(16, 5), nn.Linear(3, 3)\n"
        "        for p in self.a.parameters(): p.stop_gradient = True",
        "return self.fc(self.bn(self.a(x)))",
    ),
]
# Sequences of several lengths: packed in torch, with their lengths in Paddle.
LENGTHS = [
    net(
        "Module",
        "self.emb, self.a, self.fc = nn.Embedding(20, 12), nn.Linear(12, 8), nn.Linear(6, 5)\n"
        "        self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True)",
        "lengths = x[:, 0] % 5 + 3\n"
        "        y = nn.utils.rnn.pack_padded_sequence(self.a(self.emb(x)), lengths, batch_first=True, enforce_sorted=False)\n"
        "        y, (h, _) = self.lstm(y)\n"
        "        return self.fc(h[-1] + nn.utils.rnn.pad_packed_sequence(y, batch_first=True)[0].sum(1))",
    ),
    net(
        "Layer",
        "self.emb, self.a, self.fc = nn.Embedding(20, 12), nn.Linear(12, 8), nn.Linear(6, 5)\n"
        "        self.lstm = nn.LSTM(8, 6, num_layers=2)",
        "y, (h, _) = self.lstm(self.a(self.emb(x)), sequence_length=x[:, 0] % 5 + 3)\n        return self.fc(h[-1] + y.sum(1))",
    ),
]

STYLES = {
    "renamed": Style(CNN_TORCH, RENAMED, IMAGE),
    "renamed, residual missing": Style(CNN_TORCH, RENAMED, IMAGE, fault=("self.act(x + y)", "self.act(y)"), parent="blocks.0"),
    "functions": Style(CNN_TORCH, FUNCTIONS, IMAGE),
    "functions, activation missing": Style(
        CNN_TORCH, FUNCTIONS, IMAGE, fault=("F.relu(b.bn1(b.conv1(x)))", "b.bn1(b.conv1(x))"), path="blocks.0.conv2"
    ),
    "functions, pool leaves padding out": Style(CNN_TORCH, FUNCTIONS, IMAGE, fault=(", exclusive=False", ""), parent=""),
    "functions, gradient cut": Style(CNN_TORCH, FUNCTIONS, IMAGE, fault=("x + b.bn2(", "x.detach() + b.bn2("), stage="backward"),
    "units end elsewhere": Style(UNITS_TORCH, UNITS_PADDLE, IMAGE),
    "units end elsewhere, epsilon": Style(
        UNITS_TORCH,
        UNITS_PADDLE,
        IMAGE,
        fault=("self.act, self.fc", "self.u3.bn._epsilon = 1e-3\n        self.act, self.fc"),
        path="u3.bn",
    ),
    "units end elsewhere, pooling": Style(
        UNITS_TORCH, UNITS_PADDLE, IMAGE, fault=("x.mean((2, 3))", "x.sum((2, 3))"), path="fc", parent=""
    ),
    "flat": Style(UNITS_TORCH, FLAT_PADDLE, IMAGE),
    "time first": Style(TIME_TORCH, TIME_PADDLE),
    "time first, activation": Style(TIME_TORCH, TIME_PADDLE, fault=("nn.GELU()", "nn.Silu()"), path="act"),
    "time first, wrong layer's state": Style(TIME_TORCH, TIME_PADDLE, fault=("h[1]", "h[0]"), path="act", parent=""),
    "shared and in place": Style(SHARED_TORCH, SHARED_PADDLE, VECTOR),
    "shared and in place, one loop less": Style(SHARED_TORCH, SHARED_PADDLE, VECTOR, fault=("range(3)", "range(2)"), parent=""),
    "shared and in place, last activation": Style(
        SHARED_TORCH, SHARED_PADDLE, VECTOR, fault=("F.relu_(y)", "F.relu(y)"), path="fc", parent=""
    ),
    "qkv in one": Style(
        QKV_TORCH, QKV_PADDLE, weights_map={"layers.*.fc1": "layers.*.mlp.fc1", "layers.*.fc2": "layers.*.mlp.fc2"}
    ),
    "qkv in one, scale": Style(
        QKV_TORCH,
        QKV_PADDLE,
        weights_map={"layers.*.fc1": "layers.*.mlp.fc1", "layers.*.fc2": "layers.*.mlp.fc2"},
        fault=("** -0.5", "** -1"),
        parent="layers.0.attn",
    ),
    "channels last": Style(CNN_TORCH, CHANNELS_LAST, IMAGE),
    "channels last, batch norm": Style(
        CNN_TORCH,
        CHANNELS_LAST,
        IMAGE,
        fault=("self.bn2 = nn.BatchNorm2D(c, ", "self.bn2 = nn.BatchNorm2D(c, epsilon=1e-3, "),
        path="blocks.0.bn2",
    ),
    "additive mask": Style(SEQ_TORCH, SEQ_PADDLE),
    "additive mask, wrong step": Style(SEQ_TORCH, SEQ_PADDLE, fault=("y[:, -1]", "y[:, 0]"), path="fc", parent=""),
    "encoder": Style(*ENCODER),
    "encoder, wrong order": Style(
        *ENCODER, fault=("normalize_before=True", "normalize_before=False"), path="enc.layers.0.norm1", parent="enc.layers.0"
    ),
    "structured outputs": Style(*OUTPUTS, VECTOR),
    "structured outputs, wrong one": Style(*OUTPUTS, VECTOR, fault=("+ o['hidden'][0]", "+ o['last']"), path="fc", parent=""),
    "tied": Style(*TIED),
    "tied, one use cut off": Style(
        *TIED, fault=("self.emb.weight, tr", "self.emb.weight.detach(), tr"), stage="backward", path="emb"
    ),
    "normalised weights": Style(*NORMS, VECTOR),
    "double precision": Style(*DOUBLE, VECTOR),
    "double precision, activation": Style(*DOUBLE, VECTOR, fault=("paddle.tanh", "F.relu"), path="fc", parent=""),
    "random paths": Style(*DROP_PATH, VECTOR),
    "random paths, scaled before": Style(
        *DROP_PATH, VECTOR, fault=("self.a(x)", "self.a(x * (1.1 if self.training else 1))"), path="a"
    ),
    "own dropout": Style(*OWN_DROPOUT, VECTOR),
    "lengths": Style(*LENGTHS),
    "lengths, one too short": Style(*LENGTHS, fault=("% 5 + 3", "% 5 + 2"), path="lstm"),
    "lengths, wrong state": Style(*LENGTHS, fault=("h[-1]", "h[0]"), path="fc", parent=""),
    "lengths, no activation": Style(
        *LENGTHS, fault=("self.a(self.emb(x))", "F.relu(self.a(self.emb(x)))"), path="lstm", parent=""
    ),
    "lengths, gradient cut": Style(*LENGTHS, fault=("y.sum(1)", "y.detach().sum(1)"), stage="backward", path="lstm"),
    "frozen and idle": Style(*FROZEN, VECTOR),
    "defects worked around": Style(DEFECTS_TORCH, DEFECTS_PADDLE),
}


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("styles")
    pairs = {}
    for name, style in STYLES.items():
        assert style.fault[0] in style.paddle, name
        ported = style.paddle.replace(*style.fault) if style.fault[0] else style.paddle
        pairs[name.replace(" ", "_")] = Pair(style.torch, ported, style.inputs, style.weights_map)
    bisect_pairs.capture(folder, pairs)
    return folder


@pytest.mark.parametrize("name", STYLES)
def test_tells_style_from_fault(captured, name):
    style = STYLES[name]
    found, notes = bisect_pairs.compare(captured / name.replace(" ", "_"))
    if not style.fault[0]:
        assert found is None, found.paragraph
        return
    assert found is not None, notes
    assert found.stage == style.stage, found.paragraph
    if style.path is not None:
        assert found.torch["path"] == style.path, found.paragraph
    if style.parent is not None:
        owner = found.parent or found.torch
        assert owner["path"] == style.parent, found.paragraph
