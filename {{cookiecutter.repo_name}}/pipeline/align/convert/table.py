# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The report of a conversion: a line per tensor, then what is dropped and why."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.align.convert.files import Conversion
from pipeline.align.convert.plan import Part, Plan, Row

HEADINGS = ("torch", "shape", "paddle", "shape", "rule", "transposed")


def text(plan: Plan, report: Conversion | None = None) -> str:
    """The plan as a table of plain text, and what a conversion by it noted."""
    others = {side: _others(plan.aliases[side]) for side in ("torch", "paddle")}
    lines = _columns([HEADINGS, *(_cells(row, others) for row in plan.rows)])
    if plan.dropped:
        lines += ["", "not converted:"]
        lines += _columns(
            [
                (
                    f"{'torch' if row.torch else 'paddle'} {row.torch or row.paddle}",
                    _shape(row.torch_shape if row.torch else row.paddle_shape, None),
                    row.reason,
                )
                for row in plan.dropped
            ]
        )
    counts = [sum(row.kind == kind for row in plan.rows) for kind in ("param", "buffer")]
    lines += ["", f"{counts[0]} parameter rows, {counts[1]} buffer rows, {len(plan.dropped)} not converted"]
    if report is not None:
        lines += [f"note: {note}" for note in report.notes]
        lines += [f"cast: {name}: {how}" for name, how in report.casts.items()]
    return "\n".join(lines) + "\n"


def _cells(row: Row, others: dict[str, dict[str, list[str]]]) -> tuple[str, ...]:
    rule = f"{row.rule} ({row.op})" if row.torch else f"{row.op}: {row.reason}"
    return (
        _name(row.torch, others["torch"]),
        _shape(row.torch_shape, row.torch_part),
        _name(row.paddle, others["paddle"]),
        _shape(row.paddle_shape, row.paddle_part),
        rule,
        "yes" if row.transposed else "no",
    )


def _others(aliases: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for other, first in aliases.items():
        found.setdefault(first, []).append(other)
    return found


def _name(name: str | None, others: dict[str, list[str]]) -> str:
    return "-" if name is None else " = ".join([name, *others.get(name, [])])


def _shape(shape: tuple[int, ...] | None, part: Part | None) -> str:
    if shape is None:
        return "-"
    return (
        "("
        + ", ".join(f"{part[1]}:{part[2]} of {n}" if part and part[0] == axis else str(n) for axis, n in enumerate(shape))
        + ")"
    )


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
