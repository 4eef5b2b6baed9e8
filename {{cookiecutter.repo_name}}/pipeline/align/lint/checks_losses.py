# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Checks of losses."""

from __future__ import annotations

import ast

from pipeline.align.lint import shapes
from pipeline.align.lint.calls import Call
from pipeline.align.lint.checks import on_call
from pipeline.align.lint.values import UNKNOWN

CROSS_ENTROPY = ("nn.functional.cross_entropy", "nn.CrossEntropyLoss")
NLL = ("nn.functional.nll_loss", "nn.NLLLoss")


def uses(call: Call) -> list[ast.Call]:
    """Where a loss is applied: the call itself, or the calls of the variable or attribute that it is kept in."""
    if call.name.startswith("paddle.nn.functional."):
        return [call.node]
    parent = call.source.parents.get(call.node)
    if isinstance(parent, ast.Call) and parent.func is call.node:
        return [parent]
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], (ast.Name, ast.Attribute)):
        return []
    kept = ast.unparse(parent.targets[0])
    return [node for node in call.source.nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == kept]


@on_call("cross-entropy-axis", *CROSS_ENTROPY)
def _axis(call: Call) -> bool | str:
    if not call.absent("axis"):
        return False
    for use in uses(call):
        argument = use.args[0] if use.args else next((one.value for one in use.keywords if one.arg == "input"), None)
        shape = shapes.infer(argument, call.source, call.project)
        if shape.rank is not None and shape.rank > 2 and shape.channel == shapes.FIRST:
            return f"{ast.unparse(argument)} has {shape.rank} axes with the classes on axis 1"
    return False


@on_call("cross-entropy-ignored", *CROSS_ENTROPY)
def _ignored(call: Call) -> bool | str:
    ignored = call.chosen("ignore_index")
    if not isinstance(ignored, int) or ignored >= 0 or call.open or call.given("weight"):
        return False
    if call.value("reduction", "mean") != "mean" or call.value("soft_label", False) is True:
        return False
    return f"ignore_index is {ignored}"


@on_call("cross-entropy-smoothing", *CROSS_ENTROPY)
def _smoothing(call: Call) -> bool | str:
    if not call.given("label_smoothing", but=0):
        return False
    beside = [name for name in ("weight", "ignore_index") if call.given(name)]
    if call.given("axis", but=-1):
        beside.append("axis")
    return f"label_smoothing beside {' and '.join(beside)}" if beside else False


@on_call("cross-entropy-soft-weight", *CROSS_ENTROPY)
def _soft_weight(call: Call) -> bool:
    return call.value("soft_label", False) is True and call.given("weight")


@on_call("nll-ignored", *NLL)
def _nll(call: Call) -> bool | str:
    if not call.given("ignore_index") or call.value("reduction", "mean") == "none":
        return False
    ignored = call.value("ignore_index")
    return True if ignored is UNKNOWN else f"ignore_index is {ignored}"


@on_call("smooth-l1-delta", "nn.functional.smooth_l1_loss", "nn.SmoothL1Loss")
def _smooth_l1(call: Call) -> bool | str:
    delta = call.value("delta", 1.0)
    if not call.absent("is_huber") or delta == 1:
        return False
    return "delta is given without is_huber" if delta is UNKNOWN else f"delta is {delta}"


@on_call("adaptive-softmax", "nn.AdaptiveLogSoftmaxWithLoss")
def _adaptive_softmax(call: Call) -> bool:
    return True
