# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""draft: what PaConvert makes of PyTorch code computes the same with converted weights, and nothing is left half-written."""
from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import REPO, sample
from convert_models import difference, outputs, scramble, to_paddle
from pipeline.align import draft
from pipeline.align.errors import UserError
from pipeline.align.paths import Paths
from pipeline.align.settings import load_settings

ZOO = Path(__file__).with_name("draft_reference")
ODD = '''import torch
import torch_scatter


def odd(x, n):
    """torch.sym_max in a text
    of two lines"""
    torch.sym_max(
        x, 1111111111111111111111111111111111111111, 2222222222222222222222222222222222222222, 3333333333333333333333)
    return torch.float_power(x, n).view(3, -1)
'''


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """One environment for all tests, made by the code under test and kept."""
    monkeypatch.setenv("DRAFT_PYTHON", draft._environment(REPO / "build" / "draft_venv"))


def run(source: Path, out: Path) -> None:
    assert draft.run(Paths(out.parent), load_settings(sample() / "port.yaml"), source, out) == 0
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def load(folder: Path, name: str):
    """The package `zoo` of a folder, under another name."""
    package = folder / "zoo"
    spec = importlib.util.spec_from_file_location(name, package / "__init__.py", submodule_search_locations=[str(package)])
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_draft_computes_what_the_reference_does(tmp_path, capsys):
    run(ZOO, tmp_path / "draft")
    shown = capsys.readouterr().out
    left = "0 lines not converted, 0 imports of torch left"
    assert re.search(rf"^draft: 4 files, (\d+) of \1 uses of torch converted, {left}, \d+ places mended$", shown, re.M)
    assert re.search(r"^draft/zoo/encoder.py:\d+: view: ", shown, re.M) and shown.endswith("lint: 2 findings\n")
    theirs, ours = load(ZOO, "zoo_torch"), load(tmp_path / "draft", "zoo_paddle")
    random = np.random.default_rng(5)
    mask = np.arange(9) < np.array([[9], [5], [7]])
    cases = {
        "Residual": (random.normal(size=(3, 3, 33, 32)).astype(np.float32),),
        "Encoder": (random.integers(0, 50, (3, 9)), mask),
        "Padded": (random.normal(size=(3, 3, 13, 15)).astype(np.float32),),
    }
    for name, inputs in cases.items():
        reference, port = scramble(getattr(theirs, name)()), getattr(ours, name)()
        assert difference(*outputs(reference, port, inputs)) > 1e-2
        to_paddle(reference, port, tmp_path)
        assert difference(*outputs(reference, port, inputs)) <= 1e-6
    assert ours.Residual().layers[0].bn2._momentum == 0.99  # torch's 0.01
    norm = ours.Padded().units[0].norm
    assert (norm._momentum, norm._epsilon) == (0.99, 1e-2)
    assert ours.Padded().units[0].norm2._momentum == 0.99


MENDED = {
    "the docstring and imports from __future__ put first", "added: import paddle.nn as nn",
    "self.stride -> self._stride", "self.kernel_size -> self._kernel_size", "m.out_channels -> m._out_channels",
    "m.eps -> m._epsilon", "head.out_channels -> head._out_channels", "'ConvTranspose{}d' -> 'Conv{}DTranspose'",
    "eps -> norm_layer(num_features=cout, epsilon=0.001, momentum=1 - 0.01)", "inplace -> act_layer()",
    "momentum -> self.second(cout, momentum=1 - (1 - 0.99))",
}  # fmt: skip


def test_what_was_mended_is_named(tmp_path, capsys):
    run(ZOO / "zoo" / "padded.py", tmp_path / "draft")
    shown = capsys.readouterr().out
    lines = [match.groups() for match in re.finditer(r"^draft/padded.py:(\d+): mended: (.+)$", shown, re.M)]
    assert {what for _, what in lines} >= MENDED and f", {len(lines)} places mended\n" in shown
    text = (tmp_path / "draft/padded.py").read_text()
    assert ast.get_docstring(ast.parse(text)).startswith("What PaConvert does not see")
    compile(text, "padded.py", "exec")  # a from __future__ that is not the first statement would raise
    for number, what in lines:
        new = what.partition(" -> ")[2]
        assert not new or new in text.split("\n")[int(number) - 1], (number, what)


def test_what_was_not_converted_is_python_and_named(tmp_path, capsys):
    source = tmp_path / "theirs"
    (source / "pkg" / ".git").mkdir(parents=True)
    (source / "pkg" / "odd.py").write_text(ODD)
    (source / "pkg" / ".git" / "hook.py").write_text("def broken(:\n")
    (source / "weights.pth").write_bytes(b"0" * 1000)
    run(source, tmp_path / "draft")
    assert {path.name for path in (tmp_path / "draft").rglob("*")} == {"pkg", "odd.py", "paddle_utils.py"}
    text = (tmp_path / "draft/pkg/odd.py").read_text()
    ast.parse(text)
    assert str(tmp_path) not in text and "sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))" in text
    lines = text.split("\n")
    shown = capsys.readouterr().out
    number = 1 + lines.index("    torch.sym_max(  # >>>>>> not converted")
    assert f"draft/pkg/odd.py:{number}: not converted: torch.sym_max(\n" in shown
    number = 1 + lines.index("import torch_scatter")
    assert f"draft/pkg/odd.py:{number}: still imports torch: import torch_scatter\n" in shown
    assert "draft: 1 files, 2 of 3 uses of torch converted, 1 lines not converted, 1 imports of torch left\n" in shown


def test_the_output_in_the_documents_is_real(tmp_path, capsys):
    """As from the root of the generated sample."""
    where = Paths(tmp_path)
    out = where.tree("paddle") / "draft"
    assert draft.run(where, load_settings(sample() / "port.yaml"), sample() / "torch_ref" / "models", out) == 0
    shown = capsys.readouterr().out
    for readme in sample().glob("README*.md"):
        assert f"```\n{shown}```" in readme.read_text(encoding="utf-8"), readme


def test_one_file(tmp_path):
    run(ZOO / "zoo" / "encoder.py", tmp_path / "draft")
    assert [path.name for path in (tmp_path / "draft").iterdir()] == ["encoder.py"]
    assert not re.search(r"\btorch\b", (tmp_path / "draft/encoder.py").read_text())


def refused(tmp_path: Path, source: Path, out: Path | None = None) -> str:
    with pytest.raises(UserError) as caught:
        run(source, out or tmp_path / "draft")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "draft").exists() and not any(path.name.startswith(".") for path in tmp_path.iterdir())
    return str(caught.value)


def test_bad_input(tmp_path, monkeypatch):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("mine")
    assert "is not empty" in refused(tmp_path, ZOO, tmp_path / "used")
    assert "is not empty" in refused(tmp_path, ZOO, tmp_path / "used" / "mine.txt")
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["mine.txt"]
    assert "does not exist" in refused(tmp_path, tmp_path / "none")
    assert "holds no .py file" in refused(tmp_path, tmp_path / "used")
    assert "is no .py file" in refused(tmp_path, tmp_path / "used" / "mine.txt")
    (tmp_path / "theirs" / "old").mkdir(parents=True)
    (tmp_path / "theirs" / "good.py").write_text("import torch\n")
    (tmp_path / "theirs" / "old" / "two.py").write_text("import torch\nprint 'two'\n")
    assert "PaConvert 3.3.0 failed on old/two.py:2: SyntaxError: " in refused(tmp_path, tmp_path / "theirs")
    monkeypatch.setenv("DRAFT_PYTHON", "no-such-python")
    assert "cannot run no-such-python" in refused(tmp_path, ZOO)
    monkeypatch.setenv("DRAFT_PYTHON", sys.executable)
    assert f"has no PaConvert; run: {sys.executable} -m pip install paconvert==3.3.0" in refused(tmp_path, ZOO)


def test_an_environment_that_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.delenv("DRAFT_PYTHON")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    text = refused(tmp_path, ZOO)
    assert text.startswith("PaConvert cannot be installed: ") and "DRAFT_PYTHON" in text
    assert not (tmp_path / "pipeline/work/draft_venv/installed.txt").exists()  # so that the next run makes it again
