# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Checks of optimizers, schedules and training."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from pipeline.align.lint.calls import Call
from pipeline.align.lint.checks import on_call, on_file
from pipeline.align.lint.source import Function, Source
from pipeline.align.lint.values import evaluate

OPTIMIZERS = ("SGD", "Momentum", "Adam", "AdamW", "RMSProp", "Adagrad", "Adadelta")
#: Schedules whose get_lr() applies its step once more: measured, the others' does not.
RECURSIVE = ("CosineAnnealingDecay", "LinearLR", "ReduceOnPlateau")
RATE = re.compile(r"(^|[^a-z])lr([^a-z]|$)|learning_?rate|[^a-z]lr_|_lr")
#: A group's factor of the learning rate is hardly smaller than this; an absolute rate is hardly larger.
SMALLEST_FACTOR = 2e-3


def groups(source: Source) -> Iterator[tuple[ast.Dict, dict[str, ast.expr]]]:
    """Parameter groups: dictionaries with the key "params"."""
    for node in source.nodes:
        if isinstance(node, ast.Dict):
            keys = {key.value: value for key, value in zip(node.keys, node.values) if isinstance(key, ast.Constant)}
            if "params" in keys:
                yield node, keys


@on_file("group-lr")
def _lr(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for _, keys in groups(source):
        if "lr" in keys:
            yield keys["lr"], f"the group's lr is {ast.unparse(keys['lr'])}"


@on_file("group-learning-rate")
def _learning_rate(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for _, keys in groups(source):
        if "learning_rate" not in keys:
            continue
        rate = keys["learning_rate"]
        value = evaluate(rate, source, project.settings)
        ratio = isinstance(rate, ast.BinOp) and isinstance(rate.op, ast.Div)
        absolute = (
            value < SMALLEST_FACTOR if isinstance(value, (int, float)) and value else RATE.search(ast.unparse(rate).lower())
        )
        factor = re.search(r"mult|scale|factor|ratio|decay", ast.unparse(rate).lower())
        if absolute and not ratio and (isinstance(value, float) or not factor):
            yield rate, f"the group's learning_rate is {ast.unparse(rate)}"


@on_call("clip-groups", *(f"optimizer.{name}" for name in OPTIMIZERS))
def _clip(call: Call) -> bool:
    if not any(_built_as(call.args.get("grad_clip"), call.source, name) for name in ("ClipGradByGlobalNorm",)):
        return False
    given = call.args.get("parameters")
    for _ in range(3):
        if isinstance(given, ast.Name):
            values = call.source.lookup(given.id, given)[0]
            given = values[-1] if values else None
    items = given.elts if isinstance(given, ast.List) else [given.elt] if isinstance(given, ast.ListComp) else []
    return any(isinstance(item, ast.Dict) for item in items) and (len(items) > 1 or isinstance(given, ast.ListComp))


def _built_as(expr: ast.AST | None, source: Source, name: str) -> bool:
    if isinstance(expr, ast.Name):
        values = source.lookup(expr.id, expr)[0]
        expr = values[-1] if values else None
    return isinstance(expr, ast.Call) and (source.dotted(expr.func) or "").rpartition(".")[2] == name


@on_call("adamw-decay-names", "optimizer.AdamW")
def _decay_names(call: Call) -> bool | str:
    given = call.args.get("apply_decay_param_fun")
    if isinstance(given, ast.Name):
        values = call.source.lookup(given.id, given)[0]
        found = [node for node in call.source.nodes if isinstance(node, ast.FunctionDef) and node.name == given.id]
        given = found[0] if found else values[-1] if values else None
    if not isinstance(given, Function):
        return False
    parts = given.body if isinstance(given.body, list) else [given.body]
    texts = [
        node.value for part in parts for node in ast.walk(part) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    docstring = ast.get_docstring(given, clean=False) if isinstance(given, ast.FunctionDef) else None
    wrong = [
        text
        for text in texts
        if text != docstring and re.search(r"bias|weight|Norm|\.", text) and not re.search(r"\.[wb]_\d?$", text)
    ]
    return f"the function looks for {wrong[0]!r}" if wrong else False


@on_call("adamw-regularizer", "ParamAttr")
def _regularizer(call: Call) -> bool:
    others = any(call.project.uses(f"paddle.optimizer.{name}") for name in OPTIMIZERS if name != "AdamW")
    return call.given("regularizer") and call.project.uses("paddle.optimizer.AdamW") and not others and not _chosen(call.project)


def _chosen(project: Any) -> bool:
    """Whether the optimizer is looked up by a name, so that AdamW is but one of them."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == "getattr"
        and bool(node.args)
        and source.dotted(node.args[0]) == "paddle.optimizer"
        for source in project.sources
        for node in source.nodes
    )


@on_call("momentum-default", "optimizer.Momentum")
def _momentum(call: Call) -> bool:
    return call.absent("momentum")


@on_call("rmsprop", "optimizer.RMSProp")
def _rmsprop(call: Call) -> bool:
    return True


@on_call("adagrad-epsilon", "optimizer.Adagrad")
def _adagrad(call: Call) -> bool:
    return call.absent("epsilon")


@on_call("adadelta-defaults", "optimizer.Adadelta")
def _adadelta(call: Call) -> bool | str:
    missing = [name for name in ("learning_rate", "rho") if call.absent(name)]
    return f"{' and '.join(missing)} left to the default" if missing else False


@on_call("asgd", "optimizer.ASGD")
def _asgd(call: Call) -> bool:
    return True


@on_call("polynomial-end", "optimizer.lr.PolynomialDecay")
def _polynomial(call: Call) -> bool:
    return call.absent("end_lr")


@on_call("onecycle-end", "optimizer.lr.OneCycleLR")
def _one_cycle(call: Call) -> bool:
    return call.absent("end_learning_rate")


@on_call("noam-start", "optimizer.lr.NoamDecay")
def _noam(call: Call) -> bool:
    return call.value("last_epoch", -1) in (-1, 0)


@on_file("scheduler-get-lr")
def _get_lr(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for node in source.nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_lr"):
            continue
        of = node.func.value
        name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
        if name in ("self", "") or isinstance(of, ast.Call):
            continue
        made = source.lookup(name, of)[0] if isinstance(of, ast.Name) else source.attribute(name, of)
        kinds = [source.dotted(one.func) or "" for one in made if isinstance(one, ast.Call)]
        kinds = [kind for kind in kinds if kind.startswith("paddle.optimizer.")]
        if kinds and all(kind.startswith("paddle.optimizer.lr.") for kind in kinds):
            if any(kind.rpartition(".")[2] in RECURSIVE for kind in kinds):
                yield node, f"{name} is a {kinds[0].rpartition('.')[2]}"
        elif not kinds and "sched" in name.lower():
            yield node, f"{ast.unparse(node)} is the schedule's"


@on_call("drop-last", "io.DataLoader", "io.BatchSampler", "io.DistributedBatchSampler")
def _drop_last(call: Call) -> bool:
    return call.value("drop_last", False) is True and not call.open and call.value("shuffle", False) in (False, None)


@on_call("load-torch-file", "load")
def _load(call: Call) -> bool:
    path = call.value("path")
    text = path if isinstance(path, str) else ast.unparse(call.args["path"]).rstrip("'\")") if "path" in call.args else ""
    return text.endswith((".pth", ".pt", ".pth.tar", "pytorch_model.bin"))
