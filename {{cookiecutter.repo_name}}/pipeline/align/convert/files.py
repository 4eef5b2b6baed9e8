# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Convert whole weight files by a plan, tensor by tensor, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align.convert import stream
from pipeline.align.convert.arrays import NUMPY, Array, cast, equal, from_numpy
from pipeline.align.convert.checkpoint import Checkpoint, matches, read_source
from pipeline.align.convert.plan import Plan, Row
from pipeline.align.convert.tree import Tree
from pipeline.align.errors import UserError

Source = str | Path | Checkpoint | Mapping[str, Any]


@dataclass(frozen=True)
class Fresh:
    """Parts of the model that a checkpoint need not hold: weights.fresh of port.yaml, and a file with values for them."""

    patterns: tuple[str, ...] = ()
    path: Path | None = None

    def arrays(self, wanted: Iterable[str]) -> dict[str, Array]:
        """The values of those among the first names `wanted`."""
        if not self.patterns or self.path is None:
            return {}
        names = self.names(wanted)
        return {name: array for name, array in read_source(self.path).entries[""].items() if name in names}

    def names(self, wanted: Iterable[str]) -> set[str]:
        """Those among the first names `wanted`. UserError for a pattern that matches none."""
        wanted = list(wanted)
        for pattern in self.patterns:
            if not any(matches(name, [pattern]) for name in wanted):
                raise UserError(f"weights.fresh in port.yaml: {pattern!r} matches nothing in the reference")
        return {name for name in wanted if matches(name, self.patterns)}


@dataclass
class Conversion:
    """What a conversion did: `notes` on the file, `casts` {name of the result: how its dtype changed}."""

    notes: list[str] = field(default_factory=list)
    casts: dict[str, str] = field(default_factory=dict)


def convert_file(
    plan: Plan, source: Source, out_path: str | Path, to: str = "paddle", fresh: Fresh | None = None
) -> Conversion:
    """Write the weights of `source` for side `to` ("paddle" or "torch") to `out_path`.

    `source`: a path or Checkpoint (see checkpoint.py), or a mapping of the other side's names to arrays. The file is
    safetensors, or .pdparams where it is named so; it appears when everything is converted. Memory beside the mapped
    source: the largest tensor, twice where it is joined from parts. `fresh`: what the source need not hold. Raises
    UserError, and writes nothing, where a tensor is missing, unexpected, of another shape, or does not survive its cast.
    """
    side = "torch" if to == "paddle" else "paddle"
    report = Conversion()
    given = _given(plan, source, side, report, fresh or Fresh())
    rows, constants = plan.sources(to), plan.constants(to)
    tensors = plan.tensors[to]
    absent = [name for name in tensors if name not in rows and name not in constants]
    if absent:
        raise UserError(
            f"{to} {absent[0]!r} ({len(absent)} such) is dropped by the plan, so a complete {to} file cannot be written"
        )

    def make(name: str) -> np.ndarray:
        shape, dtype = tuple(tensors[name]["shape"]), tensors[name]["dtype"]
        if name not in rows:
            return _constant(shape, dtype, constants[name][2])
        return _tensor(name, rows[name], given, shape, dtype, side, to, report)

    entries = [(name, tuple(one["shape"]), one["dtype"]) for name, one in tensors.items()]
    stream.write(Path(out_path), entries, make, {"format": "pt" if to == "torch" else "pd"})
    return report


def _given(plan: Plan, source: Source, side: str, report: Conversion, fresh: Fresh) -> dict[str, Array]:
    """The source's arrays by first name, complete and of the right shapes; copies under other names are equal."""
    if isinstance(source, (str, Path)):
        source = read_source(source)
    elif not isinstance(source, Checkpoint):
        arrays = {name: one if isinstance(one, Array) else from_numpy(np.asarray(one)) for name, one in source.items()}
        source = Checkpoint("the given weights", {"": arrays})
    wanted = {name: tuple(one["shape"]) for name, one in plan.tensors[side].items()}
    optional = {row.name(side) for row in plan.dropped} | set(plan.constants(side))
    unstored = {row.name(side) for row in plan.dropped if row.rule == "not stored"} - {None}
    own = fresh.arrays(wanted)
    ignored = [*plan.ignored, *fresh.patterns]
    selected = source.select(wanted, plan.aliases[side], optional | own.keys(), ignored, side, unstored)
    report.notes += selected.notes
    return {**selected.arrays, **own}


def _tensor(
    name: str,
    rows: list[Row],
    given: dict[str, Array],
    shape: tuple[int, ...],
    dtype: str,
    side: str,
    to: str,
    report: Conversion,
) -> np.ndarray:
    if rows[0].part(to) is not None:
        made = np.empty(shape, NUMPY[dtype])
        for row in rows:
            _note(report, name, _cast(row, given, dtype, made[row.part(to)], side, to))
        return made
    first, *copies = rows
    array = given[first.name(side)]
    moved = first.move(array.read(), to)
    for row in copies:
        other = row.move(given[row.name(side)].read(), to)
        if row.name(side) != first.name(side) and not equal(moved, other):
            raise UserError(
                f"{to} {name!r} is tied, but {side} {first.name(side)!r} and {row.name(side)!r}, which it stands for, differ"
            )
    if array.dtype == dtype and moved.flags.c_contiguous:
        return moved
    made = np.empty(shape, NUMPY[dtype])
    _note(report, name, _cast(first, given, dtype, made, side, to))
    return made


def _cast(row: Row, given: dict[str, Array], dtype: str, into: np.ndarray, side: str, to: str) -> str:
    array = given[row.name(side)]
    return cast(row.move(array.read(), to), array.dtype, dtype, into, f"{side} {row.name(side)!r}")


def _note(report: Conversion, name: str, how: str) -> None:
    if how:
        report.casts[name] = how


def _constant(shape: tuple[int, ...], dtype: str, value: float) -> np.ndarray:
    if dtype != "bfloat16":
        return np.full(shape, value, NUMPY[dtype])
    made = np.empty(shape, NUMPY[dtype])
    cast(np.full(shape, value, np.float32), "float32", dtype, made, "a constant")
    return made


def save_reference(
    model: Any, source: Checkpoint | None, path: str | Path, user_map: Mapping[str, Any] | None = None,
    fresh: Iterable[str] = (),
) -> Conversion:  # fmt: skip
    """Write a live torch model's weights (safetensors, its own names and dtypes), or those of `source` if they fit it.

    Runs in the torch process. Tied tensors are written once, by their first name. What `user_map` (weights.map of
    port.yaml) drops may stand in the source without being in the model; what `fresh` (weights.fresh) names stays the model's.
    """
    from pipeline.align.convert import describe_torch

    dropped = [key for key, value in (user_map or {}).items() if value is None]
    return _save(describe_torch, model, source, path, dropped, Fresh(tuple(fresh)))


def save_port(model: Any, source: Checkpoint | None, path: str | Path) -> Conversion:
    """The same for a live Paddle model, in the Paddle process; a path named .pdparams becomes a file for paddle.load."""
    from pipeline.align.convert import describe_paddle

    return _save(describe_paddle, model, source, path, [], Fresh())


def _save(
    describe: Any, model: Any, source: Checkpoint | None, path: str | Path, ignored: list[str], fresh: Fresh
) -> Conversion:
    tree, given, report = Tree(describe.describe(model)), describe.state(model), Conversion()
    if source is not None:
        # the counters of BatchNorm, which old torch files lack, stay the model's own
        own = [name for name in tree.tensors if name.endswith("num_batches_tracked")]
        own += fresh.names(tree.tensors)
        unstored = [name for name, ref in tree.refs.items() if not ref.persistent]
        wanted = {name: ref.shape for name, ref in tree.tensors.items()}
        selected = source.select(wanted, tree.aliases, own, [*ignored, *fresh.patterns], tree.framework, unstored)
        given = {**{name: given[name] for name in own}, **selected.arrays}
        report.notes += selected.notes

    def make(name: str) -> np.ndarray:
        array, dtype = given[name], tree.tensors[name].dtype
        if array.dtype == dtype:
            return array.read()
        made = np.empty(array.shape, NUMPY[dtype])
        _note(report, name, cast(array.read(), array.dtype, dtype, made, repr(name)))
        return made

    entries = [(name, ref.shape, ref.dtype) for name, ref in tree.tensors.items()]
    stream.write(Path(path), entries, make, {"format": "pt" if tree.framework == "torch" else "pd"})
    return report
