# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a comparison says: about one array, one pair of records, one node. All of it goes to JSON and back."""
from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class KeyResult:
    """One array on both sides.

    mean, max: of the absolute difference; index: the element farthest off for its size; rel: its difference, relative to
    itself or to `scale`, the typical size of the reference's array, whichever is larger; ulp: the same in units in the last
    place; threshold: what `mean` is held against; worst: the difference as a multiple of its limit, so that up to 1 passes;
    known: id of the verified rule that explains it.
    None: not known, because the arrays cannot be compared.
    """

    key: str
    passed: bool
    reason: str = ""
    mean: float | None = None
    max: float | None = None
    index: list[int] | None = None
    rel: float | None = None
    ulp: float | None = None
    scale: float | None = None
    shape: list | None = None
    dtype: str | None = None
    threshold: float | None = None
    worst: float = 0.0
    known: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As a dict of plain values (NaN and infinity stay floats)."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> KeyResult:
        """The inverse of `to_json`."""
        return cls(**content)


@dataclass
class PartResult:
    """One pair of records. state: "green", "red", "stale" or "missing"; known: the rules that were verified."""

    name: str
    state: str
    reason: str = ""
    keys: list[KeyResult] = field(default_factory=list)
    known: list[dict[str, Any]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Only green passes."""
        return self.state == "green"

    @property
    def worst(self) -> KeyResult | None:
        """The array that is nearest to its limit or farthest beyond it."""
        return max(self.keys, key=lambda key: math.inf if math.isnan(key.worst) else key.worst, default=None)

    def to_json(self) -> dict[str, Any]:
        """As a dict of plain values, with `passed`."""
        return {**dataclasses.asdict(self), "passed": self.passed}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> PartResult:
        """The inverse of `to_json`."""
        rest = {name: value for name, value in content.items() if name not in ("keys", "passed")}
        return cls(**rest, keys=[KeyResult.from_json(key) for key in content["keys"]])


@dataclass
class NodeResult:
    """One line of the result table. worst, threshold: of the main part; seconds: {"torch": s, "paddle": s}."""

    node: str
    step: int
    state: str
    reason: str = ""
    worst: float | None = None
    threshold: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    parts: list[PartResult] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As a dict of plain values."""
        return {**dataclasses.asdict(self), "parts": [part.to_json() for part in self.parts]}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> NodeResult:
        """The inverse of `to_json`."""
        return cls(**{**content, "parts": [PartResult.from_json(part) for part in content["parts"]]})
