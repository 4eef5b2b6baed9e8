# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How many axes a tensor has and on which of them its channels lie, as far as a syntax tree gives it away."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from pipeline.align.lint.source import DEEPEST, Function, Source
from pipeline.align.lint.values import UNKNOWN, evaluate

FIRST, LAST = "after the batch", "last"
#: Layers and functions with channels after the batch, by the number of axes.
SPATIAL = {
    f"paddle.nn.{kind}": n + 2
    for n in (1, 2, 3)
    for kind in (
        f"Conv{n}D",
        f"Conv{n}DTranspose",
        *(f"{pool}Pool{n}D" for pool in ("Max", "Avg", "AdaptiveAvg", "AdaptiveMax")),
        f"InstanceNorm{n}D",
        f"functional.conv{n}d",
        f"functional.conv{n}d_transpose",
        *(f"functional.{pool}_pool{n}d" for pool in ("max", "avg", "adaptive_avg", "adaptive_max")),
    )
}
SPATIAL |= {f"paddle.nn.{kind}": 4 for kind in ("BatchNorm2D", "UpsamplingBilinear2D", "UpsamplingNearest2D", "PixelShuffle")}
SPATIAL |= {"paddle.nn.BatchNorm3D": 5, "paddle.nn.functional.pixel_shuffle": 4}
#: Images unless the argument says otherwise.
RESIZED = ("paddle.nn.Upsample", "paddle.nn.functional.interpolate", "paddle.nn.functional.upsample")
SAME_LAYERS = set(
    "ReLU ReLU6 GELU Silu Swish Hardswish Hardsigmoid Sigmoid Tanh LeakyReLU PReLU ELU SELU Mish Softmax LogSoftmax Dropout"
    " Dropout2D Identity BatchNorm1D BatchNorm SyncBatchNorm GroupNorm LayerNorm".split()
)
SAME_FUNCTIONS = set(
    "relu relu6 gelu silu swish hardswish hardsigmoid sigmoid tanh leaky_relu elu selu mish softmax log_softmax dropout dropout2d"
    " batch_norm layer_norm group_norm".split()
)
SAME_METHODS = set("astype cast clip detach clone contiguous float exp log abs sigmoid tanh cuda cpu".split())


@dataclass(frozen=True)
class Shape:
    """rank: number of axes or None; channel: FIRST, LAST or None where it is not known."""

    rank: int | None = None
    channel: str | None = None


def infer(expr: ast.AST | None, source: Source, project: Any, depth: int = 0) -> Shape:
    """The shape of the tensor that an expression yields; Shape() where nothing is known."""
    if expr is None or depth > 2 * DEEPEST:
        return Shape()
    if expr not in project.shapes:
        project.shapes[expr] = Shape()  # for an expression that leads back to itself
        project.shapes[expr] = _infer(expr, source, project, depth)
    return project.shapes[expr]


def _infer(expr: ast.AST, source: Source, project: Any, depth: int) -> Shape:
    if isinstance(expr, ast.Name):
        values, _ = source.lookup(expr.id, expr)
        # `x = f(x)` looks its own right-hand side up above that line
        values = [value for value in values if value is None or value.lineno < expr.lineno or expr.lineno < 0]
        return infer(values[-1], source, project, depth + 1) if values else Shape()
    if isinstance(expr, ast.BinOp):
        sides = [infer(side, source, project, depth + 1) for side in (expr.left, expr.right)]
        return max(sides, key=lambda shape: (shape.rank or 0, shape.channel is not None))
    if isinstance(expr, ast.IfExp):
        return infer(expr.body, source, project, depth + 1)
    if isinstance(expr, ast.Subscript) and isinstance(expr.slice, ast.Constant) and isinstance(expr.slice.value, str):
        return _entry(expr, source, project, depth)
    if isinstance(expr, ast.Call):
        return _call(expr, source, project, depth + 1)
    return Shape()


def _entry(expr: ast.Subscript, source: Source, project: Any, depth: int) -> Shape:
    """outputs["logits"]: what `forward` of the contract puts there."""
    if not isinstance(expr.value, ast.Name) or expr.value.id not in ("outputs", "output", "out"):
        return Shape()
    for owner, function in project.functions.get("forward", []):
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values):
                    if isinstance(key, ast.Constant) and key.value == expr.slice.value:
                        return infer(value, owner, project, depth + 1)
    return Shape()


def _call(node: ast.Call, source: Source, project: Any, depth: int) -> Shape:
    name = source.dotted(node.func) or ""
    first = node.args[0] if node.args else None
    if name.startswith("paddle.nn.functional."):
        return _layer(name, node, infer(first, source, project, depth), source, project)
    if name.startswith("paddle.") and name.count(".") == 1:
        return _method(name.rpartition(".")[2], first, node.args[1:], node, source, project, depth)
    built = _constructor(node.func, source, project)
    if built is not None:
        return _built(*built, infer(first, source, project, depth), project, depth)
    if isinstance(node.func, ast.Attribute) and not name:
        return _method(node.func.attr, node.func.value, node.args, node, source, project, depth)
    return Shape()


def _constructor(function: ast.AST, source: Source, project: Any, depth: int = 0) -> tuple[ast.Call, Source] | None:
    """The call that built the layer which `function` is, and the file it is in."""
    if depth > DEEPEST:
        return None
    if isinstance(function, ast.Call):
        made = project.functions.get(function.func.id, []) if isinstance(function.func, ast.Name) else []
        for owner, maker in made[:1]:
            returns = [one.value for one in ast.walk(maker) if isinstance(one, ast.Return)]
            if len(returns) == 1 and isinstance(returns[0], ast.Call):
                return _constructor(returns[0], owner, project, depth + 1)
        return function, source
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "self":
        values = source.attribute(function.attr, function)
    elif isinstance(function, ast.Name):
        values, owner = source.lookup(function.id, function)
        if not values and owner is not None and function.id == "model":
            made = project.functions.get("build_model", [])
            returns = [(one.value, file) for file, maker in made for one in ast.walk(maker) if isinstance(one, ast.Return)]
            single = len(returns) == 1 and isinstance(returns[0][0], ast.Call)
            return _constructor(*returns[0], project, depth + 1) if single else None
    else:
        return None
    return _constructor(values[0], source, project, depth + 1) if len(values) == 1 and isinstance(values[0], ast.Call) else None


def _built(made: ast.Call, owner: Source, given: Shape, project: Any, depth: int) -> Shape:
    """What a layer, built by `made` in the file `owner`, returns for an argument of the shape `given`."""
    name = owner.dotted(made.func) or ""
    if name == "paddle.nn.Sequential":
        for one in made.args:
            inner = _constructor(one, owner, project)
            given = _built(*inner, given, project, depth + 1) if inner else Shape()
        return given
    plain = made.func.id if isinstance(made.func, ast.Name) else name.rpartition(".")[2]
    if not name.startswith("paddle.") and plain in project.classes and depth < 2 * DEEPEST:
        file, owned = project.classes[plain]
        forward = next((one for one in owned.body if isinstance(one, Function) and one.name == "forward"), None)
        returns = [one.value for one in ast.walk(forward) if isinstance(one, ast.Return)] if forward is not None else []
        shapes = {infer(one, file, project, depth + 2) for one in returns}
        return shapes.pop() if len(shapes) == 1 else Shape()
    return _layer(name, made, given, owner, project)


def _layer(name: str, made: ast.Call, given: Shape, owner: Source, project: Any) -> Shape:
    """What one of Paddle's layers or functions returns; `made` holds its settings."""
    layout = next((one.value for one in made.keywords if one.arg == "data_format"), None)
    layout = "NC" if layout is None else evaluate(layout, owner, project.settings)
    if name in SPATIAL:
        known = isinstance(layout, str)
        return Shape(SPATIAL[name], (FIRST if layout.startswith("NC") else LAST) if known else None)
    if name in RESIZED:
        return given if given.rank else Shape(4, FIRST if isinstance(layout, str) and layout.startswith("NC") else None)
    kind = name.rpartition(".")[2]
    if kind in ("Linear", "linear"):
        return Shape(given.rank, LAST)
    if kind in ("Embedding", "embedding"):
        return Shape(given.rank + 1 if given.rank else None, LAST)
    if kind == "Flatten" and not made.args and not made.keywords:
        return Shape(2, FIRST)
    return given if kind in SAME_LAYERS or kind in SAME_FUNCTIONS else Shape()


def _method(name: str, of: ast.AST | None, args: list, node: ast.Call, source: Source, project: Any, depth: int) -> Shape:
    """What a method of a tensor, or the function of that name, returns."""
    given = infer(of, source, project, depth)
    keywords = {one.arg: one.value for one in node.keywords}
    values = [evaluate(one, source, project.settings) for one in args]

    def setting(name: str, default: Any) -> Any:
        return evaluate(keywords[name], source, project.settings) if name in keywords else default

    if name in SAME_METHODS:
        return given
    order = values[0] if values else setting("perm", None)
    if name == "transpose" and isinstance(order, list):
        rank = len(order)
        at = {FIRST: 1, LAST: rank - 1}.get(given.channel)
        if at is None or at not in order:
            return Shape(rank)
        return Shape(rank, {rank - 1: LAST, 1: FIRST}.get(order.index(at)))
    if name in ("reshape", "view") and args and isinstance(args[0], (ast.List, ast.Tuple)):
        return Shape() if any(isinstance(one, ast.Starred) for one in args[0].elts) else Shape(len(args[0].elts))
    if name == "flatten":
        start = values[0] if values else setting("start_axis", 0)
        if len(values) < 2 and "stop_axis" not in keywords and isinstance(start, int) and start >= 0:
            return Shape(start + 1, given.channel if start > 1 else None)
    if name in ("mean", "sum", "max", "min", "argmax"):
        axis = values[0] if values else setting("axis", None)
        kept = setting("keepdim", False) is not False
        if axis is None:
            return Shape(0) if not kept else given
        if given.rank and axis is not UNKNOWN and not kept:
            return Shape(given.rank - (len(axis) if isinstance(axis, list) else 1))
    if name in ("unsqueeze", "squeeze") and values and isinstance(values[0], int) and given.rank:
        return Shape(given.rank + (1 if name == "unsqueeze" else -1))
    if name in ("to_tensor", "zeros", "ones", "full", "rand", "randn", "empty") and (args or of is not None):
        value = evaluate(of, source, project.settings)
        if name == "to_tensor":
            return Shape(1) if isinstance(value, list) and not any(isinstance(one, list) for one in value) else Shape()
        return Shape(len(of.elts)) if isinstance(of, (ast.List, ast.Tuple)) else Shape()
    return Shape()
