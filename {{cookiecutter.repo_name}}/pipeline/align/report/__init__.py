# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The report: one self-contained HTML page and its Markdown twin, made from the files in pipeline/work.

Needs neither framework. Every input is optional: what is absent or unreadable is said in the report.
"""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.align.paths import Paths

from . import inputs, markdown, page
from .texts import texts_for


def build(root: Path, language: str) -> tuple[Path, Path]:
    """Write report.html and report.md into `root`/pipeline/work and return their paths.

    `language` is "zh" or "en"; anything else raises UserError.
    """
    texts = texts_for(language)
    found = inputs.load(root)
    folder = Paths(root).work
    folder.mkdir(parents=True, exist_ok=True)
    html_path, markdown_path = folder / "report.html", folder / "report.md"
    _write(html_path, page.page(found, texts))
    _write(markdown_path, markdown.document(found, texts))
    return html_path, markdown_path


def _write(path: Path, text: str) -> None:
    """Replace `path` in one move, so that a reader never sees half a page."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(text.encode("utf-8"))
    os.replace(temporary, path)
