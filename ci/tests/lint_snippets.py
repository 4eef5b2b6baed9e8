# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Code for the tests of lint: faults, by the rule that must find them, and right code that nothing must be found in.

In WRONG the line that must be named ends in "#!". Imports are written as ports write them, so names take many ways.
"""

from __future__ import annotations

HEAD = "import paddle\nimport paddle.nn as nn\nimport paddle.nn.functional as F\n"

WRONG: dict[str, list[str]] = {
    "cross-entropy-axis": [
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2D(3, 8, 3), nn.BatchNorm2D(8), nn.ReLU())
        self.head = nn.Conv2D(8, classes, 1)

    def forward(self, x, y):
        logits = F.interpolate(self.head(self.body(x)), scale_factor=2)
        return F.cross_entropy(logits, y)  #!
""",
        HEAD
        + """
head = nn.Sequential(nn.Linear(8, 5), nn.ReLU())
def step(rows, y):
    x = nn.Embedding(9, 8)(rows.reshape([4, 7]))
    return F.cross_entropy(paddle.transpose(head(x), perm=[0, 2, 1]), y)  #!
""",
        HEAD
        + """
loss = nn.CrossEntropyLoss()  #!
conv = nn.Conv1D(3, 4, 1)
def step(x, y):
    return loss(conv(x), y)
""",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 10)
        self.rows = nn.Embedding(5, 8)

    def forward(self, x, y):
        return F.cross_entropy(input=self.fc(self.rows(x).reshape([4, 7, 8])).transpose([0, 2, 1]), label=y)  #!
""",
        # the contract of this repository: build_model, forward, build_loss
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.head = nn.Conv2DTranspose(8, 3, 2, 2)

    def forward(self, x):
        return self.head(x)

def build_model(cfg):
    return Net()

def forward(model, batch):
    return {"logits": model(batch[0])}

def build_loss(cfg):
    return lambda outputs, labels: F.cross_entropy(outputs["logits"], labels)  #!
""",
    ],
    "cross-entropy-ignored": [
        HEAD + "def f(x, y):\n    return F.cross_entropy(x, y, ignore_index=-100)  #!\n",
        "from paddle.nn import CrossEntropyLoss as CE\nIGNORED = -1\nloss = CE(None, IGNORED)  #!\n",
        HEAD + "def build_loss(cfg):\n    ignored = cfg.loss.ignore_index\n"
        "    return lambda o, y: F.cross_entropy(o, y, ignore_index=ignored)  #!\n",
    ],
    "cross-entropy-smoothing": [
        HEAD + "def f(x, y, w):\n    return F.cross_entropy(x, y, weight=w, label_smoothing=0.1)  #!\n",
        HEAD + "loss = nn.CrossEntropyLoss(axis=1, label_smoothing=0.1)  #!\n",
        HEAD + "loss = nn.CrossEntropyLoss(ignore_index=255, label_smoothing=0.1)  #!\n",
    ],
    "cross-entropy-soft-weight": [HEAD + "def f(x, y, w):\n    return F.cross_entropy(x, y, w, soft_label=True)  #!\n"],
    "nll-ignored": [
        HEAD + "loss = nn.NLLLoss(ignore_index=0)  #!\n",
        HEAD + "def f(x, y):\n    return F.nll_loss(x, y, None, -100, 'sum')  #!\n",
    ],
    "smooth-l1-delta": [
        HEAD + "loss = nn.SmoothL1Loss(delta=0.11)  #!\n",
        HEAD + "def f(x, y, beta):\n    return F.smooth_l1_loss(x, y, 'mean', beta)  #!\n",
    ],
    "adaptive-softmax": [HEAD + "loss = nn.AdaptiveLogSoftmaxWithLoss(8, 100, [10, 50])  #!\n"],
    "batchnorm-momentum": [
        HEAD + "bn = nn.BatchNorm2D(8, momentum=0.1)  #!\n",
        HEAD + "settings = dict(momentum=0.1, epsilon=1e-3)\nbn = nn.BatchNorm2D(8, **settings)  #!\n",
        HEAD + "def set_up(model):\n    for m in model.sublayers():\n        m._momentum = 0.01  #!\n",
        "from paddle.nn import BatchNorm1D\nBN_MOMENTUM = 0.1\nbn = BatchNorm1D(8, BN_MOMENTUM)  #!\n",
        "from paddle.nn.layer.norm import BatchNorm3D\nbn = BatchNorm3D(8, 1e-5, 0.9)  #!\n",
        HEAD + "from functools import partial\nnorm = partial(nn.BatchNorm2D, momentum=0.01, epsilon=1e-3)  #!\n",
        HEAD + "class BN(nn.BatchNorm2D):\n    def __init__(self, n):\n        super().__init__(n, momentum=0.03)  #!\n",
        HEAD + "class Net(nn.Layer):\n    def __init__(self, n, momentum=0.1):\n        super().__init__()\n"
        "        self.momentum = momentum\n        self.bn = nn.BatchNorm2D(n, momentum=self.momentum)  #!\n",
    ],
    "batchnorm-global-stats": [HEAD + "bn = nn.BatchNorm2D(8, use_global_stats=False)  #!\n"],
    "groupnorm-affine": [HEAD + "gn = nn.GroupNorm(2, 8, weight_attr=False, bias_attr=False)  #!\n"],
    "avgpool-padding": [
        HEAD + "pool = nn.AvgPool2D(3, stride=2, padding=1)  #!\n",
        "from paddle.nn import functional as FF\ndef f(x, k):\n    return FF.avg_pool1d(x, k, 1, k // 2)  #!\n",
    ],
    "maxpool-positions": [HEAD + "pool = nn.MaxPool2D(3, 2, 1, 1)  #!\n"],
    "conv-same-dilation": [
        HEAD + "conv = nn.Conv2D(3, 8, 3, padding='same', dilation=2)  #!\n",
        HEAD + "D = [2, 2]\ndef f(x, w):\n    return F.conv2d(x, w, padding='SAME', dilation=D)  #!\n",
    ],
    "conv-transpose-positions": [HEAD + "up = nn.Conv2DTranspose(4, 8, 3, 2, 1, 1, 2)  #!\n"],
    "grid-sample-corners": [
        HEAD + "def f(x, g):\n    return F.grid_sample(x, g, mode='bilinear')  #!\n",
        "import paddle\ndef f(t, s):\n    return paddle.nn.functional.affine_grid(t, s)  #!\n",
    ],
    "interpolate-align-mode": [
        HEAD + "def f(x):\n    return F.interpolate(x, scale_factor=2, mode='bilinear', align_mode=1)  #!\n"
    ],
    "embedding-padding": [
        HEAD + "rows = nn.Embedding(10, 4, padding_idx=0)  #!\n",
        HEAD + "PAD = 1\nrows = nn.Embedding(10, 4, PAD)  #!\n",
        HEAD + "rows = nn.Embedding(10, 4, 0, weight_attr=nn.initializer.Normal())  #!\n",
        HEAD + "def f(ids, table):\n    return F.embedding(ids, table, padding_idx=0)  #!\n",
    ],
    "attention-mask": [
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16)
        self.encoder = nn.TransformerEncoder(layer, 2)

    def forward(self, x, tokens, pad):
        return self.encoder(x, paddle.equal(tokens, pad).unsqueeze([1, 2]))  #!
""",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiHeadAttention(8, 2)

    def forward(self, x, key_padding_mask):
        return self.attention(x, attn_mask=key_padding_mask[:, None, None, :])  #!
""",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiHeadAttention(8, 2)

    def forward(self, x, tokens):
        mask = (tokens == 0)[:, None, None, :]
        return self.attention(x, x, x, mask)  #!
""",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.decoder = nn.TransformerDecoderLayer(8, 2, 16)

    def forward(self, x, memory):
        future = paddle.triu(paddle.ones([5, 5], dtype="bool"), diagonal=1)
        return self.decoder(x, memory, tgt_mask=future)  #!
""",
    ],
    "time-first": [
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x):
        x = paddle.transpose(x, perm=[1, 0, 2])
        return self.lstm(x)  #!
""",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x):
        return self.encoder(x.transpose([1, 0, 2]))  #!
""",
    ],
    "rnn-no-bias": [HEAD + "rnn = nn.GRU(4, 4, bias_ih_attr=False, bias_hh_attr=False)  #!\n"],
    "dropout-training": [
        HEAD + "def f(x):\n    return F.dropout(x, 0.1)  #!\n",
        "from paddle.nn.functional import dropout\ndef f(x):\n    return dropout(x, p=0.5)  #!\n",
    ],
    "dropout-mode": [HEAD + "drop = nn.Dropout(0.5, mode='downscale_in_infer')  #!\n"],
    "kaiming-slope": ["import math\n" + HEAD + "init = nn.initializer.KaimingUniform(negative_slope=math.sqrt(5))  #!\n"],
    "adamw-decay-names": [
        HEAD + "def build(m):\n    return paddle.optimizer.AdamW(0.1, parameters=m.parameters(),  #!\n"
        "        apply_decay_param_fun=lambda name: 'bias' not in name)\n",
        HEAD + "def decays(name):\n    return not name.endswith(('bias', 'norm.weight'))\n"
        "def build(m):\n    return paddle.optimizer.AdamW(0.1, parameters=m.parameters(), apply_decay_param_fun=decays)  #!\n",
    ],
    "adamw-regularizer": [
        HEAD + "attr = paddle.ParamAttr(regularizer=paddle.regularizer.L2Decay(0.0))  #!\n"
        "def build(m):\n    return paddle.optimizer.AdamW(0.1, parameters=m.parameters())\n",
    ],
    "group-lr": [
        HEAD + "def build(m):\n    return paddle.optimizer.Adam(0.1, parameters=[{'params': m.parameters(), 'lr': 1e-4}])  #!\n"
    ],
    "group-learning-rate": [
        HEAD + "def build(m):\n    groups = {'params': m.parameters(), 'learning_rate': 1e-4}  #!\n"
        "    return paddle.optimizer.Adam(0.1, parameters=[groups])\n",
        HEAD + "def build(m, cfg):\n    groups = [{'params': m.parameters(), 'learning_rate': cfg.optimizer.lr_backbone}]  #!\n"
        "    return paddle.optimizer.Adam(0.1, parameters=groups)\n",
    ],
    "clip-groups": [
        HEAD + "def build(a, b):\n    clip = nn.ClipGradByGlobalNorm(1.0)\n    groups = [{'params': a}, {'params': b}]\n"
        "    return paddle.optimizer.Momentum(0.1, momentum=0.9, parameters=groups, grad_clip=clip)  #!\n",
    ],
    "momentum-default": [HEAD + "def build(m):\n    return paddle.optimizer.Momentum(0.1, parameters=m.parameters())  #!\n"],
    "rmsprop": ["from paddle.optimizer import RMSProp\ndef build(m):\n    return RMSProp(0.1, parameters=m.parameters())  #!\n"],
    "adagrad-epsilon": [HEAD + "def build(m):\n    return paddle.optimizer.Adagrad(0.1, parameters=m.parameters())  #!\n"],
    "adadelta-defaults": [HEAD + "def build(m):\n    return paddle.optimizer.Adadelta(parameters=m.parameters())  #!\n"],
    "asgd": ["import paddle.optimizer as optim\ndef build(m):\n    return optim.ASGD(0.1, parameters=m.parameters())  #!\n"],
    "polynomial-end": ["from paddle.optimizer.lr import PolynomialDecay\ns = PolynomialDecay(0.1, 100, power=0.9)  #!\n"],
    "onecycle-end": ["from paddle.optimizer import lr\ns = lr.OneCycleLR(0.1, 100)  #!\n"],
    "noam-start": ["import paddle\ns = paddle.optimizer.lr.NoamDecay(512, 4000)  #!\n"],
    "scheduler-get-lr": [
        "import paddle\nschedule = paddle.optimizer.lr.CosineAnnealingDecay(0.1, 10)\nprint(schedule.get_lr())  #!\n",
        "def log(lr_scheduler):\n    return lr_scheduler.get_lr()  #!\n",
        "class T:\n    def log(self):\n        return self.scheduler.get_lr()  #!\n",
    ],
    "drop-last": [
        "from paddle.io import DataLoader\ndef build(d):\n    return DataLoader(d, batch_size=4, drop_last=True)  #!\n"
    ],
    "load-torch-file": [
        "import paddle\nw = paddle.load('resnet50.pth')  #!\n",
        "import os\nimport paddle\ndef f(d):\n    return paddle.load(os.path.join(d, 'model.pth'))  #!\n",
        "import paddle\ndef f(d):\n    return paddle.load(f'{d}/pytorch_model.bin')  #!\n",
        "import paddle\nNAME = 'weights/model.pt'\nw = paddle.load(NAME)  #!\n",
    ],
    "torch-import": ["import torch.nn as nn  #!\n", "def f():\n    from torchvision.ops import nms  #!\n    return nms\n"],
    "package-init": ["#!\n"],
    "view": [
        HEAD + "def f(x):\n    return x.view(x.shape[0], -1)  #!\n",
        HEAD + "def f(x):\n    return (x + 1).view([2, 3])  #!\n",
    ],
    "float-tensor": [
        "import paddle\nv = float(paddle.to_tensor([1.5]))  #!\n",
        "import paddle\ndef f():\n    x = paddle.ones([1])\n    return float(x)  #!\n",
    ],
    "layer-attribute": [
        HEAD
        + """
class Same(nn.Conv2D):
    def forward(self, x):
        return F.conv2d(x, self.weight, stride=self.stride)  #!
""",
        HEAD
        + """
def freeze(net):
    for m in net.sublayers():
        if isinstance(m, nn.BatchNorm2D) and m.training:
            m.eps = 1e-3  #!
""",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.out = nn.Linear(self.fc.out_features, 2)  #!
""",
        HEAD + "bn = nn.BatchNorm1D(4)\nprint(bn.running_mean)  #!\n",
        "from paddle import nn\ndef f(m):\n    if isinstance(m, (nn.Conv2D, nn.Conv1D)):\n        return m.kernel_size  #!\n",
    ],
    "layer-keyword": [
        HEAD
        + """
def unit(c, norm_layer=None):
    if norm_layer is None:
        norm_layer = nn.BatchNorm2D
    return norm_layer(c, eps=1e-3)  #!
""",
        "from functools import partial\nfrom paddle import nn\nnorm = partial(nn.BatchNorm2D, eps=1e-6)  #!\n",
        HEAD + "def act(x, layer=nn.ReLU):\n    return layer(inplace=True)(x)  #!\n",
        HEAD
        + """
class Net(nn.Layer):
    def __init__(self, norm=None):
        super().__init__()
        self.norm_layer = norm or nn.BatchNorm2D
        self.bn = self.norm_layer(8, affine=False)  #!
""",
    ],
    "layer-by-name": [
        HEAD + "def pool(n):\n    return getattr(nn, 'MaxPool{}d'.format(n))(2)  #!\n",
        HEAD + "def pool(n):\n    name = f'MaxPool{n}d'  #!\n    return getattr(nn, name)(2)\n",
        HEAD + "up = getattr(nn, 'ConvTranspose2d')(3, 4, 2)  #!\n",
    ],
    "median": ["import paddle\ndef f(x):\n    return paddle.median(x, axis=-1)  #!\n"],
}

RIGHT: list[str] = [
    HEAD
    + """
class Same(nn.Conv2D):
    def __init__(self, cin, cout, size, stride):
        super().__init__(cin, cout, size, stride)
        self.stride, self.groups = stride, 1

    def forward(self, x):
        return F.conv2d(x, self.weight, stride=self.stride, groups=self.groups) * self._padding


class Norm(nn.Layer):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps


def build(n, name, norm=None, m=None, other=Norm):
    norm = norm or nn.BatchNorm2D
    if isinstance(m, Norm):
        return m.eps
    made = [norm(8, epsilon=1e-3, momentum=0.9), other(eps=1e-3), getattr(nn, f"Conv{n}D")(3, 4, 2), getattr(nn, name)()]
    made.append(m.momentum if isinstance(m, nn.BatchNorm2D) or n else getattr(F, "conv2d"))
    return made
""",
    HEAD
    + """
class Net(nn.Layer):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Conv2D(3, 8, 3)
        self.last = nn.Conv2D(3, classes, 3, data_format="NHWC")
        self.fc = nn.Linear(8, classes)
        self.flat = nn.Sequential(nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(8, classes))

    def forward(self, x, y):
        maps = self.conv(x)
        a = F.cross_entropy(maps, y, axis=1)
        b = F.cross_entropy(self.fc(maps.mean(axis=[2, 3])), y)
        c = F.cross_entropy(maps.transpose([0, 2, 3, 1]), y)
        d = F.cross_entropy(maps.flatten(2).transpose([0, 2, 1]), y)
        e = F.cross_entropy(self.flat(maps), y) + F.cross_entropy(self.last(x), y)
        maps = maps.transpose([0, 2, 3, 1]).reshape([-1, 8])
        return a + b + c + d + e + F.cross_entropy(maps, y) + F.cross_entropy(self.fc(x), y)
""",
    HEAD
    + """
loss = nn.CrossEntropyLoss()
other = nn.CrossEntropyLoss(ignore_index=255)
smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
plain = nn.CrossEntropyLoss(weight=paddle.ones([3]), ignore_index=-1, label_smoothing=0.0)
soft = nn.CrossEntropyLoss(soft_label=True)
mean = nn.NLLLoss()
none = nn.NLLLoss(ignore_index=0, reduction="none")
huber = nn.SmoothL1Loss(delta=0.5, is_huber=False)
same = nn.SmoothL1Loss()
class Wrapped(nn.Layer):
    def __init__(self, ignore_index=-100):
        super().__init__()
        self.ignore_index = ignore_index

    def forward(self, x, y, smoothing=0.0):
        if self.training:
            x = F.dropout(x, 0.1)
        return F.cross_entropy(x, y, ignore_index=self.ignore_index, label_smoothing=smoothing)
def options(x, y, **settings):
    return F.cross_entropy(x, y, **settings) + F.cross_entropy(x, y, ignore_index=-1, reduction="sum")
""",
    HEAD
    + """
TORCH = 0.1
bn = nn.BatchNorm2D(8), nn.BatchNorm2D(8, momentum=1 - TORCH), nn.BatchNorm1D(8, 0.9), nn.BatchNorm2D(8, momentum=0.99)
frozen = nn.BatchNorm2D(8, use_global_stats=True)
def build(n, momentum):
    return nn.BatchNorm2D(n, momentum=momentum)
norms = nn.GroupNorm(2, 8), nn.GroupNorm(2, 8, bias_attr=False), nn.LayerNorm(8)
pools = nn.AvgPool2D(2), nn.AvgPool2D(3, 2, 0), nn.AvgPool2D(3, 2, 1, exclusive=False), nn.AvgPool1D(3, 2, 1, False)
exact = nn.AvgPool2D(3, padding=1, exclusive=True), nn.AvgPool2D(2, 2, padding="SAME")
maxes = nn.MaxPool2D(3, 2, 1), nn.MaxPool2D(3, 2, 1, False, True), nn.MaxPool2D(3, 2, 1, return_mask=True)
convs = nn.Conv2D(3, 8, 3, padding="same"), nn.Conv2D(3, 8, 3, padding=2, dilation=2), nn.Conv2D(3, 8, 3, 1, 1, 1, 1)
ups = nn.Conv2DTranspose(4, 8, 3, 2, 1, 1), nn.Conv2DTranspose(4, 8, 3, 2, 1, 1, groups=2)
rows = nn.Embedding(10, 4), nn.Embedding(10, 4, padding_idx=None)
drops = nn.Dropout(0.1), nn.Dropout(0.1, mode="upscale_in_train")
init = nn.initializer.KaimingUniform(negative_slope=5**0.5, nonlinearity="leaky_relu"), nn.initializer.KaimingNormal()
rnn = nn.LSTM(4, 4), nn.GRU(4, 4, direction="bidirect", time_major=True)
def f(x, g, self):
    x = F.interpolate(x, scale_factor=2, mode="bilinear") + F.interpolate(x, size=[4, 4], align_corners=True)
    return F.dropout(F.grid_sample(x, g, align_corners=False), 0.1, training=self.training)
""",
    HEAD
    + """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiHeadAttention(8, 2)
        self.lstm = nn.LSTM(8, 8, time_major=True)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16)

    def forward(self, x, tokens, lengths):
        keep = tokens != 0
        x = self.attention(x, x, x, attn_mask=keep[:, None, None, :])
        causal = paddle.tril(paddle.ones([5, 5], dtype="bool"))
        additive = paddle.triu(paddle.full([5, 5], -1e9), 1)
        padding = tokens == 0
        x = self.encoder(self.encoder(x, causal), src_mask=additive)
        x = self.encoder(x, src_mask=~padding[:, None, None, :])
        read, _ = self.lstm(x.transpose([1, 0, 2]))
        return read.transpose([1, 0, 2])
""",
    HEAD
    + """
def build(model, cfg, backbone_lr, base_lr):
    decaying = {p.name for name, p in model.named_parameters() if not name.endswith("bias")}
    groups = [{"params": model.parameters(), "learning_rate": 0.1}, {"params": [], "learning_rate": backbone_lr / base_lr}]
    clip = nn.ClipGradByGlobalNorm(1.0)
    own = lambda name: name in decaying
    first = paddle.optimizer.AdamW(1e-3, parameters=model.parameters(), grad_clip=clip, apply_decay_param_fun=own)
    second = paddle.optimizer.AdamW(1e-3, parameters=groups)
    third = paddle.optimizer.Momentum(0.1, 0.9, parameters=groups, weight_decay=1e-4)
    fourth = paddle.optimizer.Adagrad(0.1, epsilon=1e-10, parameters=model.parameters())
    schedule = paddle.optimizer.lr.StepDecay(0.1, 10)
    poly = paddle.optimizer.lr.PolynomialDecay(0.1, 100, end_lr=0)
    cycle = paddle.optimizer.lr.OneCycleLR(0.1, 100, end_learning_rate=4e-7)
    return first.get_lr() + second.get_lr() + schedule.get_lr(), third, fourth, poly, cycle
""",
    """
import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader

def f(path, data, x, loss):
    bits = np.zeros(4, np.float32).view(np.uint8)
    weights = paddle.load(path), paddle.load("model.pdparams")
    loaders = DataLoader(data, batch_size=4), DataLoader(data, shuffle=True, drop_last=True)
    samplers = BatchSampler(data, shuffle=True, drop_last=True)
    total = float(loss) + float(x.sum()) + float(paddle.mean(x)) + int(x.shape[0]) + float("1.5") + float(x.mean())
    total += paddle.to_tensor([1.5]).item()
    return bits, weights, loaders, samplers, total, x.reshape([2, 3]), paddle.median(x, mode="min")
""",
    # the same names from elsewhere are something else
    """
from mylib import F, nn
from other import cross_entropy, dropout

def f(x, y):
    bn = nn.BatchNorm2D(4, momentum=0.1)
    return F.cross_entropy(x, y, ignore_index=-1) + bn(x) + cross_entropy(x, y, ignore_index=-1) + dropout(x)
""",
    # names that stand for each other, and arrays of numpy
    """
import numpy as np

def f(a, b, array):
    a = b.c
    b = a.d
    a.view(b)
    for x in array:
        x = x.next
        x(1)
    return array.view(np.recarray), array.view(type(a))
""",
]
