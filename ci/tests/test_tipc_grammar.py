# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The TIPC grammar: configurations against the commands that the public driver makes of them, broken ones against an error."""
from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conftest import TEMPLATE
from tipc_repository import LITE, LONG, SECTIONS, SEQUENCES, SHORT, STUB, Repository, configuration


@pytest.fixture
def repository(tmp_path) -> Repository:
    return Repository(tmp_path)


FIRST, *_, LAST = SECTIONS


@pytest.mark.parametrize(("name", "ending"), [*((name, "\n") for name in SECTIONS), (FIRST, "\r\n"), (LAST, "\r\n")])
def test_same_commands_as_the_public_driver(repository, name, ending):
    mode, changes, base, expected = "", {}, LONG, []
    for line in SECTIONS[name]:
        first, _, rest = line.partition(" ")
        if first == "mode":
            mode = rest
        elif first == ">":
            expected.append(rest.split(" "))
        elif line == "short":
            base = SHORT
        else:
            changes[int(first)] = rest
    done = repository.run(repository.write(configuration(changes, base).replace("\n", ending)), mode)
    assert done.commands == expected
    assert done.status == 0, done.errors
    assert repository.log.read_text().count("\x1b[33m Run successfully with command - stub ") == len(expected)


def test_the_cases_are_of_every_kind():
    text = SEQUENCES.read_text(encoding="utf-8")
    assert len(SECTIONS) >= 12
    kinds = ("--gpus=0,1,2,3 ", "--ips=192.168.0.1,192.168.0.2 ", "autocast_amp", "pact_train_gpus", "_klquant", "whole_infer\n")
    assert all(word in text for word in kinds)


def one_command(repository: Repository, changes: dict[int, str], which: int = 0) -> list[str]:
    done = repository.run(repository.write(configuration(changes)), LITE)
    assert done.status == 0, done.errors
    return done.commands[which]


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("https://host:8080/a.pdparams?x=1&y=2", "https://host:8080/a.pdparams?x=1&y=2"),
        ("./my data/best model", "./my data/best model"),
        ("a;b", "a;b"),
        ("$(touch made)`touch made`", "$(touch made)`touch made`"),
        ("it's", "it's"),
        ('say "hello"', 'say "hello"'),
        ("数据/最好", "数据/最好"),
        ("'quoted by hand'", "quoted by hand"),
        ('"./quoted too"', "./quoted too"),
        ("C:\\data", "C:\\data"),
        ("[1,3,8,8]", "[1,3,8,8]"),
        ("{a,b}", "{a,b}"),
        ("~/x > y", "~/x > y"),
    ],
)  # fmt: skip
def test_a_value_stays_one_word(repository, value, word):
    assert f"--weights={word}" in one_command(repository, {10: f"--weights:{value}"})
    assert not (repository.root / "made").exists()


def test_a_value_may_go_on_with_further_options(repository):
    words = one_command(repository, {13: "-o train.list:'a b.list' -o val.list='c.list' --flag"})
    assert words[-5:] == ["-o", "train.list=a b.list", "-o", "val.list=c.list", "--flag"]


def test_a_value_without_a_mode_holds_for_all(repository):
    assert {"--epochs=7", "--batch=3"} < set(one_command(repository, {7: "--epochs:7", 9: "--batch:3"}))


@pytest.mark.parametrize(("gpus", "launched"), [("7", False), ("10", False), ("100", False), ("0,1", True), ("10,11", True)])
def test_one_or_several_gpus_by_their_number(repository, gpus, launched):
    done = repository.run(repository.write(configuration({4: f"gpu_list:{gpus}"})), LITE, gpus=128)
    assert ("paddle.distributed.launch" in done.commands[0]) == launched
    assert done.visible == (["unset"] if launched else [gpus]) + [gpus.split(",")[0]] * 2


def test_several_nodes_of_one_gpu_are_launched(repository):
    words = one_command(repository, {4: "gpu_list:10.0.0.1,10.0.0.2;0"})
    assert words[:4] == ["-m", "paddle.distributed.launch", "--ips=10.0.0.1,10.0.0.2", "--gpus=0"]


def test_one_device_value_holds_for_every_entry(repository):
    done = repository.run(repository.write(configuration({4: "gpu_list:0|0,1", 5: "-o device:gpu"})), LITE)
    assert sum("device=gpu" in words for words in done.commands) == 2


def test_short_trainer_name(repository):
    """PaddleSeg's configurations write trainer:norm for the line norm_train."""
    words = one_command(repository, {15: "trainer:norm"})
    assert "Global.save_model_dir=./test_tipc/output/norm_gpus_0_autocast_null" in words


def test_lines_behind_the_grammar(repository):
    more = configuration() + "===========train_benchmark_params===========\nbatch_size:8\n\nflags:a=b;c\n"
    assert len(repository.run(repository.write(more), LITE).commands) == 3
    done = repository.run(repository.write(configuration() + "--model_name:x\n"), LITE)
    assert done.status == 0 and "line 52" in done.errors


def test_warns_where_a_mode_has_no_value(repository):
    done = repository.run(repository.write(configuration()), "lite_train_whole_infer")
    assert done.status == 0
    assert "line 7: Global.epoch_num has no value for lite_train_whole_infer" in done.errors


def drop(number: int) -> str:
    return "\n".join(LONG[: number - 1] + LONG[number:]) + "\n"


def insert(number: int, text: str) -> str:
    return "\n".join([*LONG[: number - 1], text, *LONG[number - 1 :]]) + "\n"


BROKEN = {
    "cut short": ("\n".join(LONG[:36]), LITE, r"36 lines, but a train_infer_python configuration has 51"),
    "empty file": ("", LITE, r"line 1 is blank"),
    "blank line": (insert(9, ""), LITE, r"line 9 is blank"),
    "blank line of blanks, CRLF": (insert(40, "  ").replace("\n", "\r\n"), LITE, r"line 40 is blank"),
    "line missing above": (drop(8) + "null:null\n", LITE, r"line 11: expected 'train_model_name:', found 'train_infer_img_dir"),
    "line missing below": (drop(45), LITE, r"50 lines, but .* has 51"),
    "line too many": (insert(12, "null:null"), LITE, r"line 14: expected ##, found 'null:null'"),
    "line twice": (insert(43, LONG[41]), LITE, r"line 43: --enable_mkldnn is 'False', not a whole number"),
    "separator missing": (configuration({22: "null:null"}), LITE, r"line 22: expected ##"),
    "title missing": (configuration({23: "##"}), LITE, r"line 23: expected a title"),
    "misspelt key": (configuration({2: "model_nmae:x"}), LITE, r"line 2: expected 'model_name:', found 'model_nmae:x'"),
    "no colon": (configuration({40: "inference tools/predict.py"}), LITE, r"line 40: expected 'inference:'"),
    "Chinese colon": (configuration({3: "python：stub"}), LITE, r"line 3: .*the colon must be an ASCII one"),
    "not UTF-8": (configuration({2: "model_name:模型"}).encode("gbk"), LITE, r"is not UTF-8"),
    "unknown mode": (configuration(), "lite_train_lite_infr", r"unknown mode '.*infr'; did you mean 'lite_train_lite_infer'"),
    "mode of another chain": (configuration(), "benchmark_train", r"unknown mode 'benchmark_train'; .*the modes are"),
    "misspelt mode in a line": (configuration({7: "--epochs:lite_train_lite_infr=2"}), LITE, r"line 7: .*_infr'; did you mean"),
    "unknown trainer": (configuration({15: "trainer:norm_train|pact_trian"}), LITE, r"line 15: 'pact_trian'.* mean 'pact_train'"),
    "trainers off": (configuration({15: "trainer:pact_train"}), LITE, r"line 15: none of the listed trainers has a script"),
    "no GPU number": (configuration({4: "gpu_list:gpu0"}), LITE, r"line 4: 'gpu0' is none of -1"),
    "GPU twice": (configuration({4: "gpu_list:0,0"}), LITE, r"line 4: '0,0' is none of"),
    "nodes without GPUs": (configuration({4: "gpu_list:10.0.0.1,10.0.0.2"}), LITE, r"line 4: '10.0.0.1,10.0.0.2' is none of"),
    "too few devices": (configuration({4: "gpu_list:-1|0|0,1", 5: "d:cpu|gpu"}), LITE, r"line 5: d has 2 values for 3 entries"),
    "other hardware": (configuration({41: "--device:xpu"}), LITE, r"line 41: --device is 'xpu', not True, False, cpu or gpu"),
    "threads": (configuration({43: "--cpu_threads:1|many"}), LITE, r"line 43: --cpu_threads is 'many', not a whole number"),
    "precision": (configuration({46: "--precision:fp"}), LITE, r"line 46: --precision is 'fp', not a precision"),
    "interpreter not there": (configuration({3: "python:python0.1"}), LITE, r"line 3: the interpreter 'python0.1' is not there"),
    "interpreter off": (configuration({3: "python:null"}), LITE, r"line 3: python is empty"),
    "export list": (configuration({37: "infer_model:a|b|c", 38: "infer_export:x|y"}), "whole_infer", r"line 38: .* for 3"),
    "quantised or not": (configuration({39: "infer_quant:Fasle"}), "whole_infer", r"line 39: .* 'Fasle', not True or False"),
    "nothing to run": (configuration({40: "inference:null"}), "whole_infer", r"nothing to run"),
    "quantised, no int8": (configuration(), "klquant_whole_infer", r"nothing to run"),
    "short form, other mode": (configuration(base=SHORT), LITE, r"20 lines, but .* has 51"),
    "short form cut": ("\n".join(SHORT[:12]), "klquant_whole_infer", r"12 lines, but .* klquant_whole_infer has 17"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_configurations(repository, name):
    text, mode, error = BROKEN[name]
    done = repository.run(repository.write(text), mode)
    assert done.status == 2, done.output
    assert re.search(error, done.errors), done.errors
    assert done.errors.startswith("error: ") and done.errors.count("\n") == 1, done.errors
    assert not done.commands and not repository.log.exists()


def test_missing_arguments_and_file(repository):
    missing = repository.run("nowhere.txt", LITE)
    assert missing.status == 2
    assert missing.errors == "error: cannot read the configuration nowhere.txt: No such file or directory\n"
    for arguments in ((), (repository.write(configuration()),), ("config.txt", LITE, "0", "1"), ("config.txt", LITE, "--strcit")):
        done = repository.run(*arguments)
        assert done.status == 2 and "usage: bash test_tipc/test_train_inference_python.sh" in done.errors


def test_the_driver_has_an_interpreter_of_its_own(repository):
    """The interpreter under test may be anything, also what `python3` finds first."""
    for name in ("python3", "python"):
        repository.add_program(name, STUB)
    done = repository.run(repository.write(configuration({3: "python:python3"})), LITE)
    assert done.status == 0 and len(done.commands) == 3


def test_from_another_folder(repository):
    repository.write(configuration())
    environment = {"PATH": f"{repository.bin}:/usr/bin:/bin", "STUB_RECORD": str(repository.record)}
    command = ["bash", "../test_tipc/test_train_inference_python.sh", "../config.txt", LITE]
    (repository.root / "below").mkdir()
    subprocess.run(command, cwd=repository.root / "below", env=environment, check=True, capture_output=True)
    assert repository.log.exists()


def test_the_driver_runs_on_old_interpreters():
    checks = [sys.executable, "-m", "ruff", "check", "--no-cache", "--isolated", "--target-version", "py38", "--select", "E9,F"]
    assert not subprocess.run([*checks, "--quiet", TEMPLATE / "test_tipc"], capture_output=True, text=True, check=False).stdout
