# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Values that a syntax tree gives away: constants, arithmetic, names assigned once, settings of port.yaml."""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

from pipeline.align.lint.source import DEEPEST, Source

UNKNOWN = object()
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}


def evaluate(expr: ast.AST | None, source: Source, settings: dict[str, Any], depth: int = 0, defaults: bool = True) -> Any:
    """The value of an expression, or UNKNOWN. `settings`: port.yaml, which a parameter `cfg` stands for.

    defaults: whether a parameter of a function has, for lack of a better value, that of its default.
    """
    if expr is None or depth > DEEPEST:
        return UNKNOWN

    def inner(part: ast.AST | None) -> Any:
        return evaluate(part, source, settings, depth + 1, defaults)

    if isinstance(expr, ast.Constant):
        return expr.value
    if isinstance(expr, (ast.Tuple, ast.List)):
        items = [inner(item) for item in expr.elts]
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(expr, ast.UnaryOp) and isinstance(expr.op, (ast.USub, ast.Not)):
        value = inner(expr.operand)
        if isinstance(expr.op, ast.Not):
            return UNKNOWN if value is UNKNOWN else not value
        return -value if isinstance(value, (int, float)) else UNKNOWN
    if isinstance(expr, ast.BinOp) and type(expr.op) in OPERATORS:
        values = inner(expr.left), inner(expr.right)
        if not all(isinstance(value, (int, float)) for value in values):
            return UNKNOWN
        try:
            return OPERATORS[type(expr.op)](*values)
        except (ZeroDivisionError, OverflowError):
            return UNKNOWN
    if isinstance(expr, ast.Call) and source.dotted(expr.func) == "math.sqrt" and len(expr.args) == 1:
        value = inner(expr.args[0])
        return math.sqrt(value) if isinstance(value, (int, float)) and value >= 0 else UNKNOWN
    if isinstance(expr, ast.Name):
        values, function = source.lookup(expr.id, expr)
        if not values or (function is not None and not defaults):
            return settings if expr.id == "cfg" and function is not None else UNKNOWN
        if len(values) > 1 and not all(isinstance(value, ast.Constant) for value in values):
            return UNKNOWN
        found = [inner(value) for value in values]
        return found[0] if all(value is not UNKNOWN and value == found[0] for value in found) else UNKNOWN
    if isinstance(expr, ast.Attribute):
        if isinstance(expr.value, ast.Name) and expr.value.id == "self":
            values = source.attribute(expr.attr, expr)
            return inner(values[0]) if len(values) == 1 else UNKNOWN
        base = inner(expr.value)
        return base.get(expr.attr, UNKNOWN) if isinstance(base, dict) else UNKNOWN
    return UNKNOWN
