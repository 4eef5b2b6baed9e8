# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The image sample: reference and port are twins in everything that training needs, and their programs work."""
from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import baking
from conftest import REPO, TEMPLATE
from sample_side import IGNORED, IGNORING, LABELS, LOGITS, QUICK, SIDES, SMOOTHINGS, convert
from test_sample_data import SHIPPED, read_split, unpacked


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Path:
    """A freshly generated repository."""
    folder = tmp_path_factory.mktemp("sample")
    done = baking.run(baking.copy_template(folder / "template"), folder, folder, "repo_name=sample")
    assert done.returncode == 0, done.stderr
    return folder / "sample"


@pytest.fixture(scope="module")
def twins(repo, tmp_path_factory) -> dict[str, tuple[dict, dict]]:
    """{side: (arrays, facts)} of both sides' processes; the reference's makes the weights that both train from."""
    folder, results = tmp_path_factory.mktemp("twins"), {}
    for side in SIDES:
        (folder / side).mkdir()
        done = program(REPO / "ci" / "tests" / "sample_side.py", side, repo, folder / side, cwd=folder)
        assert done.returncode == 0, done.stderr
        with np.load(folder / side / "arrays.npz") as arrays:
            results[side] = dict(arrays), json.loads((folder / side / "facts.json").read_text())
    return results


def program(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess:
    """`python COMMAND…`, started from `cwd`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    line = [sys.executable, *map(str, command)]
    return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_both_sides_decode_and_preprocess_alike(twins, tmp_path):
    settings = (TEMPLATE / "port.yaml").read_text(encoding="utf-8")
    mean, std = (float(re.search(rf"^  {name}: ([\d.]+)", settings, re.MULTILINE)[1]) for name in ("mean", "std"))
    folder = unpacked(SHIPPED / "lite_data.tar", tmp_path / "lite")
    for split in ("train", "val"):
        pixels, labels = read_split(folder, split)
        for arrays, _ in twins.values():
            images = arrays[f"images_{split}"]
            assert images.dtype == np.float32 and images.shape == (16, 1, 8, 8)
            assert np.abs(images[:, 0] - (pixels / 255 - mean) / std).max() < 1e-6
            assert np.array_equal(arrays[f"labels_{split}"], labels)
        assert np.array_equal(twins["torch"][0][f"images_{split}"], twins["paddle"][0][f"images_{split}"])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("ignored", IGNORED)
def test_loss_is_the_formula_on_both_sides(twins, smoothing, ignored):
    labels = IGNORING if ignored else LABELS
    kept = labels != 255
    logits = LOGITS.astype(np.float64)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    target = (1 - smoothing) * np.eye(10)[np.where(kept, labels, 0)] + smoothing / 10
    loss = -(target * np.log(probability)).sum(1)[kept].mean()
    gradient = (probability - target) * kept[:, None] / kept.sum()
    for arrays, _ in twins.values():
        assert arrays[f"loss_{smoothing}_{ignored}"] == pytest.approx(loss, abs=1e-6)
        assert np.abs(arrays[f"gradient_{smoothing}_{ignored}"] - gradient).max() < 1e-7


def test_loss_of_an_impossible_label_is_not_cut(twins):
    assert [float(arrays["loss_far"]) for arrays, _ in twins.values()] == [200.0, 200.0]


def test_accuracy_counts_samples_that_are_not_ignored(twins):
    kept = IGNORING != 255
    wanted = (LOGITS.argmax(1) == IGNORING)[kept].mean()
    assert all(arrays["accuracy"] == wanted for arrays, _ in twins.values())


def test_learning_rate_is_the_same_number_in_every_iteration(twins):
    torch, paddle = (arrays["lr"] for arrays, _ in twins.values())
    assert np.array_equal(torch, paddle) and len(torch) > 50
    peak = int(torch.argmax())
    assert 0 < peak < len(torch) // 4 and torch[0] == pytest.approx(torch[peak] / 10)
    assert np.allclose(np.diff(torch[: peak + 1], 2), 0, atol=1e-12)  # linear
    assert torch[(peak + len(torch)) // 2] == pytest.approx(torch[peak] / 2)  # half a cosine
    assert 0 < torch[-1] < torch[peak] / 1000


def test_fresh_networks_are_distributed_alike(twins):
    torch, paddle = (arrays for arrays, _ in twins.values())
    reference = convert({name[5:]: value for name, value in torch.items() if name.startswith("init.")})
    assert set(reference) == {name[5:] for name in paddle if name.startswith("init.")}
    for name, a in reference.items():
        b = paddle[f"init.{name}"]
        if name.endswith("conv.weight") or re.search(r"conv\d\.weight$", name):
            wanted = math.sqrt(2 / (a.shape[1] * a.shape[3] * a.shape[4]))  # He: sqrt(2 / fan out)
        elif name.startswith("fc."):
            wanted = 1 / math.sqrt(64) / math.sqrt(3)  # uniform up to 1 / sqrt(in)
            assert max(np.abs(a).max(), np.abs(b).max()) <= 1 / math.sqrt(64)
        else:
            assert np.array_equal(a, b), name  # ones and zeros
            continue
        spread = 5 * wanted / math.sqrt(a.size)
        for values in (a, b):
            assert abs(values.mean()) < spread and abs(values.std() - wanted) < spread, name


def test_training_takes_the_same_path(twins):
    torch, paddle = (facts["history"] for _, facts in twins.values())
    assert len(torch["loss"]) == 12 and torch["iter"] == paddle["iter"] == list(range(1, 13))
    assert torch["epoch"] == paddle["epoch"] == [1, 2, 3, 4]
    assert torch["order_sha256"] == paddle["order_sha256"] and len(set(torch["order_sha256"])) == 4
    assert torch["lr"] == paddle["lr"] and len(set(torch["lr"])) == 12
    assert torch["loss"] == pytest.approx(paddle["loss"], abs=1e-5)
    assert torch["loss"][-1] < torch["loss"][0]
    assert len(torch["accuracy"]) == len(torch["eval_loss"]) == 4


def test_training_log_has_what_log_readers_look_for(twins):
    pattern = (
        r"\[[\d/]+ [\d:]+\] epoch: \[1/4\] iter: \[2/3\] loss: [\d.]+ lr: [\d.]+ avg_reader_cost: [\d.]+ sec "
        r"avg_batch_cost: [\d.]+ sec avg_samples: 6\.0 avg_ips: [\d.]+ images/sec"
    )
    for _, facts in twins.values():
        assert re.fullmatch(pattern, facts["log"][0])
        assert "iter: [3/3]" in facts["log"][1] and "avg_samples: 4.0" in facts["log"][1]
        assert "accuracy: " in facts["log"][2] and len(facts["log"]) == 12


def test_a_loss_that_is_not_finite_stops_the_training(twins):
    for _, facts in twins.values():
        said, status = facts["overflow"]
        assert re.match(r"the loss at iteration \d+ is (nan|inf) with LR [\d.]+e\+29: the first layer", said) and status == 1


def test_each_side_loads_its_own_framework_only(twins):
    assert all(facts["frameworks"] == [side] for side, (_, facts) in twins.items())


def test_a_weight_file_that_does_not_fit_changes_nothing(twins):
    name = "stage2.shortcut.conv.weight"
    words = {"missing": name, "unknown": "module.fc.weight", "shape": name, "dtype": "F16"}
    for _, facts in twins.values():
        for kind, word in words.items():
            said, kept = facts["load"][kind]
            assert word in said and "does not fit" in said and kept, (kind, said)
        assert "no complete safetensors file" in facts["load"]["cut"][0] and "does not exist" in facts["load"]["absent"][0]
        assert facts["load"]["right"] == ["accepted", True]


def test_bad_data_is_named(twins):
    for _, facts in twins.values():
        assert "cannot decode" in facts["line images/cut.png 3"] and "cut.png" in facts["line images/cut.png 3"]
        assert "none.png does not exist" in facts["line images/none.png 3"]
        assert "train_list.txt:1: label 10 is out of range" in facts["line images/cut.png 10"]
        for line in ("images/cut.png", "x.png -1"):
            assert "train_list.txt:1: expected 'path label'" in facts[f"line {line}"]
        assert "lists no images" in facts["line "]
        assert "no.tar" in facts["missing"] and "test_list.txt" in facts["test split"]


@pytest.mark.parametrize("tree", ["torch_ref", "paddle"])
def test_programs_run_from_anywhere(repo, tmp_path, tree):
    output = repo / "output" / ("torch" if tree == "torch_ref" else "")
    trained = program(repo / tree / "train.py", "-o", *QUICK, "train.epochs=1", cwd=tmp_path)
    assert trained.returncode == 0 and "avg_ips" in trained.stdout, trained.stderr
    weights = str(output / "latest.safetensors")
    assert {"best.safetensors", "latest.safetensors"} <= {path.name for path in output.iterdir()}
    evaluated = program(repo / tree / "eval.py", "--weights", weights, "-o", *QUICK, cwd=tmp_path)
    accuracy = re.search(r"accuracy: ([\d.]+) best", trained.stdout)[1]
    assert evaluated.returncode == 0 and evaluated.stdout.startswith("samples: 16 loss: ")
    assert f"accuracy: {accuracy}" in evaluated.stdout
    assert list(tmp_path.iterdir()) == []
    wrong = program(repo / tree / "train.py", "-o", "optimizer.lerning_rate=1", cwd=tmp_path)
    assert wrong.returncode == 2 and "learning_rate" in wrong.stderr and "Traceback" not in wrong.stderr


def test_predict_reads_an_image_of_any_size(repo, twins, tmp_path):
    Image.new("RGB", (31, 17), (9, 90, 200)).save(tmp_path / "image.jpg")
    weights = twins["paddle"][1]["weights"]
    done = program(repo / "paddle" / "predict.py", "--image", tmp_path / "image.jpg", "--weights", weights, cwd=tmp_path)
    found = re.fullmatch(r"image.jpg: class: \d probability: ([\d.]+)\n", done.stdout)
    assert done.returncode == 0 and 0.1 <= float(found[1]) <= 1, done.stdout + done.stderr


TOY = {
    "torch_ref/reference.py": """
import numpy as np, torch
def build_model(cfg): return torch.nn.Bilinear(3, 2, 1)
def build_optimizer(cfg, model, steps_per_epoch): return torch.optim.SGD(model.parameters(), lr=0.1), None
def tensor_mean(x): return x.mean().item()
""",
    "paddle/port.py": """
import numpy as np, paddle
def build_model(cfg): return paddle.nn.Bilinear(3, 2, 1)
def build_optimizer(cfg, model, steps_per_epoch): return paddle.optimizer.SGD(0.1, model.parameters()), None
def tensor_mean(x): return x.mean().item()
""",
}  # fmt: skip
TOY_SHARED = """
class Data:
    def __len__(self): return 5
    def __getitem__(self, i): return np.full(3, i / 5, np.float32), np.ones(2, np.float32), np.float32(i)
class Metric:
    def __init__(self): self.values = []
    def update(self, outputs, labels): self.values.append(tensor_mean(outputs["score"]))
    def compute(self): return {"accuracy": 1.0, "spread": max(self.values) - min(self.values)}
def build_dataset(cfg, split): return Data()
def build_loss(cfg): return lambda outputs, labels: ((outputs["score"] - labels) ** 2).mean()
def build_metric(cfg): return Metric()
def forward(model, batch): return {"score": model(batch[0], batch[1])[:, 0]}
"""


@pytest.mark.parametrize("contract", TOY)
def test_train_knows_only_the_contract(repo, tmp_path, contract):
    """Another task altogether: two inputs, float labels, several metrics, no schedule."""
    copy = shutil.copytree(repo, tmp_path / "copy")
    for folder in ("models", "data"):
        shutil.rmtree(copy / Path(contract).parent / folder)
    (copy / contract).write_text(TOY[contract] + TOY_SHARED)
    done = program((copy / contract).with_name("train.py"), "-o", "train.epochs=3", "data.batch_size=2", cwd=tmp_path)
    assert done.returncode == 0 and "epoch: [3/3] iter: [3/3]" in done.stdout and "spread: " in done.stdout, done.stderr
