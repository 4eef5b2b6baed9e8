# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Checks of layers and of the functions that stand for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from pipeline.align.lint.calls import Call
from pipeline.align.lint.checks import Note, on_call, on_file
from pipeline.align.lint.source import Source
from pipeline.align.lint.values import UNKNOWN, evaluate

BATCH_NORMS = tuple(f"nn.BatchNorm{n}D" for n in "123")
CONVS = tuple(f"nn.Conv{n}D" for n in "123") + tuple(f"nn.functional.conv{n}d" for n in "123")
AVG_POOLS = tuple(f"nn.AvgPool{n}D" for n in "123") + tuple(f"nn.functional.avg_pool{n}d" for n in "123")
MAX_POOLS = {f"nn.MaxPool{n}D": 3 for n in "123"} | {f"nn.functional.max_pool{n}d": 4 for n in "123"}
RECURRENT = ("paddle.nn.LSTM", "paddle.nn.GRU", "paddle.nn.SimpleRNN")
_TRANSFORMER = ("", "EncoderLayer", "Encoder", "DecoderLayer", "Decoder")
ATTENTION = ("paddle.nn.MultiHeadAttention", *(f"paddle.nn.Transformer{part}" for part in _TRANSFORMER))
MASKS = ("attn_mask", "src_mask", "tgt_mask", "memory_mask")
#: The position of attn_mask in MultiHeadAttention, and of src_mask in the encoder.
MASK_AT = {"MultiHeadAttention": 3, "TransformerEncoderLayer": 1, "TransformerEncoder": 1}


@on_call("batchnorm-momentum", *BATCH_NORMS, "nn.BatchNorm", "nn.SyncBatchNorm", "nn.functional.batch_norm")
def _momentum(call: Call) -> bool | str:
    momentum = call.value("momentum", 0.9)
    wrong = isinstance(momentum, (int, float)) and not isinstance(momentum, bool) and 0 < momentum < 0.5
    return f"momentum is {momentum}" if wrong else False


@on_file("batchnorm-momentum")
def _momentum_set(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and node.targets[0].attr == "_momentum":
            momentum = evaluate(node.value, source, project.settings)
            if isinstance(momentum, float) and 0 < momentum < 0.5:
                yield node, f"_momentum becomes {momentum}"


@on_call("batchnorm-global-stats", *BATCH_NORMS)
def _global_stats(call: Call) -> bool:
    return call.value("use_global_stats", None) is False


@on_call("groupnorm-affine", "nn.GroupNorm")
def _affine(call: Call) -> bool:
    return call.value("weight_attr", None) is False or call.value("affine", True) is False


@on_call("avgpool-padding", *AVG_POOLS)
def _padding(call: Call) -> bool | str:
    if not call.absent("exclusive", "divisor_override") or "padding" not in call.args:
        return False
    padding = call.value("padding")
    if isinstance(padding, str):
        # windows that tile the image need no padding
        return padding.upper() == "SAME" and call.value("stride", None) not in (None, call.value("kernel_size"))
    return padding is UNKNOWN or any(size != 0 for size in (padding if isinstance(padding, list) else [padding]))


@on_call("conv-same-dilation", *CONVS)
def _same(call: Call) -> bool:
    padding, dilation = call.value("padding", 0), call.value("dilation", 1)
    sizes = dilation if isinstance(dilation, list) else [dilation]
    return isinstance(padding, str) and padding.upper() == "SAME" and sizes != [UNKNOWN] and any(size != 1 for size in sizes)


@on_call("conv-transpose-positions", *(f"nn.Conv{n}DTranspose" for n in "23"))
def _transposed(call: Call) -> bool | str:
    seventh = ast.unparse(call.node.args[6]) if call.count > 6 else ""
    return f"{call.count} arguments by position" if call.count > 6 and not call.open and "dilation" not in seventh else False


@on_call("maxpool-positions", *MAX_POOLS)
def _max_pool(call: Call) -> bool | str:
    given = call.args.get("return_mask")
    number = isinstance(given, ast.Constant) and type(given.value) is int
    dilation = number or given is not None and "dilation" in ast.unparse(given)
    return f"{call.count} arguments by position" if dilation and call.count > MAX_POOLS[call.name[7:]] else False


@on_call("grid-sample-corners", "nn.functional.grid_sample", "nn.functional.affine_grid")
def _corners(call: Call) -> bool:
    return call.absent("align_corners")


@on_call("interpolate-align-mode", "nn.functional.interpolate", "nn.functional.upsample", "nn.Upsample")
def _align_mode(call: Call) -> bool:
    return call.value("align_mode", 0) == 1


@on_call("embedding-padding", "nn.Embedding", "nn.functional.embedding")
def _padding_idx(call: Call) -> bool | str:
    if not call.given("padding_idx"):
        return False
    row = call.value("padding_idx")
    detail = "padding_idx is given" if row is UNKNOWN else f"padding_idx is {row}"
    if call.name.endswith(".embedding") or call.given("weight_attr") or _drawn_again(call):
        return detail
    return Note(f"{detail} and nothing here fills that row")


def _drawn_again(call: Call) -> bool:
    """Whether the port gives an Embedding other weights: the layer's .weight is used, or all Embeddings are looked for."""
    parent = call.source.parents.get(call.node)
    kept = ast.unparse(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
    for source in call.project.sources:
        for node in source.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and len(node.args) == 2:
                if re.search(r"\bEmbedding\b", ast.unparse(node.args[1])):
                    return True
            if isinstance(node, ast.Attribute) and node.attr == "weight" and source is call.source and kept:
                if ast.unparse(node.value).rpartition(".")[2] == kept.rpartition(".")[2]:
                    return True
    return False


@on_call("kaiming-slope", "nn.initializer.KaimingUniform", "nn.initializer.KaimingNormal")
def _slope(call: Call) -> bool:
    return call.given("negative_slope", but=0) and call.value("nonlinearity", "relu") == "relu"


@on_call("dropout-training", *(f"nn.functional.{name}" for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout")))
def _training(call: Call) -> bool:
    return call.absent("training") and call.value("p", 0.5) != 0 and not _only_in_training(call.node, call.source)


def _only_in_training(node: ast.AST, source: Source) -> bool:
    """Whether an `if` that asks for the mode is around the node."""
    while (node := source.enclosing(node, (ast.If, ast.IfExp))) is not None:
        if "training" in ast.unparse(node.test):
            return True
    return False


@on_call("dropout-mode", "nn.Dropout", "nn.functional.dropout")
def _mode(call: Call) -> bool:
    return call.value("mode", None) == "downscale_in_infer"


@on_call("rnn-no-bias", *(name[7:] for name in RECURRENT))
def _no_bias(call: Call) -> bool:
    return any(call.value(f"bias_{part}_attr", None) is False for part in ("ih", "hh"))


def layer_calls(source: Source, names: tuple[str, ...]) -> Iterator[tuple[ast.Call, ast.Call, str]]:
    """(call of a layer, the call that built it, its class) for layers that are kept in an attribute or a variable."""
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "self":
            made = source.attribute(node.func.attr, node)
        elif isinstance(node.func, ast.Name):
            made = source.lookup(node.func.id, node)[0]
        else:
            continue
        if len(made) == 1 and isinstance(made[0], ast.Call) and (name := source.dotted(made[0].func)) in names:
            yield node, made[0], name


def _origin(expr: ast.AST, source: Source) -> ast.AST:
    """The expression behind a name that was assigned right before."""
    for _ in range(4):
        if not isinstance(expr, ast.Name):
            break
        values = [value for value in source.lookup(expr.id, expr)[0] if value is None or value.lineno < expr.lineno]
        if not values or values[-1] is None:
            break
        expr = values[-1]
    return expr


def is_swap(expr: ast.AST, source: Source, settings: dict[str, Any]) -> bool:
    """Whether an expression exchanges the first two axes: x.transpose([1, 0, 2]) or paddle.transpose(x, [1, 0, 2])."""
    if not isinstance(expr, ast.Call):
        return False
    name = source.dotted(expr.func) or (expr.func.attr if isinstance(expr.func, ast.Attribute) else "")
    args = expr.args[1:] if name == "paddle.transpose" else expr.args
    given = args[0] if args else next((one.value for one in expr.keywords if one.arg == "perm"), None)
    return name in ("transpose", "paddle.transpose") and evaluate(given, source, settings) == [1, 0, 2]


@on_file("time-first")
def _time_first(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for node, made, name in layer_calls(source, (*RECURRENT, *ATTENTION)):
        major = next((one.value for one in made.keywords if one.arg == "time_major"), None)
        if len(made.args) > 4 or major is not None and evaluate(major, source, project.settings) is not False:
            continue
        if any(keyword.arg is None for keyword in made.keywords) or not node.args:
            continue
        if is_swap(_origin(node.args[0], source), source, project.settings):
            yield node, f"{ast.unparse(node.args[0])} has its first two axes exchanged before {name.rpartition('.')[2]}"


@on_file("attention-mask")
def _mask(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for node, _, name in layer_calls(source, ATTENTION):
        at = MASK_AT.get(name.rpartition(".")[2])
        given = [one.value for one in node.keywords if one.arg in MASKS] + ([node.args[at]] if at and len(node.args) > at else [])
        for mask in given:
            if why := _masks_out(mask, source, project.settings):
                yield mask, f"{ast.unparse(mask)} is {why}"


def _masks_out(expr: ast.AST, source: Source, settings: dict[str, Any]) -> str:
    """Why a mask is true where nothing must be looked at, "" where that cannot be told."""
    expr = _origin(expr, source)
    if isinstance(expr, ast.Subscript):
        return _masks_out(expr.value, source, settings)
    if isinstance(expr, ast.Compare) and len(expr.ops) == 1:
        right = expr.comparators[0]
        padding = evaluate(right, source, settings) == 0 or "pad" in ast.unparse(right).lower()
        return "true where there is padding" if isinstance(expr.ops[0], ast.Eq) and padding else ""
    if isinstance(expr, ast.Name) and "key_padding_mask" in expr.id:
        return "of torch's sense by its name"
    if not isinstance(expr, ast.Call):
        return ""
    name = (source.dotted(expr.func) or "").rpartition(".")[2] or (expr.func.attr if isinstance(expr.func, ast.Attribute) else "")
    if name in ("eq", "equal") and expr.args:
        padding = evaluate(expr.args[-1], source, settings) == 0 or "pad" in ast.unparse(expr.args[-1]).lower()
        return "true where there is padding" if padding else ""
    method = isinstance(expr.func, ast.Attribute) and source.dotted(expr.func) is None
    if name in ("unsqueeze", "expand", "reshape", "tile"):
        return _masks_out(expr.func.value if method else expr.args[0], source, settings)
    if name in ("astype", "cast"):
        kind = ast.unparse(expr.args[-1]) if expr.args else ""
        of = expr.func.value if method else expr.args[0]
        if "bool" in kind and isinstance(of := _origin(of, source), ast.Call) and _is_upper(of, source, settings):
            return "true above the diagonal"
        return _masks_out(of, source, settings) if "bool" in kind else ""
    return "true above the diagonal" if _is_upper(expr, source, settings) and "bool" in ast.unparse(expr) else ""


def _is_upper(expr: ast.Call, source: Source, settings: dict[str, Any]) -> bool:
    name = (source.dotted(expr.func) or "").rpartition(".")[2] or (expr.func.attr if isinstance(expr.func, ast.Attribute) else "")
    values = [
        evaluate(one, source, settings) for one in (*expr.args[-1:], *(k.value for k in expr.keywords if k.arg == "diagonal"))
    ]
    return name == "triu" and 1 in values
