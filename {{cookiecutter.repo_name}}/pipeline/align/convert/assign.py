# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Assign units of one side to units of the other by type, shape and definition order, or say why that would be a guess."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline.align.convert.rules import Link
from pipeline.align.convert.units import Unit, fit

Check = Callable[[Unit, Unit], bool]


@dataclass
class Pairing:
    """Two units that are the same thing."""

    torch: Unit
    paddle: Unit
    links: list[Link] = field(default_factory=list)
    rule: str = ""


@dataclass
class Doubt:
    """Units that fit each other in several ways, between which names and order disagree."""

    torch: list[Unit]
    paddle: list[Unit]
    text: str


def assign(
    torch: list[Unit], paddle: list[Unit], whole: Check | None = None, names: bool = True
) -> tuple[list[Pairing], list[Doubt]]:
    """Pairings and doubts. Units of equal type and shape are interchangeable and go in definition order, if there are
    as many on both sides and their names (unless `names` is False) do not contradict it. `whole`: test of two containers
    instead of a rule.
    """
    pairings: list[Pairing] = []
    doubts: list[Doubt] = []
    for near in (0, 1, 2):
        for ts, ps in _classes(torch, paddle, near, whole):
            if len(ts) != len(ps):
                continue
            order = _by_names(ts, ps) or ps
            tried = [_pairing(t, p, near, whole) for t, p in zip(ts, order, strict=True)]
            if None in tried:
                continue
            reason = _contradiction(ts, order) if names else ""
            if reason:
                doubts.append(Doubt(ts, ps, _doubt_text(ts, ps, reason)))
            else:
                pairings += [pairing for pairing in tried if pairing is not None]
            settled = {id(unit) for unit in (*ts, *ps)}
            torch = [unit for unit in torch if id(unit) not in settled]
            paddle = [unit for unit in paddle if id(unit) not in settled]
    return pairings, doubts


def _pairing(torch: Unit, paddle: Unit, near: int, whole: Check | None) -> Pairing | None:
    if whole is not None:
        return Pairing(torch, paddle) if near == 0 and whole(torch, paddle) else None
    found = fit(torch, paddle)
    return None if found is None or found[0] > near else Pairing(torch, paddle, found[1], found[2])


def _classes(torch: list[Unit], paddle: list[Unit], near: int, whole: Check | None) -> list[tuple[list[Unit], list[Unit]]]:
    """The sets of units that fit each other, in definition order, on both sides."""
    groups = [_grouped(torch), _grouped(paddle)]
    joined: dict[int, set[int]] = defaultdict(set)
    keys = [list(groups[0]), list(groups[1])]
    for i, a in enumerate(keys[0]):
        for j, b in enumerate(keys[1]):
            if _pairing(groups[0][a][0], groups[1][b][0], near, whole) is not None:
                joined[i].add(j)
    classes: list[tuple[set[int], set[int]]] = []
    for i, js in joined.items():
        touching = [c for c in classes if c[1] & js]
        merged = ({i}.union(*(c[0] for c in touching)), js.union(*(c[1] for c in touching)))
        classes = [c for c in classes if c not in touching] + [merged]
    found = []
    for left, right in classes:
        sides = []
        for side, members, units in ((0, left, torch), (1, right, paddle)):
            inside = {id(unit) for k in members for unit in groups[side][keys[side][k]]}
            sides.append([unit for unit in units if id(unit) in inside])
        found.append((sides[0], sides[1]))
    return found


def _grouped(units: list[Unit]) -> dict[tuple, list[Unit]]:
    groups: dict[tuple, list[Unit]] = defaultdict(list)
    for unit in units:
        groups[unit.group].append(unit)
    return groups


def _by_names(torch: list[Unit], paddle: list[Unit]) -> list[Unit] | None:
    """Paddle's units in the order of torch's, if the ends of their paths are the same names."""
    for length in range(1, 1 + max(unit.path.count(".") + 1 for unit in torch)):
        ends = [[".".join(unit.path.split(".")[-length:]) for unit in side] for side in (torch, paddle)]
        if all(len(set(side)) == len(side) for side in ends):
            if set(ends[0]) == set(ends[1]):
                place = {name: unit for name, unit in zip(ends[1], paddle, strict=True)}
                return [place[name] for name in ends[0]]
            return None
    return None


def _contradiction(torch: list[Unit], paddle: list[Unit]) -> str:
    """Why the order cannot be trusted, or "": names or numbers in the paths suggest another assignment."""
    if len(torch) == 1:
        return ""
    kinds = {words: i for i, words in enumerate(zip(_telling_words(torch), _telling_words(paddle)))}
    for own, i in kinds.items():
        for other, j in kinds.items():
            if _shared(own[0], other[1]) > max(_shared(*own), _shared(*other)):
                return f"by name {torch[i].path!r} looks like {paddle[j].path!r}, by order it is {paddle[i].path!r}"
    inside = [[any(part.isdigit() for part in unit.path.split(".")) for unit in side] for side in (torch, paddle)]
    if sum(inside[0]) == sum(inside[1]):  # as many of each kind: a final norm is not one of the layers' norms
        mixed = next((i for i, (a, b) in enumerate(zip(*inside)) if a != b), None)
        if mixed is not None:
            paths = [(torch if inside[0][mixed] else paddle)[mixed].path, (paddle if inside[0][mixed] else torch)[mixed].path]
            return f"by order {paths[0]!r}, which stands in a numbered layer, would be {paths[1]!r}, which does not"
    series: dict[tuple[str, str], list[tuple]] = defaultdict(list)
    for t, p in zip(torch, paddle, strict=True):
        series[re.sub(r"\d+", "#", t.path), re.sub(r"\d+", "#", p.path)].append((_numbers(t.path), _numbers(p.path)))
    for steps in series.values():
        for (t0, p0), (t1, p1) in zip(steps, steps[1:], strict=False):
            if (t0 < t1) != (p0 < p1):
                return "the numbers in the names run in different orders"
    return ""


def _numbers(path: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path))


def _telling_words(units: list[Unit]) -> list[frozenset[str]]:
    """The words in each path that not all paths have."""
    words = [frozenset(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", unit.path).lower())) for unit in units]
    common = frozenset.intersection(*words)
    return [one - common for one in words]


#: Letters that stand for words; of longer words, one may be the beginning of the other.
LETTERS = {("q", "query"), ("k", "key"), ("v", "value"), ("o", "out"), ("o", "output")}


def _shared(one: frozenset[str], other: frozenset[str]) -> int:
    return sum(any(_alike(*sorted((a, b), key=len)) for b in other) for a in one)


def _alike(short: str, long: str) -> bool:
    return short == long or (len(short) > 1 and long.startswith(short)) or (short, long) in LETTERS


def _doubt_text(torch: list[Unit], paddle: list[Unit], reason: str) -> str:
    names = [", ".join(repr(unit.path) for unit in side[:6]) + (", …" if len(side) > 6 else "") for side in (torch, paddle)]
    return (
        f"torch {names[0]} and paddle {names[1]} have the same types and shapes, and {reason}; say which is which in"
        f' weights.map of port.yaml, a line for each, such as "{torch[0].path}": "{paddle[0].path}"'
    )
