# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Where checks are kept: by the rule of the table (facts.py) they belong to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from pipeline.align.lint.calls import Call
from pipeline.align.lint.source import Source

#: What a check of a call returns: True or a detail where it is a finding.
CallCheck = Callable[[Call], "bool | str"]
#: What a check of a file yields: (node, detail) per finding.
FileCheck = Callable[[Source, Any], Iterator[tuple[ast.AST, str]]]


class Note(str):
    """A detail of what is a fault only with numbers that the code does not show."""


CALL_CHECKS: dict[str, list[tuple[str, CallCheck]]] = {}
FILE_CHECKS: list[tuple[str, FileCheck]] = []


def on_call(rule: str, *names: str) -> Callable[[CallCheck], CallCheck]:
    """Look at every call of these functions and classes of Paddle (names without "paddle.")."""

    def add(check: CallCheck) -> CallCheck:
        for name in names:
            CALL_CHECKS.setdefault(f"paddle.{name}", []).append((rule, check))
        return check

    return add


def on_file(rule: str) -> Callable[[FileCheck], FileCheck]:
    """Look at every file."""

    def add(check: FileCheck) -> FileCheck:
        FILE_CHECKS.append((rule, check))
        return check

    return add


def rules() -> set[str]:
    """Every rule that has a check."""
    return {rule for found in CALL_CHECKS.values() for rule, _ in found} | {rule for rule, _ in FILE_CHECKS}
