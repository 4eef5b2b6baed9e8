# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The Markdown twin of the page, for the terminal: its tables are aligned with spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from pipeline.align.paths import SIDES

from . import curves as training
from . import facts, show
from .inputs import Inputs
from .texts import Texts


def escape(value: Any) -> str:
    """One line in which nothing from a file becomes a table border, a link, a tag or emphasis."""
    return re.sub(r"([\\`|<\[]|\*(?! ))", r"\\\1", show.number(value))


def width(text: str) -> int:
    """Terminal columns: East Asian wide characters take two, combining marks none."""
    wide = {"W": 2, "F": 2}
    return sum(0 if unicodedata.combining(c) else wide.get(unicodedata.east_asian_width(c), 1) for c in text)


def table(headings: list[str], rows: list[list[Any]], right: Iterable[int] = ()) -> str:
    """An aligned Markdown table; the columns numbered in `right` end at the right."""
    lines = [[escape(value) for value in row] for row in [headings, *rows]]
    columns = range(len(headings))
    widths = [max(3, *(width(line[i]) for line in lines)) for i in columns]
    rule = ["-" * (widths[i] - 1) + (":" if i in right else "-") for i in columns]

    def cell(text: str, i: int) -> str:
        gap = " " * (widths[i] - width(text))
        return gap + text if i in right else text + gap

    lines.insert(1, rule)
    return "\n".join("| " + " | ".join(cell(line[i], i) for i in columns) + " |" for line in lines)


def _summary(found: Inputs, t: Texts) -> str:
    """The verdict table and the reason of every node that is not green."""
    rows = [facts.verdict_row(node, t) for node in found.nodes]
    told = [node for node in found.nodes if node["state"] != "green" and node.get("reason")]
    reasons = "\n".join(f"- {escape(node.get('node'))}: {escape(node['reason'])}" for node in told)
    verdicts = table([t[name] for name in facts.VERDICT_COLUMNS], rows, right=(2, 3, 4))
    return "\n\n".join(filter(None, [verdicts, reasons]))


def document(found: Inputs, t: Texts) -> str:
    """The whole report."""
    blocks = [
        f"# {t['report']}",
        " · ".join(escape(text) for text in (found.title, found.model, found.made) if text),
        "\n".join(f"- {escape(facts.problem_text(found, file, t))}" for file in found.problems),
        f"## {t['verdicts']}",
        _summary(found, t),
        *_differences(found, t),
        *_conversion(found, t),
        *_curves(found, t),
        *_known(found, t),
        *_environment(found, t),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _differences(found: Inputs, t: Texts) -> list[str]:
    pairs = [(node, part) for node in found.nodes for part in node["parts"]]
    if not pairs:
        return []
    headings = [t[name] for name in ("node", "part", "verdict", "differences", "reason")]
    rows = [
        [node.get("node"), part.get("name"), facts.state_word(show.state(part), t)]
        + [facts.part_text(part["keys"], t), part.get("reason") or ""]
        for node, part in pairs
    ]
    return [f"## {t['differences']}", table(headings, rows)]


def _conversion(found: Inputs, t: Texts) -> list[str]:
    if found.conversion is None:
        return []
    return [f"## {t['conversion']}", facts.conversion_count(found.conversion, t)]


def _curves(found: Inputs, t: Texts) -> list[str]:
    rows = [facts.curve_row(curve, t) for curve in training.curves(found.histories)]
    if not rows:
        return []
    numbers = table([t[name] for name in facts.CURVE_COLUMNS], rows, right=range(1, 6))
    order = facts.order_text(training.data_order(found.histories), t)
    return [f"## {t['curves']}", numbers, order or ""]


def _known(found: Inputs, t: Texts) -> list[str]:
    rows = [[*map(entry.get, facts.RULE), len(places)] for entry, places in facts.known_entries(found)]
    headings = [t[name] for name in (*facts.RULE, "verified")]
    return [f"## {t['known']}", table(headings, rows, right=(4,))] if rows else []


def _environment(found: Inputs, t: Texts) -> list[str]:
    rows = [row for row, _ in facts.environment_rows(found)]
    return [f"## {t['environment']}", table([t["what"], *SIDES], rows)] if rows else []
