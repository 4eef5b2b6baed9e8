# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One file of the port as a syntax tree: what its names stand for, what is assigned where, which findings are silenced."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

from pipeline.align.errors import UserError

Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
#: Longest chain of names that is followed.
DEEPEST = 12
SILENCED = re.compile(r"#\s*lint:\s*ok\s+([\w-]+(?:\s*,\s*[\w-]+)*)")
#: Longer ways to Paddle's public names.
INNER = (
    (re.compile(r"^paddle\.nn\.layer\.\w+\."), "paddle.nn."),
    (re.compile(r"^paddle\.nn\.functional\.[a-z_]+\.(?=\w+$)"), "paddle.nn.functional."),
    (re.compile(r"^paddle\.nn\.initializer\.[a-z_]+\.(?=[A-Z])"), "paddle.nn.initializer."),
    (re.compile(r"^paddle\.optimizer\.(?!lr\.)[a-z_]+\.(?=[A-Z])"), "paddle.optimizer."),
    (re.compile(r"^paddle\.base\.param_attr\."), "paddle."),
    (re.compile(r"^paddle\.nn\.Conv([123])d$"), r"paddle.nn.Conv\1D"),
)


class Source:
    """A parsed file. `shown`: its name in findings."""

    def __init__(self, path: Path, shown: str):
        self.path, self.shown = path, shown
        try:
            self.text = path.read_text(encoding="utf-8-sig")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # such as invalid escapes, which are Python's business
                self.tree = ast.parse(self.text, filename=str(path))
        except SyntaxError as error:
            raise UserError(f"{shown}:{error.lineno}: {error.msg}; nothing was looked at, correct the file first") from None
        except UnicodeDecodeError:
            raise UserError(f"{shown} is not UTF-8 text; save it as UTF-8") from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{shown} cannot be parsed: {error}") from None
        self.silenced = {
            number: set(re.split(r"\s*,\s*", found[1]))
            for number, line in enumerate(self.text.splitlines(), 1)
            if (found := SILENCED.search(line))
        }
        self.aliases: dict[str, str] = {}
        self.stars: list[str] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        #: scope -> name -> [(line, value, or None where it is not one expression)]
        self.assigned: dict[ast.AST, dict[str, list[tuple[int, ast.expr | None]]]] = {}
        #: class -> attribute of self -> values
        self.attributes: dict[ast.AST, dict[str, list[ast.expr | None]]] = {}
        self.nodes = list(ast.walk(self.tree))
        for node in self.nodes:
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
        for node in self.nodes:
            self._note(node)

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for one in node.names:
                self.aliases[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                if one.name == "*":
                    self.stars.append(node.module)
                else:
                    self.aliases[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._bind(node.target, node.value)
        elif isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor)):
            self._bind(node.target, None)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, None)

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
            for i, one in enumerate(target.elts):
                self._bind(one, values[i] if values else None)
        elif isinstance(target, ast.Name):
            self.assigned.setdefault(self.scope(target), {}).setdefault(target.id, []).append((target.lineno, value))
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            owner = self.enclosing(target, ast.ClassDef)
            if owner is not None:
                self.attributes.setdefault(owner, {}).setdefault(target.attr, []).append(value)

    def enclosing(self, node: ast.AST, kinds: type | tuple[type, ...]) -> ast.AST | None:
        """The innermost node around `node` of one of the kinds."""
        while (node := self.parents.get(node)) is not None:
            if isinstance(node, kinds):
                return node
        return None

    def scope(self, node: ast.AST) -> ast.AST:
        """The function or class around `node`, or the module."""
        return self.enclosing(node, (*Function, ast.ClassDef)) or self.tree

    def lookup(self, name: str, at: ast.AST) -> tuple[list[ast.expr | None], ast.AST | None]:
        """([values assigned to a name before `at`, the last one last], the function whose parameter it is, or None).

        A parameter's default counts as its value; none of both: unknown.
        """
        scope: ast.AST | None = self.scope(at)
        inside = True
        while scope is not None:
            values = [value for line, value in self.assigned.get(scope, {}).get(name, []) if not inside or line <= at.lineno]
            if isinstance(scope, Function):
                defaults = parameters(scope)
                if name in defaults:
                    return ([*([defaults[name]] if defaults[name] is not None else []), *values], scope)
            if values:
                return values, None
            if scope is self.tree:
                return [], None
            scope, inside = self.scope(scope), False
        return [], None

    def attribute(self, name: str, at: ast.AST) -> list[ast.expr | None]:
        """What self.<name> is assigned in the class around `at`."""
        owner = self.enclosing(at, ast.ClassDef)
        return self.attributes.get(owner, {}).get(name, []) if owner is not None else []

    def dotted(self, expr: ast.AST, depth: int = 0) -> str | None:
        """The full name an expression stands for, such as paddle.nn.functional.cross_entropy; None for anything else."""
        if depth > DEEPEST:  # names that stand for each other
            return None
        if isinstance(expr, ast.Attribute):
            base = self.dotted(expr.value, depth + 1)
            return None if base is None else canonical(f"{base}.{expr.attr}")
        if not isinstance(expr, ast.Name):
            return None
        if expr.id in self.aliases:
            return canonical(self.aliases[expr.id])
        values, function = self.lookup(expr.id, expr)
        if len(values) == 1 and isinstance(values[0], (ast.Name, ast.Attribute)):
            return self.dotted(values[0], depth + 1)
        if self.stars and not values and function is None:
            return canonical(f"{self.stars[-1]}.{expr.id}")
        return None


def parameters(function: ast.AST) -> dict[str, ast.expr | None]:
    """A function's parameters with their defaults, None for those without."""
    args = function.args
    names = [*args.posonlyargs, *args.args]
    found: dict[str, ast.expr | None] = {one.arg: None for one in (*names, *args.kwonlyargs)}
    found.update({one.arg: value for one, value in zip(names[len(names) - len(args.defaults) :], args.defaults)})
    found.update({one.arg: value for one, value in zip(args.kwonlyargs, args.kw_defaults) if value is not None})
    found.update({one.arg: None for one in (args.vararg, args.kwarg) if one is not None})
    return found


def canonical(name: str) -> str:
    """Paddle's public name for one of its inner modules' names."""
    for pattern, public in INNER:
        name = pattern.sub(public, name)
    return name
