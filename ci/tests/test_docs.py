# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The documents say what is true: commands exist, files exist, links lead somewhere, the two languages say the same."""
from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import baking
from conftest import REPO

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: What the documents mention and only a run makes.
MADE = re.compile(
    r"log_reprod/|test_tipc/output/|output|build/|\.venv|test_tipc/data/(digits|reviews|census|movielens)(/|$)|pipeline/work/|inference\."
    r"|(forward|bp_align|train_align)_"
)


@pytest.fixture(scope="module")
def trees(tmp_path_factory) -> dict[str, Path]:
    """A generated repository by its language, of the other examples and of the blank start by their name."""
    folder = tmp_path_factory.mktemp("docs")
    template = baking.copy_template(folder / "template")
    answers = {"zh": "docs_language=zh", "en": "docs_language=en", "blank": "start=blank"}
    answers |= {track: f"track={track}" for track in ("text", "recommendation")}
    for name, answer in answers.items():
        done = baking.run(template, folder / name, folder, "repo_name=port", answer)
        assert done.returncode == 0, done.stderr
    return {name: folder / name / "port" for name in answers}


@pytest.fixture(scope="module")
def documents(trees) -> list[tuple[Path, Path]]:
    """(document, root of the repository it belongs to)."""
    found = [(path, root) for root in trees.values() for path in sorted(root.rglob("*.md"))]
    return [(REPO / "README.md", REPO), (REPO / "README.zh-CN.md", REPO), (REPO / "CHANGELOG.md", REPO), *found]


def targets(makefile: Path) -> set[str]:
    return set(re.findall(r"^([a-z][a-z0-9-]*):.*## ", makefile.read_text(encoding="utf-8"), re.M))


def commands(text: str) -> list[list[str]]:
    """Every command line in the shell blocks of a document, and every `make …` or `python …` in its sentences."""
    lines = [line for kind, block in FENCE.findall(text) if kind == "bash" for line in block.splitlines()]
    lines += [code for code in CODE.findall(FENCE.sub("", text)) if re.match(r"(make|python) ", code)]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_commands_exist(documents, trees):
    generated = trees["en"]
    usage = subprocess.check_output([sys.executable, "-m", "pipeline", "--help"], cwd=generated, text=True)
    for path, root in documents:
        for words in commands(path.read_text(encoding="utf-8")):
            if words[0] == "make":
                known = targets(root / "Makefile") | (targets(generated / "Makefile") if root == REPO else set())
                assert words[1] in known, f"{path}: {' '.join(words)}"
            elif words[:3] == ["python", "-m", "pipeline"]:
                assert re.search(rf"^ +{words[3]}\b", usage, re.M), f"{path}: {' '.join(words)}"
            elif words[0] == "python":
                assert (root / words[1]).is_file(), f"{path}: {' '.join(words)}"


def test_options_of_programs_exist(documents, trees):
    """Every --option after a program of the repository is one that its --help names."""
    seen: dict[str, str] = {}
    for path, root in documents:
        for words in commands(path.read_text(encoding="utf-8")):
            if words[0] != "python" or root == REPO:
                continue
            program = words[1:4] if words[1] == "-m" else words[1:2]
            options = [word for word in words if re.match(r"--?[a-z]", word) and word != "-m"]
            if options and " ".join(program) not in seen:
                seen[" ".join(program)] = subprocess.check_output([sys.executable, *program, "--help"], cwd=root, text=True)
            for option in options:
                assert option in seen[" ".join(program)], f"{path}: {option}"


def test_named_files_exist(documents, trees):
    for path, root in documents:
        for code in CODE.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
            if not re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(py|yaml|md|toml|txt|json)", code) or MADE.match(code):
                continue
            places = [folder / below / code for folder in (root, *trees.values()) for below in ("", "pipeline", "paddle")]
            assert any(place.exists() for place in places), f"{path}: {code}"


def test_the_listing_in_the_readme_is_the_repository(trees):
    for name in ("README.md", "README.zh-CN.md"):
        listing = next(block for kind, block in FENCE.findall((REPO / name).read_text(encoding="utf-8")) if not kind)
        listed = {line.split()[0].rstrip("/").split("/")[0] for line in listing.splitlines()}
        hidden = {"LICENSE", "pyproject.toml"}
        for tree in trees.values():
            there = {path.name for path in tree.iterdir() if not path.name.startswith((".", "README"))}
            assert listed - {"README.md"} == there - hidden, f"{name}: {listed ^ there}"
        for word in re.findall(r"make help \S+[:：](.*)", listing)[0].replace("、", ", ").split(", "):
            for target in ["step1", "step5"] if "step1" in word else [word.strip()]:
                assert target in targets(trees["en"] / "Makefile"), target


def test_relative_links_lead_somewhere(documents):
    for path, _ in documents:
        for link in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
            name, _, anchor = link.partition("#")
            if name.startswith(("http:", "https:")):
                continue
            target = path.parent / name if name else path
            assert target.exists(), f"{path}: {link}"
            if anchor:
                headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.M)
                anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in anchors, f"{path}: {link}"


def shape(text: str) -> list[str]:
    """The outline of a document that does not depend on its language: heading levels, table widths, list items, code."""
    outline = []
    for kind, block in FENCE.findall(text):
        outline += [f"{kind}: {line.split('#')[0].strip()}" for line in block.splitlines()] if kind else []
    for line in FENCE.sub("", text).splitlines():
        if match := re.match(r"(#+) |(- |\d+\. )", line):
            outline.append(match[1] or "item")
        elif line.startswith("|"):
            outline.append(f"row of {line.count(' | ')}")
    return outline


def test_both_languages_say_the_same(trees):
    pairs = [(REPO / "README.md", REPO / "README.zh-CN.md")]
    pairs += [(tree / "README.md", next(tree.glob("README_*.md"))) for tree in trees.values()]
    for page in (*(f"Step{step}" for step in range(1, 6)), "reprod_log_demo"):
        pairs.append((trees["en"] / "pipeline" / page / "README.md", trees["zh"] / "pipeline" / page / "README.md"))
    for one, other in pairs:
        assert shape(one.read_text(encoding="utf-8")) == shape(other.read_text(encoding="utf-8")), f"{one} and {other}"
        numbers = [set(re.findall(r"\d+\.\d+(?:e-\d+)?|\de-\d+", path.read_text(encoding="utf-8"))) for path in (one, other)]
        assert numbers[0] == numbers[1], f"{one} and {other}"


def test_the_python_in_the_documents_runs(trees, tmp_path):
    text = (trees["en"] / "pipeline/reprod_log_demo/README.md").read_text(encoding="utf-8")
    (tmp_path / "log_reprod").mkdir()
    for side in ("torch", "paddle"):
        np.save(tmp_path / f"log_reprod/forward_{side}.npy", {"logits": np.ones((6, 10), np.float32)}, allow_pickle=True)
    blocks = [block for kind, block in FENCE.findall(text) if kind == "python"]
    subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, check=True, capture_output=True)
    assert np.load(tmp_path / "mine.npy", allow_pickle=True).item()["logits"].shape == (6, 10)
    assert "mean diff: check passed: True, value: 0.0" in (tmp_path / "stock_diff.log").read_text()


def test_questions_table():
    for name in ("README.md", "README.zh-CN.md"):
        rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", (REPO / name).read_text(encoding="utf-8"), re.M))
        assert rows == baking.defaults()
