# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Training as a program, on both sides: resuming, parts of a batch, clipping, mixed precision, faults, files."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file, save_file

import baking
from conftest import REPO
from sample_side import LITE, SIDES
from train_side import KILLS, PARTS, SEEDED_EPOCHS, SEEDED_LENGTH, SHORT, STOPS


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Path:
    """A freshly generated repository."""
    folder = tmp_path_factory.mktemp("train")
    done = baking.run(baking.copy_template(folder / "template"), folder, folder, "repo_name=sample")
    assert done.returncode == 0, done.stderr
    return folder / "sample"


@pytest.fixture(scope="module")
def sides(repo, tmp_path_factory) -> dict[str, dict]:
    """{side: facts} of train_side.py."""
    folder, facts = tmp_path_factory.mktemp("sides"), {}
    for side in SIDES:
        (folder / side).mkdir()
        done = python(REPO / "ci" / "tests" / "train_side.py", side, repo, folder / side)
        assert done.returncode == 0, done.stderr
        facts[side] = json.loads((folder / side / "facts.json").read_text())
    return facts


def python(*words: str | Path, prefix: str = "") -> subprocess.CompletedProcess:
    """`python WORDS…` after the shell text `prefix`."""
    command = ["bash", "-c", f'{prefix} exec "$@"', "bash", sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", ["sample", "adam"])
def test_a_resumed_training_is_the_same_to_the_last_bit(sides, side, kind):
    """With augmentation, dropout and a schedule, stopped after an epoch and within one; Adam's state too."""
    runs = sides[side]["resume"][kind]
    whole = runs.pop("whole")
    assert len(whole["history"]["loss"]) == 9 and len(set(whole["history"]["loss"])) == 9
    assert set(runs) == {str(stop) for stop in STOPS[1:]}  # after one iteration there was no checkpoint yet
    for stop, resumed in runs.items():
        assert resumed["history"] == whole["history"], stop
        assert resumed["weights"] == whole["weights"], stop
        done = int(stop) - 1  # the last line of a training that is stopped comes before its checkpoint
        assert re.search(rf"resumed from .*latest.safetensors after {done} iterations", resumed["log"][0])
        assert sum(" iter: " in line for line in resumed["log"]) == 9 - done


@pytest.mark.parametrize("side", SIDES)
def test_a_finished_training_can_go_on(sides, side):
    longer = sides[side]["longer"]
    assert longer["iterations"] == 12
    assert any("train.epochs 3 -> 4" in line for line in longer["log"])


@pytest.mark.parametrize("side", SIDES)
def test_a_wrong_checkpoint_is_refused_and_nothing_is_written(sides, side):
    wrong = sides[side]["wrong"]
    assert "no complete safetensors file" in wrong["cut"] and "does not exist" in wrong["absent"]
    assert "no state of a training" in wrong["weights alone"] and "data.batch_size" in wrong["within an epoch"]
    assert "another optimizer" in wrong["other optimizer"] and "another optimizer or model" in wrong["other model"]
    assert wrong["kept"] is True


@pytest.mark.parametrize("side", SIDES)
def test_parts_of_a_batch_add_up_to_the_batch(sides, side):
    """Without batch normalisation; 6 samples in 1, 2 and 4 parts, 4 in the last batch."""
    whole, *others = (sides[side]["parts"][str(parts)] for parts in PARTS)
    for run in others:
        assert np.abs(np.subtract(run["history"]["loss"], whole["history"]["loss"])).max() < 2e-6
        for name, value in whole["weights"].items():
            assert np.abs(np.subtract(run["weights"][name], value)).max() < 2e-6


def test_clipping_is_that_of_torch(sides):
    for norm in ("0.05", "1000.0"):
        torch, paddle = (sides[side]["clip"][norm]["history"]["loss"] for side in ("torch", "paddle"))
        assert np.abs(np.subtract(torch, paddle)).max() < 2e-6
    clipped, free = (sides["paddle"]["clip"][norm]["history"]["loss"] for norm in ("0.05", "1000.0"))
    assert free == sides["paddle"]["parts"]["1"]["history"]["loss"]
    assert abs(clipped[1] - free[1]) > 1e-3


def test_mixed_precision_runs(sides):
    """PyTorch computes it on a CPU; Paddle does not, and the log says so."""
    torch, paddle = (sides[side]["amp"] for side in ("torch", "paddle"))
    exact = np.array(torch["null"]["history"]["loss"])
    for kind, close in (("bf16", 2e-2), ("fp16", 2e-3)):
        first = np.abs(np.array(torch[kind]["history"]["loss"]) - exact)[:2]
        assert 0 < first.max() < close
        assert paddle[kind]["history"]["loss"] == paddle["null"]["history"]["loss"]
        assert f"{kind} has no effect on the CPU" in paddle[kind]["log"][0]
    # Half precision cannot hold the first scaled gradients; dynamic scaling drops such steps instead of breaking the weights.
    assert np.isfinite(torch["fp16"]["history"]["loss"]).all()
    assert torch["fp16"]["history"]["loss"][-1] < torch["fp16"]["history"]["loss"][0]


@pytest.mark.parametrize("side", SIDES)
def test_what_is_not_finite_is_named(sides, side):
    said = sides[side]["not finite"]
    assert said["weight"].startswith("the loss at iteration 1 is nan with LR 0.01: ")
    assert re.search(r"is stage2\.conv2 \(Conv2[Dd]\), whose weight is not finite", said["weight"])
    assert "input 0 of the batch is not finite" in said["input"]
    assert "3 (Bad), whose inputs and own parameters are finite" in said["layer"]
    assert "is inf with" in said["loss"] and "it is the loss itself" in said["loss"]
    assert re.match(r"the loss at iteration [23] is nan with LR [\d.]+e\+\d+: the first layer", said["later"])


@pytest.mark.parametrize("side", SIDES)
def test_a_process_killed_while_it_writes_leaves_a_whole_checkpoint(sides, side):
    kills = sides[side]["kills"]
    assert len(kills) == KILLS and all(whole for whole, _ in kills)
    assert kills[-1][1] > KILLS / 4  # the processes did write


def test_every_sample_is_seen_once_by_all_processes_together(sides):
    assert sides["torch"]["shares"] == sides["paddle"]["shares"]
    for case, (order, every) in sides["paddle"]["shares"].items():
        length, size, processes = map(int, case.split())
        assert len({len(own) for own in every}) == 1 and len(every[0]) == -(-length // (size * processes))
        seen = []
        for shares in zip(*every):
            taken = [samples for samples, weight, _ in shares if weight]
            assert all(len(samples) <= size for samples in taken)
            together = [sample for samples in taken for sample in samples]
            assert {total for _, _, total in shares} == {len(together)}
            # The mean over the processes of weight times mean is the mean over all samples.
            mean = sum(weight * np.mean(samples) for samples, weight, _ in shares) / processes
            assert mean == pytest.approx(np.mean(together))
            seen += together
        assert seen == order


def test_augmentation_depends_on_the_sample_alone(sides):
    """The same on both sides, with any number of workers, from wherever in the epoch; another one in every epoch."""
    assert sides["torch"]["seeded"] == sides["paddle"]["seeded"]
    alone, workers = np.split(np.array(sides["paddle"]["seeded"], object), 2)
    for a, b in zip(alone, workers):
        assert a[-len(b) :] == b and len(a) == 4 * SEEDED_LENGTH and len(b) == 4 * (SEEDED_LENGTH - 2)
    assert len({tuple(values) for values in alone}) == SEEDED_EPOCHS
    assert all(sides[side]["generator untouched"] for side in SIDES)


@pytest.mark.parametrize("side", SIDES)
def test_bad_data_is_one_line_with_any_number_of_workers(sides, side):
    for workers in (0, 1):
        assert re.fullmatch(r"the image \S+none\.png does not exist", sides[side][f"bad data, {workers} workers"])


@pytest.mark.parametrize("side", SIDES)
def test_curves_go_to_the_writer_that_the_settings_name(sides, side):
    points = sides[side]["scalars"]
    assert points[0] == ["scalars"] and points[-1] == ["closed"]
    assert [[name, iteration] for name, _, iteration in points[1:-1]] == [
        ["loss", 1], ["lr", 1], ["loss", 2], ["lr", 2], ["loss", 3], ["lr", 3], ["eval_loss", 3], ["accuracy", 3],
    ]  # fmt: skip
    assert "pip install visualdl" in sides[side]["no writer"]


@pytest.mark.parametrize("side", SIDES)
def test_unknown_options_name_the_nearest(sides, side):
    said = sides[side]["options"]
    assert said["--wieghts a"] == said["--weight a"].replace("--weight;", "--wieghts;") == (
        "unknown option --wieghts; did you mean --weights?"
    )
    assert "expected one argument" in said["--weights"] and "--what" in said["--what"]
    assert said["-o a=1 -o b=2 --weights=x"] == "accepted" and sides[side]["overrides"] == ["a=1", "b=2", "c=3"]
    assert "train.device is gpu" in sides[side]["gpu"]
    for setting, words in sides[side]["settings"].items():
        assert setting.partition("=")[0] in words and "must be" in words


def lines(text: str) -> list[str]:
    """Iterations of a log, without the time of day and the speed."""
    return re.findall(r"epoch: \[\S+ iter: \[\S+ loss: \S+ lr: \S+|epoch: \S+ eval_loss: .*", text)


@pytest.mark.parametrize("tree", ["paddle", "torch_ref"])
def test_a_killed_program_goes_on_where_it_was(repo, tree):
    folder = repo / "killed" / ("" if tree == "paddle" else "torch")
    options = ["-o", *SHORT, "train.epochs=40", "train.save_freq=1"]
    program = repo / tree / "train.py"
    whole = python(program, *options, "train.output_dir=whole")
    assert whole.returncode == 0, whole.stderr
    words = [sys.executable, str(program), *options, "train.output_dir=killed"]
    started = subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for _ in range(7):
        started.stdout.readline()
    os.kill(started.pid, signal.SIGKILL)
    started.wait()
    started.stdout.close()
    (folder / ".latest.safetensors.1.tmp").write_bytes(b"half")
    resumed = python(program, *options, "train.output_dir=killed", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    rest = lines(resumed.stdout)
    assert 0 < len(rest) < 160 and lines(whole.stdout)[-len(rest) :] == rest
    for name in ("best", "latest"):
        other = repo / "whole" / folder.relative_to(repo / "killed")
        a, b = (load_file(path / f"{name}.safetensors") for path in (folder, other))
        assert set(a) == set(b) and all(np.array_equal(a[key], b[key]) for key in a)
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == [
        "best.safetensors", "environment.json", "latest.safetensors", "settings.yaml", "train.log",
    ]  # fmt: skip
    log = (folder / "train.log").read_text()
    assert "resumed from" in log and lines(log)[-len(rest) :] == rest
    settings = yaml.safe_load((folder / "settings.yaml").read_text())
    assert settings["train"]["epochs"] == 40 and settings["data"]["batch_size"] == 6
    noted = json.loads((folder / "environment.json").read_text())
    assert {"python", "numpy", "command", "commit", "device", "processes", tree.removesuffix("_ref")} <= set(noted)


@pytest.mark.parametrize("tree", ["paddle", "torch_ref"])
def test_a_full_disk_is_one_line_and_leaves_the_checkpoint(repo, tree):
    """A limit on the size of files stands for the disk."""
    folder = repo / "full" / ("" if tree == "paddle" else "torch")
    options = ["-o", *SHORT, "train.epochs=1", "train.output_dir=full"]
    assert python(repo / tree / "train.py", *options).returncode == 0
    before = (folder / "latest.safetensors").read_bytes()
    done = python(repo / tree / "train.py", *options, "train.epochs=2", "--resume", prefix="ulimit -f 30;")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert re.match(r"error: cannot write \S+(best|latest)\.safetensors: File too large", done.stderr)
    assert (folder / "latest.safetensors").read_bytes() == before
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("tree", ["paddle", "torch_ref"])
def test_programs_refuse_bad_input_with_one_line(repo, tmp_path, tree):
    """Wrong weights, missing data: exit status 2 and no output folder."""
    save_file({"a": np.zeros(1, np.float32)}, tmp_path / "wrong.safetensors")
    output = f"train.output_dir={tmp_path / 'output'}"
    for words, wanted in (
        (["--weights", tmp_path / "wrong.safetensors", "-o", *LITE, output], "does not fit the model"),
        (["-o", "data.root=nowhere", "data.archive=no.tar", output], "no data"),
    ):
        done = python(repo / tree / "train.py", *words)
        assert done.returncode == 2 and wanted in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1 and done.stdout == ""
    assert not (tmp_path / "output").exists()


def test_checkpoints_of_wrapped_networks_load(repo, tmp_path):
    """What torch.nn.DataParallel saved has `module.` in front of every name."""
    assert python(repo / "torch_ref" / "train.py", "-o", *SHORT, "train.epochs=1", "train.output_dir=wrapped").returncode == 0
    state = load_file(repo / "wrapped" / "torch" / "best.safetensors")
    assert not any(name.startswith("module.") for name in state)
    save_file({f"module.{name}": value for name, value in state.items()}, tmp_path / "wrapped.safetensors")
    shown = [
        python(repo / "torch_ref" / "eval.py", "--weights", path, "-o", *SHORT)
        for path in (repo / "wrapped" / "torch" / "best", tmp_path / "wrapped.safetensors")
    ]
    assert shown[0].stdout == shown[1].stdout != "" and shown[1].returncode == 0


@pytest.mark.parametrize("side", SIDES)
def test_two_processes_train_as_one(repo, tmp_path, side):
    """Half of every batch each, in two parts, over gloo; 16 samples leave a smaller last batch. No batch normalisation."""
    launcher = ["torch.distributed.run"] if side == "torch" else ["paddle.distributed.launch", "--log_dir", tmp_path / "log"]
    program, runs = REPO / "ci" / "tests" / "train_side.py", []
    for name, start, settings in (
        ("one", [], ["data.batch_size=6"]),
        ("two", ["-m", *launcher, "--nproc_per_node", "2"], ["data.batch_size=3", "train.accumulate=2"]),
    ):
        (tmp_path / name).mkdir()
        done = python(*start, program, side, repo, tmp_path / name, "processes", *settings)
        assert done.returncode == 0, done.stdout + done.stderr
        runs.append(json.loads((tmp_path / name / "facts.json").read_text())["processes"])
    one, two = runs
    assert np.abs(np.subtract(one["history"]["loss"], two["history"]["loss"])).max() < 2e-6
    assert all(np.abs(np.subtract(two["weights"][name], value)).max() < 2e-6 for name, value in one["weights"].items())
    assert one["history"]["accuracy"] == two["history"]["accuracy"] and len(lines("\n".join(two["log"]))) == 12


@pytest.mark.parametrize("side", SIDES)
def test_two_processes_resume_with_their_own_random_numbers(repo, tmp_path, side):
    """Dropout draws from a generator in each process; the checkpoint, which rank 0 writes, holds both."""
    launcher = ["torch.distributed.run"] if side == "torch" else ["paddle.distributed.launch", "--log_dir", tmp_path / "log"]
    program, runs = REPO / "ci" / "tests" / "train_side.py", []
    for name, resume in (("whole", []), ("resumed", [tmp_path / "whole" / "middle.safetensors"])):
        (tmp_path / name).mkdir()
        command = ["-m", *launcher, "--nproc_per_node", "2", program, side, repo, tmp_path / name, "resume_processes", *resume]
        done = python(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        runs.append(json.loads((tmp_path / name / "facts.json").read_text())["resume_processes"])
    whole, resumed = runs
    assert len(whole["loss"]) == 9 and whole == resumed


@pytest.mark.parametrize("side", SIDES)
def test_the_best_metric_may_be_the_lowest(sides, side):
    """Of 0.5, 0.7, 0.6, 0.8 three are the best so far where higher is better, and one is where lower is."""
    assert sides[side]["best"] == {"True": 3, "False": 1}


def test_a_terminal_gets_a_bar(repo):
    """`script` makes a terminal; the log file has the lines that the bar replaces."""
    import pty

    words = [sys.executable, str(repo / "paddle" / "train.py"), "-o", *SHORT, "train.epochs=1", "train.output_dir=bar"]
    child, terminal = pty.fork()
    if not child:
        os.execve(sys.executable, words, environment())
    shown, ends = b"", time.monotonic() + 120
    while time.monotonic() < ends:
        try:
            shown += os.read(terminal, 4096)
        except OSError:
            break
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    text = shown.decode()
    assert re.search(r"\[#+\] 3/3 epoch 1/1 loss [\d.]+", text) and "avg_ips" not in text and "eval_loss" in text
    assert len(lines((repo / "bar" / "train.log").read_text())) == 4
