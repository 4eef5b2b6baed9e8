# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The result as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.align.results import KeyResult, NodeResult, PartResult


def number(value: float | None) -> str:
    """A difference or threshold in a few digits; a dash where there is none."""
    return "-" if value is None else f"{value:.2e}" if value and abs(value) < 0.001 else f"{value:.4g}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned columns, the first row with a line below it."""
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n"


def summary(nodes: Sequence[NodeResult]) -> str:
    """One line per node: node, verdict, worst difference, threshold, seconds of both sides."""
    rows = [["node", "verdict", "worst difference", "threshold", "torch s", "paddle s"]]
    for node in nodes:
        seconds = [node.seconds.get(side) for side in ("torch", "paddle")]
        rows.append([node.node, node.state, number(node.worst), number(node.threshold),
                     *("-" if value is None else f"{value:.1f}" for value in seconds)])  # fmt: skip
    text = columns(rows)
    reasons = [f"{node.node}: {node.state}: {node.reason}\n" for node in nodes if node.state != "green" and node.reason]
    return text + "".join(reasons)


def details(nodes: Sequence[NodeResult], everything: bool = False) -> str:
    """The parts of every node; of each the failed arrays, or all of them."""
    return "".join(
        f"{node.node}\n{''.join(part_lines(part, everything) for part in node.parts)}\n" for node in nodes if node.parts
    )


def part_lines(part: PartResult, everything: bool = False) -> str:
    """One part: a line for itself, then one per array."""
    worst = max((key.mean for key in part.keys if key.mean is not None), default=None)
    head = (
        f"  {'pass' if part.passed else 'FAIL'}  {part.name}: {len(part.keys)} compared, largest mean difference {number(worst)}"
    )
    lines = [head + (f"; {part.reason}" if part.reason and not part.passed else "")]
    lines += [f"          known difference, verified: {rule['title']}" for rule in _distinct(part.known)]
    lines += [f"          {_key_line(key)}" for key in part.keys if everything or not key.passed]
    return "\n".join(lines) + "\n"


def _key_line(key: KeyResult) -> str:
    numbers = f"mean {number(key.mean)} max {number(key.max)}"
    return f"{'pass' if key.passed else 'FAIL'} {key.key} {numbers}" + (f": {key.reason}" if key.reason else "")


def _distinct(known: Sequence[dict]) -> list[dict]:
    return list({rule["id"]: rule for rule in known}.values())
