# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The report: complete with and without its inputs, true to their numbers, safe with hostile ones."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conftest import TEMPLATE
from pipeline.align import report
from pipeline.align.errors import UserError
from pipeline.align.nodes import NODES
from pipeline.align.report import curves, inputs, markdown, plots, show, texts
from pipeline.align.results import KeyResult, NodeResult, PartResult

CHECKPOINTS = ["forward", "metric", "loss", "backward", "training", "tipc"]
LANGUAGES = ["en", "zh"]
VOID = {"meta", "input", "br", "link", "img", "hr"}
HOSTILE = (
    '"><script>alert(1)</script><img src=http://evil.test/x onerror=alert(2)>'
    " $\\frac{ | `**[a](http://evil.test) {{ 7*7 }} \u202e\x1b[31m\ud800"
)


class Page(HTMLParser):
    """Checks nesting while reading; keeps tags, text, table rows by section, exact numbers and scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.text, self.rows, self.exact, self.raw = [], [], "", {}, [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.exact += [dict(attributes)["title"]] if "title" in dict(attributes) else []
        if tag not in VOID:
            self.open.append((tag, dict(attributes).get("id")))
        if tag == "tr":
            self.rows.setdefault(self.section(), []).append([])
        if tag in ("td", "th"):
            self.rows[self.section()][-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        names = [tag for tag, _ in self.open]
        if names and names[-1] in ("style", "script"):
            self.raw.append(data)
            return
        self.text += data
        if "td" in names or "th" in names:
            self.rows[self.section()][-1][-1] += data

    def section(self):
        return next((identity for tag, identity in self.open if tag == "section"), None)

    def ids(self):
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def key(name, value, **more):
    numbers = {"mean": value / 3, "max": value, "rel": value / 2, "ulp": 2.0, "scale": 1.5, "worst": value / 1e-6}
    place = {"index": [0, 3], "shape": [8, 10], "dtype": "float32", "threshold": 1e-6}
    return KeyResult(name, **({"passed": True} | numbers | place | more))


def part(name, keys, state="green", **more):
    return PartResult(name, state, keys=keys, **more)


def node(name, step, parts, **more):
    numbers = {"worst": 2.384185791015625e-07, "threshold": 1e-06, "seconds": {"torch": 0.412, "paddle": 0.633}}
    return NodeResult(name, step, **({"state": "green"} | numbers | more), parts=parts)


KNOWN = {
    "id": "running_variance",
    "title": "Paddle keeps the biased running variance",
    "formula": "v_torch = v_paddle * n / (n - 1)",
    "source": "https://github.com/PaddlePaddle/Paddle/pull/68159",
}


def sample_verdicts():
    names = [f"layer{i}.{j}.conv{k}.weight" for i in range(1, 4) for j in range(2) for k in (1, 2)]
    gradients = [key(name, 1e-7 * (i % 5) + 1e-8 * i) for i, name in enumerate(names)]
    wrong = {"passed": False, "mean": 0.0078125, "reason": "mean difference 0.00781, limit 1e-06"}
    gradients[7] = key(names[7], 0.03125, **wrong)
    gradients[9] = key(names[9], 0.0, passed=False, mean=None, max=None, worst=math.inf, reason="shape")
    variances = [key(f"bn{i}._variance", 4.8e-4, worst=0.25, known="running_variance") for i in range(3)]
    known = [KNOWN | {"key": one.key, "n": 2048} for one in variances]
    initial = [key(f"{name}.{what}", 0.01, threshold=0.05) for name in names[:2] for what in ("mean", "std")]
    nodes = [
        node("forward", 1, [part("forward", [key("logits", 2.384185791015625e-07)])]),
        node("metric", 2, [part("metric", [key("accuracy", 0.0)])], worst=0.0),
        node("loss", 3, [part("loss", [], "stale", reason="paddle/port.py changed")], state="stale", reason="loss is stale"),
        node(
            "backward",
            4,
            [
                part("gradients", gradients, "red", reason="layer2.1.conv2.weight: mean difference 0.00781"),
                part("buffers", variances, known=known),
            ],
            state="red",
            reason="gradients: layer2.1.conv2.weight differs",
            worst=0.03125,
        ),
        node("training", 5, [part("init", initial), part("train_align", [key("accuracy", 0.0008, threshold=0.0015)])]),
    ]
    return {"made": "2026-05-09T07:35:25+00:00", "nodes": [one.to_json() for one in nodes]}


def history(shift=0.0, iterations=120, epochs=6):
    per_epoch = iterations // epochs
    return {
        "iter": list(range(1, iterations + 1)),
        "loss": [2.3 * math.exp(-i / 40) + 0.08 * math.sin(i * 1.7) ** 2 + shift * i * math.cos(i) for i in range(iterations)],
        "lr": [0.05 * (1 + math.cos(math.pi * i / iterations)) for i in range(iterations)],
        "epoch": list(range(1, epochs + 1)),
        "accuracy": [1 - 0.9 * math.exp(-0.8 * e) - shift * 10 for e in range(1, epochs + 1)],
        "eval_loss": [2 * math.exp(-0.5 * e) + shift for e in range(1, epochs + 1)],
        "order_sha256": [f"{e:064x}" for e in range(per_epoch, per_epoch + epochs)],
    }


def row(torch, torch_shape, paddle, paddle_shape, op, rule, kind="param", **more):
    found = {"torch": torch, "torch_shape": torch_shape, "paddle": paddle, "paddle_shape": paddle_shape}
    found |= {"op": op, "rule": rule, "kind": kind, "torch_part": None, "paddle_part": None, "reason": "", "fill": None}
    return found | {"transposed": op == "transpose"} | more


def sample_conversion():
    names = [f"layer{i}.conv.weight" for i in range(1, 30)]
    rows = [row(name, [16, 16, 3, 3], name, [16, 16, 3, 3], "copy", "Conv2D") for name in names]
    rows.append(row("fc.weight", [10, 64], "fc.weight", [64, 10], "transpose", "Linear"))
    joined = {"op": "transpose", "rule": "MultiheadAttention", "torch_part": [0, 64, 128]}
    rows.append(row("in_proj_weight", [192, 64], "k_proj.weight", [64, 64], **joined))
    rows.append(row("bn1.running_var", [64], "bn1._variance", [64], "copy", "BatchNorm2D", "buffer"))
    dropped = row("bn1.num_batches_tracked", [], None, None, "drop", "BatchNorm2D", "buffer")
    dropped |= {"reason": "Paddle does not count batches"}
    return {"rows": rows, "dropped": [dropped], "tensors": {}, "aliases": {}, "modules": [], "ignored": []}


def environment(framework, version):
    made = {"framework": framework, "framework_version": version, "python": "3.11.7", "numpy": "2.4.1"}
    made |= {"platform": "Linux-6.1-x86_64-with-glibc2.36", "device": "cpu", "seed": 42}
    return made | {"part": "environment", "inputs": {}}


def sample():
    """Content of every input file."""
    return {
        "verdicts.json": sample_verdicts(),
        "train_torch.json": history(),
        "train_paddle.json": history(shift=1e-5),
        "conversion.json": sample_conversion(),
        "environment_torch.json": environment("torch", "2.13.0"),
        "environment_paddle.json": environment("paddle", "3.3.1") | {"numpy": "2.3.0"},
    }


def write(root, files, title="Deep Residual Learning", model="resnet_tiny"):
    work = root / "pipeline" / "work"
    work.mkdir(parents=True)
    for name, content in files.items():
        (work / name).write_text(json.dumps(content), encoding="utf-8")
    settings = {"paper": {"title": title}, "model": {"name": model}}
    (root / "port.yaml").write_text(json.dumps(settings), encoding="utf-8")
    return root


def build(root, language="en"):
    html_path, markdown_path = report.build(root, language)
    assert (html_path, markdown_path) == (
        root / "pipeline/work/report.html",
        root / "pipeline/work/report.md",
    )
    return Page(html_path.read_text(encoding="utf-8")), markdown_path.read_text(encoding="utf-8")


def cells(line):
    """Cells of one Markdown table row; an escaped border is no border."""
    return [cell.strip() for cell in re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]]


def markdown_tables(text):
    blocks = re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE)
    return [block.strip("\n").split("\n") for block in blocks]


def assert_offline_and_inert(page):
    """Nothing is loaded and no element or handler came in through a value."""
    assert [tag for tag, _ in page.tags].count("script") == 1
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "audio", "video", "image")
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset")]
        for name in ("href", "xlink:href"):
            target = attributes.get(name, "#")
            assert target.startswith("#") or (tag == "a" and target.startswith(("https://", "http://")))
        assert not re.search(r"url\((?!#)", attributes.get("style", "") + attributes.get("clip-path", ""))
    for text in page.raw:
        assert "http" not in text and "@import" not in text and "url(" not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_complete_report(tmp_path, language):
    page, text = build(write(tmp_path, sample()), language)
    t = texts.texts_for(language)
    assert_offline_and_inert(page)
    assert len(page.ids()) == len(set(page.ids()))
    rows = page.rows["verdicts"][1:]
    assert [row[0] for row in rows] == CHECKPOINTS
    words = [re.sub(r"^\W+ ", "", row[1]) for row in rows]
    assert words == [t[state] for state in ("green", "green", "stale", "red", "green", "missing")]
    assert [row[2] for row in rows] == ["2.384e-07", "0", "2.384e-07", "0.03125", "2.384e-07", "–"]
    assert rows[0][3:] == ["1e-06", "0.412 / 0.633"]
    assert "2.384185791015625e-07" in page.exact
    for reason in ("gradients: layer2.1.conv2.weight differs", "loss is stale", "paddle/port.py changed"):
        assert reason in page.text and reason in text
    assert "Deep Residual Learning" in page.text and "resnet_tiny" in page.text
    # 4 curves, and the one part with enough keys for a picture of its own
    assert [tag for tag, _ in page.tags].count("svg") == 5
    assert dict(page.tags[0][1])["lang"].startswith(language)
    assert text.count("\n## ") == 6


def test_numbers_are_those_of_the_inputs(tmp_path):
    files = sample()
    page, _ = build(write(tmp_path, files))
    exact = set(page.exact)
    for part_ in (p for n in files["verdicts.json"]["nodes"] for p in n["parts"]):
        for k in part_["keys"]:
            for name in ("mean", "threshold", "max", "rel", "worst", "ulp", "scale"):
                assert k[name] is None or repr(k[name]) in exact or repr(k[name]) in page.text, (k["key"], name)
    rows = page.rows["conversion"]
    assert len(rows) == 1 + 32 + 1 + 1
    assert rows[30] == ["fc.weight", "10×64", "transpose", "fc.weight", "64×10", "Linear", "param"]
    assert rows[31][:4] == ["in_proj_weight [64:128] @0", "192×64", "transpose", "k_proj.weight"]
    assert rows[-1] == ["bn1.num_batches_tracked", "–", "buffer", "Paddle does not count batches"]
    assert "rows: 32 (parameters: 31, buffers: 1; transposed: 2), dropped: 1" in page.text
    torch, paddle = files["train_torch.json"], files["train_paddle.json"]
    found = {row[0]: row for row in page.rows["curves"] + page.rows["lr"]}
    for name, count in (("loss", 120), ("accuracy", 6), ("eval_loss", 6), ("lr", 120)):
        differences = [abs(a - b) for a, b in zip(torch[name], paddle[name], strict=True)]
        axis = "iteration" if count == 120 else "epoch"
        row = [name, f"{count} / {count}", f"{torch[name][-1]:.4g}", f"{paddle[name][-1]:.4g}"]
        row += [f"{differences[-1]:.4g}", f"{max(differences):.4g}"]
        assert found[name] == [*row, f"{axis} {differences.index(max(differences)) + 1}"]
    assert "same order in all 6 epochs" in page.text
    verified = "3" + ", ".join(f"buffers: bn{i}._variance, 2048" for i in range(3))
    assert page.rows["known"][1:] == [[*KNOWN.values(), verified]]
    assert ["numpy", "2.4.1", "2.3.0", "differs between the sides"] in page.rows["environment"]
    assert ["python", "3.11.7", "3.11.7", ""] in page.rows["environment"]
    assert ["framework_version", "2.13.0", "3.3.1", ""] in page.rows["environment"]


def test_initialisation_has_a_section_of_its_own(tmp_path):
    page, _ = build(write(tmp_path, sample()))
    assert [row[0] for row in page.rows["init"][1:]][0] == "layer1.0.conv1.weight.mean"
    assert not [row for row in page.rows["differences"] if row[0].endswith((".mean", ".std"))]


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_any_input(tmp_path, language):
    page, text = build(tmp_path, language)
    assert_offline_and_inert(page)
    word = texts.texts_for(language)["missing"]
    assert [row[:2] for row in page.rows["verdicts"][1:]] == [[name, word] for name in CHECKPOINTS]
    for name in ("port.yaml", *sample()):
        assert name in page.text and name in text
    assert texts.texts_for(language)["no_stale"] not in page.text


@pytest.mark.parametrize("absent", sorted(sample()))
def test_one_input_missing(tmp_path, absent):
    page, text = build(write(tmp_path, {name: content for name, content in sample().items() if name != absent}))
    assert [row[0] for row in page.rows["verdicts"][1:]] == CHECKPOINTS
    assert f"{absent} is not there" in page.text and f"{absent} is not there" in text


@pytest.mark.parametrize("broken", [b"{", b"\xff\xfe", b"[1, 2]", b"7", b"[" * 100000])
def test_broken_inputs_are_named(tmp_path, broken):
    names = ["port.yaml", *sample()]
    root = write(tmp_path, sample())
    for name in names:
        (root / ("" if name == "port.yaml" else "pipeline/work") / name).write_bytes(broken)
    page, text = build(root)
    assert [row[0] for row in page.rows["verdicts"][1:]] == CHECKPOINTS
    for name in names:
        assert f"{name} cannot be read" in page.text and f"{name} cannot be read" in text


def replace_all(value, junk):
    """The same structure with every leaf replaced."""
    if isinstance(value, dict):
        return {k: v if k in ("node", "state") and not isinstance(junk, str) else replace_all(v, junk) for k, v in value.items()}
    if isinstance(value, list):
        return [replace_all(item, junk) for item in value]
    return junk


@pytest.mark.parametrize(
    "junk",
    [HOSTILE, None, True, -1, 1e308, math.nan, -math.inf, 10**400, [], [[1, None], "x"], {"a": {"b": [1]}}],
)
def test_any_value_anywhere(tmp_path, junk):
    page, text = build(write(tmp_path, replace_all(sample(), junk), title=junk, model=junk), "zh")
    assert_offline_and_inert(page)
    assert len(page.ids()) == len(set(page.ids()))
    for table in markdown_tables(text):
        assert len({len(cells(line)) for line in table}) == 1


@pytest.mark.parametrize("section", ["nodes", "parts", "keys", "known", "rows", "dropped", "seconds"])
@pytest.mark.parametrize("junk", ["text", 3, None, {"a": 1}, [None, 3, "x", [1]]])
def test_any_value_in_place_of_a_section(tmp_path, section, junk):
    assert_offline_and_inert(build_swapped(tmp_path, {"verdicts.json", "conversion.json"}, section, junk))


@pytest.mark.parametrize("section", ["loss", "accuracy", "iter", "order_sha256"])
@pytest.mark.parametrize("junk", ["text", {"a": 1}, [None, 3, "x", [1]]])
def test_any_value_in_place_of_a_curve(tmp_path, section, junk):
    assert_offline_and_inert(build_swapped(tmp_path, {"train_torch.json", "train_paddle.json"}, section, junk))


def build_swapped(tmp_path, names, section, junk):
    def swap(value):
        if isinstance(value, dict):
            return {k: junk if k == section else swap(v) for k, v in value.items()}
        return [swap(item) for item in value] if isinstance(value, list) else value

    return build(write(tmp_path, swap({name: content for name, content in sample().items() if name in names})))[0]


def test_hostile_text_is_shown_as_text(tmp_path):
    files = sample()
    files["verdicts.json"]["nodes"][0]["parts"][0]["keys"][0]["key"] = HOSTILE
    files["verdicts.json"]["nodes"][3]["reason"] = HOSTILE
    files["verdicts.json"]["nodes"][3]["parts"][1]["known"][0]["source"] = "javascript:alert(1)"
    files["conversion.json"]["rows"][0]["torch"] = HOSTILE
    for side in ("torch", "paddle"):
        files[f"train_{side}.json"][HOSTILE] = files[f"train_{side}.json"].pop("accuracy")
    page, text = build(write(tmp_path, files, title=HOSTILE))
    assert_offline_and_inert(page)
    assert "javascript:alert(1)" in page.text
    # title (heading and <title>), key (also as the worst of its part), reason, weight name, curve (caption and table)
    assert page.text.count('"><script>alert(1)</script><img src=http://evil.test/x onerror=alert(2)>') == 8
    for output in (page.text, text):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", output)
    assert "<script" not in re.sub(r"\\<", "", text) and "[a](" not in text.replace("\\[", "")


def test_other_nodes_and_states_are_kept(tmp_path):
    files = sample()
    files["verdicts.json"]["nodes"] += [
        node("extra", 9, [], state="filter").to_json(),
        node("forward", 1, [], state="red", reason="twice").to_json(),
    ]
    page, text = build(write(tmp_path, files))
    assert [row[0] for row in page.rows["verdicts"][1:]] == ["forward", *CHECKPOINTS, "extra"]
    assert page.rows["verdicts"][-1][1] == "filter"
    assert "twice" in page.text and "twice" in text


def test_only_true_is_green_and_only_green_is_folded(tmp_path):
    files = sample()
    files["verdicts.json"]["nodes"][0]["parts"][0]["keys"][0]["passed"] = "yes"
    page, _ = build(write(tmp_path, files))
    assert page.rows["differences"][1][:2] == ["logits", "✗ red"]
    details = [attributes for tag, attributes in page.tags if tag == "details"]
    # forward, metric, loss (stale), gradients (red), buffers, train_align; init; known
    assert ["open" in attributes for attributes in details] == [False, False, True, True, False, False, False, False]


def test_worst_array_is_named(tmp_path):
    page, text = build(write(tmp_path, sample()))
    for output in (page.text, text):
        assert "compared: 12, worst: layer3.0.conv2.weight, inf × its limit" in output
        assert "compared: 3, worst: bn0._variance, 0.25 × its limit" in output


@pytest.mark.parametrize("language", LANGUAGES)
def test_markdown_tables_are_well_formed_and_aligned(tmp_path, language):
    files = sample()
    files["conversion.json"]["dropped"][0]["reason"] = "中文 | 原因"
    files["verdicts.json"]["nodes"][3]["parts"][0]["reason"] = "中文原因 | x"
    _, text = build(write(tmp_path, files), language)
    tables = markdown_tables(text)
    assert len(tables) == 5
    for table in tables:
        assert len({len(cells(line)) for line in table}) == 1
        assert all(re.fullmatch(r"-{2,}[-:]", cell) for cell in cells(table[1]))
        # two columns for every Chinese character and full-width sign, one for everything else
        assert len({sum(2 if "\u2e80" <= c <= "\uffef" else 1 for c in line) for line in table}) == 1
    t = texts.texts_for(language)
    assert cells(tables[0][0]) == [t["node"], t["verdict"], t["worst"], t["threshold"], t["seconds"]]
    assert cells(tables[0][2]) == ["forward", t["green"], "2.384e-07", "1e-06", "0.412 / 0.633"]
    assert cells(tables[0][7]) == ["tipc", t["missing"], "–", "–", "– / –"]


def test_plotted_points_are_the_history():
    histories = {"torch": history(), "paddle": history(shift=1e-4, iterations=60)}
    shown = curves.curves(histories)
    assert [(c.name, c.axis) for c in shown] == [
        ("loss", "iter"),
        ("accuracy", "epoch"),
        ("eval_loss", "epoch"),
        ("lr", "iter"),
    ]
    for curve in shown:
        with plots.style("test"):
            figure = plots.curve_figure(curve)
            plots.svg(figure, curve.name)
        top, bottom = figure.axes
        for line, side in zip(top.lines, ("torch", "paddle"), strict=True):
            assert line.get_label() == side
            assert list(line.get_ydata()) == histories[side][curve.name]
            assert list(line.get_xdata()) == histories[side][curve.axis]
        common = min(len(h[curve.name]) for h in histories.values())
        expected = [abs(histories["torch"][curve.name][i] - histories["paddle"][curve.name][i]) for i in range(common)]
        assert list(bottom.lines[0].get_ydata()) == expected
        assert list(bottom.lines[0].get_xdata()) == histories["torch"][curve.axis][:common]
        low, high = bottom.get_ylim()
        assert low == 0 and high >= max(expected)


def test_plotted_key_differences():
    keys = sample_verdicts()["nodes"][3]["parts"][0]["keys"]
    with plots.style("test"):
        axes = plots.keys_figure(keys).axes[0]
    points = {line.get_label(): list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in axes.lines}
    assert points["within"] == [(i, k["worst"]) for i, k in enumerate(keys, 1) if k["worst"] <= 1]
    assert points["beyond"] == [(8, keys[7]["worst"])]
    assert points["not comparable"] == [(10, axes.get_ylim()[1])]
    assert {y for _, y in points["limit"]} == {1}


def test_one_side_only(tmp_path):
    files = sample()
    del files["train_paddle.json"]
    page, _ = build(write(tmp_path, files))
    assert page.rows["curves"][1][:2] == ["loss", "120 / –"]
    assert page.rows["curves"][1][3:] == ["–", "–", "–", "–"]


def test_nan_in_training_is_not_hidden(tmp_path):
    files = sample()
    files["train_paddle.json"]["loss"][50] = math.nan
    page, _ = build(write(tmp_path, files))
    assert page.rows["curves"][1][5:] == ["nan", "iteration 51"]


def test_different_data_order_is_told(tmp_path):
    files = sample()
    files["train_paddle.json"]["order_sha256"][2] = "0" * 64
    page, text = build(write(tmp_path, files))
    assert "differs from epoch 3 on" in page.text and "differs from epoch 3 on" in text


def test_pictures_follow_the_page_colours(tmp_path):
    html = report.build(write(tmp_path, sample()), "en")[0].read_text(encoding="utf-8")
    for picture in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        assert set(re.findall(r"var\(--(\w+)\)", picture)) >= {"ink", "line"}
        assert not re.search(r"(?:fill|stroke|color): *#", picture)
    style = re.search(r"<style>(.*?)</style>", html, flags=re.DOTALL)[1]
    light, dark = (set(re.findall(r"--(\w[\w-]*):", block)) for block in re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL))
    assert light == dark
    assert set(re.findall(r"var\(--([\w-]+)\)", html)) <= light


def test_same_inputs_same_report(tmp_path):
    root = write(tmp_path, sample())
    first = [path.read_bytes() for path in report.build(root, "en")]
    assert first == [path.read_bytes() for path in report.build(root, "en")]
    assert sorted(path.name for path in (root / "pipeline/work").iterdir()) == sorted([*sample(), "report.html", "report.md"])


def test_without_matplotlib_the_numbers_are_there(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pipeline.align.report.plots", None)
    monkeypatch.delattr(report, "plots")
    page, _ = build(write(tmp_path, sample()))
    assert "svg" not in [tag for tag, _ in page.tags]
    assert "no matplotlib" in page.text
    assert page.rows["curves"][1][0] == "loss"


def test_needs_no_framework(tmp_path):
    write(tmp_path, sample())
    program = (
        "import sys; from pathlib import Path; from pipeline.align import report;"
        "early = 'matplotlib' in sys.modules; report.build(Path(sys.argv[1]), 'zh');"
        "print(early, [name for name in ('torch', 'paddle', 'matplotlib.pyplot') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=TEMPLATE,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "[]"]


def test_unknown_language(tmp_path):
    with pytest.raises(UserError, match="'fr'"):
        report.build(tmp_path, "fr")


def test_both_languages_say_the_same():
    english, chinese = (texts.texts_for(language) for language in ("en", "zh"))
    assert set(english) == set(chinese)
    for name, text in english.items():
        assert sorted(re.findall(r"\{(\w+)\}", text)) == sorted(re.findall(r"\{(\w+)\}", chinese[name])), name
    used = " ".join(p.read_text(encoding="utf-8") for p in Path(report.__file__).parent.glob("*.py") if p.name != "texts.py")
    words = {name for name in english if not name.startswith("part.")}
    assert words <= set(re.findall(r"""["'](\w+)["']""", used))
    assert [n.name for n in NODES] + ["tipc"] == CHECKPOINTS == list(inputs.CHECKPOINTS)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.23456789e-7, "1.235e-07"),
        (0.0, "0"),
        (math.nan, "nan"),
        (3, "3"),
        (None, "–"),
        ("a\nb\x00", "a b\ufffd"),
    ],
)
def test_numbers_as_text(value, text):
    assert show.number(value) == text


@pytest.mark.parametrize(("value", "text"), [([64, 3, 7, 7], "64×3×7×7"), ([], "()"), ([[2, 3], [4]], "2×3, 4"), (None, "–")])
def test_shapes_as_text(value, text):
    assert show.shape(value) == text


def test_markdown_width_counts_wide_characters():
    assert [markdown.width(text) for text in ("abc", "中文", "a\u0301")] == [3, 4, 1]
