# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Style of everything in this repository, the generated one included, as it lies."""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import tomllib
import yaml

from conftest import REPO, TEMPLATE

HEADER = (
    "# Copyright (c) 2026 The reprod-template Authors.\n"
    "# Licensed under the Apache License, Version 2.0 (see LICENSE).\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
)


def sources(*endings: str) -> list[Path]:
    folders = [REPO / name for name in ("ci", ".ci", "hooks")] + [TEMPLATE]
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in endings and ".venv" not in path.parts]
    return sorted([*found, REPO / ".ci" / "run"] if ".sh" in endings else found)


def call(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=REPO, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_ruff():
    complaints = call(sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", *sources(".py"))
    assert not complaints, complaints


def test_shellcheck():
    program = Path(sys.executable).with_name("shellcheck")
    complaints = call(program, "--severity", "style", *sources(".sh"))
    assert not complaints, complaints


def test_every_source_file_has_the_licence_header():
    for path in sources(".py", ".sh"):
        text = path.read_text(encoding="utf-8")
        if text.startswith("#!"):
            text = text.split("\n", 1)[1]
        assert text.startswith(HEADER), path.relative_to(REPO)


def test_nothing_hides_the_framework():
    assert not (TEMPLATE / "paddle" / "__init__.py").exists()


def test_each_side_imports_its_own_framework_only():
    for folder, other in ((TEMPLATE / "paddle", "torch"), (TEMPLATE / "torch_ref", "paddle")):
        for path in folder.rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                words = line.split()
                assert words[:2] not in (["import", other], ["from", other]), f"{path}: {line}"
                assert not (words[:1] in (["import"], ["from"]) and words[1].startswith(f"{other}.")), f"{path}: {line}"


def test_settings_files_parse():
    assert tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    assert json.loads((REPO / "cookiecutter.json").read_text(encoding="utf-8"))
    workflows = list((REPO / ".github" / "workflows").glob("*.yml"))
    assert workflows and all(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"] for path in workflows)


def test_the_demo_installs_exact_versions():
    for path in (REPO / "ci" / "requirements.txt", *TEMPLATE.rglob("requirements.txt")):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith(("#", "{%"))]
        assert lines and all(re.fullmatch(r"[\w-]+==\d[\w.]*", line) for line in lines), path
