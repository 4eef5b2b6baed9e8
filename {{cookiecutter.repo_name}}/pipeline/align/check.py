# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Judges the nodes: which records belong together, what special rules they need, what the log and the result file say."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable

from pipeline.align import provenance, verdict
from pipeline.align.errors import UserError
from pipeline.align.judges import judge
from pipeline.align.nodes import NODES, OPTIONAL_PARTS, Node, Part, node_of
from pipeline.align.paths import SIDES, Paths
from pipeline.align.records import read_record
from pipeline.align.results import NodeResult, PartResult
from pipeline.align.settings import Settings
from pipeline.align.thresholds import threshold
from pipeline.align.verdict_file import limits_hash, read_verdicts, record_digests
from pipeline.align.worker import FIRST_JOB

#: The state of a node is the worst of its parts', in this order.
STATES = ("red", "missing", "stale", "green")


def check(paths: Paths, cfg: Settings, steps: Iterable[int]) -> list[NodeResult]:
    """Judge the nodes of `steps`; writes their logs and updates verdicts.json."""
    nodes = [_check_node(paths, cfg, node_of(step)) for step in steps]
    old = {node.node: node for node in read_verdicts(paths)[0]}
    merged = {**old, **{node.node: node for node in nodes}}
    ordered = [merged[node.name] for node in NODES if node.name in merged]
    content = {
        "nodes": [node.to_json() for node in ordered],
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "limits": {**read_verdicts(paths)[1].get("limits", {}), **{node.node: limits_hash(cfg) for node in nodes}},
        "records": record_digests(paths),
    }
    provenance.write_json(paths.verdicts, content)
    return nodes


def _check_node(paths: Paths, cfg: Settings, node: Node) -> NodeResult:
    failure = _failure(paths, node)
    if failure:
        result = NodeResult(node.name, node.step, "red", _before(paths, cfg, node) + failure)
    else:
        parts = [judge(paths, cfg, node, part) for part in node.parts if _wanted(paths, part)]
        result = _summarise(paths, cfg, node, parts)
    if result.state in ("green", "red"):
        main = [part for part in result.parts if part.name == node.main]
        failed = [part for part in result.parts if not part.passed and part.name != node.main]
        verdict.write_diff_log(paths.log_reprod / f"{node.main}_diff.log", main + failed)
    return result


def _before(paths: Paths, cfg: Settings, node: Node) -> str:
    """What was already wrong in the parts that both sides had recorded when the node failed."""
    for part in node.parts:
        if all(paths.part(side, part.record or part.name).is_file() for side in SIDES):
            result = judge(paths, cfg, node, part)
            if result.state == "red":
                return f"{part.title}: {result.reason}; then "
    return ""


def _wanted(paths: Paths, part: Part) -> bool:
    return part.name not in OPTIONAL_PARTS or paths.real_batch.is_file()


def _failure(paths: Paths, node: Node) -> str | None:
    """Why a side could not record this node, where its last run failed."""
    for side in SIDES:
        for job in ("start", FIRST_JOB[side], f"step{node.step}"):
            try:
                failed = json.loads(paths.failure(side, job).read_text(encoding="utf-8"))
                return f"{side} side, {job} failed: {failed['message']}"
            except (OSError, ValueError, KeyError):
                continue
    return None


def _summarise(paths: Paths, cfg: Settings, node: Node, parts: list[PartResult]) -> NodeResult:
    """The node's state is the worst of its parts'. Its number is the main part's, or that of the part that made it red."""
    state = min((part.state for part in parts), key=STATES.index)
    first = next((part for part in parts if part.state == state and state != "green"), None)
    kinds = {part.name: part for part in node.parts}
    shown = next(part for part in parts if part.name == node.main)
    if first and shown.passed:
        shown = first
    means = [key.mean for key in shown.keys if key.mean is not None and key.passed == shown.passed]
    limit = kinds[shown.name].threshold
    return NodeResult(
        node.name,
        node.step,
        state,
        reason=f"{kinds[first.name].title}: {first.reason}" if first else "",
        worst=max(means, key=lambda mean: math.inf if math.isnan(mean) else mean, default=None),
        threshold=threshold(limit, cfg.align.thresholds.get(limit)).number,
        seconds=_seconds(paths, node),
        parts=parts,
    )


def _seconds(paths: Paths, node: Node) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for side in SIDES:
        for part in node.parts:
            try:
                made = read_record(paths.part(side, part.name)).provenance or {}
            except UserError:
                continue
            seconds[side] = max(seconds.get(side, 0.0), float(made.get("seconds", 0.0)))
    return seconds
