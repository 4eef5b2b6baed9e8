# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""HTML building blocks. Every value is escaped unless it is Markup, so escaping cannot be forgotten."""

from __future__ import annotations

import html
from typing import Any

from . import show

# heading, class of its cells: "number", "name" (fixed pitch), "long" (may wrap) or ""
Column = tuple[str, str]


class Markup(str):
    """Text that is HTML already."""


def escape(value: Any) -> Markup:
    """A value as HTML. A rounded float carries its exact value as a title."""
    if isinstance(value, Markup):
        return value
    text = html.escape(show.plain(value))
    if isinstance(value, float):
        short = show.number(value)
        return Markup(short if short == text else f'<span title="{text}">{short}</span>')
    return Markup(text)


def tag(name: str, *children: Any, **attributes: str) -> Markup:
    """<name attributes>children</name>; class_ stands for class."""
    quoted = {key.rstrip("_"): html.escape(show.plain(value)) for key, value in attributes.items()}
    shown = "".join(f' {key}="{value}"' for key, value in quoted.items())
    return Markup(f"<{name}{shown}>{''.join(map(escape, children))}</{name}>")


def state(kind: str, word: str) -> Markup:
    """A verdict in words and a sign, so that it does not depend on colour."""
    sign = {"green": "✓ ", "red": "✗ ", "stale": "↻ "}.get(kind, "")
    return tag("span", sign + word, class_=f"state {kind}")


def source(value: Any) -> Markup:
    """A web address as a link, everything else as text."""
    address = show.plain(value)
    if address.startswith(("https://", "http://")):
        return tag("a", address, href=address, rel="noreferrer")
    return escape(address)


def table(columns: list[Column], rows: list[list[Any]]) -> Markup:
    """A table in a box of its own that scrolls, so that the page never does sideways."""
    return _boxed(columns, rows)


def filtered_table(identity: str, columns: list[Column], rows: list[list[Any]], label: str) -> Markup:
    """The same with a filter above it. Hidden until the script is there to serve it."""
    named = html.escape(label)
    box = Markup(f'<input type="search" data-table="{identity}" placeholder="{named}" aria-label="{named}">')
    hidden = tag("div", box, tag("output", class_="soft"), class_="filter", hidden="")
    return Markup(hidden + _boxed(columns, rows, id=identity))


def _boxed(columns: list[Column], rows: list[list[Any]], **attributes: str) -> Markup:
    head = [tag("th", heading, scope="col", class_=kind) for heading, kind in columns]
    kinds = [kind for _, kind in columns]
    cells = [[tag("td", value, class_=kind) for kind, value in zip(kinds, row, strict=True)] for row in rows]
    body = [tag("tr", *row) for row in cells]
    inner = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body), **attributes)
    return tag("div", inner, class_="box", tabindex="0")
