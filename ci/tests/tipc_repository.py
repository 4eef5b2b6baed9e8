# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A repository for the TIPC tests: the scripts, a stand-in for the interpreter, and configurations with what they must run."""
from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from conftest import sample

SEQUENCES = Path(__file__).with_name("test_tipc_sequences.txt")
LITE = "lite_train_lite_infer"
#: Records its arguments and CUDA_VISIBLE_DEVICES; fails where the arguments contain $STUB_FAILS.
STUB = """#!/bin/bash
(IFS=$'\\x1f'; printf '%s\\n' "${CUDA_VISIBLE_DEVICES-unset}"$'\\x1f'"$*" >>"$STUB_RECORD")
echo "output of $*"
[[ -z ${STUB_FAILS:-} || "$*" != *"$STUB_FAILS"* ]]
"""


@dataclass
class Run:
    """One run of a script: exit status, output, the arguments of every command, and what each saw of the GPUs."""

    status: int
    output: str
    errors: str
    commands: list[list[str]] = field(default_factory=list)
    visible: list[str] = field(default_factory=list)


class Repository:
    """A repository that has nothing but test_tipc/, a stand-in for the interpreter and a number of GPUs."""

    def __init__(self, folder: Path):
        self.root, self.bin, self.record = folder / "repository", folder / "bin", folder / "record"
        shutil.copytree(sample() / "test_tipc", self.root / "test_tipc", ignore=shutil.ignore_patterns("output", "__pycache__"))
        self.bin.mkdir()
        self.add_program("stub", STUB)
        self.output = self.root / "test_tipc" / "output"
        self.log = self.output / "results_python.log"

    def add_program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def write(self, text: str | bytes, name: str = "config.txt") -> Path:
        path = self.root / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def run(self, *arguments: str | Path, script: str = "test_train_inference_python.sh", gpus: int = 8, fails: str = "") -> Run:
        self.add_program("nvidia-smi", f"#!/bin/bash\nfor n in $(seq {gpus}); do echo \"GPU $n: model\"; done\n")
        self.record.unlink(missing_ok=True)
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "STUB_RECORD": str(self.record), "STUB_FAILS": fails}
        words = ["bash", f"test_tipc/{script}", *map(str, arguments)]
        done = subprocess.run(words, cwd=self.root, env=environment, capture_output=True, text=True, check=False)
        lines = self.record.read_text().splitlines() if self.record.exists() else []
        split = [line.split("\x1f") for line in lines]
        return Run(done.returncode, done.stdout, done.stderr, [words[1:] for words in split], [words[0] for words in split])


def sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in SEQUENCES.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            found[line[4:]] = lines = []
        elif line and not line.startswith("# "):
            lines.append(line)
    return found


SECTIONS = sections()
LONG, SHORT = (SECTIONS.pop(f"configuration: {name}") for name in ("long", "short"))


def configuration(changes: dict[int, str] | None = None, base: list[str] = LONG) -> str:
    """The long configuration with some lines, counted from 1, replaced."""
    lines = list(base)
    for number, text in (changes or {}).items():
        lines[number - 1] = text
    return "\n".join(lines) + "\n"
