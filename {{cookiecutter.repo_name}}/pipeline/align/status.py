# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The state of the six nodes, from what lies on the disk: no framework is imported, nothing is run."""

from __future__ import annotations

import dataclasses

from pipeline.align import provenance, tipc
from pipeline.align.errors import UserError
from pipeline.align.nodes import NODES, OPTIONAL_PARTS, Node
from pipeline.align.paths import SIDES, Paths
from pipeline.align.records import read_provenance
from pipeline.align.results import NodeResult
from pipeline.align.settings import Settings
from pipeline.align.todo import unwritten
from pipeline.align.verdict_file import limits_hash, read_verdicts, record_digests


def read(paths: Paths, cfg: Settings) -> list[NodeResult]:
    """The six nodes: the last verdict of each, or "missing" or "stale" where it no longer says anything."""
    judged, content = read_verdicts(paths)
    last = {node.node: node for node in judged}
    digests, now = content.get("records", {}), record_digests(paths)
    nodes, todo = [], unwritten(paths)
    for node in NODES:
        waiting = sum(one.step <= node.step for one in todo)
        if waiting:
            nodes.append(NodeResult(node.name, node.step, "missing", f"functions to write first: {waiting}"))
            continue
        result = last.get(node.name) or NodeResult(node.name, node.step, "missing", f"run: python -m pipeline align {node.step}")
        reason = _outdated(paths, cfg, node, digests, now) if result.state in ("green", "red") else None
        if not reason and result.state == "green" and content.get("limits", {}).get(node.name) != limits_hash(cfg):
            reason = f"the thresholds or the benchmark changed; run: python -m pipeline check {node.step}"
        nodes.append(dataclasses.replace(result, state="stale", reason=reason) if reason else result)
    state, reason = tipc.read(paths)
    return [*nodes, NodeResult("tipc", 6, state, reason)]


def _outdated(paths: Paths, cfg: Settings, node: Node, digests: dict, now: dict) -> str | None:
    for part in node.parts:
        for side in SIDES if part.name not in OPTIONAL_PARTS and not part.record else ():
            path = paths.part(side, part.name)
            name = path.relative_to(paths.root).as_posix()
            if name not in now and name in digests:
                return f"{name} is gone; run: python -m pipeline align {node.step}"
            if now.get(name) != digests.get(name):
                return f"{name} was written after the verdict; run: python -m pipeline check {node.step}"
            if name in now:
                try:
                    reason = provenance.stale_reason(paths, cfg, read_provenance(path) or {})
                except UserError as error:
                    return str(error)
                if reason:
                    return f"{path.name}: {reason}; run: python -m pipeline align {node.step}"
    return None
