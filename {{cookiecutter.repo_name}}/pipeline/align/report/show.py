# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Values as text: the same words in the page and in its Markdown twin."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

NOTHING = "–"
# larger numbers are as good as infinite, and no axis can show them
MOST = 1e308


def plain(value: Any) -> str:
    """One printable line. Control, format and surrogate characters could drive a terminal or break UTF-8."""
    text = NOTHING if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(" " if c.isspace() else "\ufffd" if unicodedata.category(c)[0] == "C" else c for c in text)


def number(value: Any) -> str:
    """A float with four significant digits; anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else plain(value)


def to_float(value: Any) -> float:
    """NaN for what is no number, so that a gap stays visible."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < MOST else math.nan


def shape(value: Any) -> str:
    """[64, 3, 7, 7] is 64×3×7×7, [] is (); several shapes are listed."""
    if not isinstance(value, list):
        return plain(value)
    if any(isinstance(item, list) for item in value):
        return ", ".join(shape(item) for item in value)
    return "×".join(plain(item) for item in value) or "()"


def words(value: Any) -> str:
    """Lists and dicts as "a, b" and "key value, key value"; floats with seven digits, no empty entries."""
    if isinstance(value, list):
        return ", ".join(words(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{plain(k)} {words(v)}" for k, v in value.items() if v is not None)
    return f"{value:.7g}" if isinstance(value, float) else plain(value)


def structure(value: Any) -> str:
    """Provenance values: text as it is, anything nested as JSON."""
    return plain(json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value)


def state(item: dict) -> str:
    """The state of a part; of a key green or red, and only a clear yes is green."""
    return plain(item["state"]) if "state" in item else "green" if item.get("passed") is True else "red"


def worst(keys: list[dict]) -> dict | None:
    """The key farthest beyond its limit, or nearest to it. What is not a number is beyond every limit."""

    def beyond(key: dict) -> float:
        ratio = key.get("worst")
        return float(ratio) if isinstance(ratio, (int, float)) and ratio <= MOST else math.inf

    return max(keys, key=beyond, default=None)
