# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Checks for torch's names that are left in the port."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from pipeline.align.lint import torch_names
from pipeline.align.lint.checks import on_file
from pipeline.align.lint.source import Source


@on_file("layer-attribute")
def _attribute(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for use in torch_names.attributes(source, project):
        has = f"write {use.new}" if use.new else "there is nothing for it"
        yield use.node, f"{use.old} is torch's name of a setting of {use.kind}, {has}"


@on_file("layer-keyword")
def _keyword(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for use in torch_names.keywords(source):
        yield use.node, f"{use.kind} gets {use.old}, write {use.new}"


@on_file("layer-by-name")
def _by_name(source: Source, project: Any) -> Iterator[tuple[ast.AST, str]]:
    for use in torch_names.texts(source):
        yield use.node, f"{use.old} is torch's spelling, write {use.new}"
