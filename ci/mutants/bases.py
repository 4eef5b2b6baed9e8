# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A generated repository per track, in which the reference has run, and copies of it with a changed port."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import corpus
import yaml
from catalog import Edit, Track, write_edits

REPO = Path(__file__).resolve().parents[2]
#: What the reference runs, as the `align` and `bisect` commands would have it run.
REFERENCE = """
import json, sys
from pipeline.align import runner
from pipeline.align.bisect import MODES, STEPS
from pipeline.align.paths import Paths
from pipeline.align.settings import load_settings
paths = Paths()
jobs = ["weights", *(f"step{step}" for step in range(1, 6)), *(f"capture\\t{mode}\\t{STEPS}" for mode in MODES)]
sys.exit(json.dumps(failed) if (failed := runner.run(paths, load_settings(paths.settings), {"torch": jobs})) else 0)
"""
#: Folders of a generated repository that no case needs.
LEFT_OUT = ("test_tipc", "corpus", "docs", "launch", "docker", "log", "output")


def generate(folder: Path, track: str) -> Path:
    """A track's sample, generated into `folder`."""
    options = ["--no-input", "--default-config", "--output-dir", str(folder), f"repo_name=sample-{track}", f"track={track}"]
    subprocess.run([sys.executable, "-m", "cookiecutter", str(REPO), *options], check=True, capture_output=True)
    return folder / f"sample-{track}"


def build(track: Track, sample: Path, folder: Path, weights_map: Mapping[str, str] = {}) -> Path:
    """The track's repository in `folder`, from the generated sample. Settings are written into port.yaml itself."""
    shutil.copytree(sample, folder)
    if track.overlay is not None:
        for name in ("paddle", "torch_ref"):
            for part in ("models", "data"):
                shutil.rmtree(folder / name / part)
        shutil.copytree(track.overlay, folder, dirs_exist_ok=True, ignore=lambda at, names: ["port.yaml"])
        corpus.write(folder / "corpus")
    values = yaml.safe_load((folder / "port.yaml").read_text(encoding="utf-8"))
    if track.overlay is not None:
        own = yaml.safe_load((track.overlay / "port.yaml").read_text(encoding="utf-8"))
        for section in ("train", "weights"):
            values[section].update(own.pop(section))
        values.update(own)
    _override(values, track.settings)
    values["weights"]["map"].update(weights_map)
    (folder / "port.yaml").write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    return folder


def _override(values: dict, settings: tuple[str, ...]) -> None:
    for text in settings:
        name, value = text.split("=", 1)
        *sections, key = name.split(".")
        target = values
        for section in sections:
            target = target[section]
        assert key in target, f"port.yaml has no {name}"
        target[key] = yaml.safe_load(value)


def start_reference(base: Path) -> subprocess.Popen:
    """Start the reference's run in `base`."""
    return _start(base, "-c", REFERENCE)


def start_server(base: Path, plan: Path, workers: int) -> subprocess.Popen:
    """Start running and judging the cases of a plan."""
    return _start(base, str(Path(__file__).with_name("server_paddle.py")), str(plan), str(workers))


def _start(base: Path, *arguments: str) -> subprocess.Popen:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen([sys.executable, *arguments], cwd=base, env=environment(base), text=True, **pipes)


def environment(base: Path) -> dict[str, str]:
    """For processes that use the kit of `base`, one core each."""
    return {**os.environ, "PYTHONPATH": str(base), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def make_case(base: Path, folder: Path, edits: tuple[Edit, ...]) -> None:
    """A copy of `base`, the reference's results included, with the port edited. Nothing is copied that does not change."""
    shutil.copytree(base, folder, copy_function=os.link, ignore=lambda at, names: LEFT_OUT if Path(at) == base else ())
    write_edits(folder / "paddle", edits)


def write_plan(path: Path, cases: list[dict]) -> None:
    """The cases for the server, see server_paddle.py."""
    path.write_text(json.dumps(cases), encoding="utf-8")
