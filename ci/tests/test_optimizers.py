# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Several optimizers and losses: a small GAN with a training_step, and a network with one optimizer for each of its parts."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

from conftest import REPO, sample

sys.path.insert(0, str(REPO / "ci" / "mutants"))

import bases
from tracks import GAN

#: The number of threads decides in which order torch adds.
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
SIDES = {"torch_ref": ("reference.py", "torch"), "paddle": ("port.py", "")}


@pytest.fixture
def gan(tmp_path) -> Path:
    return bases.build(GAN, sample(), tmp_path / "gan")


def python(repo: Path, *words: str, status: int = 0) -> subprocess.CompletedProcess:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=repo, env=ENVIRONMENT, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def edit(path: Path, *pairs: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in pairs:
        assert text.count(old) == 1, (path, old)
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def change(repo: Path, section: str, **values) -> None:
    settings = yaml.safe_load((repo / "port.yaml").read_text(encoding="utf-8"))
    settings[section].update(values)
    (repo / "port.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def verdicts(repo: Path, *words: str, status: int) -> dict[str, str]:
    return dict(re.findall(r"^(\w+) +(green|red)", python(repo, "-m", "pipeline", "align", *words, status=status).stdout, re.M))


def test_five_steps_of_a_gan_are_green_with_either_scope(gan):
    names = ["forward", "metric", "loss", "backward", "training"]
    assert verdicts(gan, status=0) == dict.fromkeys(names, "green")
    losses = np.load(gan / "log_reprod/bp_align_torch.npy", allow_pickle=True).item()
    assert {"loss_0", "loss_0 (discriminator)", "loss_0 (generator)"} <= losses.keys()
    parts = [losses[f"loss_1 ({name})"] for name in ("discriminator", "generator")]
    assert losses["loss_1"] == pytest.approx(sum(parts))
    change(gan, "train", clear_grad="model")
    assert verdicts(gan, status=0) == dict.fromkeys(names, "green")
    other = np.load(gan / "log_reprod/bp_align_torch.npy", allow_pickle=True).item()
    assert other["loss_1 (discriminator)"] == losses["loss_1 (discriminator)"]
    assert other["loss_1 (generator)"] != losses["loss_1 (generator)"]  # what was left took part in the third update


@pytest.mark.parametrize(
    ("setting", "wrong", "words"),
    [("optimizer", "model", "left in the reference and cleared in the port"),
     ("model", "optimizer", "left in the port and cleared in the reference")],
)  # fmt: skip
def test_the_wrong_scope_of_clearing_is_named(gan, setting, wrong, words):
    change(gan, "train", clear_grad=setting)
    edit(gan / "paddle/port.py", ('update("generator", second)', f'update("generator", second, clear="{wrong}")'))
    said = python(gan, "-m", "pipeline", "align", "1", "2", "3", "4", status=1).stdout
    line = next(line for line in said.splitlines() if line.startswith("backward: red"))
    assert "before update 3 (discriminator)" in line and words in line and "in discriminator." in line
    assert "train.clear_grad" in line and "clear of update()" in line


def test_noise_that_the_step_draws_itself_is_the_same_on_both_sides(gan):
    for file, call in (("torch_ref/reference.py", "torch.randn_like(noise)"), ("paddle/port.py", "paddle.randn(noise.shape)")):
        edit(gan / file, ("    points, noise, _ = batch\n", f"    points, noise, _ = batch\n    noise = {call}\n"))
    change(gan, "align", thresholds={"training": 0.2})  # the whole training draws from generators that differ
    said = python(gan, "-m", "pipeline", "align").stdout
    assert set(dict(re.findall(r"^(\w+) +(green|red)", said, re.M)).values()) == {"green"}, said
    edit(gan / "paddle/port.py", ("paddle.randn(noise.shape)", "1.5 * paddle.randn(noise.shape)"))
    said = python(gan, "-m", "pipeline", "align", "4", status=1).stdout
    assert "at update 1" in next(line for line in said.splitlines() if line.startswith("backward: red"))


def test_bisect_knows_batch_normalisation_with_either_estimate(gan):
    """parity's has torch's running variance; only what is wrong is named."""
    edit(gan / "paddle/models/gan.py", ("from parity import initialise", "from parity import BatchNorm1D, initialise"),
         ("nn.BatchNorm1D(width)", "BatchNorm1D(width)"))  # fmt: skip
    assert set(verdicts(gan, "1", "2", "3", "4", status=0).values()) == {"green"}
    assert "no module differs" in python(gan, "-m", "pipeline", "bisect").stdout
    edit(gan / "paddle/models/gan.py", ("BatchNorm1D(width), nn.ReLU", "BatchNorm1D(width, momentum=0.8), nn.ReLU"))
    said = python(gan, "-m", "pipeline", "align", "4", status=1).stdout
    assert "generator.1" in said and "momentum" in said


def test_an_output_without_a_batch_axis_is_refused(gan):
    edit(gan / "paddle/port.py", ('"fake": model.score(made)}', '"fake": model.score(made).mean()}'))
    said = python(gan, "-m", "pipeline", "align", "1", status=1).stdout
    assert "returned 'fake' without a batch axis" in next(line for line in said.splitlines() if line.startswith("forward: red"))


def test_a_training_step_on_one_side_only_is_named(gan):
    edit(gan / "paddle/port.py", ("def training_step(", "def my_training_step("))
    said = python(gan, "-m", "pipeline", "align", "4", status=1).stdout
    line = next(line for line in said.splitlines() if line.startswith("backward: red"))
    assert "the reference updates discriminator, generator" in line and "paddle/port.py has no training_step" in line


def test_lr_and_losses_are_in_the_history_by_name(gan):
    python(gan, "-m", "pipeline", "run", "5")
    history = {side: yaml.safe_load((gan / f"pipeline/work/train_{side}.json").read_text()) for side in ("torch", "paddle")}
    for one in history.values():
        count = len(one["iter"])
        assert count == 4 * 7 and one["lr"] == one["lr:discriminator"]  # 200 points in batches of 32, 4 epochs
        assert one["lr:generator"] == [0.001] * count
        assert np.allclose(one["lr:discriminator"], [0.002 * (1 - step / count) for step in range(count)], rtol=1e-6)
        sums = np.add(one["loss:discriminator"], one["loss:generator"])
        assert np.allclose(sums, one["loss"], rtol=1e-12)
    assert np.abs(np.subtract(history["torch"]["loss:generator"], history["paddle"]["loss:generator"])).max() < 1e-5


#: A generator that learns at every third step of the discriminator.
RARELY = (
    "    score = model.score(made)\n",
    '    if update.done["discriminator"] % 3:\n        return {"discriminator": first}\n    score = model.score(made)\n',
)


def test_updates_are_counted(gan):
    for file in ("torch_ref/reference.py", "paddle/port.py"):
        edit(gan / file, RARELY)
    assert set(verdicts(gan, status=0).values()) == {"green"}
    edit(gan / "paddle/port.py", ("% 3:", "% 2:"))
    said = python(gan, "-m", "pipeline", "align", "4", status=1).stdout
    line = next(line for line in said.splitlines() if line.startswith("backward: red"))
    assert "the reference updates discriminator, discriminator, discriminator, generator" in line
    assert "the port discriminator, discriminator, generator" in line


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("edits", [(), (RARELY,)], ids=["every step", "every third step"])
def test_resuming_gives_the_same_bits(gan, side, edits):
    inside = SIDES[side][1]
    edit(gan / side / SIDES[side][0], *edits)
    options = ["train.print_freq=1", "train.save_freq=1"]
    python(gan, f"{side}/train.py", "-o", *options, "train.output_dir=output/whole")
    again = ["-o", *options, "train.output_dir=output/again"]
    command = [sys.executable, "-u", f"{side}/train.py", *again]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    stopped = subprocess.Popen(command, cwd=gan, env=ENVIRONMENT, text=True, **pipes)
    next(line for line in stopped.stdout if "epoch: [2/4] iter: [3/7]" in line)
    stopped.kill()
    stopped.wait()
    python(gan, f"{side}/train.py", "--resume", *again)
    whole, other = (load_file(gan / "output" / name / inside / "latest.safetensors") for name in ("whole", "again"))
    assert whole.keys() == other.keys() and any("optimizer/generator/" in name for name in whole)
    if not edits:  # train.clear_grad: optimizer leaves what the generator's loss gave the discriminator
        assert any("gradient/discriminator." in name for name in whole)
    assert all(np.array_equal(whole[name], other[name]) for name in whole)


def test_two_processes_train_alike_on_both_sides(gan):
    """Gradients are averaged for each update, although the networks are called inside of the model and not through a wrapper."""
    python(gan, "-m", "pipeline", "convert")
    launch = {
        "torch_ref": ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"],
        "paddle": ["-m", "paddle.distributed.launch", "--nproc_per_node", "2"],
    }
    found = {}
    for side, words in launch.items():
        start = f"pipeline/weights/{side.removesuffix('_ref')}_init.safetensors"
        options = ["--weights", start, "-o", "train.output_dir=output/two", "train.device=cpu"]
        python(gan, *words, f"{side}/train.py", *options)
        found[side] = load_file(gan / "output/two" / SIDES[side][1] / "latest.safetensors")
    for name in ("loss:discriminator", "loss:generator", "lr:discriminator"):
        torch, paddle = (found[side][f"training/history/{name}"] for side in launch)
        assert len(torch) == 4 * 4 and np.abs(torch - paddle).max() < 1e-5, name


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('update("generator", second)', 'update("generater", second)', "updates 'generater', but build_optimizer has"),
        ('return {"discriminator": first, "generator": second}', "return first", "training_step in paddle/port.py returned"),
        ('"generator": (second, None)}', '"generator": second}', "build_optimizer in paddle/port.py returned a dict"),
    ],
)
def test_what_training_step_and_build_optimizer_get_wrong_is_one_line(gan, old, new, words):
    edit(gan / "paddle/port.py", (old, new))
    said = python(gan, "-m", "pipeline", "align", "4", status=1).stdout
    assert words in next(line for line in said.splitlines() if line.startswith("backward: red"))


@pytest.mark.parametrize("side", SIDES)
def test_programs_refuse_what_training_step_cannot_do(gan, side):
    error = python(gan, f"{side}/train.py", "-o", "train.accumulate=2", status=2).stderr.splitlines()[-1]
    assert "train.accumulate must be 1 with a training_step" in error
    edit(gan / side / SIDES[side][0], ('update("generator", second)', 'update("generater", second)'))
    error = python(gan, f"{side}/train.py", status=1).stderr.splitlines()[-1]
    assert "updates 'generater', but build_optimizer has discriminator, generator" in error


PARTS = {
    "torch_ref/reference.py": (
        "    return optimizer, schedule\n",
        "    head = [p for name, p in model.named_parameters() if name.startswith('fc')]\n"
        "    own = {id(p) for p in head}\n"
        "    for group in optimizer.param_groups:\n"
        "        group['params'] = [p for p in group['params'] if id(p) not in own]\n"
        "    return {'body': (optimizer, schedule), 'head': (torch.optim.Adam(head, lr=0.003), None)}\n",
    ),
    "paddle/port.py": (
        "    parameters = [p for p in model.parameters() if not p.stop_gradient]\n",
        "    head = [p for name, p in model.named_parameters() if name.startswith('fc')]\n"
        "    own = {id(p) for p in head}\n"
        "    parameters = [p for p in model.parameters() if not p.stop_gradient and id(p) not in own]\n",
    ),
}


def test_one_loss_and_an_optimizer_for_each_part(tmp_path):
    """Without a training_step all optimizers step after the loss; a sum of weighted losses needs nothing at all."""
    repo = Path(shutil.copytree(sample(), tmp_path / "parts"))
    for file, pair in PARTS.items():
        edit(repo / file, pair)
    edit(repo / "paddle/port.py", (
        "    return optimizer, schedule\n",
        "    return {'body': (optimizer, schedule), 'head': (paddle.optimizer.Adam(0.003, parameters=head), None)}\n",
    ))  # fmt: skip
    more = ' + 0.01 * outputs["logits"].square().mean()'
    losses = {
        "torch_ref/reference.py": 'criterion(outputs["logits"], labels)',
        "paddle/port.py": 'cross_entropy(outputs["logits"], labels, smoothing, ignored)',
    }
    for file, loss in losses.items():
        edit(repo / file, (loss, loss + more))
    change(repo, "train", epochs=3)
    change(repo, "benchmark", accuracy={"value": 0.5, "rule": ">="})
    assert set(verdicts(repo, status=0).values()) == {"green"}
    edit(repo / "paddle/port.py", ("paddle.optimizer.Adam(0.003,", "paddle.optimizer.Adam(0.002,"))
    said = python(repo, "-m", "pipeline", "align", "4", status=1).stdout
    assert "lr (head)" in next(line for line in said.splitlines() if line.startswith("backward: red"))
    assert "'head'" in said
