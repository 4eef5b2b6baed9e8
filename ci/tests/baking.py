# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Generating a repository as its users do, with the command line of cookiecutter, and reading what came out."""
from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jinja2

from conftest import REPO, TEMPLATE

SYNTAX = re.compile(r"\{\{|\{%|\{#|%\}|#\}|cookiecutter\.")
CACHES = ("__pycache__", ".ruff_cache", ".pytest_cache", ".venv")
#: Folders of the generated repository whose contents a run makes.
MADE = ("pipeline/work", "pipeline/fake_data", "pipeline/weights", "log_reprod", "output", "test_tipc/output")


def copy_template(target: Path) -> Path:
    """The template without caches and without what a run inside it may have left."""

    def unwanted(folder: str, names: list[str]) -> set[str]:
        path = Path(folder)
        inside = path.relative_to(TEMPLATE).as_posix() if path.is_relative_to(TEMPLATE) else ""
        made = names if inside in MADE else []
        return {name for name in names if name in CACHES} | {name for name in made if name != ".gitkeep"}

    for name in ("hooks", "templates", TEMPLATE.name):
        shutil.copytree(REPO / name, target / name, ignore=unwanted)
    shutil.copy(REPO / "cookiecutter.json", target)
    return target


def questions() -> dict:
    """cookiecutter.json."""
    return json.loads((REPO / "cookiecutter.json").read_text(encoding="utf-8"))


def defaults(track: str = "image") -> dict[str, str]:
    """{question: default} of a track; the first choice where there are several."""
    made = {key: value[0] if isinstance(value, list) else value for key, value in questions().items() if not key.startswith("_")}
    return {key: jinja2.Template(value).render(cookiecutter={"track": track}) for key, value in made.items()} | {"track": track}


def run(template: Path | str, output: Path, home: Path, *options: str, **more) -> subprocess.CompletedProcess:
    """`cookiecutter TEMPLATE --output-dir OUTPUT …` with an empty user configuration. `more`: environment and stdin."""
    stdin, environment = more.pop("stdin", None), {**os.environ, "HOME": str(home), **more}
    command = [sys.executable, "-m", "cookiecutter", str(template), "--default-config", "--output-dir", str(output), *options]
    if stdin is None:
        command.append("--no-input")
    return subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)


def answer(text: str) -> str:
    """`text` as a command line answer: cookiecutter renders those, so it is written as a template that gives `text`."""
    return "{{ " + json.dumps(text, ensure_ascii=False) + " }}"


def files(root: Path) -> dict[str, Path]:
    """Every file below `root` by its relative name."""
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if not path.is_dir()}


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Names and contents of everything below `root`."""
    return {path.relative_to(root).as_posix(): None if path.is_dir() else path.read_bytes() for path in root.rglob("*")}


def is_verbatim(name: str) -> bool:
    """Whether a file of the template is copied without rendering: by its ending, or because it belongs to one example."""
    return "__example" in name or any(fnmatch.fnmatch(name, pattern) for pattern in questions()["_copy_without_render"])


def generated_name(name: str, language: str, example: str) -> str | None:
    """What a file of the template is called in a generated repository; None where it is left out."""
    answers = {**defaults("image" if example == "blank" else example), "docs_language": language, "__example": example}
    made = jinja2.Template(name).render(cookiecutter=answers)
    return None if made.endswith("/") else made


def generated_names(template: Path, language: str, example: str = "image") -> dict[str, str]:
    """{name in a generated repository: name in the template}. `example`: the track, or "blank"."""
    named = {generated_name(name, language, example): name for name in files(template / TEMPLATE.name)}
    named.pop(None, None)
    return named
