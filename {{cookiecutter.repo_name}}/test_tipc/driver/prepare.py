# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What has to be there before a chain runs; the data are prepare.sh's own business."""
from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from test_tipc.driver import onnx_chain
from test_tipc.driver.config import read_config
from test_tipc.driver.errors import TipcError

ONNX_MODE = "paddle2onnx_infer"
_LIST_PACKAGES = "import importlib.metadata as m; print(*(d.metadata['Name'] for d in m.distributions()), sep='\\n')"


def prepare(root: Path, config: Path, mode: str) -> None:
    """Check `config` for `mode` and install the requirements that its interpreter lacks. Offline where it lacks none."""
    requirements = [root / "paddle" / "requirements.txt"]
    if mode == ONNX_MODE:
        python, _ = onnx_chain.read_plan(config)
        requirements.append(root / "test_tipc" / "requirements_onnx.txt")
    else:
        python = read_config(config, mode).python
    missing = missing_requirements(requirements, installed_packages(python))
    if missing:
        print(f"installing {', '.join(missing)}")
        if _call(python, "-m", "pip", "install", *missing).returncode:
            raise TipcError(f"{python} could not install {', '.join(missing)}; install them by hand, then run this again")


def installed_packages(python: str) -> list[str]:
    """Names of the packages that an interpreter (shell text) has. TipcError where it does not run."""
    listed = _call(python, "-c", _LIST_PACKAGES, stdout=subprocess.PIPE)
    if listed.returncode:
        raise TipcError(f"line 3: {python} does not run; write the interpreter that has Paddle")
    return listed.stdout.decode().split()


def missing_requirements(files: Sequence[Path], installed: Sequence[str]) -> list[str]:
    """The lines of requirement files whose package is not installed, in any version.

    paddlepaddle-gpu stands for paddlepaddle, onnxruntime-gpu for onnxruntime: installing the other would break them.
    """
    have = {re.sub(r"-(gpu|npu|xpu|dcu|mlu|rocm)\b.*", "", _normal(name)) for name in installed}
    missing = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            found = re.match(r"[A-Za-z0-9][\w.-]*", line)
            if found and _normal(found[0]) not in have:
                missing.append(line.partition("#")[0].strip())
    return missing


def warn_if_prepared_otherwise(root: Path, mode: str) -> None:
    """prepare.sh leaves the mode it prepared for; the data of another mode would be used without a word."""
    note = root / "test_tipc" / "data" / "prepared_for"
    prepared = note.read_text(encoding="utf-8").strip() if note.is_file() else mode
    if prepared != mode:
        print(f"warning: the data were prepared for {prepared}; run prepare.sh with {mode}", file=sys.stderr)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _call(python: str, *words: str, stdout=None) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", f'{python} "$@"', "bash", *words], stdout=stdout, stdin=subprocess.DEVNULL, check=False)
