# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The whole road as a user walks it: generate, align, read the records with the stock library, clone, break the port."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import REPO
from pipeline.align import records


def call(repo: Path, *arguments: str, expect: int | None = None) -> subprocess.CompletedProcess:
    """Run a command with the tests' Python inside a generated repository."""
    done = subprocess.run([sys.executable, *arguments], cwd=repo, capture_output=True, text=True, timeout=540)
    if expect is not None:
        assert done.returncode == expect, f"{arguments}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def pipeline(repo: Path, *arguments: str, expect: int | None = None) -> subprocess.CompletedProcess:
    return call(repo, "-m", "pipeline", *arguments, expect=expect)


@pytest.fixture(scope="session")
def aligned(tmp_path_factory) -> Path:
    """A generated repository, all five steps aligned, in a folder with a space and Chinese characters in its name."""
    folder = tmp_path_factory.mktemp("移植 port")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "cookiecutter",
            REPO,
            "--no-input",
            "--default-config",
            "--output-dir",
            folder,
            "repo_name=sample",
        ],
        check=True,
        capture_output=True,
    )
    repo = folder / "sample"
    (repo / "align.out").write_text(pipeline(repo, "align", expect=0).stdout, encoding="utf-8")
    return repo


@pytest.fixture
def copy(aligned, tmp_path) -> Path:
    """A copy of the aligned repository to break."""
    return Path(shutil.copytree(aligned, tmp_path / "copy"))


def test_align_prints_a_green_table(aligned):
    text = (aligned / "align.out").read_text(encoding="utf-8")
    for node in ("forward", "metric", "loss", "backward", "training"):
        assert re.search(rf"^{node} +green +\S+ +\S+ +[\d.]+ +[\d.]+$", text, re.MULTILINE), f"{node} is not green:\n{text}"


def test_log_reprod_holds_exactly_what_acceptance_names(aligned):
    wanted = {
        f"{part}_{side}.npy" for part in ("forward", "metric", "loss", "bp_align", "train_align") for side in ("torch", "paddle")
    }
    wanted |= {f"{part}_diff.log" for part in ("forward", "metric", "loss", "bp_align", "train_align")}
    wanted |= {"train_align_benchmark.npy"}
    assert {path.name for path in (aligned / "log_reprod").iterdir() if path.name != ".gitkeep"} == wanted


STOCK = """
import sys
from reprod_log import ReprodDiffHelper
part, threshold, log = sys.argv[1:]
helper = ReprodDiffHelper()
a, b = (helper.load_info(f"log_reprod/{part}_{side}.npy") for side in ("torch", "paddle"))
helper.compare_info(a, b)
helper.report(path=log, diff_threshold=float(threshold))
print(sorted(a), sorted(b))
"""


KEYS = {
    "forward": ["logits"],
    "metric": ["accuracy"],
    "loss": ["loss"],
    "bp_align": [f"loss_{i}" for i in range(5)],
    "train_align": ["accuracy"],
}


@pytest.mark.parametrize("part", KEYS)
def test_stock_reprod_log_reads_the_records_and_agrees_with_the_log(aligned, tmp_path, part):
    threshold = "0.0015" if part == "train_align" else "1e-6"
    out = call(aligned, "-c", STOCK, part, threshold, str(tmp_path / "stock.log"), expect=0).stdout
    assert out.strip().endswith(f"{KEYS[part]} {KEYS[part]}")
    stock, ours = (re.sub(r"^\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\] ", "", path.read_text(), flags=re.MULTILINE)
                   for path in (tmp_path / "stock.log", aligned / "log_reprod" / f"{part}_diff.log"))  # fmt: skip
    number = r"(?<=value: )\S+"
    assert re.sub(number, "", ours) == re.sub(number, "", stock)
    assert [float(x) for x in re.findall(number, ours)] == pytest.approx([float(x) for x in re.findall(number, stock)], rel=1e-6)
    assert ours.rstrip().endswith("root INFO: diff check passed")


def test_accuracies_reach_the_goal_and_agree(aligned):
    torch, paddle = (float(np.load(aligned / "log_reprod" / f"train_align_{side}.npy", allow_pickle=True).tolist()["accuracy"][0])
                     for side in ("torch", "paddle"))  # fmt: skip
    assert torch >= 0.97 and paddle >= 0.97
    assert abs(torch - paddle) <= 0.0015


def test_the_learning_curve_was_recorded_every_epoch(aligned):
    for side in ("torch", "paddle"):
        history = json.loads((aligned / "pipeline" / "work" / f"train_{side}.json").read_text())
        assert len(history["accuracy"]) == len(history["epoch"]) == len(history["order_sha256"]) > 1
        assert len(history["loss"]) == len(history["lr"]) == len(history["iter"])


def test_report_opens_offline(aligned):
    page = (aligned / "pipeline" / "work" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//(?!arxiv|github)""", page)
    assert "accuracy" in page and "conv1.weight" in page


def test_status_is_green_until_the_code_changes(copy):
    assert re.search(r"^training +green", pipeline(copy, "status").stdout, re.MULTILINE)
    port = copy / "paddle" / "port.py"
    port.write_text(port.read_text() + "\n# changed\n")
    assert re.search(r"^forward +stale", pipeline(copy, "status").stdout, re.MULTILINE)


def test_status_imports_no_framework(aligned):
    code = """
import sys
from pipeline.align.cli import main
main(["status"])
print("loaded:", *{"torch", "paddle", "matplotlib"} & {*sys.modules})
"""
    assert call(aligned, "-c", code, expect=0).stdout.endswith("loaded:\n")


def test_a_clone_on_another_machine_aligns(aligned, tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    source = Path(shutil.copytree(aligned, tmp_path / "source"))
    for command in (["init", "-q", "."], ["add", "-A"], ["commit", "-qm", "Import"]):
        subprocess.run([*git, *command], cwd=source, check=True, capture_output=True)
    listed = subprocess.run([*git, "ls-files"], cwd=source, check=True, capture_output=True, text=True).stdout
    made = ("pipeline/work/", "output/", "pipeline/weights/")
    assert not [name for name in listed.split("\n") if name.startswith(made) and ".gitkeep" not in name]
    subprocess.run([*git, "clone", "-q", str(source), str(tmp_path / "elsewhere")], check=True, capture_output=True)
    pipeline(tmp_path / "elsewhere", "align", "1", "2", "3", "4", expect=0)


def test_steps_run_one_script_at_a_time(copy):
    for path in (copy / "log_reprod").glob("*"):
        path.unlink()
    shutil.rmtree(copy / "pipeline" / "work")
    call(copy, "pipeline/Step1/torch_forward.py", expect=0)
    call(copy, "pipeline/Step1/paddle_forward.py", expect=0)
    pipeline(copy, "check", "1", expect=0)
    assert pipeline(copy, "check", "2", expect=1).stdout.count("missing")


def rewrite(repo: Path, name: str, change) -> None:
    """Replace the arrays of a record and keep its provenance."""
    path = repo / "log_reprod" / name
    record = records.read_record(path)
    arrays = {key: np.array(value) for key, value in record.arrays.items()}
    provenance = dict(record.provenance)
    arrays = change(arrays, provenance)
    del record
    records.write_record(path, arrays, provenance)


def with_nan(arrays, provenance):
    arrays["logits"][0, 0] = np.nan
    return arrays


def left_in_train_mode(arrays, provenance):
    provenance["eval_mode"] = {"training_modules": ["bn"], "random_outputs": []}
    return arrays


WRONG_RECORDS = {
    "nan": (with_nan, "NaN"),
    "missing key": (lambda arrays, _: {"other": arrays["logits"]}, "logits"),
    "empty": (lambda arrays, _: {}, "empty"),
    "transposed": (lambda arrays, _: {"logits": arrays["logits"].T.copy()}, "shape"),
    "broadcast": (lambda arrays, _: {"logits": arrays["logits"][:1]}, "shape"),
    "other dtype": (lambda arrays, _: {"logits": arrays["logits"].astype(np.float64)}, "dtype"),
    "train mode": (left_in_train_mode, "train mode"),
}


@pytest.mark.parametrize("name", WRONG_RECORDS)
def test_a_wrong_record_is_red(copy, name):
    change, word = WRONG_RECORDS[name]
    rewrite(copy, "forward_paddle.npy", change)
    done = pipeline(copy, "check", "1", expect=1)
    assert re.search(r"^forward +(red|stale)", done.stdout, re.MULTILINE) and word.lower() in done.stdout.lower()


def test_nan_on_both_sides_is_red(copy):
    for side in ("torch", "paddle"):
        rewrite(copy, f"forward_{side}.npy", with_nan)
    assert "NaN" in pipeline(copy, "check", "1", expect=1).stdout


def test_empty_on_both_sides_is_red(copy):
    for side in ("torch", "paddle"):
        rewrite(copy, f"forward_{side}.npy", lambda arrays, _: {})
    assert "empty" in pipeline(copy, "check", "1", expect=1).stdout


def test_zeros_on_both_sides_are_red(copy):
    for side in ("torch", "paddle"):
        rewrite(copy, f"forward_{side}.npy", lambda arrays, _: {"logits": np.zeros_like(arrays["logits"])})
    assert "zero" in pipeline(copy, "check", "1", expect=1).stdout


def test_one_outlier_in_a_million_is_red(copy):
    def big(value):
        def change(arrays, _):
            logits = np.zeros((6, 1_000_000 // 6), np.float32)
            logits[0, 0], logits[3, 77] = 1.0, value
            return {"logits": logits}

        return change

    rewrite(copy, "forward_torch.npy", big(0.0))
    rewrite(copy, "forward_paddle.npy", big(0.9))
    done = pipeline(copy, "check", "1", expect=1)
    assert "0.9" in done.stdout and "77" in done.stdout, done.stdout


def test_one_framework_twice_is_red(copy):
    shutil.copy(copy / "log_reprod" / "forward_torch.npy", copy / "log_reprod" / "forward_paddle.npy")
    assert "torch" in pipeline(copy, "check", "1", expect=1).stdout


def test_a_stale_record_is_red(copy):
    model = copy / "paddle" / "models" / "resnet.py"
    model.write_text(model.read_text().replace("epsilon=1e-5", "epsilon=1e-3"))
    done = pipeline(copy, "check", "1", expect=1)
    assert "paddle/models/resnet.py changed" in done.stdout
    port_yaml = copy / "port.yaml"
    port_yaml.write_text(port_yaml.read_text().replace("seed: 2026", "seed: 2027"))
    assert "align.seed" in pipeline(copy, "check", "3", expect=1).stdout


def test_a_truncated_record_is_red(copy):
    path = copy / "log_reprod" / "loss_paddle.npy"
    path.write_bytes(path.read_bytes()[:100])
    assert "loss_paddle.npy" in pipeline(copy, "check", "3", expect=1).stdout


WRONG_PORTS = {
    # file, old text, new text, step that must turn red
    "train mode": ("port.py", 'return {"logits": model(batch[0])}', 'model.train()\n    return {"logits": model(batch[0])}', 1),
    "epsilon": ("models/resnet.py", "epsilon=1e-5", "epsilon=1e-3", 1),
    "average pooling": ("models/resnet.py", "padding=1, exclusive=False", "padding=1", 1),
    "no shortcut": ("models/resnet.py", "self.act2(y + self.shortcut(x))", "self.act2(y)", 1),
    "activation": ("models/resnet.py", "self.act = nn.GELU()", "self.act = nn.ReLU()", 1),
    "momentum copied": ("models/resnet.py", "momentum=1 - 0.1", "momentum=0.1", 4),
    "preprocessing": ("data/digits.py", "[:, :, np.newaxis] / 255", "[:, :, np.newaxis] / 256", 2),
    "weight decay everywhere": ("port.py", '"weight_decay": 0.0', '"weight_decay": cfg.optimizer.weight_decay', 4),
    "the reference inside the port": ("metric.py", "import paddle\n", "import paddle\nimport torch\n", 1),
    "frozen": (
        "models/resnet.py",
        "self.bn = batch_norm(width)",
        "self.bn = batch_norm(width)\n        self.bn.weight.stop_gradient = True",
        4,
    ),
    "random in eval mode": ("models/resnet.py", ".flatten(1))", ".flatten(1) + 1e-3 * paddle.randn([1]))", 1),
    "computed in double precision": ("port.py", "model(batch[0])}", 'model(batch[0]).astype("float64")}', 1),
    "label off by one": ("data/digits.py", "return name, int(label)", "return name, int(label) + (int(label) < 9)", 2),
    "label smoothing": ("parity.py", "    if label_smoothing:", "    label_smoothing = 0.2\n    if label_smoothing:", 3),
    "schedule by epoch": (
        "port.py",
        "warmup_cosine(cfg, steps_per_epoch))",
        "lambda i: warmup_cosine(cfg, steps_per_epoch)(i // steps_per_epoch * steps_per_epoch))",
        4,
    ),
    "layer missing": ("models/resnet.py", "self.bn2 = batch_norm(out_channels)", "self.bn2 = nn.Identity()", 1),
    "exception": ("port.py", 'return {"logits": model(batch[0])}', 'return {"logits": model(batch[0], 1)}', 1),
    "nothing returned": ("port.py", 'return {"logits": model(batch[0])}', "model(batch[0])", 1),
}


@pytest.mark.parametrize("name", WRONG_PORTS)
def test_a_wrong_port_is_red_at_its_step(copy, name):
    file, old, new, step = WRONG_PORTS[name]
    path = copy / "paddle" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    done = pipeline(copy, "align", *map(str, range(1, step + 1)), expect=1)
    verdicts = dict(re.findall(r"^(forward|metric|loss|backward) +(green|red)", done.stdout, re.MULTILINE))
    nodes = ("forward", "metric", "loss", "backward")
    assert verdicts[nodes[step - 1]] == "red", done.stdout
    assert all(verdicts[node] == "green" for node in nodes[: step - 1]), done.stdout


OWN_LAYER = """

class Classifier(nn.Layer):
    def __init__(self, in_features, out_features, weight_attr, bias_attr):
        super().__init__()
        self.matrix = self.create_parameter([in_features, out_features], attr=weight_attr)
        self.shift = self.create_parameter([out_features], attr=bias_attr, is_bias=True)

    def forward(self, x):
        return paddle.matmul(x, self.matrix) + self.shift
"""


def test_own_layers_are_converted_by_a_registration_of_a_few_lines(copy):
    model = copy / "paddle" / "models" / "resnet.py"
    model.write_text(model.read_text().replace("self.fc = nn.Linear(", "self.fc = Classifier(") + OWN_LAYER)
    done = pipeline(copy, "align", "1", expect=1)
    assert "fc" in done.stdout and "convert failed" in done.stdout
    (copy / "pipeline" / "own_layers.py").write_text(
        "from pipeline.align.convert import register\n"
        'register("torch.nn.Linear", "Classifier", [("weight", "matrix", "T"), ("bias", "shift", "id")])\n'
    )
    pipeline(copy, "align", "1", "3", "4", expect=0)


def test_a_checkpoint_of_the_reference_is_the_start_of_both_sides(copy):
    code = """
import sys
sys.path[:0] = [".", "torch_ref"]
import torch
import reference
from pipeline.align.settings import load_settings
cfg = load_settings("port.yaml")
raw, ema = ({f"module.{k}": v for k, v in reference.build_model(cfg).state_dict().items()} for _ in range(2))
torch.save({"state_dict": raw, "ema": ema, "epoch": 3}, "trained.pth")
"""
    call(copy, "-c", code, expect=0)
    done = pipeline(copy, "align", "1", "-o", "weights.checkpoint=trained.pth", expect=2)
    assert "--entry ema" in done.stderr and "--entry state_dict" in done.stderr
    pipeline(copy, "align", "1", "3", "-o", "weights.checkpoint=trained.pth", "-o", "weights.entry=ema", expect=0)
    assert "does not exist" in pipeline(copy, "run", "1", "-o", "weights.checkpoint=other.pth", expect=2).stderr


def with_dropout(repo: Path, tree: str, probability: float) -> None:
    path = repo / tree / "models" / "resnet.py"
    text = path.read_text()
    assert ".flatten(1))" in text
    drawn = f".flatten(1)) + 0 * nn.functional.dropout(x, {probability}, training=self.training).mean()"
    path.write_text(text.replace(".flatten(1))", drawn))


def test_dropout_is_compared_without_its_masks(copy):
    with_dropout(copy, "torch_ref", 0.25)
    done = pipeline(copy, "align", "4", expect=1)
    assert re.search(r"FAIL  dropout", done.stdout), done.stdout
    with_dropout(copy, "paddle", 0.25)
    pipeline(copy, "align", "4", expect=0)
    short = ["-o", "train.epochs=2"]
    pipeline(copy, "run", "5", *short, expect=0)
    assert re.search(r"pass  first_losses.*\n.*both trainings draw dropout masks", pipeline(copy, "check", "5", *short).stdout)


def with_stochastic_depth(repo: Path, tree: str, mask: str) -> None:
    """The features of a sample are dropped as a whole with probability 0.2, without a layer of the framework."""
    path = repo / tree / "models" / "resnet.py"
    text = path.read_text()
    kept = f"    def _kept(self, x):\n        return x * {mask} / 0.8 if self.training else x"
    drawn = f"self._kept(self.pool(x).flatten(1)))\n\n{kept}"
    assert text.count("self.pool(x).flatten(1))") == 1
    path.write_text(text.replace("self.pool(x).flatten(1))", drawn))


def test_stochastic_depth_is_compared_with_every_path_kept(copy):
    with_stochastic_depth(copy, "torch_ref", "x.new_empty(len(x), 1).bernoulli_(0.8)")
    with_stochastic_depth(copy, "paddle", "__import__('paddle').floor(0.8 + __import__('paddle').rand([len(x), 1]))")
    pipeline(copy, "align", "1", "3", "4", expect=0)
    short = ["-o", "train.epochs=2"]
    pipeline(copy, "run", "5", *short, expect=0)
    assert re.search(r"pass  first_losses", pipeline(copy, "check", "5", *short).stdout)
    path = copy / "paddle" / "models" / "resnet.py"
    path.write_text(path.read_text().replace("/ 0.8", "/ 0.7"))
    assert "bp_train" in pipeline(copy, "align", "1", "3", "4", expect=1).stdout


def test_a_dropout_that_only_one_training_has_is_red(copy):
    with_dropout(copy, "torch_ref", 0.25)
    with_dropout(copy, "paddle", 0.5)
    short = ["-o", "train.epochs=2"]
    pipeline(copy, "run", "5", *short, expect=0)
    done = pipeline(copy, "check", "5", *short, expect=1)
    assert "reference [0.25], port [0.5]" in done.stdout


def test_a_port_that_reads_the_terminal_does_not_hang(copy):
    port = copy / "paddle" / "port.py"
    port.write_text(port.read_text().replace("    return {", "    input()\n    return {"))
    assert "EOFError" in pipeline(copy, "align", "1", expect=1).stdout


def test_what_was_deleted_is_made_again(copy):
    shutil.rmtree(copy / "pipeline" / "work")
    pipeline(copy, "align", "1", expect=0)


def test_bad_input_is_one_line_and_exit_status_2(copy):
    for arguments, words in (
        (["run", "1", "-o", "optimizer.lerning_rate=1"], ["optimizer.lerning_rate", "learning_rate"]),
        (["run", "1", "-o", "train.epochs=many"], ["train.epochs", "whole number"]),
        (["check", "1", "-o", "track=audio"], ["audio"]),
    ):
        done = pipeline(copy, *arguments, expect=2)
        assert done.stderr.count("\n") == 1 and all(word in done.stderr for word in words), done.stderr


def test_a_missing_function_is_named(copy):
    port = copy / "paddle" / "port.py"
    port.write_text(port.read_text().replace("def build_metric", "def make_metric"))
    done = pipeline(copy, "align", "1", expect=2)
    assert "paddle/port.py does not define build_metric()" in done.stderr and "update(outputs, labels)" in done.stderr


def test_another_interpreter_can_be_named(copy):
    done = subprocess.run([sys.executable, "-m", "pipeline", "run", "1"], cwd=copy, capture_output=True, text=True,
                          env={**os.environ, "PADDLE_PYTHON": "/nonexistent/python"})  # fmt: skip
    assert done.returncode == 2 and "PADDLE_PYTHON" in done.stderr
