# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Reads everything the report shows, and brings it into a shape the writers can rely on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipeline.align.nodes import NODES
from pipeline.align.paths import SIDES, Paths

# what acceptance looks at: the five steps, then TIPC
CHECKPOINTS = (*(node.name for node in NODES), "tipc")
# input -> the command that makes it
MADE_BY = {
    "port.yaml": "git checkout port.yaml",
    "verdicts.json": "python -m pipeline check",
    "train_torch.json": "python -m pipeline run 5 --side torch",
    "train_paddle.json": "python -m pipeline run 5 --side paddle",
    "conversion.json": "python -m pipeline convert",
    "environment_torch.json": "python -m pipeline run --side torch",
    "environment_paddle.json": "python -m pipeline run --side paddle",
}
# bookkeeping that every provenance has, and that says nothing about a machine
NOT_ENVIRONMENT = ("part", "inputs")


@dataclass
class Inputs:
    """What was found. Sides that left no file are absent from the dicts by side.

    `problems`: {file: what is wrong with it}, the empty text for a file that is not there.
    """

    title: str = ""
    model: str = ""
    made: str = ""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    histories: dict[str, dict[str, list]] = field(default_factory=dict)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    conversion: dict[str, list[dict]] | None = None
    problems: dict[str, str] = field(default_factory=dict)


def load(root: Path, nodes: list[dict[str, Any]] | None = None) -> Inputs:
    """Read all inputs below `root`; what is absent or broken becomes a problem, never an exception.

    `nodes`: replaces those of verdicts.json.
    """
    found, paths = Inputs(), Paths(root)
    # without the checks of load_settings(): a wrong setting must not hide the report
    settings = _read(paths.settings, yaml.safe_load, found.problems) or {}
    found.title = str(_dict(settings.get("paper")).get("title") or "")
    found.model = str(_dict(settings.get("model")).get("name") or "")
    verdicts = _read(paths.verdicts, json.loads, found.problems) or {}
    found.made = str(verdicts.get("made", ""))
    found.nodes = _six_nodes(_dicts(verdicts.get("nodes")) if nodes is None else nodes)
    for side in SIDES:
        history = _read(paths.history(side), json.loads, found.problems)
        if history is not None:
            found.histories[side] = {key: value for key, value in history.items() if isinstance(value, list)}
        environment = _read(paths.environment(side), json.loads, found.problems)
        if environment is not None:
            found.environments[side] = {k: v for k, v in environment.items() if k not in NOT_ENVIRONMENT}
    conversion = _read(paths.conversion, json.loads, found.problems)
    if conversion is not None:
        found.conversion = {key: _dicts(conversion.get(key)) for key in ("rows", "dropped")}
    return found


def _read(path: Path, parse: Any, problems: dict[str, str]) -> dict[str, Any] | None:
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems[path.name] = ""
        return None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        problems[path.name] = str(error) or type(error).__name__
        return None
    if not isinstance(content, dict):
        problems[path.name] = f"it holds a {type(content).__name__} where key: value pairs are expected"
        return None
    return content


def _six_nodes(nodes: list[dict]) -> list[dict]:
    """The six nodes in their order, "missing" where the file has none, then whatever else the file holds."""
    ordered = []
    for name in CHECKPOINTS:
        ordered += [n for n in nodes if n.get("node") == name] or [{"node": name, "state": "missing"}]
    ordered += [n for n in nodes if n.get("node") not in CHECKPOINTS]
    return [_node(n) for n in ordered]


def _node(node: dict) -> dict:
    parts = [{**part, "keys": _dicts(part.get("keys")), "known": _dicts(part.get("known"))} for part in _dicts(node.get("parts"))]
    return {**node, "state": str(node.get("state")), "seconds": _dict(node.get("seconds")), "parts": parts}


def _dict(value: Any) -> dict:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
