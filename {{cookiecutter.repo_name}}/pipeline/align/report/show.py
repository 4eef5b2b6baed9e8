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
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e308 else math.nan


def shape(value: Any) -> str:
    """[64, 3, 7, 7] is 64×3×7×7, [] is (); several shapes are listed."""
    if not isinstance(value, list):
        return plain(value)
    if any(isinstance(item, list) for item in value):
        return ", ".join(shape(item) for item in value)
    return "×".join(plain(item) for item in value) or "()"


def words(value: Any) -> str:
    """Lists and dicts as "a, b" and "key value, key value" without empty entries; a float with seven digits."""
    if isinstance(value, list):
        return ", ".join(words(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{plain(k)} {words(v)}" for k, v in value.items() if v is not None)
    return f"{value:.7g}" if isinstance(value, float) else plain(value)


def structure(value: Any) -> str:
    """Provenance values: text as it is, anything nested as JSON."""
    return plain(json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value)


def passed(item: dict) -> bool:
    """Only a clear yes is a yes."""
    return item.get("passed") is True


def worst(keys: list[dict]) -> Any:
    """Largest of the keys' largest differences; NaN if one is NaN; None if there is none."""
    values = [k["max"] for k in keys if isinstance(k.get("max"), (int, float))]
    return next((v for v in values if v != v), max(values, default=None))


def limit(threshold: Any) -> float:
    """The number a threshold draws a line at, NaN where it has none."""
    if isinstance(threshold, dict):
        return next((v for v in map(to_float, threshold.values()) if v == v), math.nan)
    return to_float(threshold)
