# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How the weights of a layer are converted, by the very rules of convert, applied to a small example of the layer."""

from __future__ import annotations

from collections.abc import Sequence

import pipeline.align.convert  # noqa: F401  (fills the table of rules)
from pipeline.align.convert import ops
from pipeline.align.convert.rules import Link, find_rule
from pipeline.align.convert.tree import Node, Ref
from pipeline.align.lint.layers import LAYERS, Names


def lines(torch_classes: Sequence[str]) -> list[str]:
    """A heading and a line per parameter for each of torch's classes; layers with the same lines share them."""
    tables: dict[tuple[str, ...], list[str]] = {}
    for kind in torch_classes:
        other, torch_names, paddle_names, (torch_hyper, paddle_hyper) = LAYERS[kind]
        torch, paddle = _node(kind, torch_names, torch_hyper), _node(other, paddle_names, paddle_hyper)
        links = find_rule(torch, paddle).links(torch, paddle)
        width = max(len(_name(link.torch)) for link in links)
        tables.setdefault(tuple(_line(link, width) for link in links), []).append(f"{kind} -> {other}")
    return [f"  {line}" for rows, pairs in tables.items() for line in (*pairs, *rows)]


def _node(kind: str, names: Names, hyper: dict) -> Node:
    """A module of the class with the parameters; a dot in a name leads to a child module."""
    node = Node("", "", None, 0, (kind,), hyper, {})
    for name, shape in names.items():
        *path, last = name.split(".")
        owner = node
        for part in path:
            if part not in owner.children:
                owner.children[part] = Node(".".join(path), part, owner, 0, (f"{kind}.{part}",), {}, {})
            owner = owner.children[part]
        owner.own[last] = Ref(owner, last, name, shape, "float32", "param", True)
    return node


def _name(ref: Ref | None) -> str:
    if ref is None:
        return "-"
    if ref.part is None:
        return ref.key
    _, start, stop = ref.part
    size = stop - start
    return f"{ref.key}, part {start // size + 1}"


def _line(link: Link, width: int) -> str:
    if link.paddle is None:
        return f"  {_name(link.torch):<{width}} -> not converted: {link.reason}"
    how = "transposed" if ops.transposes(link.op) else {"id": "as it is"}.get(link.op, f"another shape ({link.op})")
    return f"  {_name(link.torch):<{width}} -> {_name(link.paddle)}: {how}"
