# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Answers that nobody should give: names that lead elsewhere, and texts that mean something to a file format."""
from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

import baking

#: repo_name as given and the folder it must become.
NAMES = {
    "../sib": "sib", "x/..": "x", "x/../..": "x", "/etc/passwd": "etc-passwd", "a b  c": "a-b-c", "论文复现": "Lun-Wen-Fu-Xian",
    "-rf": "rf", "My_Port.v2": "My_Port-v2", "con": "con-port", "LPT1": "LPT1-port", "paddle": "paddle-port",
    "Torch": "Torch-port", "$(touch pwned)`id`": "touch-pwned-id", "C:\\temp": "C-temp", "x" * 4000: "x" * 60, "🙂ok🙂": "ok",
    "a\nb\tc": "a-b-c", "'\"{}": None, ".": None, "..": None, "": None, "///": None, "🙂": None, "~": None,
}  # fmt: skip
#: Answers that mean something to a file format or a shell, and must arrive as they are.
KEPT = [
    'a "quoted" \\ back\\slash: # no comment',
    "{{ cookiecutter.repo_name }} {% raw %} {# gone #}",
    "`touch pwned` $(touch pwned) ${HOME}; touch pwned & | > pwned",
    "'''+__import__('os').system('touch pwned')+'''",
    '"""+__import__("os").system("touch pwned")+"""',
    "<script>alert(1)</script> [x](javascript:alert(1)) **b** | _i_ ![i](x) ~~s~~ &amp;",
    "论文 \U0001f642 \U00020bb7 é",
    "", "null", "1e3", "~", "- a", "long " * 5000 + "long",
]  # fmt: skip
#: Answers that must become one line of printable characters.
CHANGED = {
    "two\nlines\r\nand\ttabs\x00\x07\x1b[31m": "two lines and tabs [31m",
    "right\u202eleft\u2066 zero\u200bwidth\ufeff": "right left zero width",
    "- !!python/object:os.system\u2028&anchor *alias % @ null": "- !!python/object:os.system &anchor *alias % @ null",
    "  spaces   ": "spaces",
}
TEXTS = {**{text: text for text in KEPT}, **CHANGED}
#: A URL as answered and the target of the links to it; None where it must not become a link.
LINKS = {
    "https://example.org/a_b?x=1&y=(2)#z": "https://example.org/a_b?x=1&y=(2)#z",
    "https://example.org/> <script>|`{{x}}": "https://example.org/%3E%20%3Cscript%3E%7C%60%7B%7Bx%7D%7D",
    "javascript:alert(1)": None,
    "[x](javascript:alert(1))": None,
}
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    return baking.copy_template(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="module")
def default(template, tmp_path_factory) -> dict[str, bytes | None]:
    output = tmp_path_factory.mktemp("default")
    assert baking.run(template, output, output / "home", "repo_name=port").returncode == 0
    return baking.snapshot(output / "port")


@pytest.fixture
def place(tmp_path) -> Path:
    """A folder to generate into, with neighbours that must stay as they are."""
    for name in ("out/kept.txt", "out/existing/kept.txt", "sib/kept.txt", "home/kept.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("kept")
    return tmp_path


def outside_home(place: Path) -> dict[str, bytes | None]:
    return {name: data for name, data in baking.snapshot(place).items() if not name.startswith("home/")}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
def test_repository_names(name, template, place, monkeypatch):
    before = outside_home(place)
    monkeypatch.chdir(place / "out")
    options = ["--overwrite-if-exists"] if NAMES[name] is None else []
    done = baking.run(template, place / "out", place / "home", f"repo_name={baking.answer(name)}", *options)
    after = outside_home(place)
    if NAMES[name] is None:
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == "repo_name must contain at least one letter or digit: choose another repo_name."
        assert after == before
    else:
        assert done.returncode == 0, done.stderr
        new = {key for key in after if key not in before}
        assert new and {key.split("/")[1] for key in new} == {NAMES[name]}
        assert {key: after[key] for key in before} == before


@pytest.mark.parametrize("name", ["", ".", "../x", "ViT-B/16", "模型", "con"])
def test_model_names(name, template, place):
    before = outside_home(place)
    done = baking.run(template, place / "out", place / "home", "repo_name=port", f"model_name={baking.answer(name)}")
    if name in ("", "."):
        assert done.returncode == 1
        assert done.stderr.splitlines()[0] == "model_name must contain at least one letter or digit: choose another model_name."
        assert outside_home(place) == before
    else:
        written = yaml.safe_load((place / "out/port/port.yaml").read_text(encoding="utf-8"))["model"]["name"]
        assert written == {"../x": "x", "ViT-B/16": "ViT-B-16", "模型": "Mo-Xing", "con": "con-port"}[name]


@pytest.mark.parametrize("name", ["", "🙂"])
def test_an_unusable_name_without_hooks_stays_inside_the_target(name, template, place):
    before = outside_home(place)
    options = ["--accept-hooks", "no", "--overwrite-if-exists", f"repo_name={name}"]
    assert baking.run(template, place / "out", place / "home", *options).returncode == 0
    after = outside_home(place)
    assert {key: after[key] for key in before} == before
    assert {key.split("/")[1] for key in after if key not in before} == {"unnamed"}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_texts(text, template, default, place, monkeypatch):
    monkeypatch.chdir(place)
    keys = ("paper_title", "author", "paper_url", "reference_url")
    answers = [f"{key}={baking.answer(text)}" for key in keys]
    done = baking.run(template, place / "out", place / "home", "repo_name=port", *answers)
    assert done.returncode == 0, done.stderr
    assert not list(place.rglob("pwned"))
    made = baking.snapshot(place / "out" / "port")
    assert made.keys() == default.keys()
    changed = {name for name in made if made[name] != default[name]}
    assert changed <= {"README.md", "README_en.md", "port.yaml"}

    wanted = TEXTS[text]
    paper = yaml.safe_load(made["port.yaml"])["paper"]
    assert [paper["title"], paper["url"], paper["reference_url"]] == [wanted] * 3
    for name in ("README.md", "README_en.md"):
        readme = made[name].decode()
        assert len(readme.splitlines()) == len(default[name].decode().splitlines())
        tokens = MARKDOWN.parse(readme)
        heading = tokens[[token.type for token in tokens].index("heading_open") + 1]
        assert {child.type for child in heading.children} <= {"text", "text_special"}, "nothing in it is markup"
        assert "".join(child.content for child in heading.children) == wanted
        assert [token.content for token in tokens if token.type == "html_block"] == [readme[: readme.index("# ")]]


@pytest.mark.parametrize("url", LINKS)
def test_links(url, template, place):
    answers = [f"{key}={baking.answer(url)}" for key in ("paper_url", "reference_url")]
    assert baking.run(template, place / "out", place / "home", "repo_name=port", *answers).returncode == 0
    for name in ("README.md", "README_en.md"):
        tokens = MARKDOWN.parse((place / "out/port" / name).read_text(encoding="utf-8"))
        targets = [child.attrs["href"] for token in tokens for child in token.children or [] if child.type == "link_open"]
        assert targets.count(LINKS[url]) == (4 if LINKS[url] else 0)
        assert not any("javascript" in target for target in targets)
