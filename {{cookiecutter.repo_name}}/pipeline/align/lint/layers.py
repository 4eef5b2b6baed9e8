# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Small examples of the layers that convert has rules for: torch's class, Paddle's, and the parameters of each."""

from __future__ import annotations

_WB = {"weight": (2, 3), "bias": (2,)}
_CONV = {"weight": (2, 3, 1, 1), "bias": (2,)}
_NORM = {"weight": (2,), "bias": (2,)}
_STATS = {**_NORM, "running_mean": (2,), "running_var": (2,), "num_batches_tracked": ()}
_PADDLE_STATS = {**_NORM, "_mean": (2,), "_variance": (2,)}
_CELL = {"weight_ih": (2, 3), "weight_hh": (2, 2), "bias_ih": (2,), "bias_hh": (2,)}
_FLAT = {f"{name}_l0": shape for name, shape in _CELL.items()}
_INNER = {f"0.cell.{name}": shape for name, shape in _CELL.items()}
_RECURRENT = ({"num_layers": 1, "bidirectional": False}, {"num_layers": 1, "num_directions": 1})
_HEADS = ({"num_heads": 1}, {"num_heads": 1})
_ATTENTION = {"in_proj_weight": (6, 2), "in_proj_bias": (6,), "out_proj.weight": (2, 2), "out_proj.bias": (2,)}
_PROJECTIONS = {
    f"{name}.{kind}": shape
    for name in ("q_proj", "k_proj", "v_proj", "out_proj")
    for kind, shape in (("weight", (2, 2)), ("bias", (2,)))
}
Names = dict[str, tuple[int, ...]]
#: torch class -> (Paddle class, torch's parameters and buffers, Paddle's, (hyperparameters of both))
LAYERS: dict[str, tuple[str, Names, Names, tuple[dict, dict]]] = {
    "torch.nn.Linear": ("paddle.nn.Linear", _WB, _WB, ({}, {})),
    **{f"torch.nn.Conv{n}d": (f"paddle.nn.Conv{n}D", _CONV, _CONV, ({}, {})) for n in "123"},
    **{f"torch.nn.ConvTranspose{n}d": (f"paddle.nn.Conv{n}DTranspose", _CONV, _CONV, ({}, {})) for n in "123"},
    **{f"torch.nn.BatchNorm{n}d": (f"paddle.nn.BatchNorm{n}D", _STATS, _PADDLE_STATS, ({}, {})) for n in "123"},
    "torch.nn.SyncBatchNorm": ("paddle.nn.SyncBatchNorm", _STATS, _PADDLE_STATS, ({}, {})),
    **{
        f"torch.nn.InstanceNorm{n}d": (f"paddle.nn.InstanceNorm{n}D", _NORM, {"scale": (2,), "bias": (2,)}, ({}, {}))
        for n in "123"
    },
    "torch.nn.LayerNorm": ("paddle.nn.LayerNorm", _NORM, _NORM, ({}, {})),
    "torch.nn.GroupNorm": ("paddle.nn.GroupNorm", _NORM, _NORM, ({}, {})),
    "torch.nn.Embedding": ("paddle.nn.Embedding", {"weight": (3, 2)}, {"weight": (3, 2)}, ({}, {})),
    "torch.nn.PReLU": ("paddle.nn.PReLU", {"weight": (1,)}, {"_weight": (1,)}, ({}, {})),
    "torch.nn.Bilinear": ("paddle.nn.Bilinear", _WB, {"weight": (2, 3), "bias": (1, 2)}, ({}, {})),
    "torch.nn.MultiheadAttention": ("paddle.nn.MultiHeadAttention", _ATTENTION, _PROJECTIONS, _HEADS),
    "torch.nn.LSTM": ("paddle.nn.LSTM", _FLAT, _INNER, _RECURRENT),
    "torch.nn.GRU": ("paddle.nn.GRU", _FLAT, _INNER, _RECURRENT),
    "torch.nn.RNN": ("paddle.nn.SimpleRNN", _FLAT, _INNER, _RECURRENT),
    "torch.nn.LSTMCell": ("paddle.nn.LSTMCell", _CELL, _CELL, ({}, {})),
    "torch.nn.GRUCell": ("paddle.nn.GRUCell", _CELL, _CELL, ({}, {})),
    "torch.nn.RNNCell": ("paddle.nn.SimpleRNNCell", _CELL, _CELL, ({}, {})),
}
