# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Checks of how the port's code is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from pipeline.align.lint import shapes
from pipeline.align.lint.calls import Call
from pipeline.align.lint.checks import on_call, on_file
from pipeline.align.lint.source import Source
from pipeline.align.lint.values import evaluate

TORCH = ("torch", "torchvision", "torchaudio", "torchtext", "torchmetrics", "timm")


@on_file("torch-import")
def _torch(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            if name.partition(".")[0] in TORCH:
                yield node, f"{name} is imported"


@on_file("package-init")
def _init(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    if source.path.name == "__init__.py" and source.path.resolve().parent.name == "paddle":
        yield ast.Pass(lineno=1, end_lineno=1), ""


@on_file("view")
def _view(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    if not any(name.partition(".")[0] == "paddle" for name in (*source.aliases.values(), *source.stars)):
        return
    for node in source.nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "view"):
            continue
        given = [*node.args, *(one.value for one in node.keywords)]
        other = source.dotted(node.func) is not None or isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
        # numpy's view(dtype) of an array is something else
        dtype = len(given) == 1 and (
            (source.dotted(given[0]) or "").startswith("numpy.") or isinstance(evaluate(given[0], source, project.settings), str)
        )
        if given and not other and not dtype:
            yield node, ""


@on_file("float-tensor")
def _float(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("float", "int")
            and len(node.args) == 1
        ):
            rank = shapes.infer(node.args[0], source, project).rank
            if rank is not None and rank > 0:
                yield node, f"{ast.unparse(node.args[0])} has {rank} ax{'is' if rank == 1 else 'es'}"


@on_call("median", "median")
def _median(call: Call) -> bool:
    return call.absent("mode")
