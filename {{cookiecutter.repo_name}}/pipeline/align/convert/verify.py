# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Whether every tensor of both sides is settled exactly once; what is left, with candidates and the line to add."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pipeline.align.convert.match import Matcher
from pipeline.align.convert.tree import Tree
from pipeline.align.convert.units import Unit, units

#: Candidates shown per side.
SHOWN = 4


def leftovers(torch: Tree, paddle: Tree, rows: Iterable[Any], matcher: Matcher) -> list[str]:
    """Texts about tensors without a row, and rows whose parts do not cover a tensor exactly once.

    Aliases need no row of their own; what a reported problem is about is not reported again.
    """
    left: dict[str, list[Unit]] = {}
    for tree in (torch, paddle):
        side = tree.framework
        covered = {row.name(side) for row in rows}
        settled_firsts = covered.union(tree.first(key) for key in matcher.done[side])
        settled = {key for key in tree.refs if tree.first(key) in settled_firsts}
        left[side] = [unit for unit in units(tree.root, side, settled) if any(ref.persistent for ref in unit.refs())]
    texts = _parts(torch, paddle, rows)
    for side, other in (("torch", "paddle"), ("paddle", "torch")):
        if left[side] and not left[other]:
            texts.append(_one_side(side, left[side]))
    if left["torch"] and left["paddle"]:
        texts.append(_both_sides(left["torch"], left["paddle"]))
    return texts


def _one_side(side: str, left: list[Unit]) -> str:
    other = "paddle" if side == "torch" else "torch"
    have = "has" if len(left) == 1 else "have"
    return f"{side} {_shown(left)} {have} no counterpart in the {other} model; {_alone(side, left[0])}"


def _both_sides(torch: list[Unit], paddle: list[Unit]) -> str:
    text = f"{len(torch)} of torch and {len(paddle)} of paddle are left over and cannot be matched without guessing: "
    for unit in torch:
        candidates = [other for other in paddle if _similar(unit, other)]
        if candidates:
            return text + (
                f'torch {unit.text}; candidates in paddle: {_shown(candidates)}; say which, for example "{unit.path}":'
                f' "{candidates[0].path}" in weights.map of port.yaml'
            )
    return text + f"torch {_shown(torch)}; paddle {_shown(paddle)}; {_alone('torch', torch[0])}; {_alone('paddle', paddle[0])}"


def _alone(side: str, unit: Unit) -> str:
    """What to add for a unit that has no counterpart on purpose."""
    if side == "torch":
        return f'to leave it out on purpose, add "{unit.path}": null to weights.map in port.yaml'
    return f'to fill it with a number on purpose, add "paddle:{unit.refs()[0].key}": 0 to weights.map in port.yaml'


def _shown(units: list[Unit]) -> str:
    return ", ".join(unit.text for unit in units[:SHOWN]) + (f" and {len(units) - SHOWN} more" if len(units) > SHOWN else "")


def _similar(one: Unit, other: Unit) -> bool:
    sizes = [sorted(math.prod(ref.shape) for ref in unit.refs() if ref.name != "num_batches_tracked") for unit in (one, other)]
    return sizes[0] == sizes[1]


def _parts(torch: Tree, paddle: Tree, rows: Iterable[Any]) -> list[str]:
    texts = []
    for tree in (torch, paddle):
        side = tree.framework
        grouped: dict[str, list[tuple[int, int, int] | None]] = defaultdict(list)
        for row in rows:
            if row.name(side) is not None:
                grouped[row.name(side)].append(row.torch_part if side == "torch" else row.paddle_part)
        for name, parts in grouped.items():
            cut = sorted({part for part in parts if part is not None})
            if not cut:
                continue
            axis, size = cut[0][0], tree.tensors[name].shape[cut[0][0]]
            joined = [0, *(edge for part in cut for edge in part[1:]), size]
            if None in parts or any(part[0] != axis for part in cut) or joined[::2] != joined[1::2]:
                texts.append(
                    f"the parts of {side} {name!r} {tree.tensors[name].shape} that are named do not cover it exactly once"
                )
    return texts
