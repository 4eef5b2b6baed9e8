# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The conversion plan: one row per tensor, usable on weights and on gradients, in both directions, without either framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pipeline.align.convert import ops
from pipeline.align.convert.match import Matcher
from pipeline.align.convert.rules import Link
from pipeline.align.convert.tree import Tree
from pipeline.align.convert.usermap import apply_map
from pipeline.align.convert.verify import leftovers
from pipeline.align.errors import UserError

Part = tuple[int, int, int]  # axis, start, stop


@dataclass(frozen=True)
class Row:
    """torch's tensor becomes Paddle's by `op`; a part (axis, start, stop) of one side where the tensor is cut or joined.

    One name is None where that side has no counterpart: a dropped row (only torch's), or a constant (only Paddle's).
    `fill`: the constant; for a dropped row, what the way back writes. Names are the first of their alias groups.
    """

    torch: str | None
    torch_shape: tuple[int, ...] | None
    paddle: str | None
    paddle_shape: tuple[int, ...] | None
    op: str
    rule: str
    kind: str
    torch_part: Part | None = None
    paddle_part: Part | None = None
    reason: str = ""
    fill: float | None = None

    @property
    def transposed(self) -> bool:
        """Whether the order of the numbers changes."""
        return self.torch is not None and self.paddle is not None and ops.transposes(self.op)

    def name(self, side: str) -> str | None:
        """The name on a side."""
        return self.torch if side == "torch" else self.paddle

    def part(self, side: str) -> tuple[slice, ...] | None:
        """Index of the part of that side's tensor, None for all of it."""
        part = self.torch_part if side == "torch" else self.paddle_part
        return None if part is None else (slice(None),) * part[0] + (slice(part[1], part[2]),)

    def move(self, array: np.ndarray, to: str) -> np.ndarray:
        """The array of the one side in the layout of side `to` (of this row's part)."""
        source = self.part("torch" if to == "paddle" else "paddle")
        array = array if source is None else array[source]
        if to == "paddle":
            return ops.forward(self.op, array, _part_shape(self.paddle_shape, self.paddle_part))
        return ops.backward(self.op, array, _part_shape(self.torch_shape, self.torch_part))


@dataclass(frozen=True)
class Plan:
    """How every tensor is converted. `rows`: what is converted or filled; `dropped`: what is not, with reasons.

    `tensors`: {"torch": {name: {"shape", "dtype", "kind", "trainable"}}, "paddle": ...} by first name, in definition
    order; `aliases`: {"torch": {other name: first name}, "paddle": ...}; `modules`: pairs of module paths;
    `ignored`: patterns of torch names that the user drops, which may also stand in a file without being in the model.
    """

    rows: list[Row]
    dropped: list[Row]
    tensors: dict[str, dict[str, dict[str, Any]]]
    aliases: dict[str, dict[str, str]]
    modules: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)

    def apply(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """torch's arrays (weights, gradients, ...) by Paddle's names and in Paddle's layout, of unchanged dtype.

        Every name of an alias group is understood and given. What the input lacks is left out; so are constants, which
        have no source (see `constants`). Arrays may be views of the input. Raises UserError for unknown names or shapes.
        """
        return self._move(arrays, "torch", "paddle")

    def apply_back(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inverse of `apply`."""
        return self._move(arrays, "paddle", "torch")

    def constants(self, to: str = "paddle") -> dict[str, tuple[tuple[int, ...], str, float]]:
        """{name: (shape, dtype, value)} of the tensors on side `to` that the other side does not determine."""
        found = {}
        for row in self.rows if to == "paddle" else self.dropped:
            name = row.name(to)
            if name is not None and row.fill is not None:
                tensor = self.tensors[to][name]
                found[name] = (tuple(tensor["shape"]), tensor["dtype"], row.fill)
        return found

    def sources(self, to: str) -> dict[str, list[Row]]:
        """{first name on side `to`: the rows it is made of}: parts of one tensor, or equal copies of it."""
        found: dict[str, list[Row]] = {name: [] for name in self.tensors[to]}
        for row in self.rows:
            if row.torch is not None and row.paddle is not None:
                found[row.torch if to == "torch" else row.paddle].append(row)
        return {name: rows for name, rows in found.items() if rows}

    def torch_parameters(self) -> dict[str, tuple[int, ...]]:
        """Shape of every torch parameter by its first name, in definition order."""
        return {name: tuple(one["shape"]) for name, one in self.tensors["torch"].items() if one["kind"] == "param"}

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "rows": [{**asdict(row), "transposed": row.transposed} for row in self.rows],
            "dropped": [asdict(row) for row in self.dropped],
            "tensors": self.tensors,
            "aliases": self.aliases,
            "modules": self.modules,
            "ignored": self.ignored,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of `to_json`."""
        rows = [[_row(row) for row in data[key]] for key in ("rows", "dropped")]
        return cls(
            rows[0], rows[1], data["tensors"], data["aliases"], [tuple(pair) for pair in data["modules"]], data["ignored"]
        )

    def _move(self, arrays: Mapping[str, np.ndarray], side: str, to: str) -> dict[str, np.ndarray]:
        given = {}
        unstored = {row.name(side) for row in self.dropped}
        for name, array in arrays.items():
            first = self.aliases[side].get(name, name)
            if first in self.tensors[side]:
                if tuple(array.shape) != tuple(self.tensors[side][first]["shape"]):
                    raise UserError(
                        f"{side} {name!r} has shape {tuple(array.shape)}, the model {tuple(self.tensors[side][first]['shape'])}"
                    )
                given.setdefault(first, array)
            elif name not in unstored:
                raise UserError(f"{name!r} is no parameter or buffer of the {side} model")
        made = {}
        for name, rows in self.sources(to).items():
            if rows[0].part(to) is None:
                row = next((row for row in rows if row.name(side) in given), None)
                if row is not None:
                    made[name] = row.move(given[row.name(side)], to)
            elif all(row.name(side) in given for row in rows):
                made[name] = np.empty(self.tensors[to][name]["shape"], given[rows[0].name(side)].dtype)
                for row in rows:
                    made[name][row.part(to)] = row.move(given[row.name(side)], to)
        for alias, first in self.aliases[to].items():
            if first in made:
                made[alias] = made[first]
        return made


def plan(torch_tree: Mapping[str, Any], paddle_tree: Mapping[str, Any], user_map: Mapping[str, Any] | None = None) -> Plan:
    """Match two described models. `user_map`: weights.map of port.yaml (see usermap.py).

    Raises UserError, naming all it can, unless every stored tensor of both sides is settled exactly once.
    """
    torch, paddle = Tree(dict(torch_tree)), Tree(dict(paddle_tree))
    if not paddle.tensors:
        raise UserError("the Paddle model has no parameters, so there is nothing to convert")
    matcher = Matcher(torch, paddle)
    ignored = apply_map(matcher, user_map or {})
    if torch.root.index not in matcher.paired["torch"]:
        matcher.pair(torch.root, paddle.root)
    rows, dropped = _rows(matcher)
    problems = matcher.problems + leftovers(torch, paddle, rows + dropped, matcher)
    if problems:
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        error = UserError(f"weights cannot be converted: {problems[0]}{more}")
        error.problems = problems
        raise error
    dropped += _unstored(torch, paddle, dropped)
    tensors = {
        tree.framework: {
            name: {"shape": list(ref.shape), "dtype": ref.dtype, "kind": ref.kind, "trainable": ref.trainable}
            for name, ref in tree.tensors.items()
        }
        for tree in (torch, paddle)
    }
    pairs = [(t.path, p.path) for t, p in sorted(matcher.pairs, key=lambda pair: pair[0].index)]
    return Plan(rows, dropped, tensors, {tree.framework: tree.aliases for tree in (torch, paddle)}, pairs, ignored)


def _rows(matcher: Matcher) -> tuple[list[Row], list[Row]]:
    """Rows in Paddle's definition order, each once, and the dropped rows in torch's."""
    rows: dict[tuple, Row] = {}
    filled: dict[str, Link] = {}
    for link, rule in matcher.links:
        row = _from_link(matcher, link, rule)
        if link.paddle is not None and link.paddle.part is None:
            other = filled.setdefault(link.paddle.key, link)
            if (other.torch is None) != (link.torch is None) or (link.torch and other.torch.key != link.torch.key):
                matcher.problems.append(
                    f"paddle {link.paddle.key!r} would be filled twice; name it once in weights.map of port.yaml"
                )
        key = (row.torch, row.torch_part, row.paddle, row.paddle_part)
        if rows.setdefault(key, row).op != row.op:
            matcher.problems.append(
                f"paddle {row.paddle!r} is one tensor under several names, and torch {row.torch!r} would have to be both as it"
                " is and transposed there; in Paddle a tied output head is matmul(x, embedding.weight, transpose_y=True)"
            )
    order = {name: i for side in (matcher.torch, matcher.paddle) for i, name in enumerate(side.tensors)}
    kept = sorted(
        (row for row in rows.values() if row.paddle is not None), key=lambda row: (order[row.paddle], row.paddle_part or ())
    )
    dropped = [row for row in rows.values() if row.paddle is None]
    used = {row.torch for row in kept}
    return kept, sorted((row for row in dropped if row.torch not in used), key=lambda row: order[row.torch])


def _from_link(matcher: Matcher, link: Link, rule: str) -> Row:
    t, p = link.torch, link.paddle
    torch = matcher.torch.first(t.key) if t else None
    paddle = matcher.paddle.first(p.key) if p else None
    op = link.op if t and p else "drop" if t else f"fill {link.fill:g}"
    kind = (p or t).kind
    return Row(
        torch,
        matcher.torch.refs[t.key].shape if t else None,
        paddle,
        matcher.paddle.refs[p.key].shape if p else None,
        op,
        rule,
        kind,
        t.part if t else None,
        p.part if p else None,
        link.reason,
        link.fill,
    )


def _unstored(torch: Tree, paddle: Tree, dropped: Iterable[Row]) -> list[Row]:
    """Rows for buffers that are in no state_dict."""
    reason, named = "not in the state_dict (persistent=False): the constructor makes it", {row.torch for row in dropped}
    rows = [
        Row(ref.key, ref.shape, None, None, "drop", "not stored", ref.kind, reason=reason)
        for ref in torch.refs.values()
        if not ref.persistent and ref.key not in named
    ]
    return rows + [
        Row(None, None, ref.key, ref.shape, "drop", "not stored", ref.kind, reason=reason)
        for ref in paddle.refs.values()
        if not ref.persistent
    ]


def _part_shape(shape: tuple[int, ...] | None, part: Part | None) -> tuple[int, ...]:
    assert shape is not None
    return shape if part is None else (*shape[: part[0]], part[2] - part[1], *shape[part[0] + 1 :])


def _row(data: Mapping[str, Any]) -> Row:
    shaped = {
        key: tuple(data[key]) if data[key] is not None else None
        for key in ("torch_shape", "paddle_shape", "torch_part", "paddle_part")
    }
    return Row(**{**{key: value for key, value in data.items() if key != "transposed"}, **shaped})
