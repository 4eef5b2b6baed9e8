# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What is worth saying, as rows of plain values: the page and its Markdown twin only lay it out."""

from __future__ import annotations

from typing import Any

from pipeline.align.paths import SIDES

from . import show
from .curves import Curve
from .inputs import MADE_BY, Inputs
from .texts import Texts

STATES = ("green", "red", "stale", "missing")
VERDICT_COLUMNS = ("node", "verdict", "worst", "threshold", "seconds")
RULE = ("id", "title", "formula", "source")
CURVE_COLUMNS = ("quantity", "points", "last_torch", "last_paddle", "last_difference", "largest", "where")


def problem_text(found: Inputs, file: str, t: Texts) -> str | None:
    """Why `file` is not shown and what makes it; None where it is fine."""
    problem = found.problems.get(file)
    if problem is None:
        return None
    if problem == "":
        return t["file_missing"].format(file=file, command=MADE_BY[file])
    return t["file_unreadable"].format(file=file, detail=show.plain(problem))


def verdict_row(node: dict, t: Texts) -> list[Any]:
    """Cells of VERDICT_COLUMNS."""
    seconds = " / ".join(show.number(node["seconds"].get(side)) for side in SIDES)
    return [node.get("node"), state_word(node["state"], t), node.get("worst"), show.words(node.get("threshold")), seconds]


def state_word(kind: str, t: Texts) -> str:
    """A state in the report's language."""
    return t[kind] if kind in STATES else kind


def part_text(keys: list[dict], t: Texts) -> str:
    """How many arrays a part compares, and which one is worst."""
    worst = show.worst(keys)
    if worst is None:
        return t["part_empty"]
    ratio = show.number(worst.get("worst"))
    return t["part_summary"].format(count=len(keys), key=show.plain(worst.get("key")), ratio=ratio)


def curve_row(curve: Curve, t: Texts) -> list[Any]:
    """Cells of CURVE_COLUMNS."""
    values = [curve.sides[side][1] if side in curve.sides else None for side in SIDES]
    points = " / ".join(show.NOTHING if v is None else str(len(v)) for v in values)
    ends = [None if v is None else v[-1] for v in values]
    last = None if None in ends else abs(ends[0] - ends[1])
    where, largest = curve.largest() or (None, None)
    place = show.NOTHING if where is None else f"{t[curve.axis]} {where:g}"
    return [curve.name, points, *ends, last, largest, place]


def order_text(order: tuple[int, int | None] | None, t: Texts) -> str | None:
    """What data_order() found, in words."""
    if order is None:
        return None
    epochs, first = order
    return t["order_equal"].format(epochs=epochs) if first is None else t["order_differs"].format(epoch=first)


def conversion_count(conversion: dict[str, list[dict]], t: Texts) -> str:
    """How many parameters and buffers were converted and dropped."""
    kinds = [row.get("kind") for row in conversion["rows"]]
    return t["conversion_count"].format(
        rows=len(kinds),
        params=kinds.count("param"),
        buffers=kinds.count("buffer"),
        transposed=sum(row.get("transposed") is True for row in conversion["rows"]),
        dropped=len(conversion["dropped"]),
    )


def tensor(row: dict, side: str) -> str:
    """Name of a row's tensor on one side, with the part that is meant where it is cut or joined."""
    name, part = show.words(row.get(side)), row.get(f"{side}_part")
    if not isinstance(part, list) or len(part) != 3:
        return name
    axis, start, stop = map(show.plain, part)
    return f"{name} [{start}:{stop}] @{axis}"


def known_entries(found: Inputs) -> list[tuple[dict, list[str]]]:
    """Every known difference once, and where it was verified: "part: what the entry says beyond the rule itself"."""
    met: dict[str, tuple[dict, list[str]]] = {}
    for part in (part for node in found.nodes for part in node["parts"]):
        for entry in part["known"]:
            said = show.words([value for name, value in entry.items() if name not in RULE])
            places = met.setdefault(show.plain(entry.get("id")), (entry, []))[1]
            places.append(f"{show.plain(part.get('name'))}: {said}")
    return list(met.values())


def environment_rows(found: Inputs) -> list[tuple[list[str], bool]]:
    """([what, torch, paddle], whether the two differ where they should not)."""
    sides = [found.environments.get(side, {}) for side in SIDES]
    rows = []
    for name in dict.fromkeys(key for side in sides for key in side):
        values = [show.structure(side.get(name)) for side in sides]
        comparable = len(found.environments) == 2 and not name.startswith("framework")
        rows.append(([show.plain(name), *values], comparable and values[0] != values[1]))
    return rows
