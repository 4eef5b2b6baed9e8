# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Read files, look at them with every check, and leave out what a comment silences."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.align.errors import UserError
from pipeline.align.lint import (  # noqa: F401  (they add their checks)
    checks_code,
    checks_layers,
    checks_losses,
    checks_names,
    checks_training,
)
from pipeline.align.lint.calls import calls
from pipeline.align.lint.checks import CALL_CHECKS, FILE_CHECKS, Note
from pipeline.align.lint.facts import TABLE
from pipeline.align.lint.nearest import nearest
from pipeline.align.lint.source import DEEPEST, Source


@dataclass(frozen=True, order=True)
class Finding:
    """One construct. `file` is relative to the repository where it lies in it; `note`: it may well be right as it is."""

    file: str
    line: int
    rule: str
    reason: str
    fix: str
    note: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {'note: ' if self.note else ''}{self.rule}: {self.reason}; {self.fix}"

    def to_json(self) -> dict[str, Any]:
        """The finding as a dictionary."""
        return asdict(self)


class Project:
    """All files that are looked at together. `settings`: port.yaml as a dictionary."""

    def __init__(self, sources: Sequence[Source], settings: dict[str, Any]):
        self.sources, self.settings = sources, settings
        #: Functions of the files' top level and classes by name.
        self.functions: dict[str, list[tuple[Source, ast.FunctionDef]]] = {}
        self.classes: dict[str, tuple[Source, ast.ClassDef]] = {}
        for source in sources:
            for node in source.tree.body:
                if isinstance(node, ast.FunctionDef):
                    self.functions.setdefault(node.name, []).append((source, node))
                elif isinstance(node, ast.ClassDef):
                    self.classes[node.name] = (source, node)
        #: What shapes.py has found for expressions.
        self.shapes: dict[ast.AST, Any] = {}
        self.calls = {source: list(calls(source, self)) for source in sources}
        self._names = {call.name for found in self.calls.values() for call in found}

    def uses(self, name: str) -> bool:
        """Whether anything calls this function or class."""
        return name in self._names

    def layer_bases(self, source: Source, owner: ast.ClassDef, depth: int = 0) -> set[str]:
        """Paddle's layers ("Conv2D") that a class is derived from, directly or by classes of the port."""
        found: set[str] = set()
        for base in owner.bases:
            name = source.dotted(base) or ""
            if name.startswith("paddle.nn.") and name not in ("paddle.nn.Layer", "paddle.nn.Module"):
                found.add(name[len("paddle.nn.") :])
            elif isinstance(base, ast.Name) and base.id in self.classes and depth < DEEPEST:
                found |= self.layer_bases(*self.classes[base.id], depth + 1)
        return found


def lint(targets: Sequence[Path], settings: dict[str, Any], root: Path) -> list[Finding]:
    """The findings in files and folders, in order; raises UserError for what is missing or cannot be parsed."""
    sources = [Source(path, _shown(path, root)) for path in _files(targets)]
    for source in sources:
        _check_comments(source)
    project = Project(sources, settings)
    return sorted({finding for source in sources for finding in _look(source, project)})


def summary(findings: Sequence[Finding]) -> str:
    """How many findings there are, and how many notes beside them."""
    notes = sum(one.note for one in findings)
    counts = [(len(findings) - notes, "finding"), *([(notes, "note")] if notes else [])]
    return ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)


def _files(targets: Iterable[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for target in targets:
        if target.is_dir():
            inside = [path for path in sorted(target.rglob("*.py")) if not _hidden(path.relative_to(target))]
            if not inside:
                raise UserError(f"{target} holds no .py file; name the port's folder or files")
            found.update(dict.fromkeys(inside))
        elif target.is_file():
            found[target] = None
        else:
            raise UserError(f"{target} does not exist; name the port's folder or files")
    return list(found)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _shown(path: Path, root: Path) -> str:
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(path)


def _check_comments(source: Source) -> None:
    for line, named in sorted(source.silenced.items()):
        for rule in sorted(named):
            if rule not in TABLE or not TABLE[rule].fix:
                known = nearest(rule, [fact.id for fact in TABLE.values() if fact.fix])
                raise UserError(f"{source.shown}:{line}: there is no rule {rule!r} to silence; nearest: {known}")


def _look(source: Source, project: Project) -> Iterator[Finding]:
    found: list[tuple[str, ast.AST, Any]] = []
    for call in project.calls[source]:
        for rule, check in CALL_CHECKS.get(call.name, ()):
            if detail := check(call):
                found.append((rule, call.node, detail))
    for rule, check in FILE_CHECKS:
        found += [(rule, node, detail) for node, detail in check(source, project)]
    for rule, node, detail in found:
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if not any(rule in source.silenced.get(line, ()) for line in lines):
            fact = TABLE[rule]
            reason = f"{detail}: {fact.difference}" if isinstance(detail, str) and detail else fact.difference
            yield Finding(source.shown, node.lineno, rule, reason, fact.fix, isinstance(detail, Note))
