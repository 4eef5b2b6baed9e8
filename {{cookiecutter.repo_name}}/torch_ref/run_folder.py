# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The folder of a training: settings.yaml, environment.json, train.log, the checkpoints, and curves where they are wanted."""
from __future__ import annotations

import importlib
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError
from pipeline.align.paths import ROOT

#: Settings `train.scalars` -> (module, class, package) of the writer.
WRITERS = {
    "visualdl": ("visualdl", "LogWriter", "visualdl"),
    "tensorboard": ("torch.utils.tensorboard", "SummaryWriter", "tensorboard"),
}


class RunFolder:
    """Opened once everything that the training reads has been found good. Only rank 0 has one that writes.

    `show`: called with every line of the log. `environment`: what is to be noted beside the interpreter and the commit.
    """

    def __init__(
        self, path: Path, cfg: Any, show: Callable[[str], None], environment: Mapping[str, Any], writes: bool, resumed: bool
    ):
        self.path, self._show, self._writer, self._log = path, show, None, None
        if not writes:
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
            for left in path.glob(".*.tmp"):  # by a process that was killed while it wrote
                left.unlink()
            self._writer = _open_writer(cfg.train.scalars, path)
            _write(path / "settings.yaml", yaml.safe_dump(cfg.to_dict(), sort_keys=False, allow_unicode=True))
            _write(path / "environment.json", json.dumps(describe_environment(environment), indent=1))
            self._log = open(path / "train.log", "a" if resumed else "w", encoding="utf-8", buffering=1)
        except OSError as error:
            raise UserError(f"cannot write into {path}: {error.strerror}; set train.output_dir") from None

    def log(self, line: str, shown: bool = True) -> None:
        """One line for the log file and, where `shown`, for whoever watches. Nothing on other ranks."""
        if self._log is None:
            return
        try:
            self._log.write(f"{line}\n")
        except OSError as error:
            raise UserError(f"cannot write {self.path / 'train.log'}: {error.strerror}; make room and resume") from None
        if shown:
            self._show(line)

    def scalars(self, values: Mapping[str, float], iteration: int) -> None:
        """Points of the curves, where there are any."""
        for name, value in values.items():
            if self._writer is not None:
                self._writer.add_scalar(name, value, iteration)

    def close(self) -> None:
        """Finish the files."""
        for file in (self._log, self._writer):
            if file is not None:
                file.close()


def describe_environment(more: Mapping[str, Any]) -> dict[str, Any]:
    """Interpreter, machine, command and git commit (None outside a repository), then `more`."""
    commit = _git("rev-parse", "HEAD")
    return {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "numpy": np.__version__,
        "command": sys.argv,
        "commit": commit,
        "changed_since_commit": None if commit is None else bool(_git("status", "--porcelain", "--untracked-files=no")),
        **more,
    }


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _open_writer(kind: str | None, path: Path) -> Any:
    if kind is None:
        return None
    module, name, package = WRITERS[kind]
    try:
        return getattr(importlib.import_module(module), name)(str(path / "scalars"))
    except ImportError:
        raise UserError(f"train.scalars is {kind}, but {package} is not installed: pip install {package}") from None


def _write(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())
