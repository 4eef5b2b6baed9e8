# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Where code uses torch's names for the settings of Paddle's layers: attributes, and keywords of a class held in a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.align.lint.source import DEEPEST, Source

_CHANNELS = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
_CONV = {name: f"_{name}" for name in _CHANNELS}
_NORM = {"num_features": "_num_features", "eps": "_epsilon", "momentum": "(1 - {}._momentum)", "affine": None}
_STATS = {"running_mean": "_mean", "running_var": "_variance"}
_RNN = {"batch_first": "(not {}.time_major)", "bidirectional": "({}.num_directions == 2)"}
_AVG = {"count_include_pad": "(not {}.exclusive)"}
_MAX = {"return_indices": "return_mask", "dilation": None}
#: Paddle's class -> torch's attribute -> Paddle's, as an expression where {} stands for the layer, or None.
ATTRIBUTES: dict[str, dict[str, str | None]] = {
    **{f"Conv{n}D{kind}": _CONV for n in "123" for kind in ("", "Transpose")},
    "Linear": {"in_features": "weight.shape[0]", "out_features": "weight.shape[1]"},
    **{name: {**_NORM, **_STATS} for name in ("BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "SyncBatchNorm")},
    **{f"InstanceNorm{n}D": {**_NORM, "weight": "scale"} for n in "123"},
    "LayerNorm": {"normalized_shape": "_normalized_shape", "eps": "_epsilon", "elementwise_affine": None},
    "GroupNorm": {"num_groups": "_num_groups", "num_channels": "_num_channels", "eps": "_epsilon", "affine": None},
    "Embedding": {"num_embeddings": "_num_embeddings", "embedding_dim": "_embedding_dim"},
    "AvgPool1D": _AVG,
    "MaxPool1D": _MAX,
    **{f"AvgPool{n}D": {"kernel_size": "ksize", **_AVG} for n in "23"},
    **{f"MaxPool{n}D": {"kernel_size": "ksize", **_MAX} for n in "23"},
    "PReLU": {"weight": "_weight", "num_parameters": "_num_parameters"},
    "LeakyReLU": {"negative_slope": "_negative_slope"},
    "Softmax": {"dim": "_axis"},
    "Flatten": {"start_dim": "start_axis", "end_dim": "stop_axis"},
    **{name: _RNN for name in ("LSTM", "GRU", "SimpleRNN")},
}
_EPS = {"eps": "epsilon={}"}
_AFFINE = {**_EPS, "affine": "weight_attr=None if {0} else False, bias_attr=None if {0} else False"}
_BIAS = {"bias": "bias_attr=None if {} else False"}
_DIM = {"dim": "axis={}"}
_INPLACE = {"inplace": ""}
#: Paddle's class -> torch's keyword -> Paddle's, where {} stands for the value; "" where Paddle has none and needs none.
KEYWORDS: dict[str, dict[str, str]] = {
    **{f"Conv{n}DTranspose": _BIAS for n in "123"},
    "Linear": _BIAS,
    **{name: {**_AFFINE, "track_running_stats": ""} for name in ("BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "SyncBatchNorm")},
    **{f"InstanceNorm{n}D": {**_AFFINE, "track_running_stats": ""} for n in "123"},
    **{f"AvgPool{n}D": {"count_include_pad": "exclusive=not {}"} for n in "123"},
    **{f"MaxPool{n}D": {"return_indices": "return_mask={}"} for n in "123"},
    **{name: _INPLACE for name in ("ReLU", "ReLU6", "LeakyReLU", "ELU", "Hardswish", "Hardsigmoid", "Dropout2D", "Dropout3D")},
    "Softmax": _DIM,
    "LogSoftmax": _DIM,
    "Flatten": {"start_dim": "start_axis={}", "end_dim": "stop_axis={}"},
    **{
        name: {"batch_first": "time_major=not {}", "bidirectional": "direction='bidirect' if {} else 'forward'"}
        for name in ("LSTM", "GRU", "SimpleRNN")
    },
}
#: Torch's names of layers with a number, which may be filled in later.
NUMBERED = re.compile(r"([\w{}]*?)(Transpose)?(\d|\{\w*\}|%[sd])d")


@dataclass(frozen=True)
class Use:
    """One use of torch's name. `new`: what to write for the node, None where Paddle has nothing for it."""

    node: ast.AST
    kind: str
    old: str
    new: str | None


def classes(expr: ast.AST, source: Source, depth: int = 0) -> set[str]:
    """Paddle's layers ("Conv2D") that an expression may stand for as a class, also by a parameter's default."""
    if depth > DEEPEST:
        return set()
    name = source.dotted(expr)
    if name is not None and name.startswith("paddle.nn."):
        return {name[len("paddle.nn.") :]}
    if isinstance(expr, ast.BoolOp):
        values = list(expr.values)
    elif isinstance(expr, ast.IfExp):
        values = [expr.body, expr.orelse]
    elif isinstance(expr, ast.Name) and expr.id not in source.aliases:
        values = source.lookup(expr.id, expr)[0]
    elif isinstance(expr, ast.Attribute) and isinstance(expr.value, ast.Name) and expr.value.id == "self":
        values = source.attribute(expr.attr, expr)
    else:
        return set()
    return set().union(*(classes(value, source, depth + 1) for value in values if value is not None and value is not expr))


def attributes(source: Source, project: Any) -> Iterator[Use]:
    """Attributes of Paddle's layers by torch's names."""
    for node in source.nodes:
        if not isinstance(node, ast.Attribute):
            continue
        kinds = _kinds(node, source, project)
        known = [ATTRIBUTES.get(kind, {}) for kind in kinds]
        if not known or any(node.attr not in names for names in known):
            continue
        new = known[0][node.attr]
        if any(names[node.attr] != new for names in known):
            new = None
        if new is not None:
            of = ast.unparse(node.value)
            new = new.format(of) if "{}" in new else f"{of}.{new}"
        yield Use(node, "/".join(sorted(kinds)), ast.unparse(node), new)


def _kinds(node: ast.Attribute, source: Source, project: Any) -> set[str]:
    """The layers whose attribute this may be, as far as the code around it says."""
    of = node.value
    if isinstance(of, ast.Name) and of.id == "self":
        owner = source.enclosing(node, ast.ClassDef)
        own = source.attributes.get(owner, {}).get(node.attr, [])
        if owner is None or any(value is None or ast.unparse(node) not in ast.unparse(value) for value in own):
            return set()
        return project.layer_bases(source, owner)
    if isinstance(of, ast.Name):
        if narrowed := _narrowed(of, source):
            return narrowed
        values = source.lookup(of.id, of)[0]
    elif isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "self":
        values = source.attribute(of.attr, of)
    else:
        return set()
    if len(values) != 1 or not isinstance(values[0], ast.Call):
        return set()
    name = source.dotted(values[0].func) or ""
    return {name[len("paddle.nn.") :]} if name.startswith("paddle.nn.") else set()


def _narrowed(name: ast.Name, source: Source) -> set[str]:
    """The classes that an `if isinstance(name, ...)` around a name has asked for."""
    inner: ast.AST = name
    while (outer := source.parents.get(inner)) is not None:
        if isinstance(outer, ast.If) and inner in outer.body:
            both = isinstance(outer.test, ast.BoolOp) and isinstance(outer.test.op, ast.And)
            tests = outer.test.values if both else [outer.test]
            for test in tests:
                if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance" and len(test.args) == 2:
                    if ast.unparse(test.args[0]) == name.id:
                        kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
                        found = [classes(kind, source) for kind in kinds]
                        return set().union(*found) if all(found) else set()
        inner = outer
    return set()


def keywords(source: Source, momentum: bool = True) -> Iterator[Use]:
    """Calls of Paddle's layers with torch's keywords, also of a class that is held in a name; `new` is the whole call.

    momentum: whether a momentum beside them is torch's too, where the class is held in a name.
    """
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        partial = source.dotted(node.func) == "functools.partial" and bool(node.args)
        kinds = classes(node.args[0] if partial else node.func, source)
        known = [KEYWORDS.get(kind, {}) for kind in kinds]
        names = [one.arg for one in node.keywords if known and all(one.arg in words for words in known)]
        if names:
            new = _rewritten(node, known[0], momentum and indirect(node, source))
            yield Use(node, "/".join(sorted(kinds)), ", ".join(names), new)


def texts(source: Source) -> Iterator[Use]:
    """Texts that getattr(paddle.nn, ...) looks a layer up by, such as "Conv{}d"; `new` is the text in Paddle's spelling."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            if source.dotted(node.args[0]) == "paddle.nn":
                for text, mark, words in _texts(node.args[1], source):
                    if found := NUMBERED.fullmatch(words):
                        start, transpose, number = found.groups()
                        yield Use(text, "", f"{mark}{words!r}", f"{mark}{f'{start}{number}D{transpose or str()}'!r}")


def _texts(expr: ast.AST | None, source: Source, depth: int = 0) -> Iterator[tuple[ast.AST, str, str]]:
    """(node, "" or "f", text) for texts that an expression is made from; a part that is filled in stands as {}, {name} or %d."""
    if isinstance(expr, ast.Name) and depth < DEEPEST:
        for value in source.lookup(expr.id, expr)[0][-1:]:
            yield from _texts(value, source, depth + 1)
    elif isinstance(expr, ast.Constant) and isinstance(expr.value, str):
        yield expr, "", expr.value
    elif isinstance(expr, ast.JoinedStr):
        yield expr, "f", ast.unparse(expr)[2:-1]
    elif isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and expr.func.attr == "format":
        yield from _texts(expr.func.value, source, depth + 1)
    elif isinstance(expr, ast.BinOp):
        yield from _texts(expr.left, source, depth + 1)


def turned(source: Source) -> Iterator[Use]:
    """Calls of a BatchNorm that is held in a name, with a momentum: in a draft it is torch's."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and any(one.arg == "momentum" for one in node.keywords) and indirect(node, source):
            kinds = classes(node.func, source)
            if kinds and all("num_features" in ATTRIBUTES.get(kind, {}) for kind in kinds):
                yield Use(node, "/".join(sorted(kinds)), "momentum", _rewritten(node, {}, True))


def indirect(node: ast.Call, source: Source) -> bool:
    """Whether the class that is called is held in a name, so that PaConvert could not see it."""
    first = node.func
    while isinstance(first, ast.Attribute):
        first = first.value
    return not (isinstance(first, ast.Name) and source.aliases.get(first.id, "").startswith("paddle"))


def _rewritten(node: ast.Call, words: dict[str, str], momentum: bool) -> str:
    """The call with Paddle's keywords; `momentum`: whether that, too, is torch's."""
    parts = [ast.unparse(one) for one in node.args]
    for one in node.keywords:
        value = ast.unparse(one.value)
        if one.arg in words:
            simple = isinstance(one.value, (ast.Name, ast.Constant, ast.Attribute))
            text = words[one.arg].format(value if simple else f"({value})")
            text = text.replace("None if True else False", "None").replace("None if False else False", "False")
            text = text.replace("not True", "False").replace("not False", "True")
        elif one.arg == "momentum" and momentum:
            text = f"momentum=1 - {value}" if isinstance(one.value, (ast.Name, ast.Constant)) else f"momentum=1 - ({value})"
        else:
            text = f"{one.arg}={value}" if one.arg else f"**{value}"
        parts += [text] if text else []
    return f"{ast.unparse(node.func)}({', '.join(parts)})"
