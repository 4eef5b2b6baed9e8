# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""lint: every rule finds its fault on the right line, right code stays silent, and every cited number is measured again."""

from __future__ import annotations

import inspect
import json
import math
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import paddle
import pytest
import torch

from conftest import REPO, TEMPLATE, sample
from lint_snippets import HEAD, RIGHT, WRONG
from pipeline.align import cli
from pipeline.align.errors import UserError
from pipeline.align.lint import calls, checks, explain, lint, torch_names
from pipeline.align.lint.facts import TABLE
from pipeline.align.paths import Paths

MUTANTS = REPO / "ci" / "mutants"
sys.path.insert(0, str(MUTANTS))
import catalog

RULES = {fact.id for fact in TABLE.values() if fact.fix}
SETTINGS = {"loss": {"ignore_index": -100, "label_smoothing": 0.1}}


def found(tmp_path: Path, text: str, name: str = "port.py") -> list[tuple[str, int]]:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(one.rule, one.line) for one in lint([path], SETTINGS, tmp_path)]


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in WRONG.items() for text in texts])
def test_a_seeded_fault_is_found_and_nothing_else(tmp_path, rule, text):
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith("#!"))
    assert found(tmp_path, text, "paddle/__init__.py" if rule == "package-init" else "port.py") == [(rule, line)]


@pytest.mark.parametrize("text", RIGHT)
def test_right_code_is_silent(tmp_path, text):
    assert found(tmp_path, text) == []


@pytest.mark.parametrize("tree", [sample() / "paddle", REPO / "ci" / "mutants" / "sequence" / "paddle"])
def test_the_samples_are_silent(tree):
    assert [str(one) for one in lint([tree], SETTINGS, TEMPLATE)] == []


#: The wrong ports of ci/mutants whose fault a syntax tree shows. The others are wrong in what they compute, not in how
#: Paddle understands it.
NAMED = {
    "avgpool-exclusive": "avgpool-padding",
    "batch-statistics": "batchnorm-global-stats",
    "bn-momentum": "batchnorm-momentum",
    "clip-added": "clip-groups",
    "attention-dropout-on": "dropout-training",
    "dropout-downscales": "dropout-mode",
    "framework-cross-entropy": "cross-entropy-smoothing",
    "padding-idx": "embedding-padding",
    "decay-by-torch-names": "adamw-decay-names",
    "clip-per-group": "clip-groups",
    "polynomial-end": "polynomial-end",
}


def test_wrong_and_right_ports_of_the_collection(tmp_path):
    named = {}
    for track, trees in (("image", [sample()]), ("sequence", [sample(), MUTANTS / "sequence"])):
        files = {path.relative_to(tree / "paddle"): path for tree in trees for path in (tree / "paddle").rglob("*.py")}
        texts = {name.as_posix(): path.read_text(encoding="utf-8") for name, path in files.items()}
        for number, case in enumerate(catalog.read_cases(MUTANTS / f"{track}.md")):
            port = {file: text for file, text in texts.items() if re.match(r"models/|(port|parity)\.py", file)}
            for file, old, new in case.edits:
                port[file] = port.get(file, texts[file]).replace(old, new)
            folder = tmp_path / track / str(number)
            for file, text in port.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text, encoding="utf-8")
            for finding in lint([folder], SETTINGS, tmp_path):
                assert isinstance(case, catalog.Mutant), f"{case.name}: {finding}"
                named[case.name] = finding.rule
    assert named == NAMED


def test_every_rule_has_a_fact_a_check_and_a_fault():
    assert checks.rules() == RULES == set(WRONG)


def test_numbers_are_those_measured():
    """In a process of its own: the kit's guards, which other tests switch on, mend some of what is measured."""
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("lint_numbers.py"))], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout.splitlines()[-1])
    assert set(measured) == {fact.id for fact in TABLE.values() if fact.number is not None}
    for name, now in measured.items():
        cited = TABLE[name].number
        if math.isnan(cited):
            assert math.isnan(now), name
        else:
            assert now == pytest.approx(cited, rel=0.02, abs=2e-6), name
        assert "{n}" in TABLE[name].measured, name


@pytest.mark.parametrize(
    "code",
    [
        "F.nll_loss(paddle.rand([8, 5]), paddle.full([8], -100, 'int64'), ignore_index=-100)",
        "paddle.nn.LSTM(3, 4, bias_ih_attr=False, bias_hh_attr=False)(paddle.rand([2, 5, 3]))",
    ],
)
def test_what_is_said_to_crash_crashes(code):
    # Paddle's own handler of the signal may wait for the heap that is damaged
    program = f"import paddle; import paddle.nn.functional as F\npaddle.disable_signal_handler()\nfor _ in range(50): {code}"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60).returncode < 0


def test_what_is_said_to_raise_raises(tmp_path):
    with pytest.raises(TypeError):
        float(paddle.to_tensor([1.5]))
    with pytest.raises(ValueError):
        paddle.ones([2, 3]).t().view([6])
    torch.save({"a": torch.ones(1)}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    assert str(paddle.load(str(tmp_path / "old.pth"))) == TABLE["load-torch-file"].measured.rpartition(" ")[2]


def test_schedules_whose_get_lr_is_wrong_are_those_named():
    from pipeline.align.lint.checks_training import RECURSIVE

    lr = paddle.optimizer.lr
    made = [
        *(lr.NoamDecay(64, 5), lr.PiecewiseDecay([3, 6], [0.1, 0.2, 0.3]), lr.NaturalExpDecay(0.1, 0.5)),
        *(lr.InverseTimeDecay(0.1, 0.5), lr.PolynomialDecay(0.1, 10), lr.LinearWarmup(0.1, 5, 0.0, 0.1)),
        *(lr.ExponentialDecay(0.1, 0.9), lr.MultiStepDecay(0.1, [3, 6]), lr.StepDecay(0.1, 3), lr.LinearLR(0.1, 10)),
        *(lr.LambdaDecay(0.1, lambda e: 0.9**e), lr.MultiplicativeDecay(0.1, lambda e: 0.9), lr.OneCycleLR(0.1, 20)),
        *(lr.CosineAnnealingDecay(0.1, 10), lr.CyclicLR(0.1, 0.2, 5), lr.CosineAnnealingWarmRestarts(0.1, 5)),
    ]
    wrong = set()
    for schedule in made:
        for _ in range(9):
            if abs(schedule() - schedule.get_lr()) > 1e-9:
                wrong.add(type(schedule).__name__)
            schedule.step()
    assert wrong | {"ReduceOnPlateau"} == set(RECURSIVE)
    with pytest.raises(NotImplementedError):
        lr.ReduceOnPlateau(0.1).get_lr()


@pytest.mark.parametrize("name", sorted(calls.SIGNATURES))
def test_positions_of_parameters_are_paddles(name):
    target = paddle
    for part in name.split(".")[1:]:
        target = getattr(target, part)
    signature = inspect.signature(target.__init__ if inspect.isclass(target) else target)
    positional = [
        one.name for one in signature.parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self"
    ]
    if positional:
        assert positional[: len(calls.SIGNATURES[name])] == calls.SIGNATURES[name]


def test_long_chains_of_names_take_no_time(tmp_path):
    body = "".join("    x = x + self.a(x) + self.b(x)\n    m = m + m * m\n" for _ in range(200))
    code = HEAD + f"def f(self, x, y, m=0.1):\n{body}    return F.cross_entropy(x, y), nn.BatchNorm2D(3, m), float(x)\n"
    started = time.perf_counter()
    assert found(tmp_path, "\ufeff" + code + "s = '\\d'\n") == []
    assert time.perf_counter() - started < 2


def test_a_comment_silences_its_rule_on_its_line(tmp_path):
    code = (
        HEAD
        + "a = nn.BatchNorm2D(8, momentum=0.1)  # lint: ok batchnorm-momentum: as trained\nb = nn.BatchNorm2D(8, momentum=0.1)\n"
    )
    assert found(tmp_path, code) == [("batchnorm-momentum", 5)]
    code = HEAD + "a = nn.AvgPool2D(3, padding=1)  # lint: ok batchnorm-momentum\n"
    assert found(tmp_path, code) == [("avgpool-padding", 4)]
    with pytest.raises(
        UserError, match=r"port.py:1: there is no rule 'batchnorm-moment' to silence; nearest: batchnorm-momentum"
    ):
        found(tmp_path, "a = 1  # lint: ok batchnorm-moment\n")


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A repository with one fault, in which the command line runs."""
    (tmp_path / "paddle").mkdir()
    (tmp_path / "paddle" / "port.py").write_text(HEAD + "bn = nn.BatchNorm2D(8, momentum=0.1)\n", encoding="utf-8")
    shutil.copy(sample() / "port.yaml", tmp_path)
    monkeypatch.setattr(cli, "Paths", lambda: Paths(tmp_path))
    return tmp_path


def test_the_command_line(repository, capsys):
    assert cli.main(["lint"]) == 1
    out = capsys.readouterr().out
    fact = TABLE["batchnorm-momentum"]
    assert out.splitlines()[0] == f"paddle/port.py:4: batchnorm-momentum: momentum is 0.1: {fact.difference}; {fact.fix}"
    assert cli.main(["lint", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["line"] == 4
    right = repository / "right.py"
    right.write_text("import paddle\n", encoding="utf-8")
    assert cli.main(["lint", str(right)]) == 0


FILLED = """
class Net(nn.Layer):
    def __init__(self, vocabulary):
        super().__init__()
        self.rows, self.out = None, nn.Linear(4, 4)
        self.words = nn.Embedding(vocabulary, 4, padding_idx=0)
        for m in self.sublayers():
            {}
"""


@pytest.mark.parametrize(("body", "note"), [
    ("m.train()", True),
    ("nn.initializer.Normal()(self.out.weight)", True),
    ("nn.initializer.Normal()(self.words.weight)", False),
    ("m = isinstance(m, (nn.Linear, nn.Embedding))", False),
])  # fmt: skip
def test_a_padding_row_is_a_fault_only_where_it_is_filled(repository, capsys, body, note):
    (repository / "net.py").write_text(HEAD + FILLED.format(body), encoding="utf-8")
    assert cli.main(["lint", str(repository / "net.py")]) == (0 if note else 1)
    out = capsys.readouterr().out
    assert out.startswith("net.py:9: " + ("note: " if note else "") + "embedding-padding: padding_idx is 0")
    assert out.endswith("\n0 findings, 1 note\n" if note else "\n1 finding\n")


LAYERS = {
    "Conv1D": (3, 4, 3), "Conv2D": (3, 4, 3), "Conv3D": (3, 4, 3), "Conv1DTranspose": (3, 4, 3), "Conv2DTranspose": (3, 4, 3),
    "Conv3DTranspose": (3, 4, 3), "Linear": (3, 4), "LayerNorm": (4,), "GroupNorm": (2, 4), "Embedding": (5, 4),
    "SyncBatchNorm": (4,), "LSTM": (3, 4), "GRU": (3, 4), "SimpleRNN": (3, 4),
    **{f"{name}{n}D": (4,) for name in ("BatchNorm", "InstanceNorm", "AvgPool", "MaxPool") for n in "123"},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*torch_names.ATTRIBUTES, *torch_names.KEYWORDS}))
def test_torchs_names_of_settings_are_not_paddles_and_paddles_are(name):
    layer = getattr(paddle.nn, name)(*LAYERS.get(name, ()))
    for theirs, ours in torch_names.ATTRIBUTES.get(name, {}).items():
        assert not hasattr(layer, theirs), theirs
        if ours is not None:
            eval(ours.format("layer") if "{}" in ours else f"layer.{ours}", {"layer": layer})
    for theirs, ours in torch_names.KEYWORDS.get(name, {}).items():
        with pytest.raises(TypeError):
            getattr(paddle.nn, name)(*LAYERS.get(name, ()), **{theirs: 1})
        eval(f"build(*args, {ours.format(1)})", {"build": getattr(paddle.nn, name), "args": LAYERS.get(name, ())})


def test_paddle_has_no_layers_with_torchs_numbers():
    assert not any(hasattr(paddle.nn, name) for name in ("BatchNorm2d", "MaxPool2d", "ConvTranspose2d", "Dropout2d"))
    assert all(hasattr(paddle.nn, name) for name in ("BatchNorm2D", "MaxPool2D", "Conv2DTranspose", "Dropout2D"))


@pytest.mark.parametrize(
    ("text", "message"), [(None, "gone.py does not exist"), ("def f(:\n", "gone.py:1: invalid syntax"), ("\0", "gone.py")]
)
def test_bad_input_is_one_line(repository, capsys, text, message):
    path = repository / "gone.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert cli.main(["lint", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(("subject", "says"), [
    ("batchnorm", ["momentum = 1 - torch's", "1.502", "running_mean", "_mean"]),
    ("BatchNorm2d", ["1 - torch's"]),
    ("nn.CrossEntropyLoss", ["cross-entropy-axis", "0.3681", "parity.cross_entropy"]),
    ("cross_entropy", ["0.625"]),
    ("adamw", ["apply_decay_param_fun", "clear_grad"]),
    ("linear", ["weight", "transposed"]),
    ("MultiheadAttention", ["q_proj.weight", "in_proj_weight"]),
    ("lstm", ["weight_ih_l0", "time_major"]),
    ("group-lr", ["learning_rate"]),
])  # fmt: skip
def test_explain(repository, capsys, subject, says):
    assert cli.main(["explain", subject]) == 0
    out = capsys.readouterr().out
    assert all(text in out for text in says), out


def test_explain_lists_its_subjects_and_names_the_nearest(repository, capsys):
    assert cli.main(["explain"]) == 0
    assert "BatchNorm" in capsys.readouterr().out
    assert cli.main(["explain", "bachnorm"]) == 2
    assert "batchnorm" in capsys.readouterr().err.lower()


def test_every_subject_and_every_fact_can_be_explained():
    for subject in [*explain.subjects(), *TABLE]:
        assert explain.text(subject)


def test_the_output_in_the_documents_is_real(tmp_path):
    edits = {
        "models/resnet.py": (("momentum=1 - 0.1", "momentum=0.1"), (", exclusive=False)", ")")),
        "port.py": (
            ("LambdaDecay(cfg.optimizer.learning_rate, warmup_cosine(cfg, steps_per_epoch))", "PolynomialDecay(rate, 100)"),
        ),
    }
    for file, pairs in edits.items():
        text = (sample() / "paddle" / file).read_text(encoding="utf-8")
        for old, new in pairs:
            assert text.count(old) == 1
            text = text.replace(old, new)
        path = tmp_path / "paddle" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shown = "\n".join(map(str, lint([tmp_path / "paddle"], SETTINGS, tmp_path))) + "\n3 findings\n"
    for readme in sample().glob("README*.md"):
        text = readme.read_text(encoding="utf-8")
        assert f"```\n{shown}```" in text and f"```\n{explain.text('avg_pool')}\n```" in text, readme


def test_fixes_name_functions_of_parity():
    text = (TEMPLATE / "paddle" / "parity.py").read_text(encoding="utf-8")
    offered = {*re.findall(r"^(?:def|class) (\w+)", text, re.M), *re.findall(r"^from parity_\w+ import .* as (\w+)$", text, re.M)}
    named = {name for fact in TABLE.values() for name in re.findall(r"parity\.(\w+)", f"{fact.fix} {fact.agree}")}
    assert named <= offered and len(named) > 10


def test_no_framework_is_imported_and_it_starts_fast():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom pathlib import Path\nfrom pipeline.align.lint import lint\n"
        "lint([Path(sys.argv[1]) / 'paddle'], {}, Path(sys.argv[1]))\n"
        "assert not {'torch', 'paddle', 'numpy'} & set(sys.modules)"
    )
    best = math.inf
    for _ in range(3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", program, str(TEMPLATE)], check=True)
        best = min(best, time.perf_counter() - started)
    assert best < 0.3 + _start()


def _start() -> float:
    """Seconds that the interpreter itself takes on this machine."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import ast, re, difflib, pathlib, dataclasses"], check=True)
    return time.perf_counter() - started
