# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: the status lines of the public drivers, and a JSON file that says what was expected.

The log alone cannot tell that a stage is missing, or that the code has changed since.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from test_tipc.driver.plan import Command

SUCCEEDED, FAILED, NOT_RUN = "succeeded", "failed", "not run"
_WORDS = {SUCCEEDED: "Run successfully", FAILED: "Run failed"}
_LINE = re.compile(r"\x1b\[33m (Run successfully|Run failed|not run: .*?) with command - (.*)!  \x1b\[0m")


@dataclass
class Result:
    """The outcome of one command. `reason`: why it was not run, or its exit status."""

    command: Command
    state: str
    reason: str = ""
    seconds: float = 0.0
    log: str = ""


def status_line(result: Result) -> str:
    """One line of the status log, yellow on a terminal."""
    words = _WORDS.get(result.state) or f"{NOT_RUN}: {result.reason}"
    return f"\x1b[33m {words} with command - {result.command.shown}!  \x1b[0m"


def read_status_lines(text: str) -> dict[str, tuple[str, str]]:
    """{command: (state, reason)} of a status log."""
    found = {}
    for words, command in _LINE.findall(text):
        state = {shown: state for state, shown in _WORDS.items()}.get(words, NOT_RUN)
        found[command] = (state, words.partition(": ")[2])
    return found


def text_hash(path: Path) -> str:
    """SHA-256 of a text file with line endings as LF."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def code_hash(root: Path) -> str:
    """SHA-256 over everything that the programs under test are made of: port.yaml and the Python files of paddle/."""
    digest = hashlib.sha256()
    for path in (root / "port.yaml", *sorted((root / "paddle").rglob("*.py"))):
        if path.is_file():
            digest.update(f"{path.relative_to(root).as_posix()} {text_hash(path)}\n".encode())
    return digest.hexdigest()


def write_expectation(path: Path, root: Path, config: Path, mode: str, plan: Sequence[Command]) -> dict[str, Any]:
    """Write what a run is about to do; returns it."""
    inside = root in config.resolve().parents
    content = {
        "config": config.resolve().relative_to(root).as_posix() if inside else config.name,
        "mode": mode,
        "config_sha256": text_hash(config),
        "code_sha256": code_hash(root),
        "expected": [{"stage": command.stage, "entry": command.entry, "command": command.shown} for command in plan],
    }
    write_json(path, content)
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write JSON whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(temporary, path)
