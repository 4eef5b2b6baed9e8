# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What of the contract is still unwritten, from the syntax trees of the two files: neither framework is imported.

A function is unwritten while its body is a docstring and `raise NotImplementedError`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from pipeline.align.contract import RETURNS
from pipeline.align.paths import SIDES, Paths

#: The functions that each step asks for beyond those of the steps before it.
FUNCTIONS = {
    1: ("build_model", "forward"), 2: ("build_dataset", "build_metric"), 3: ("build_loss",), 4: ("build_optimizer",),
    6: ("read_samples",),
}  # fmt: skip
#: What each function is given.
RECEIVES = {
    "build_model": "cfg, the settings in port.yaml",
    "forward": "the network and a batch: a tuple of tensors, as fake_data in port.yaml describes them, the label last",
    "build_dataset": 'cfg and split, which is "train" or "val"',
    "build_metric": "cfg",
    "build_loss": "cfg",
    "build_optimizer": "cfg, the network, and the number of iterations in an epoch",
    "read_samples": "the path of a file or folder, and cfg; predict.py and infer.py call it",
}
#: What read_samples returns, which the steps do not ask for.
ALL_RETURNS = {
    **RETURNS,
    "read_samples": "an iterable of (name, the network's inputs without the batch axis, as numpy): read_samples(path, cfg)",
}


@dataclass(frozen=True)
class Todo:
    """A function to write. `file`: relative to the repository; `step`: the first step that needs it."""

    step: int
    file: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """One line: where, what it receives, what it must return."""
        returns, call = ALL_RETURNS[self.function].rsplit(": ", 1)
        return f"{self.file}:{self.line}: write {call}; it receives {RECEIVES[self.function]}, and must return {returns}"


def unwritten(paths: Paths) -> list[Todo]:
    """The functions to write, in the order in which the steps need them, the reference before the port."""
    found = {side: _stubs(paths, side) for side in SIDES}
    return [
        Todo(step, paths.contract_file(side).relative_to(paths.root).as_posix(), found[side][name], name)
        for step, names in FUNCTIONS.items()
        for side in SIDES
        for name in names
        if name in found[side]
    ]


def _stubs(paths: Paths, side: str) -> dict[str, int]:
    """{function: line} of one side's unwritten functions; none in a file that cannot be read, which the steps then say."""
    try:
        tree = ast.parse(paths.contract_file(side).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    return {node.name: node.lineno for node in tree.body if isinstance(node, ast.FunctionDef) and _is_stub(node)}


def _is_stub(function: ast.FunctionDef) -> bool:
    body = [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Raise):
        return False
    raised = body[0].exc.func if isinstance(body[0].exc, ast.Call) else body[0].exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
