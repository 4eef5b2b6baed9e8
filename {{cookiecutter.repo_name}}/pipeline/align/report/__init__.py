# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The report: one self-contained HTML page and its Markdown twin, made from the files in pipeline/work.

Needs neither framework. Every input is optional: what is absent or unreadable is said in the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.align.atomic import replacing
from pipeline.align.paths import Paths
from pipeline.align.results import NodeResult

from . import inputs, markdown, page
from .texts import texts_for


def build(root: Path, language: str, nodes: Sequence[NodeResult] | None = None) -> tuple[Path, Path]:
    """Write report.html and report.md into `root`/pipeline/work and return their paths.

    `language` is "zh" or "en"; anything else raises UserError. `nodes`: the state of the nodes as it is now, by default
    as the last check left it.
    """
    texts = texts_for(language)
    found = inputs.load(root, None if nodes is None else [node.to_json() for node in nodes])
    folder = Paths(root).work
    folder.mkdir(parents=True, exist_ok=True)
    html_path, markdown_path = folder / "report.html", folder / "report.md"
    _write(html_path, page.page(found, texts))
    _write(markdown_path, markdown.document(found, texts))
    return html_path, markdown_path


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
