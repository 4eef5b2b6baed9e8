# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The TIPC driver at work: failures, missing GPUs, logs, exit status, ONNX, preparation, results and the sixth node."""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_tipc.driver import gpus

from conftest import TEMPLATE, sample
from pipeline.align import tipc
from pipeline.align.paths import Paths
from tipc_repository import LITE, STUB, Repository, configuration

EVAL = {24: "eval:tools/eval.py"}
STATUS = re.compile(r"\x1b\[33m (Run successfully|Run failed|not run: [\w ]+) with command - stub (\S+ ?\S*).*!  \x1b\[0m")


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path)


def states(repository: Repository, which: str = "results_python.log") -> list[tuple[str, str]]:
    """(what happened, program) of every status line."""
    lines = (repository.output / which).read_text().splitlines()
    found = [STATUS.fullmatch(line) for line in lines]
    assert all(found), lines
    return [(match[1], match[2].split()[0]) for match in found]


def run(repository: Repository, changes: dict[int, str], *arguments: str, **options):
    return repository.run(repository.write(configuration(changes)), LITE, *arguments, **options)


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        ("tools/train.py", ["Run failed", "not run: train failed", "not run: train failed", "not run: train failed"]),
        ("tools/eval.py", ["Run successfully", "Run failed", "Run successfully", "Run successfully"]),
        ("tools/export.py", ["Run successfully", "Run successfully", "Run failed", "not run: export failed"]),
        ("tools/predict.py", ["Run successfully", "Run successfully", "Run successfully", "Run failed"]),
    ],
)
def test_a_failure_stops_what_needs_it_and_is_told(repository, fails, expected):
    done = run(repository, EVAL, fails=fails)
    assert done.status == 1
    assert [state for state, _ in states(repository)] == expected
    assert len(done.commands) == sum(state.startswith("Run") for state in expected)
    counts = [sum(state.startswith(words) for state in expected) for words in ("Run successfully", "Run failed", "not run")]
    assert "4 commands: {} succeeded, {} failed, {} not run".format(*counts) in done.output


def test_a_failure_leaves_the_other_entries_alone(repository):
    done = run(repository, {4: "gpu_list:0|1"}, fails="gpus_0_")
    assert done.status == 1
    assert [state for state, _ in states(repository)][:3] == ["Run failed", "not run: train failed", "not run: train failed"]
    assert [state for state, _ in states(repository)][3:] == ["Run successfully"] * 3


def test_the_status_log_starts_empty(repository):
    run(repository, {}, fails="tools/train.py")
    assert "Run failed" in repository.log.read_text()
    done = run(repository, {})
    assert done.status == 0
    assert states(repository) == [("Run successfully", f"tools/{name}.py") for name in ("train", "export", "predict")]


GPU_AND_CPU = {4: "gpu_list:-1|0|0,1", 5: "--device:cpu|gpu|gpu", 41: "--device:cpu|gpu"}


def test_without_a_gpu(repository):
    done = run(repository, GPU_AND_CPU, gpus=0)
    ran = [words for words in done.commands if words]
    assert [words[0] for words in ran] == ["tools/train.py", "tools/export.py", "tools/predict.py"]
    assert all("--device=cpu" in words or words[0] == "tools/export.py" for words in ran)
    assert done.status == 0
    assert [state for state, _ in states(repository)] == ["Run successfully"] * 3 + ["not run: no GPU"] * 9
    assert "12 commands: 3 succeeded, 0 failed, 9 not run" in done.output and "not run: no GPU" in done.output
    assert run(repository, GPU_AND_CPU, "--strict", gpus=0).status == 1
    assert run(repository, GPU_AND_CPU, "--strict", gpus=2).status == 0


def test_one_gpu_of_two(repository):
    done = run(repository, GPU_AND_CPU, gpus=1)
    assert done.status == 0 and len(done.commands) == 8
    assert [state for state, _ in states(repository)][-4:] == ["not run: no GPU 1"] * 4


def test_nothing_but_gpu_entries_without_a_gpu(repository):
    done = run(repository, {}, gpus=0)
    assert (done.status, done.commands) == (0, [])
    assert "warning: nothing was run: every command needs a GPU" in done.errors
    assert run(repository, {}, "--strict", gpus=0).status == 1


def test_hidden_gpus_are_none(repository, monkeypatch):
    repository.add_program("nvidia-smi", "#!/bin/bash\necho 'GPU 0: a'\necho 'GPU 1: b'\n")
    monkeypatch.setenv("PATH", f"{repository.bin}:{os.environ['PATH']}")
    for visible, count in (("", 0), ("-1", 0), ("0", 2)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus.count_gpus() == count
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert gpus.count_gpus() == 2


def test_every_command_has_its_log(repository):
    done = run(repository, {**GPU_AND_CPU, **EVAL, 44: "--batch_num:1|8"})
    logs = sorted((repository.output / "logs_results_python").iterdir())
    assert len(logs) == len(done.commands) == 21
    for log, words in zip(logs, done.commands, strict=True):
        assert log.read_text() == f"output of {' '.join(words)}\n"
        assert log.name in done.output
    named = re.findall(r" > (\./test_tipc/output/python_infer_\S+\.log) 2>&1 !", repository.log.read_text())
    assert len(named) == 12 and all((repository.root / name).is_file() for name in named)


def test_the_output_is_shown_as_it_comes(repository):
    done = run(repository, {})
    for words in done.commands:
        assert f"output of {' '.join(words)}" in done.output
    assert re.search(r"total time: \d+\.\d s", done.output)


def test_weights_of_an_earlier_run_are_not_taken_for_this_one(repository):
    old = repository.output / "norm_train_gpus_0_autocast_null" / "latest"
    old.parent.mkdir(parents=True)
    old.touch()
    run(repository, {})
    assert not old.exists()
    shared = repository.output / "norm_train_gpus_0,1_autocast_null_nodes_2" / "of_another_node"
    shared.parent.mkdir(parents=True)
    shared.touch()
    run(repository, {4: "gpu_list:10.0.0.1,10.0.0.2;0,1"})
    assert shared.exists()


def test_third_argument_chooses_the_gpu(repository):
    config = repository.write(configuration({41: "--use_gpu:True|False"}))
    assert repository.run(config, "whole_infer", "3").visible == ["3", "3"]
    assert repository.run(config, "whole_infer", "3", gpus=2).visible == ["3"]
    assert repository.run(config, "whole_infer").visible == ["unset", "unset"]


def test_stopping_the_driver_stops_the_command(repository):
    started = repository.root / "started"
    repository.add_program("stub", f"#!/bin/bash\necho $$ >{started}.new && mv {started}.new {started}\nsleep 60\n")
    config = repository.write(configuration({4: "gpu_list:-1"}))
    environment = {"PATH": f"{repository.bin}:/usr/bin:/bin"}
    process = subprocess.Popen(
        ["bash", "test_tipc/test_train_inference_python.sh", config.name, LITE], cwd=repository.root, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while not started.exists():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and errors == b"stopped\n"
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_full_disk_is_told(repository):
    repository.output.mkdir()
    (repository.output / "results_python.log").symlink_to("/dev/full")
    done = run(repository, {})
    assert done.status == 2 and done.errors.startswith("error: ") and "No space left on device" in done.errors


ONNX = """===========paddle2onnx_params===========
model_name:sample
python:stub
2onnx: stub paddle2onnx
--model_dir:./inference/my model
--model_filename:inference.pdmodel
--params_filename:inference.pdiparams
--save_file:./inference/onnx/model.onnx
--opset_version:17
--enable_onnx_checker:True
inference:deploy/onnx_infer.py
--onnx_file:./anything
--image_dir:./images
"""


def test_paddle2onnx(repository):
    config = repository.write(ONNX)
    done = repository.run(config, script="test_paddle2onnx.sh")
    assert done.status == 0, done.errors
    assert done.commands == [
        ["paddle2onnx", "--model_dir=./inference/my model", "--model_filename=inference.pdmodel",
         "--params_filename=inference.pdiparams", "--save_file=./inference/onnx/model.onnx", "--opset_version=17",
         "--enable_onnx_checker=True"],
        ["deploy/onnx_infer.py", "--image_dir=./images", "--onnx_file=./inference/onnx/model.onnx"],
    ]  # fmt: skip
    programs = ("paddle2onnx", "deploy/onnx_infer.py")
    assert states(repository, "results_paddle2onnx.log") == [("Run successfully", program) for program in programs]
    done = repository.run(config, "paddle2onnx_infer", script="test_paddle2onnx.sh", fails="--model_dir")
    assert done.status == 1 and len(done.commands) == 1
    assert states(repository, "results_paddle2onnx.log")[1] == ("not run: convert failed", "deploy/onnx_infer.py")


def test_paddle2onnx_finds_what_paddle_3_writes(repository):
    """Paddle2ONNX issues 1597 and 1627: Paddle 3 writes inference.json; without weights the ONNX file has none."""
    model = repository.root / "inference" / "my model" / "inference.json"
    model.parent.mkdir(parents=True)
    model.touch()
    config = repository.write(ONNX)
    done = repository.run(config, script="test_paddle2onnx.sh")
    assert done.status == 2 and "line 7: ./inference/my model has inference.json but no inference.pdiparams" in done.errors
    model.with_name("inference.pdiparams").touch()
    assert "--model_filename=inference.json" in repository.run(config, script="test_paddle2onnx.sh").commands[0]
    model.with_name("inference.pdmodel").touch()
    assert "--model_filename=inference.pdmodel" in repository.run(config, script="test_paddle2onnx.sh").commands[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (ONNX.replace("2onnx: stub paddle2onnx", "onnx:stub"), "line 4: expected '2onnx:'"),
        (ONNX.replace("--save_file:./inference/onnx/model.onnx", "--save_file:null"), "line 8: --save_file is empty"),
        ("\n".join(ONNX.splitlines()[:10]), "10 lines, but a paddle2onnx configuration has 13"),
        (configuration(), "line 4: expected '2onnx:'"),
    ],
)
def test_paddle2onnx_broken(repository, text, error):
    done = repository.run(repository.write(text), script="test_paddle2onnx.sh")
    assert done.status == 2 and error in done.errors and not done.commands


# ---- prepare.sh


def prepare(repository: Repository, mode: str, packages: str = "numpy==1\npaddlepaddle-gpu\npillow\nPyYAML\nsafetensors"):
    (repository.root / "paddle").mkdir(exist_ok=True)
    shutil.copy(sample() / "paddle" / "requirements.txt", repository.root / "paddle")
    names = " ".join(name.split("==")[0] for name in packages.splitlines())
    repository.add_program("stub", STUB.replace('echo "output of $*"', f'[[ $1 == -c ]] && printf "%s\\n" {names}'))
    config = repository.write(ONNX if mode == "paddle2onnx_infer" else configuration())
    return repository.run(config, mode, script="prepare.sh")


@pytest.mark.parametrize(
    ("mode", "train", "infer"),
    [(LITE, 16, 32), ("lite_train_whole_infer", 16, 1797), ("whole_train_whole_infer", None, 1797), ("whole_infer", None, 1797)],
)
def test_prepare_lays_out_the_data_and_can_be_repeated(repository, mode, train, infer):
    for _ in range(2):
        done = prepare(repository, mode)
        assert done.status == 0, done.errors
        assert not any("pip" in words for words in done.commands)
    data = repository.root / "test_tipc" / "data"
    if train:
        assert len((data / "train_data" / "train_list.txt").read_text().split("\n")) - 1 == train
    else:
        assert len((data / "train_data" / "train_list.txt").read_text().split("\n")) > 1000
    assert len(list((data / "infer_data").glob("*.png"))) == infer
    assert not [path for path in data.iterdir() if path.name.startswith(".") and path.is_dir()]


def test_prepare_changes_the_data_with_the_mode_and_a_forgotten_prepare_is_told(repository):
    prepare(repository, "whole_train_whole_infer")
    assert f"the data were prepared for whole_train_whole_infer; run prepare.sh with {LITE}" in run(repository, {}).errors
    prepare(repository, LITE)
    assert "prepared" not in run(repository, {}).errors
    assert os.readlink(repository.root / "test_tipc/data/train_data") == "lite_data"


def test_prepare_installs_only_what_is_missing(repository):
    done = prepare(repository, LITE, "numpy\npaddlepaddle\nPillow-SIMD\nnumpy-stl\npyyaml")
    wanted = (sample() / "paddle" / "requirements.txt").read_text()
    pins = [line for line in wanted.splitlines() if line.startswith(("pillow==", "safetensors=="))]
    assert done.commands[1] == ["-m", "pip", "install", *pins]
    assert "onnxruntime" in " ".join(prepare(repository, "paddle2onnx_infer").commands[1])


def test_prepare_refuses(repository):
    assert prepare(repository, "lite_train").status == 2
    data = repository.root / "test_tipc" / "data"
    assert not (data / "lite_data").exists()
    (data / "lite_data.tar").write_bytes((data / "lite_data.tar").read_bytes()[:20000])
    done = prepare(repository, LITE)
    assert done.status == 2 and "error: cannot unpack test_tipc/data/lite_data.tar" in done.errors
    assert not (data / "lite_data").exists() and not (data / "prepared_for").exists()
    (data / "lite_data.tar").unlink()
    assert "error: neither test_tipc/data/lite_data nor test_tipc/data/lite_data.tar is there" in prepare(repository, LITE).errors


def test_prepare_does_not_replace_data_of_the_user(repository):
    mine = repository.root / "test_tipc/data/train_data/mine"
    mine.parent.mkdir()
    mine.touch()
    done = prepare(repository, LITE)
    assert done.status == 2 and "test_tipc/data/train_data is in the way" in done.errors and mine.exists()


# ---- compare_results.py

RESULTS = 'a.png\t{"class": 3, "probability": 0.9}\nb.png\t{"class": 1, "probability": 0.5}\n'
LOG = "loading\nimages/a.png: class: 3 probability: 0.9004\n/x/b.png class: 1 probability: 0.5\nimages: 2 seconds: 0.1\n"


def compare(folder: Path, results: str | None, log: str | None, *options: str, name: str = "python_infer_cpu_precision_fp32.log"):
    if results is not None:
        (folder / "python_sample_results_fp32.txt").write_text(results)
    if log is not None:
        (folder / name).write_text(log)
    words = [f"--gt_file={folder}/*results*.txt", f"--log_file={folder}/*.log", *options]
    program = [sys.executable, str(TEMPLATE / "test_tipc" / "compare_results.py")]
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_results_agree(tmp_path):
    status, output = compare(tmp_path, RESULTS, LOG)
    assert status == 0 and "pass" in output and "2 samples" in output


@pytest.mark.parametrize(
    ("results", "log", "status", "message"),
    [
        (RESULTS, LOG.replace("class: 3", "class: 4"), 1, "a.png: class is 4, expected 3"),
        (RESULTS, LOG.replace("0.9004", "0.95"), 1, "a.png: probability is 0.95, expected 0.9"),
        (RESULTS, LOG.replace("0.9004", "nan"), 1, "a.png: probability is nan"),
        (RESULTS, LOG.replace("/x/b.png", "/x/c.png"), 1, "b.png is missing"),
        (RESULTS, LOG + "c.png: class: 1 probability: 0.5\n", 1, "c.png is not expected"),
        (RESULTS, LOG.replace("class: 1 ", ""), 1, "b.png: class is only in the results"),
        (RESULTS, "Traceback\n", 1, "a.png is missing"),
        (RESULTS, None, 2, "no file matches"),
        (None, LOG, 2, "no file matches"),
        ("", LOG, 2, "holds no results"),
        ("a.png 3\n", LOG, 2, "results_fp32.txt:1: expected image, tab and JSON"),
    ],
)
def test_results_differ_or_nothing_is_compared(tmp_path, results, log, status, message):
    found, output = compare(tmp_path, results, log)
    assert found == status and message in output


def test_results_of_another_precision(tmp_path):
    status, output = compare(tmp_path, RESULTS, LOG, name="python_infer_gpu_precision_fp16.log")
    assert status == 2 and "no results for fp16" in output
    (tmp_path / "python_infer_gpu_precision_fp16.log").unlink()
    status, output = compare(tmp_path, RESULTS, LOG, name="python_infer_gpu.log")
    assert status == 2 and "says neither fp32 nor fp16 nor int8" in output


def test_results_are_made_from_a_log(tmp_path):
    log, results = tmp_path / "x_fp32.log", tmp_path / "x_fp32.txt"
    log.write_text(LOG)
    program = [sys.executable, TEMPLATE / "test_tipc" / "compare_results.py", f"--log_file={log}", f"--gt_file={results}"]
    subprocess.run([*program, "--write"], check=True, capture_output=True)
    assert results.read_text() == RESULTS.replace("0.9", "0.9004")
    subprocess.run(program, check=True, capture_output=True)


# ---- the sixth node


@pytest.fixture
def ported(repository) -> Repository:
    """A repository with a port and the configuration in its place."""
    (repository.root / "paddle").mkdir()
    (repository.root / "paddle" / "train.py").write_text("# one\n")
    (repository.root / "port.yaml").write_text("model: {}\n")
    repository.write(configuration({4: "gpu_list:-1|0", **EVAL}), "train_infer_python.txt")
    return repository


def node(repository: Repository) -> tuple[str, str]:
    return tipc.read(Paths(repository.root))


def test_node_green(ported):
    assert node(ported) == ("missing", "the TIPC chain has not run; run: make tipc")
    ported.run("train_infer_python.txt", LITE)
    assert node(ported) == ("green", "8 commands succeeded")
    ported.run("train_infer_python.txt", LITE, gpus=0)
    assert node(ported) == ("green", "4 commands succeeded, 4 lack a GPU")


@pytest.mark.parametrize("fails", ["tools/train.py", "tools/eval.py", "tools/export.py", "tools/predict.py"])
def test_node_red(ported, fails):
    ported.run("train_infer_python.txt", LITE, fails=fails)
    state, reason = node(ported)
    assert state == "red" and "norm_train_gpus_-1_autocast_null failed" in reason


def test_node_red_where_a_line_is_missing_from_the_log(ported):
    ported.run("train_infer_python.txt", LITE)
    lines = ported.log.read_text().splitlines(keepends=True)
    ported.log.write_text("".join(lines[:5]))
    assert node(ported) == ("red", "eval of norm_train_gpus_0_autocast_null did not run: the run ended before it")
    ported.log.write_text("")
    assert node(ported)[0] == "red"


def test_node_missing_where_no_stage_ran(ported):
    ported.write(configuration({}), "train_infer_python.txt")
    ported.run("train_infer_python.txt", LITE, gpus=0)
    assert node(ported) == ("missing", "the TIPC run has no train and no export and no inference; 3 of 3 commands lack a GPU")


@pytest.mark.parametrize("name", ["paddle/train.py", "port.yaml", "train_infer_python.txt"])
def test_node_stale(ported, name):
    ported.run("train_infer_python.txt", LITE)
    file = ported.root / name
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert node(ported)[0] == "green", "line endings are no change"
    file.write_text(file.read_text() + "# changed\n")
    assert node(ported)[0] == "stale"
    file.unlink()
    assert node(ported)[0] == "stale"


def test_node_missing_after_another_run(ported):
    ported.run("train_infer_python.txt", "whole_infer")
    assert node(ported) == ("missing", "the last TIPC run was train_infer_python.txt in whole_infer; run: make tipc")
    ported.run(ported.write(configuration(), "train_amp_infer_python.txt").name, LITE)
    assert node(ported)[0] == "missing" and "train_amp_infer_python.txt" in node(ported)[1]


def test_node_survives_a_broken_record(ported):
    ported.run("train_infer_python.txt", LITE)
    record = ported.output / "results_python.json"
    assert json.loads(record.read_text())["config"] == "train_infer_python.txt"
    for text in ("{", "[]", '{"config": 1}'):
        record.write_text(text)
        assert node(ported)[0] == "missing"
    ported.log.unlink()
    assert node(ported)[0] == "missing"


# ---- what the template ships


@pytest.mark.parametrize(("kind", "length"), [("train", 51), ("train_amp", 51), ("paddle2onnx", 13)])
def test_shipped_configurations(repository, kind, length):
    folder = next((repository.root / "test_tipc" / "configs").iterdir())
    path = folder / f"{kind}_infer_python.txt"
    text = path.read_text().replace("{{ cookiecutter.model_name }}", "sample").replace("python3", "stub")
    assert len(text.splitlines()) == length and "{" not in text
    path.write_text(text)
    if length == 51:
        done = repository.run(path, LITE, gpus=0)
        assert (done.status, done.errors) == (0, "")
        programs = ["train", "eval", "export_model", *["infer"] * 4]
        assert [words[0] for words in done.commands] == [f"paddle/{name}.py" for name in programs]
        assert len(repository.run(path, LITE, "--strict", gpus=2).commands) == 3 * (3 + 6)
    else:
        done = repository.run(path, script="test_paddle2onnx.sh")
        assert done.status == 0 and [words[0] for words in done.commands] == ["paddle/export_onnx.py", "paddle/infer.py"]


def test_scripts_are_for_linux():
    for path in (TEMPLATE / "test_tipc").glob("*.sh"):
        assert b"\r" not in path.read_bytes() and path.read_bytes().startswith(b"#!/bin/bash\n")
