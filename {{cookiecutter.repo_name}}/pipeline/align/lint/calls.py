# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Calls of Paddle's functions and classes with their arguments by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from pipeline.align.lint.source import Source
from pipeline.align.lint.torch_names import classes
from pipeline.align.lint.values import UNKNOWN, evaluate

_LOSS = "weight ignore_index reduction"
_CE = f"{_LOSS} soft_label axis use_softmax label_smoothing"
_CONV = "in_channels out_channels kernel_size stride padding dilation groups"
_TRANSPOSED = "in_channels out_channels kernel_size stride padding output_padding"
_RNN = "input_size hidden_size num_layers direction time_major dropout weight_ih_attr weight_hh_attr bias_ih_attr bias_hh_attr"
_NORM = "num_features momentum epsilon weight_attr bias_attr data_format"
_POOL = "kernel_size stride padding"
#: Parameters that Paddle's functions and classes (without self) take by position.
SIGNATURES = {
    name: parameters.split()
    for name, parameters in {
        "paddle.load": "path",
        "paddle.median": "x axis keepdim mode",
        "paddle.ParamAttr": "name initializer learning_rate regularizer",
        "paddle.io.DataLoader": "dataset feed_list places return_list batch_sampler batch_size shuffle drop_last",
        "paddle.io.BatchSampler": "dataset sampler shuffle batch_size drop_last",
        "paddle.io.DistributedBatchSampler": "dataset batch_size num_replicas rank shuffle drop_last",
        "paddle.nn.functional.cross_entropy": f"input label {_CE}",
        "paddle.nn.CrossEntropyLoss": _CE,
        "paddle.nn.functional.nll_loss": f"input label {_LOSS}",
        "paddle.nn.NLLLoss": _LOSS,
        "paddle.nn.functional.smooth_l1_loss": "input label reduction delta is_huber",
        "paddle.nn.SmoothL1Loss": "reduction delta is_huber",
        **{f"paddle.nn.BatchNorm{n}D": f"{_NORM} use_global_stats" for n in "23"},
        "paddle.nn.BatchNorm1D": f"{_NORM} use_global_stats",
        "paddle.nn.SyncBatchNorm": _NORM,
        "paddle.nn.BatchNorm": "num_channels act is_test momentum epsilon param_attr bias_attr",
        "paddle.nn.functional.batch_norm": "x running_mean running_var weight bias training momentum epsilon data_format"
        " use_global_stats",
        "paddle.nn.GroupNorm": "num_groups num_channels epsilon",
        "paddle.nn.AvgPool1D": f"{_POOL} exclusive ceil_mode",
        **{f"paddle.nn.AvgPool{n}D": f"{_POOL} ceil_mode exclusive divisor_override" for n in "23"},
        "paddle.nn.functional.avg_pool1d": f"x {_POOL} exclusive ceil_mode",
        **{f"paddle.nn.functional.avg_pool{n}d": f"x {_POOL} ceil_mode exclusive divisor_override" for n in "23"},
        **{f"paddle.nn.MaxPool{n}D": f"{_POOL} return_mask ceil_mode" for n in "123"},
        **{f"paddle.nn.functional.max_pool{n}d": f"x {_POOL} return_mask ceil_mode" for n in "123"},
        **{f"paddle.nn.Conv{n}D": _CONV for n in "123"},
        **{f"paddle.nn.functional.conv{n}d": "x weight bias stride padding dilation groups" for n in "123"},
        "paddle.nn.Conv1DTranspose": f"{_TRANSPOSED} groups dilation",
        **{f"paddle.nn.Conv{n}DTranspose": f"{_TRANSPOSED} dilation groups" for n in "23"},
        "paddle.nn.functional.grid_sample": "x grid mode padding_mode align_corners",
        "paddle.nn.functional.affine_grid": "theta out_shape align_corners",
        **{f"paddle.nn.functional.{n}": "x size scale_factor mode align_corners align_mode" for n in ("interpolate", "upsample")},
        "paddle.nn.Upsample": "size scale_factor mode align_corners align_mode",
        "paddle.nn.Embedding": "num_embeddings embedding_dim padding_idx",
        "paddle.nn.functional.embedding": "x weight padding_idx",
        "paddle.nn.Dropout": "p inplace axis mode",
        "paddle.nn.functional.dropout": "x p axis training inplace mode",
        "paddle.nn.functional.dropout2d": "x p training",
        "paddle.nn.functional.dropout3d": "x p training",
        "paddle.nn.functional.alpha_dropout": "x p training",
        "paddle.nn.LSTM": f"{_RNN} proj_size",
        "paddle.nn.GRU": _RNN,
        "paddle.nn.SimpleRNN": _RNN.replace("dropout", "dropout activation"),
        "paddle.nn.initializer.KaimingUniform": "fan_in negative_slope nonlinearity mode",
        "paddle.nn.initializer.KaimingNormal": "fan_in negative_slope nonlinearity mode",
        "paddle.optimizer.SGD": "learning_rate parameters weight_decay grad_clip",
        "paddle.optimizer.Momentum": "learning_rate momentum parameters use_nesterov weight_decay grad_clip",
        "paddle.optimizer.Adam": "learning_rate beta1 beta2 epsilon parameters weight_decay grad_clip",
        "paddle.optimizer.AdamW": "learning_rate beta1 beta2 epsilon parameters weight_decay use_lowprecision_moment lr_ratio"
        " apply_decay_param_fun grad_clip",
        "paddle.optimizer.RMSProp": "learning_rate rho epsilon momentum centered parameters weight_decay grad_clip",
        "paddle.optimizer.Adagrad": "learning_rate epsilon parameters weight_decay grad_clip",
        "paddle.optimizer.Adadelta": "learning_rate epsilon rho parameters weight_decay grad_clip",
        "paddle.optimizer.ASGD": "learning_rate batch_num parameters",
        "paddle.optimizer.lr.PolynomialDecay": "learning_rate decay_steps end_lr power cycle",
        "paddle.optimizer.lr.OneCycleLR": "max_learning_rate total_steps divide_factor end_learning_rate phase_pct",
        "paddle.optimizer.lr.NoamDecay": "d_model warmup_steps learning_rate last_epoch",
    }.items()
}


class Call:
    """One call. `name`: what is called; `open`: other arguments may come from * or **, or later from a caller of partial()."""

    def __init__(self, node: ast.Call, name: str, source: Source, project: Any, skip: int = 0, partial: bool = False):
        self.node, self.name, self.source, self.project = node, name, source, project
        self.args: dict[str, ast.expr] = {}
        positional = node.args[skip:]
        spread = [_dictionary(keyword.value, source) for keyword in node.keywords if not keyword.arg]
        self.open = partial or any(isinstance(one, ast.Starred) for one in positional) or None in spread
        self.count = len(positional)
        for parameter, value in zip(SIGNATURES.get(name, ()), positional):
            if isinstance(value, ast.Starred):
                break
            self.args[parameter] = value
        for one in (*filter(None, spread), {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}):
            self.args.update(one)

    def absent(self, *parameters: str) -> bool:
        """Whether none of the parameters is given, for certain."""
        return not self.open and not any(parameter in self.args for parameter in parameters)

    def value(self, parameter: str, default: Any = UNKNOWN) -> Any:
        """The value of an argument; `default` where it is not given, UNKNOWN where it cannot be told."""
        if parameter in self.args:
            return evaluate(self.args[parameter], self.source, self.project.settings)
        return UNKNOWN if self.open else default

    def chosen(self, parameter: str) -> Any:
        """The value of an argument that is not just the default of a parameter that is passed on, or UNKNOWN."""
        return evaluate(self.args.get(parameter), self.source, self.project.settings, defaults=False)

    def given(self, parameter: str, but: Any = None) -> bool:
        """Whether an argument is given whose value is not, as far as can be told, `but`."""
        return parameter in self.args and self.value(parameter) != but


def calls(source: Source, project: Any) -> Iterator[Call]:
    """Every call of something with a name in the file, also inside functools.partial(), as super().__init__() and of a layer's
    class that a variable may hold."""
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = source.dotted(node.func)
        if name == "functools.partial" and node.args and (inner := source.dotted(node.args[0])):
            yield Call(node, inner, source, project, skip=1, partial=True)
        elif name is not None:
            yield Call(node, name, source, project)
        elif base := _base_of_super(node, source):
            yield Call(node, base, source, project)
        elif len(held := classes(node.func, source)) == 1:
            yield Call(node, f"paddle.nn.{held.pop()}", source, project)


def _dictionary(expr: ast.AST, source: Source) -> dict[str, ast.expr] | None:
    """The entries of a dictionary that is written out and given by **, or None."""
    if isinstance(expr, ast.Name):
        values = source.lookup(expr.id, expr)[0]
        expr = values[0] if len(values) == 1 else None
    if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id == "dict" and not expr.args:
        found = {keyword.arg: keyword.value for keyword in expr.keywords}
    elif isinstance(expr, ast.Dict):
        found = {getattr(key, "value", None): value for key, value in zip(expr.keys, expr.values)}
    else:
        return None
    return found if all(isinstance(key, str) for key in found) else None


def _base_of_super(node: ast.Call, source: Source) -> str | None:
    """The Paddle class whose __init__ is called by super().__init__(...)."""
    function = node.func
    if not (isinstance(function, ast.Attribute) and function.attr == "__init__" and isinstance(function.value, ast.Call)):
        return None
    if not (isinstance(function.value.func, ast.Name) and function.value.func.id == "super"):
        return None
    owner = source.enclosing(node, ast.ClassDef)
    names = [source.dotted(base) for base in owner.bases] if owner is not None else []
    return next((name for name in names if name in SIGNATURES), None)
