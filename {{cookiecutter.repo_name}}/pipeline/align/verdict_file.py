# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""pipeline/work/verdicts.json: what the last checks said, and of which records and limits."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pipeline.align.errors import UserError
from pipeline.align.nodes import NODES
from pipeline.align.paths import SIDES, Paths
from pipeline.align.records import read_record
from pipeline.align.results import NodeResult
from pipeline.align.settings import Settings


def read_verdicts(paths: Paths) -> tuple[list[NodeResult], dict[str, Any]]:
    """The nodes of the last checks, and the whole content; empty where there was none."""
    try:
        content = json.loads(paths.verdicts.read_text(encoding="utf-8"))
        return [NodeResult.from_json(node) for node in content["nodes"]], content
    except (OSError, ValueError, KeyError, TypeError):
        return [], {}


def limits_hash(cfg: Settings) -> str:
    """Identifies the thresholds and the benchmark that a verdict was made with."""
    content = [cfg.align.to_dict()["thresholds"], cfg.benchmark.to_dict()]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def record_digests(paths: Paths) -> dict[str, str | None]:
    """{record file: digest of its content} of every record of every node that exists."""
    found = {}
    for part in (part for node in NODES for part in node.parts):
        for path in (paths.part(side, part.name) for side in SIDES):
            if path.is_file():
                try:
                    found[path.relative_to(paths.root).as_posix()] = read_record(path).digest
                except UserError:
                    found[path.relative_to(paths.root).as_posix()] = None
    return found
