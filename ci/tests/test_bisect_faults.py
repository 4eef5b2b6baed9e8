# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""bisect on wrong ports, each with the place that must be named, and on right ports that are written differently."""
from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import bisect_pairs
from bisect_pairs import Pair

CNN_TORCH = """
class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.act = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(c)
    def forward(self, x):
        y = self.act(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.act(x + y)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.AvgPool2d(3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(8), Block(8), Block(8))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(8, 5)
    def forward(self, x):
        x = self.blocks(self.pool(self.stem(x)))
        return self.fc(self.drop(x.mean((2, 3))))
"""
CNN_PADDLE = """
class Block(nn.Layer):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2D(c, c, 3, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(c)
        self.act = nn.ReLU()
        self.conv2 = nn.Conv2D(c, c, 3, padding=1)
        self.bn2 = nn.BatchNorm2D(c)
    def forward(self, x):
        y = self.act(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.act(x + y)

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, padding=1)
        self.pool = nn.AvgPool2D(3, stride=2, padding=1, exclusive=False)
        self.blocks = nn.Sequential(Block(8), Block(8), Block(8))
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(8, 5)
    def forward(self, x):
        x = self.blocks(self.pool(self.stem(x)))
        return self.fc(self.drop(x.mean((2, 3))))
"""
VIT_TORCH = """
class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.heads = 4
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (f(x).reshape(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = self.drop(F.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.heads), -1))
        return self.o((a @ v).transpose(1, 2).reshape(n, t, d))

class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(d), Attention(d), nn.LayerNorm(d)
        self.fc1, self.act, self.fc2 = nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.layers = nn.Sequential(*[Layer(16) for _ in range(3)])
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 5)
    def forward(self, x):
        return self.fc(self.norm(self.layers(self.emb(x)))[:, 0])
"""
VIT_PADDLE = """
class Attention(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.heads = 4
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        n, t, d = x.shape
        q, k, v = (f(x).reshape([n, t, self.heads, -1]).transpose([0, 2, 1, 3]) for f in (self.q, self.k, self.v))
        a = self.drop(F.softmax(q @ k.transpose([0, 1, 3, 2]) / math.sqrt(d // self.heads), -1))
        return self.o((a @ v).transpose([0, 2, 1, 3]).reshape([n, t, d]))

class Layer(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.norm1, self.attn, self.norm2 = nn.LayerNorm(d), Attention(d), nn.LayerNorm(d)
        self.fc1, self.act, self.fc2 = nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d)
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.layers = nn.Sequential(*[Layer(16) for _ in range(3)])
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 5)
    def forward(self, x):
        return self.fc(self.norm(self.layers(self.emb(x)))[:, 0])
"""
SEQ_TORCH = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 10, bidirectional=True, batch_first=True)
        self.mix = nn.MultiheadAttention(20, 4, batch_first=True)
        self.gru = nn.GRU(20, 9, batch_first=True)
        self.fc = nn.Linear(9, 5)
    def forward(self, x):
        y, _ = self.lstm(self.emb(x))
        y, _ = self.mix(y, y, y, key_padding_mask=x > 14, need_weights=False)
        _, h = self.gru(y)
        return self.fc(h[0])
"""
SEQ_PADDLE = """
class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 12)
        self.lstm = nn.LSTM(12, 10, direction="bidirect")
        self.mix = nn.MultiHeadAttention(20, 4)
        self.gru = nn.GRU(20, 9)
        self.fc = nn.Linear(9, 5)
    def forward(self, x):
        y, _ = self.lstm(self.emb(x))
        y = self.mix(y, y, y, attn_mask=(x <= 14).unsqueeze([1, 2]))
        _, h = self.gru(y)
        return self.fc(h[0])
"""
TOKENS = "{shape: [7], dtype: int64, low: 0, high: 20}"
BASES = {
    "cnn": Pair(CNN_TORCH, CNN_PADDLE),
    "vit": Pair(VIT_TORCH, VIT_PADDLE, TOKENS),
    "seq": Pair(SEQ_TORCH, SEQ_PADDLE, TOKENS),
}


@dataclass
class Fault:
    """`edits`: (old, new) on the port (or, with `torch`, on the reference); `add`, `add_torch`: code appended.

    `stage`, `mode`, `step`: of the finding. `path`: torch path of the module whose call shows it (None: no module);
    `parent`, `after`, `before`: torch paths, where code between calls is at fault; `parameters`: exact set; `cause`: text
    that some cause must contain.
    """

    base: str
    edits: list[tuple[str, str]] = field(default_factory=list)
    torch: list[tuple[str, str]] = field(default_factory=list)
    add: str = ""
    add_torch: str = ""
    stage: str = "forward"
    mode: str = "eval"
    step: int = 1
    path: str | None = None
    parent: str | None = None
    after: str | None = None
    before: str | None = None
    parameters: set[str] | None = None
    cause: str = ""


def optimizer(made: str, *before: str) -> str:
    """build_optimizer of the port: `made` is the optimizer, or the optimizer and the schedule, of `params`."""
    lines = ["params = [p for p in model.parameters() if not p.stop_gradient]", *before, f"return {made}"]
    return "\ndef build_optimizer(cfg, model, steps):\n" + "".join(f"    {line}\n" for line in lines)


def momentum(more: str = "", rate: float = 0.1) -> str:
    """The optimizer of COMMON with other arguments."""
    return optimizer(f"paddle.optimizer.Momentum({rate}, momentum=0.9, parameters=params{more}), None")


ADAMW_TORCH = """
def build_optimizer(cfg, model, steps):
    weights, rest = ([p for p in model.parameters() if (p.ndim > 1) == wanted] for wanted in (True, False))
    return torch.optim.AdamW([{"params": weights}, {"params": rest, "weight_decay": 0.0}], lr=0.01, weight_decay=0.1), None
"""
# Paddle's own names of parameters are such as linear_0.b_0.
ADAMW_PADDLE = optimizer(
    "paddle.optimizer.AdamW(0.01, parameters=params, weight_decay=0.1, apply_decay_param_fun=lambda n: 'bias' not in n), None"
)
SCHEDULE_TORCH = """
def build_optimizer(cfg, model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return optimizer, LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / 5) / (1 + i))
"""
SCHEDULE_LATE = optimizer(
    "paddle.optimizer.SGD(schedule, parameters=params), schedule",
    "schedule = LambdaDecay(0.1, lambda i: min(1.0, max(i, 1) / 5) / max(i, 1))",
)
LOSS = """
def build_loss(cfg):
    criterion = nn.CrossEntropyLoss(%s)
    return lambda outputs, labels: criterion(outputs["logits"], labels)
"""
HALF_LOSS = """
def build_loss(cfg):
    return lambda outputs, labels: F.cross_entropy((outputs["logits"] + outputs["logits"].detach()) / 2, labels)
"""
KEPT = """        self.kept = 0.0
    def forward(self, x):
        self.kept += 1.0
        return self.kept * self.fc("""

FAULTS = {
    # one module
    "batch norm epsilon": Fault(
        "cnn",
        [("self.bn2 = nn.BatchNorm2D(c)", "self.bn2 = nn.BatchNorm2D(c, epsilon=1e-3)")],
        path="blocks.0.bn2",
        cause="epsilon",
    ),
    "small epsilon": Fault(
        "vit",
        [("self.norm, self.fc = nn.LayerNorm(16)", "self.norm, self.fc = nn.LayerNorm(16, epsilon=1e-6)")],
        path="norm",
        cause="epsilon",
    ),
    "another activation": Fault(
        "cnn", [("self.act = nn.ReLU()", "self.act = nn.LeakyReLU(0.1)")], path="blocks.0.act", cause="type"
    ),
    "gelu approximation": Fault("vit", [("nn.GELU()", "nn.GELU(approximate=True)")], path="layers.0.act", cause="approximate"),
    "padding mode": Fault(
        "cnn",
        [("self.conv2 = nn.Conv2D(c, c, 3, padding=1)", "self.conv2 = nn.Conv2D(c, c, 3, padding=1, padding_mode='reflect')")],
        path="blocks.0.conv2",
        cause="padding_mode",
    ),
    "dilation": Fault(
        "cnn",
        [("self.stem = nn.Conv2D(3, 8, 3, padding=1)", "self.stem = nn.Conv2D(3, 8, 3, padding=2, dilation=2)")],
        path="stem",
        cause="dilation",
    ),
    "pool leaves padding out": Fault("cnn", [(", exclusive=False", "")], path="pool", cause="exclusive"),
    "pool of another kind": Fault(
        "cnn",
        [("nn.AvgPool2D(3, stride=2, padding=1, exclusive=False)", "nn.MaxPool2D(3, stride=2, padding=1)")],
        path="pool",
        cause="MaxPool2D",
    ),
    "pool stride": Fault(
        "cnn",
        [("3, stride=2, padding=1, exclusive=False", "3, stride=1, padding=1, exclusive=False")],
        path="pool",
        cause="stride",
    ),
    "dropout scales in eval": Fault(
        "cnn", [("nn.Dropout(0.3)", "nn.Dropout(0.3, mode='downscale_in_infer')")], path="drop", cause="upscale_in_train"
    ),
    "padding_idx": Fault(
        "vit", [("nn.Embedding(20, 16)", "nn.Embedding(20, 16, padding_idx=1)")], path="emb", cause="padding_idx"
    ),
    "time and batch exchanged": Fault(
        "seq", [('direction="bidirect")', 'direction="bidirect", time_major=True)')], path="lstm", cause="time_major"
    ),
    "mask sense": Fault("seq", [("attn_mask=(x <= 14)", "attn_mask=(x > 14)")], path="mix", cause="mask"),
    "batch norm in train mode": Fault(
        "cnn",
        [("        x = self.blocks(", "        self.blocks[1].bn1.train()\n        x = self.blocks(")],
        path="blocks.1.bn1",
        cause="train mode",
    ),
    # code between modules
    "missing residual": Fault(
        "cnn",
        [("self.act(x + y)", "self.act(y)")],
        path="blocks.0.act",
        parent="blocks.0",
        after="blocks.0.bn2",
        cause="the reference's is the input of 'blocks.0' plus the output of 'blocks.0.bn2'",
    ),
    "missing activation": Fault(
        "cnn",
        [("self.act(self.bn1(self.conv1(x)))", "self.bn1(self.conv1(x))")],
        path="blocks.0.conv2",
        parent="blocks.0",
        after="blocks.0.bn1",
        before="blocks.0.conv2",
        cause="ReLU",
    ),
    "scaled residual": Fault(
        "vit",
        [("return x + self.fc2", "return 0.5 * x + self.fc2")],
        path="layers.0",
        after="layers.0.fc2",
        cause="0.5 times the input",
    ),
    "norm after instead of before": Fault(
        "vit",
        [("x = x + self.attn(self.norm1(x))", "x = self.norm1(x + self.attn(x))")],
        path="layers.0.norm1",
        parent="layers.0",
        cause="the port 'layers.0.attn' before 'layers.0.norm1'",
    ),
    "attention scale": Fault(
        "vit",
        [(" / math.sqrt(d // self.heads)", " / math.sqrt(d)")],
        path="layers.0.attn.drop",
        parent="layers.0.attn",
        after="layers.0.attn.v",
        cause="0.5 times",
    ),
    "attention without scale, 2 heads": Fault(
        "vit",
        [("self.heads = 4", "self.heads = 2")],
        path="layers.0.attn.drop",
        parent="layers.0.attn",
        after="layers.0.attn.v",
        cause="heads",
    ),
    "softmax axis": Fault(
        "vit",
        [(", -1))", ", 1))")],
        path="layers.0.attn.drop",
        parent="layers.0.attn",
        after="layers.0.attn.v",
        cause="along axis 1",
    ),
    "half precision inside": Fault(
        "vit",
        [("(q @ k.transpose([0, 1, 3, 2])", "((q @ k.transpose([0, 1, 3, 2])).astype('float16').astype('float32')")],
        path="layers.0.attn.drop",
        parent="layers.0.attn",
        after="layers.0.attn.v",
    ),
    "max for mean": Fault(
        "cnn",
        [("x.mean((2, 3))", "x.max((2, 3))")],
        path="drop",
        parent="",
        after="blocks",
        before="drop",
        cause="the maximum over axes 2, 3",
    ),
    "wrong token": Fault(
        "vit", [("[:, 0]", "[:, -1]")], path="fc", parent="", after="norm", before="fc", cause="position 6 of 7"
    ),
    "wrong state": Fault(
        "seq",
        [("_, h = self.gru(y)", "h, _ = self.gru(y)\n        h = h.transpose([1, 0, 2])")],
        path="fc",
        parent="",
        after="gru",
        before="fc",
    ),
    "scaled output": Fault(
        "vit",
        [
            (
                "return self.fc(self.norm(self.layers(self.emb(x)))[:, 0])",
                "return 2 * self.fc(self.norm(self.layers(self.emb(x)))[:, 0])",
            )
        ],
        path="",
        after="fc",
        cause="2 times",
    ),
    "scale outside of the model": Fault(
        "cnn",
        add="\ndef forward(model, batch): return {'logits': model(batch[0] * 1.01)}\n",
        path="",
        parent="@forward",
        before="",
        cause="1.01 times",
    ),
    "axes exchanged": Fault(
        "cnn",
        [("self.stem(x)", "self.stem(x.transpose([0, 1, 3, 2]))")],
        path="stem",
        parent="",
        before="stem",
        cause="axes in the order 0, 1, 3, 2",
    ),
    # random numbers
    "dropout as a function": Fault(
        "cnn", [("self.drop(x.mean((2, 3)))", "F.dropout(x.mean((2, 3)), 0.3)")], stage="random", path="", before="fc"
    ),
    "dropout left on": Fault(
        "vit",
        [("        a = self.drop(", "        self.drop.train()\n        a = self.drop(")],
        stage="random",
        path="layers.0.attn.drop",
    ),
    # loss
    "loss summed": Fault("cnn", add_torch=LOSS % "", add=LOSS % "reduction='sum'", stage="loss", path="@loss", cause="6 times"),
    "label smoothing": Fault(
        "cnn", add_torch=LOSS % "label_smoothing=0.1", add=LOSS % "", stage="loss", path="@loss", cause="label_smoothing"
    ),
    # backward
    "detached": Fault(
        "cnn",
        [("self.fc(self.drop(x.mean((2, 3))))", "self.fc(self.drop(x.mean((2, 3)).detach()))")],
        stage="backward",
        path="drop",
        parent="",
        after="blocks",
        before="drop",
    ),
    "no_grad": Fault(
        "vit",
        [("x = x + self.attn(self.norm1(x))", "with paddle.no_grad(): a = self.attn(self.norm1(x))\n        x = x + a")],
        stage="backward",
        path="layers.0.norm1",
        parent="layers.0",
        cause="no_grad",
    ),
    "frozen weight": Fault(
        "cnn",
        [("self.bn1 = nn.BatchNorm2D(c)", "self.bn1 = nn.BatchNorm2D(c)\n        self.conv1.weight.stop_gradient = True")],
        stage="backward",
        path="blocks.2.conv1",
        cause="frozen",
    ),
    "frozen stem": Fault(
        "cnn",
        [
            (
                "self.drop = nn.Dropout(0.3)",
                "self.drop = nn.Dropout(0.3)\n        for p in self.stem.parameters(): p.stop_gradient = True",
            )
        ],
        stage="backward",
        path="stem",
        cause="frozen",
    ),
    "doubled gradient": Fault(
        "cnn", [("x + y)", "2 * x - x.detach() + y)")], stage="backward", path="blocks.2", before="blocks.2.conv1"
    ),
    "gradient of the first of two": Fault(
        "vit",
        [
            (
                "return x + self.fc2(self.act(self.fc1(self.norm2(x))))",
                "y = self.norm2(x)\n        return x + self.fc2(self.act(2 * self.fc1(y) - self.fc1(y).detach()))",
            )
        ],
        stage="backward",
        path="layers.2.fc1",
    ),
    "half of the loss detached": Fault("cnn", add=HALF_LOSS, stage="backward", path="@loss", cause="gradient of outputs.logits"),
    # optimizer and schedule
    "weight decay": Fault("cnn", add=momentum(", weight_decay=0.01"), stage="optimizer", cause="weight_decay"),
    "weight decay of biases": Fault("vit", add_torch=ADAMW_TORCH, add=ADAMW_PADDLE, stage="optimizer", cause="weight_decay"),
    "learning rate": Fault("cnn", add=momentum(rate=0.2), stage="schedule", cause="2 times"),
    "nesterov": Fault("cnn", add=momentum(", use_nesterov=True"), stage="optimizer", cause="nesterov"),
    "no momentum": Fault(
        "cnn",
        add=optimizer("paddle.optimizer.SGD(0.1, parameters=params), None"),
        stage="optimizer",
        mode="given",
        step=2,
        cause="momentum",
    ),
    "clipping": Fault("cnn", add=momentum(", grad_clip=nn.ClipGradByGlobalNorm(0.1)"), stage="optimizer", cause="clips"),
    "clipping of large gradients": Fault(
        "cnn", add=momentum(", grad_clip=nn.ClipGradByGlobalNorm(5.0)"), stage="optimizer", mode="given", cause="clips"
    ),
    "schedule late": Fault("cnn", add_torch=SCHEDULE_TORCH, add=SCHEDULE_LATE, stage="schedule", cause="late"),
    "parameter left out": Fault(
        "cnn",
        add=optimizer("paddle.optimizer.Momentum(0.1, momentum=0.9, parameters=params[:-2]), None"),
        stage="optimizer",
        parameters={"fc.weight", "fc.bias"},
        cause="does not have 2 of 25",
    ),
    # train mode and second step
    "momentum copied": Fault(
        "cnn",
        [("self.bn2 = nn.BatchNorm2D(c)", "self.bn2 = nn.BatchNorm2D(c, momentum=0.1)")],
        stage="buffers",
        mode="train",
        path="blocks.0.bn2",
        cause="momentum",
    ),
    "statistics frozen": Fault(
        "cnn",
        [("self.bn1 = nn.BatchNorm2D(c)", "self.bn1 = nn.BatchNorm2D(c, use_global_stats=True)")],
        mode="train",
        path="blocks.0.bn1",
        cause="use_global_stats",
    ),
    "train mode only": Fault(
        "cnn",
        [("        return self.fc(", "        x = x * 1.1 if self.training else x\n        return self.fc(")],
        mode="train",
        path="drop",
        parent="",
        after="blocks",
    ),
    "state kept": Fault("vit", [("    def forward(self, x):\n        return self.fc(", KEPT)], step=2, path="", after="fc"),
    # far from the input, and the port stops
    "wrong shape": Fault(
        "cnn",
        [("self.fc(self.drop(x.mean((2, 3))))", "self.fc(self.drop(x.mean((1, 2))))")],
        path="drop",
        parent="",
        after="blocks",
    ),
}


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    pairs = {}
    for name, fault in FAULTS.items():
        base = BASES[fault.base]
        sources = {"torch": base.torch, "paddle": base.paddle}
        for side, edits in (("torch", fault.torch), ("paddle", fault.edits)):
            for old, new in edits:
                assert old in sources[side], (name, old)
                sources[side] = sources[side].replace(old, new)
        pairs[name.replace(" ", "_")] = Pair(sources["torch"] + fault.add_torch, sources["paddle"] + fault.add, base.inputs)
    bisect_pairs.capture(folder, pairs)
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_names_the_place(captured, name):
    fault = FAULTS[name]
    found, _ = bisect_pairs.compare(captured / name.replace(" ", "_"))
    assert found is not None
    assert (found.stage, found.mode, found.step) == (fault.stage, fault.mode, fault.step), found.paragraph
    if fault.path is not None:
        side = found.torch or found.paddle
        assert side["path"] == fault.path, found.paragraph
    if fault.parent is not None:
        assert found.parent["path"] == fault.parent, found.paragraph
    for edge in ("after", "before"):
        if getattr(fault, edge) is not None:
            assert getattr(found, edge) == getattr(fault, edge), found.paragraph
    if fault.parameters is not None:
        assert set(found.parameters) == fault.parameters
    assert fault.cause in found.paragraph, found.paragraph
