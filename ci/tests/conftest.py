# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Puts the generated repository, as it lies in the template, on sys.path: tests write `from pipeline.align import ...`."""
import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TEMPLATE = REPO / "{{cookiecutter.repo_name}}"

sys.path.insert(0, str(TEMPLATE))
# Byte code written inside the template would be copied into every repository generated from this folder.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


@functools.cache
def sample(track: str = "image") -> Path:
    """A track's sample, generated once for all tests that only read it. Files whose names depend on an answer are whole here."""
    folder = Path(tempfile.mkdtemp(prefix="sample-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [sys.executable, "-m", "cookiecutter", str(REPO), "--no-input", "--default-config", "--output-dir", str(folder)]
    command += ["repo_name=sample", f"track={track}"]
    subprocess.run(command, env={**os.environ, "HOME": str(folder)}, check=True, capture_output=True)
    return folder / "sample"
