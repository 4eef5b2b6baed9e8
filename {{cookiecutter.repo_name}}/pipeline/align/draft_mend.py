# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What PaConvert leaves wrong in every draft and what can be put right without a guess: see mend()."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.align.errors import UserError
from pipeline.align.lint import torch_names
from pipeline.align.lint.run import Project
from pipeline.align.lint.source import Source

#: Modules of torch whose name may stay behind where a layer is looked up by a text.
MODULES = {"torch": "paddle", "torch.nn": "paddle.nn", "torch.nn.functional": "paddle.nn.functional"}
#: File, line and what was changed.
Note = tuple[Path, int, str]


def mend(made: Path, originals: dict[Path, Path]) -> list[Note]:
    """Correct the .py files below `made`, of which `originals` names the reference's, and note every change.

    Imports are put behind the docstring and `from __future__`, imports that got lost are made, attributes and keywords of layers
    get Paddle's names. A momentum is turned round only where a layer's class is held in a name, because PaConvert has
    turned the others.
    """
    files = [made / name for name in sorted(originals) if (made / name).is_file()]
    files = [path for path in files if _parses(path)]
    notes = [(path.relative_to(made), 1, what) for path in files for what in _imports(path, originals[path.relative_to(made)])]
    while _round(made, files, notes, lambda *one: [*torch_names.attributes(*one), *torch_names.texts(one[0])]):
        pass
    # once, because what has been turned round looks like what has not
    _round(made, files, notes, lambda source, _: [*torch_names.keywords(source), *torch_names.turned(source)])
    while _round(made, files, notes, lambda source, _: list(torch_names.keywords(source, momentum=False))):
        pass
    return sorted(set(notes))


def _round(
    made: Path, files: Sequence[Path], notes: list[Note], find: Callable[[Source, Project], list[torch_names.Use]]
) -> bool:
    """Make the edits that hold no other; whether there were any. Lines of earlier notes follow where a call gets shorter."""
    sources = [Source(path, str(path.relative_to(made))) for path in files]
    project, changed = Project(sources, {}), False
    for source in sources:
        name = source.path.relative_to(made)
        for use in reversed(_innermost([use for use in find(source, project) if use.new is not None and _settable(use)])):
            node, changed = use.node, True
            text = source.path.read_text(encoding="utf-8")
            edited = _edited(text, (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), use.new)
            source.path.write_text(edited, encoding="utf-8")
            gone = node.end_lineno - node.lineno
            notes[:] = [(file, line - gone if file == name and line > node.lineno else line, what) for file, line, what in notes]
            notes.append((name, node.lineno, f"{use.old} -> {use.new}"))
    return changed


def _parses(path: Path) -> bool:
    try:
        Source(path, str(path))
    except UserError:
        return False
    return True


def _settable(use: torch_names.Use) -> bool:
    """Whether the new text may stand where the node stands: something that is assigned to must stay a plain attribute."""
    return not isinstance(getattr(use.node, "ctx", None), ast.Store) or use.new.replace(".", "").isidentifier()


def _innermost(uses: Sequence[torch_names.Use]) -> list[torch_names.Use]:
    """Those that hold none of the others, one for each node, in the order of the text."""
    found, taken = [], set()
    nodes = {id(use.node) for use in uses}
    for use in uses:
        inside = {id(node) for node in ast.walk(use.node)} - {id(use.node)}
        if not inside & nodes and id(use.node) not in taken:
            taken.add(id(use.node))
            found.append(use)
    return sorted(found, key=lambda use: (use.node.lineno, use.node.col_offset))


def _edited(text: str, first: tuple[int, int], last: tuple[int, int], new: str) -> str:
    """The text with `new` in place of what lies between two positions (line, byte)."""
    lines = [line.encode() for line in text.split("\n")]
    lines[first[0] - 1 : last[0]] = [lines[first[0] - 1][: first[1]] + new.encode() + lines[last[0] - 1][last[1] :]]
    return b"\n".join(lines).decode()


def _imports(path: Path, original: Path) -> list[str]:
    """Put a file's imports in order, and say what was done."""
    text, notes = path.read_text(encoding="utf-8"), []
    tree = ast.parse(text)
    lost = _lost(tree, ast.parse(original.read_text(encoding="utf-8-sig")))
    lost += ["import einops.layers.paddle"] if "einops.layers.paddle." in text and "einops.layers.paddle\n" not in text else []
    head = [node for node in tree.body if _is_future(node)]
    docs = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    docs = [node for node in docs[:1] if isinstance(node.value.value, str) and _follows_imports(tree.body, node)]
    first = [*docs, *head]
    if head and tree.body[: len(first)] != first or docs and tree.body[0] is not docs[0]:
        lines = text.split("\n")
        moved = [line for node in first for line in lines[node.lineno - 1 : node.end_lineno]]
        for node in sorted(first, key=lambda node: -node.lineno):
            del lines[node.lineno - 1 : node.end_lineno]
        start = next((number for number, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
        text = "\n".join([*lines[:start], *moved, *lines[start:]])
        notes.append("the docstring and imports from __future__ put first")
    if lost:
        after = max((node.end_lineno for node in ast.parse(text).body[: len(first)]), default=0)
        lines = text.split("\n")
        text = "\n".join([*lines[:after], *lost, *lines[after:]])
        notes += [f"added: {line}" for line in lost]
    if notes:
        path.write_text(text, encoding="utf-8")
    return notes


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _follows_imports(body: Sequence[ast.stmt], text: ast.stmt) -> bool:
    """Whether nothing but what PaConvert writes at the top (imports, sys.path.append) comes before the text."""
    before = body[: list(body).index(text)]
    return all(isinstance(node, (ast.Import, ast.ImportFrom)) or "sys.path.append" in ast.unparse(node) for node in before)


def _lost(tree: ast.Module, original: ast.Module) -> list[str]:
    """Imports of Paddle for names that the original had from torch, that are used still and not made any more."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    made |= set(_bound(tree))
    return [
        f"import {MODULES[module]} as {name}"
        for name, module in sorted(_bound(original).items())
        if name in used - made and name != "torch" and module in MODULES
    ]


def _bound(tree: ast.Module) -> dict[str, str]:
    """Names that imports make -> what they stand for."""
    found = {}
    for node in ast.walk(tree):
        for one in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            whole = one.name if one.asname or prefix else one.name.partition(".")[0]
            found[one.asname or whole] = prefix + whole
    return found
