# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Generating a repository: that it works in every way people do it, and that what comes out is whole."""
from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib
import yaml

import baking
from conftest import REPO, TEMPLATE
from test_style import HEADER

BINARYORNOT = ("0.4.4", "0.6.0")


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Path:
    return baking.copy_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


BAKED = [("zh", "image"), ("en", "text"), ("zh", "recommendation"), ("zh", "blank"), ("en", "image")]


@pytest.fixture(scope="session", params=BAKED, ids="-".join)
def generated(request, template, home, tmp_path_factory) -> Path:
    """A repository of each language and of each example and the blank start, in a folder with a space and Chinese characters."""
    output = tmp_path_factory.mktemp("输出 folder")
    language, example = request.param
    choice = "start=blank" if example == "blank" else f"track={example}"
    done = baking.run(template, output, home, "repo_name=port", f"docs_language={language}", choice)
    assert done.returncode == 0, done.stderr
    return output / "port"


def names(generated: Path, template: Path) -> dict[str, str]:
    """{name in the generated repository: name in the template}, as its answers say."""
    settings = yaml.safe_load((generated / "port.yaml").read_text(encoding="utf-8"))
    example = settings["track"] if (generated / "paddle" / "metric.py").exists() else "blank"
    return baking.generated_names(template, settings["language"], example)


def test_defaults_alone_are_enough(template, home, tmp_path):
    done = baking.run(template, tmp_path, home)
    assert (done.returncode, done.stderr) == (0, "")
    name = baking.defaults()["repo_name"]
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name / "README_en.md").is_file()


def test_each_track_has_its_own_paper_and_names(template, home, tmp_path):
    papers = {"image": "1512.03385", "text": "1810.04805"}
    for track, number in papers.items():
        assert baking.run(template, tmp_path, home, f"track={track}").returncode == 0
        settings = yaml.safe_load((tmp_path / baking.defaults(track)["repo_name"] / "port.yaml").read_text(encoding="utf-8"))
        assert settings["paper"]["url"] == f"https://arxiv.org/abs/{number}" and settings["track"] == track
        assert settings["model"]["name"] == baking.defaults(track)["model_name"]
    assert len(list(tmp_path.iterdir())) == len(papers)


def test_prompts_in_an_ascii_terminal(template, home, tmp_path):
    visible = [key for key in baking.questions() if not key.startswith("_")]
    assert len(visible) <= 9
    done = baking.run(template, tmp_path, home, stdin="\n" * len(visible), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0, done.stderr
    for number, key in enumerate(visible, 1):
        prompt = baking.questions()["__prompts__"][key]
        text = prompt["__prompt__"] if isinstance(prompt, dict) else prompt
        assert f"[{number}/{len(visible)}] {text}"[:60] in " ".join(done.stdout.split())
        assert text.isascii() and "[" not in text


def test_every_file_is_generated_and_no_other(generated, template):
    assert set(baking.files(generated)) == set(names(generated, template))


def test_languages_differ_only_in_the_documents(template, home, tmp_path):
    trees = {}
    for code in ("zh", "en"):
        assert baking.run(template, tmp_path / code, home, f"docs_language={code}", "repo_name=port").returncode == 0
        trees[code] = baking.snapshot(tmp_path / code / "port")
    different = {name for name in trees["zh"].keys() | trees["en"].keys() if trees["zh"].get(name) != trees["en"].get(name)}
    assert {name for name in different if not re.search(r"(^|/)README(_en|_zh)?\.md$", name)} == {"port.yaml"}
    chinese = re.compile("[\u4e00-\u9fff]{10}")
    for code, other in (("zh", "en"), ("en", "zh")):
        readme, twin = (trees[code][name].decode() for name in ("README.md", f"README_{other}.md"))
        assert bool(chinese.search(readme)) == (code == "zh")
        assert bool(chinese.search(twin)) == (other == "zh")


def test_verbatim_files_are_verbatim_and_rendered_files_are_rendered(generated, template):
    source, rendered = template / TEMPLATE.name, set()
    for name, origin in names(generated, template).items():
        made, original = (generated / name).read_bytes(), (source / origin).read_bytes()
        if baking.is_verbatim(origin):
            assert made == original, name
            assert b"{{ cookiecutter" not in original and b"{%- if cookiecutter" not in original, f"{name} is never rendered"
            continue
        assert b"\0" not in made, f"{name} is binary: add its ending to _copy_without_render and .gitattributes"
        assert not baking.SYNTAX.search(made.decode("utf-8")), name
        if made != original:
            rendered.add(origin)
    wanted = r"README(_\w\w)?\.md|port\.yaml|test_tipc/configs/.+|(paddle|torch_ref)/requirements\.txt"
    assert rendered == {origin for name, origin in names(generated, template).items() if re.fullmatch(wanted, name)}
    for name in rendered:  # binaryornot 0.6.0 looks at 512 bytes and may take Chinese text for binary data
        assert (source / name).read_bytes()[:520].isascii(), f"{name}: the first 520 bytes must be ASCII"


@pytest.mark.parametrize("version", BINARYORNOT)
@pytest.mark.parametrize("code", ["zh", "en"])
def test_both_versions_of_binaryornot(version, code, template, home, tmp_path):
    expected = baking.run(template, tmp_path / "a", home, f"docs_language={code}", "repo_name=port")
    folder = str(binaryornot(version))
    program = "import importlib.metadata as m, binaryornot; print(m.version('binaryornot'), binaryornot.__file__)"
    found = subprocess.check_output([sys.executable, "-c", program], env={"PYTHONPATH": folder}, text=True)
    assert found.startswith(version) and folder in found
    done = baking.run(template, tmp_path / "b", home, f"docs_language={code}", "repo_name=port", PYTHONPATH=folder)
    assert (expected.returncode, done.returncode) == (0, 0), done.stderr
    assert baking.snapshot(tmp_path / "a") == baking.snapshot(tmp_path / "b")


def binaryornot(version: str) -> Path:
    """A folder with that version, installed once."""
    folder = REPO / "build" / "binaryornot" / version
    if not (folder / "binaryornot").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), f"binaryornot=={version}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder


def test_without_hooks(template, home, tmp_path):
    for folder, option in (("with", "yes"), ("without", "no")):
        assert baking.run(template, tmp_path / folder, home, "--accept-hooks", option, "repo_name=port").returncode == 0
    assert baking.snapshot(tmp_path / "with") == baking.snapshot(tmp_path / "without")


def test_hooks_are_small_and_know_only_the_standard_library():
    for hook in (REPO / "hooks").iterdir():
        tree = ast.parse(hook.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
        assert imported <= {"json", "sys"}, hook.name


def test_generating_again_gives_the_same_and_keeps_the_users_files(template, home, tmp_path):
    assert baking.run(template, tmp_path, home, "repo_name=port").returncode == 0
    first = baking.snapshot(tmp_path)
    own = [tmp_path / "port" / name for name in ("mine.txt", "paddle/mine.py", "paddle/models/mine.py", "log_reprod/mine.npy")]
    for path in own:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    refused = baking.run(template, tmp_path, home, "repo_name=port")
    assert refused.returncode == 1 and "already exists" in refused.stdout
    assert baking.run(template, tmp_path, home, "repo_name=port", "--overwrite-if-exists").returncode == 0
    assert all(path.read_text() == "mine" for path in own)
    for path in own:
        path.unlink()
    assert {name: data for name, data in baking.snapshot(tmp_path).items() if name in first} == first


def test_from_a_git_repository(template, home, tmp_path):
    source = baking.copy_template(tmp_path / "source")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false"]
    (source / ".gitattributes").write_bytes((REPO / ".gitattributes").read_bytes())
    for command in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "template"]):
        subprocess.run(["git", "-C", str(source), *identity, *command], check=True, stdin=subprocess.DEVNULL)
    done = baking.run(f"file://{source}", tmp_path / "git", home, "repo_name=port")
    assert done.returncode == 0, done.stderr
    assert baking.run(template, tmp_path / "folder", home, "repo_name=port").returncode == 0
    assert baking.snapshot(tmp_path / "git") == baking.snapshot(tmp_path / "folder")


def test_replay(template, home, tmp_path):
    assert baking.run(template, tmp_path / "a", home, "repo_name=../port", "author=Zoë").returncode == 0
    answers = tmp_path / "answers.json"
    answers.write_bytes((home / ".cookiecutter_replay" / f"{template.name}.json").read_bytes())
    done = baking.run(template, tmp_path / "b", home, "--replay-file", str(answers), stdin="")
    assert done.returncode == 0, done.stderr
    assert baking.snapshot(tmp_path / "a") == baking.snapshot(tmp_path / "b")


def test_modes_and_line_ends(generated, template):
    for name, origin in names(generated, template).items():
        source = template / TEMPLATE.name / origin
        assert (generated / name).stat().st_mode & 0o111 == source.stat().st_mode & 0o111, name
        data = (generated / name).read_bytes()
        if b"\0" not in data[:8000]:
            assert b"\r" not in data, name
            assert not data or data.endswith(b"\n") or name.endswith(".npy"), name


def test_every_file_parses(generated):
    for name, path in baking.files(generated).items():
        if path.suffix == ".py":
            ast.parse(path.read_text(encoding="utf-8"), name, feature_version=(3, 10))
        elif path.suffix in (".yaml", ".yml"):
            assert yaml.safe_load(path.read_text(encoding="utf-8")), name
        elif path.suffix == ".toml":
            assert tomllib.loads(path.read_text(encoding="utf-8")), name
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))


def test_python_of_the_generated_repository_is_clean(generated):
    """What depends on an answer has a name in the template that its linter does not know. Imports are sorted for there."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--ignore", "I001", "--config", str(REPO / "pyproject.toml")]
    done = subprocess.run([*command, "paddle", "torch_ref"], cwd=generated, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    for folder, other in (("paddle", "torch"), ("torch_ref", "paddle")):
        for path in (generated / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert text.startswith(HEADER), path
            assert not re.search(rf"^ *(import|from) {other}\b", text, re.M), path


def test_version_is_one(generated):
    version = baking.questions()["_template_version"]
    assert yaml.safe_load((generated / "port.yaml").read_text(encoding="utf-8"))["template"] == version
    assert re.search(r"^## (\S+)", (REPO / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)[1] == version
