# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The verdict on pairs of records: which pairs may be compared at all, what the log says, curves and benchmarks."""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import TEMPLATE
from pipeline.align.errors import UserError
from pipeline.align.records import read_record, write_record
from pipeline.align.results import KeyResult, NodeResult, PartResult
from pipeline.align.thresholds import threshold
from pipeline.align.verdict import (
    Rules,
    compare_files,
    compare_records,
    judge_benchmark,
    judge_lr,
    judge_part,
    write_diff_log,
)

LOGITS = np.random.default_rng(11).standard_normal((6, 10)).astype(np.float32)
STAMP = re.compile(r"^\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\] ", re.MULTILINE)


def origin(side: str, **changes) -> dict:
    made = {
        "framework": side, "part": "forward", "seed": 7, "settings": "ab", "settings_values": {"optimizer.learning_rate": 0.1},
        "inputs": {"fake_batch": "cd", "weights": "ef"}, "eval_mode": {"training_modules": []},
    }  # fmt: skip
    return {key: value for key, value in {**made, **changes}.items() if value is not None}


class Pair:
    """Two record files that agree, until they are changed."""

    def __init__(self, folder):
        self.path = {side: folder / f"forward_{side}.npy" for side in ("torch", "paddle")}
        for side in self.path:
            self.write(side)

    def write(self, side, arrays=None, **changes):
        write_record(self.path[side], {"logits": LOGITS} if arrays is None else arrays, origin(side, **changes))

    def judge(self, rules=None, **options) -> PartResult:
        result = judge_part("forward", self.path["torch"], self.path["paddle"], threshold("forward"), rules, step=1, **options)
        assert result.passed == (result.state == "green") and "\n" not in result.reason
        return result


@pytest.fixture
def pair(tmp_path):
    return Pair(tmp_path)


def red(result: PartResult, *words: str) -> bool:
    return result.state == "red" and all(word in result.reason for word in words)


def test_equal_records_are_green(pair):
    result = pair.judge(Rules(eval_mode=True))
    assert result.state == "green" and result.reason == "" and [key.key for key in result.keys] == ["logits"]


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_a_missing_file_says_what_to_run(pair, side):
    pair.path[side].unlink()
    result = pair.judge()
    assert result.state == "missing" and f"run `python -m pipeline run 1 --side {side}`" in result.reason


@pytest.mark.parametrize("side", ["torch", "paddle"])
@pytest.mark.parametrize("content", [b"", b"junk", b"\x93NUMPY\x01\x00"])
def test_unreadable_files_are_red(pair, side, content):
    pair.path[side].write_bytes(content)
    assert red(pair.judge(), f"forward_{side}.npy")


def test_one_framework_twice_is_red(pair):
    pair.path["paddle"].write_bytes(pair.path["torch"].read_bytes())
    assert red(pair.judge(), "forward_paddle.npy was made by torch")
    pair.write("paddle")
    pair.path["torch"].write_bytes(pair.path["paddle"].read_bytes())
    assert red(pair.judge(), "forward_torch.npy was made by paddle, not torch")


def test_stock_records_have_no_origin(pair):
    np.save(pair.path["torch"], {"logits": LOGITS})
    assert red(pair.judge(), "forward_torch.npy", "does not say what made it")


def test_an_edited_record_is_red(pair):
    content = pair.path["paddle"].read_bytes()
    pair.path["paddle"].write_bytes(content.replace(LOGITS[:1].tobytes(), LOGITS[1:2].tobytes(), 1))
    assert red(pair.judge(), "changed after it was recorded")


def test_a_record_of_another_part_is_red(pair):
    pair.write("paddle", part="loss")
    assert red(pair.judge(), "is a record of 'loss', not 'forward'")


@pytest.mark.parametrize("changes, words", [
    ({"seed": 8}, ["seed", "7 and 8"]),
    ({"settings": "x", "settings_values": {"optimizer.learning_rate": 0.2}}, ["settings", "optimizer.learning_rate 0.1 and 0.2"]),
    ({"inputs": {"fake_batch": "00", "weights": "ef"}}, ["inputs", "fake_batch"]),
    ({"inputs": {"fake_batch": "cd"}}, ["inputs", "weights"]),
])  # fmt: skip
def test_another_start_is_red(pair, changes, words):
    pair.write("paddle", **changes)
    assert red(pair.judge(), *words, "run `python -m pipeline run 1`")


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_train_mode_is_red(pair, side):
    pair.write(side, eval_mode={"training_modules": ["layer1.bn", "dropout"]})
    assert red(pair.judge(), f"forward_{side}.npy", "train mode", "layer1.bn, dropout")
    pair.write(side, eval_mode={"training_modules": [], "random_outputs": ["logits"]})
    assert red(pair.judge(), "random", "logits")


def test_eval_mode_must_be_stated_where_it_matters(pair):
    pair.write("paddle", eval_mode=None)
    assert pair.judge().passed and red(pair.judge(Rules(eval_mode=True)), "does not say", "eval mode")


def test_stale_records_are_stale(pair):
    pair.write("paddle", device="old")
    result = pair.judge(stale=lambda made: "paddle/port.py changed since it was made" if made.get("device") == "old" else None)
    assert result.state == "stale" and "forward_paddle.npy is stale, paddle/port.py changed" in result.reason


@pytest.mark.parametrize("torch, paddle", [({}, {}), ({}, None), (None, {})])
def test_empty_records_are_red(pair, torch, paddle):
    pair.write("torch", torch)
    pair.write("paddle", paddle)
    assert red(pair.judge(), "is empty, which proves nothing")


def test_keys_must_be_the_same_in_both_directions(pair):
    pair.write("paddle", {"logits": LOGITS, "extra": LOGITS})
    assert red(pair.judge(), "extra: missing in the reference's record")
    pair.write("torch", {"logits": LOGITS, "more": LOGITS})
    result = pair.judge()
    assert red(result, "more: missing in the port's record", "1 more of 3")
    assert [key.passed for key in result.keys] == [True, False, False]
    pair.write("torch", {"a": LOGITS})
    pair.write("paddle", {"b": LOGITS})
    assert red(pair.judge())


def test_one_wrong_array_among_many_is_named(pair):
    arrays = {f"layer{i}": LOGITS + i for i in range(20)}
    pair.write("torch", arrays)
    pair.write("paddle", {**arrays, "layer13": arrays["layer13"] * np.float32(1.01)})
    result = pair.judge()
    assert red(result, "layer13: ") and sum(not key.passed for key in result.keys) == 1
    assert result.worst.key == "layer13" and result.worst.worst > 1


def test_many_large_arrays_are_compared_in_threads_in_order(pair):
    arrays = {f"w{i}": np.full((1 << 20,), i + 1, np.float32) for i in range(6)}
    pair.write("torch", arrays)
    pair.write("paddle", arrays)
    assert [key.key for key in pair.judge().keys] == list(arrays)
    arrays["w4"] = arrays["w4"].copy()
    arrays["w4"][-1] = np.nan
    pair.write("paddle", arrays)
    assert red(pair.judge(), "w4", "port 1 NaN", "[1048575]")


def test_the_reference_is_converted_before_it_is_compared(pair):
    pair.write("torch", {"fc.weight": LOGITS})
    pair.write("paddle", {"head.weight": np.ascontiguousarray(LOGITS.T)})
    assert not pair.judge().passed
    assert pair.judge(Rules(convert=lambda arrays: {"head.weight": arrays["fc.weight"].T})).passed


def test_zeros_pass_only_where_they_may(pair):
    zeros = {"weight": LOGITS, "bias.a": np.zeros(3, np.float32), "bias.b": np.zeros(3, np.float32)}
    for side in ("torch", "paddle"):
        pair.write(side, zeros)
    assert red(pair.judge(), "bias.a: all zero") and pair.judge(Rules(zeros=True)).passed
    assert pair.judge(Rules(zeros=("bias.*",))).passed and not pair.judge(Rules(zeros=("*.a",))).passed


def test_groups_know_gradients_that_are_rounding(pair):
    for side, seed in (("torch", 1), ("paddle", 2)):
        noise = np.random.default_rng(seed).standard_normal(8).astype(np.float32)
        pair.write(side, {"conv.weight": LOGITS, "conv.bias": 1e-7 * noise})
    assert red(pair.judge(), "conv.bias") and pair.judge(Rules(grouped=True)).passed


def test_bfloat16_is_judged_as_what_it_was(pair):
    moved = LOGITS * np.float32(1 + 2**-9)
    pair.write("paddle", {"logits": moved})
    assert not pair.judge().passed
    for side, array in (("torch", LOGITS), ("paddle", moved)):
        pair.write(side, {"logits": array}, dtypes={"logits": "bfloat16"})
    assert pair.judge().passed and pair.judge().keys[0].dtype == "bfloat16"
    pair.write("torch")
    assert red(pair.judge(), "dtype: reference float32, port bfloat16")


# Files of any origin.


def test_any_two_files_can_be_compared(tmp_path, pair):
    np.save(tmp_path / "a.npy", {"x": LOGITS})
    np.save(tmp_path / "b.npy", {"x": LOGITS + np.float32(3e-6)})
    result = compare_files(tmp_path / "a.npy", tmp_path / "b.npy", 1e-6)
    assert red(result, "x: ") and result.name == "a.npy and b.npy"
    assert compare_files(tmp_path / "a.npy", tmp_path / "b.npy", 1e-5).passed
    assert compare_files(pair.path["torch"], pair.path["paddle"]).passed
    assert red(compare_files(tmp_path / "a.npy", tmp_path / "a.npy"), "compared with itself")
    pair.path["paddle"].write_bytes(pair.path["torch"].read_bytes())
    assert red(compare_files(pair.path["torch"], pair.path["paddle"]), "both were made by torch")
    with pytest.raises(UserError):
        compare_files(tmp_path / "a.npy", tmp_path / "none.npy")


# The log.


STOCK = """
import sys
from pathlib import Path
from reprod_log import ReprodDiffHelper
helper = ReprodDiffHelper()
for name in sys.argv[1:]:
    helper.compare_info(helper.load_info(f"{name}_a.npy"), helper.load_info(f"{name}_b.npy"))
    helper.report(path=f"{name}_stock.log")
    import logging; logging.getLogger("root").handlers.clear()
"""


def test_the_log_is_stocks_line_for_line(tmp_path):
    rng = np.random.default_rng(12)
    big = rng.standard_normal((300, 400)).astype(np.float32)
    cases = {
        "passing": ({"logits": LOGITS, "big": big}, {"logits": np.nextafter(LOGITS, np.float32(9)), "big": big}),
        "failing": ({"a": LOGITS, "b": big, "c": LOGITS.astype(np.float64)},
                    {"a": LOGITS + np.float32(0.25), "b": big, "c": LOGITS.astype(np.float64) + 1 / 3}),
        "scalars": ({f"loss_{i}": np.array(2.3 - i, np.float32) for i in range(3)},
                    {f"loss_{i}": np.array(2.3 - i + 2e-7 * i, np.float32) for i in range(3)}),
        "metric": ({"accuracy": np.array([0.96875])}, {"accuracy": np.array([0.96875])}),
    }  # fmt: skip
    for name, pair in cases.items():
        for side, arrays in zip("ab", pair):
            np.save(tmp_path / f"{name}_{side}.npy", arrays)
    subprocess.run([sys.executable, "-c", STOCK, *cases], cwd=tmp_path, check=True, capture_output=True)
    for name in cases:
        result = compare_files(tmp_path / f"{name}_a.npy", tmp_path / f"{name}_b.npy", threshold("loss"))
        log = tmp_path / f"{name}.log"
        for _ in range(2):  # written again it is replaced, not appended to
            write_diff_log(log, [result])
        ours, stock = log.read_text(), (tmp_path / f"{name}_stock.log").read_text()
        assert len(STAMP.findall(ours)) == len(ours.splitlines()) and STAMP.sub("", ours) == STAMP.sub("", stock)
        assert ours.endswith("root INFO: diff check failed\n" if name == "failing" else "root INFO: diff check passed\n")


def test_a_red_verdict_never_reads_passed(tmp_path, pair):
    zeros = np.zeros(10**6, np.float32)
    outlier = zeros.copy()
    outlier[5] = 0.9
    nan = LOGITS.copy()
    nan[0, 0] = np.nan
    for torch, paddle in (
        ({"x": zeros}, {"x": outlier}), ({"x": nan}, {"x": nan}), ({}, {}), ({"x": LOGITS}, {"x": LOGITS, "y": LOGITS}),
        ({"x": np.ones((2, 3))}, {"x": np.ones((3, 2))}), ({"x": zeros}, {"x": zeros}),
    ):  # fmt: skip
        pair.write("torch", torch)
        pair.write("paddle", paddle)
        write_diff_log(tmp_path / "x.log", [pair.judge()])
        text = (tmp_path / "x.log").read_text()
        assert text.endswith("diff check failed\n") and "diff check passed" not in text
    pair.write("paddle", eval_mode={"training_modules": ["bn"]})
    write_diff_log(tmp_path / "x.log", [pair.judge()])
    assert "passed" not in (tmp_path / "x.log").read_text()
    write_diff_log(tmp_path / "x.log", [])
    assert "passed" not in (tmp_path / "x.log").read_text()


# LR curves and benchmarks.


def curve(folder, rates_torch, rates_paddle, schedules=(True, True)):
    pair = []
    for side, rates, has in zip(("torch", "paddle"), (rates_torch, rates_paddle), schedules):
        write_record(folder / f"lr_{side}.npy", {"lr": np.array(rates, np.float64)}, origin(side, part="lr", has_schedule=has))
        pair.append(read_record(folder / f"lr_{side}.npy"))
    direct = compare_records("lr", *pair, threshold("lr"), Rules(schedule=True))
    assert judge_lr(compare_records("lr", *pair, threshold("lr")), *pair) == direct
    return direct


def test_lr_curves(tmp_path):
    cosine = 0.1 * (1 + np.cos(np.pi * np.arange(50) / 50)) / 2
    assert curve(tmp_path, cosine, cosine * (1 + 1e-8)).passed
    assert red(curve(tmp_path, cosine, np.roll(cosine, 1)), "lr: ")
    assert red(curve(tmp_path, cosine, np.where(np.arange(50) < 49, cosine, 1e-4)), "[49]")
    assert red(curve(tmp_path, [0.1] * 50, [0.1] * 50), "has a schedule, but its LR never changes")
    assert curve(tmp_path, [0.1] * 50, [0.1] * 50, (False, False)).passed
    assert curve(tmp_path, [0.1], [0.1]).passed
    assert red(curve(tmp_path, [0.1] * 50, [0.1] * 50, (True, False)), "only the reference has a schedule")


@pytest.mark.parametrize("rule, got, passed", [
    (">=", 0.97, True), (">=", 0.9699, False), (">", 0.97, False), (">", 0.98, True), ("<=", 0.97, True), ("<=", 0.971, False),
    ("<", 0.96, True), ("<", 0.97, False), ("~", 0.9714, True), ("~", 0.9686, True), ("~", 0.9716, False), ("~", 0.968, False),
    (">=", float("nan"), False), ("~", float("nan"), False), (">=", float("inf"), False),
])  # fmt: skip
def test_benchmarks(rule, got, passed):
    result = judge_benchmark("accuracy", 0.97, rule, got, 0.0015)
    assert result.passed is passed and bool(result.reason) is not passed
    if not passed:
        assert "accuracy" in result.reason and "0.97" in result.reason


def test_an_unknown_benchmark_rule_is_refused():
    with pytest.raises(UserError, match="benchmark.accuracy.rule"):
        judge_benchmark("accuracy", 0.97, "=>", 0.98, 0.0015)


def test_results_go_to_json_and_back(pair):
    pair.write("paddle", {"logits": LOGITS * 2, "x": LOGITS})
    part = pair.judge()
    node = NodeResult("forward", 1, "red", part.reason, 0.5, 1e-6, {"torch": 1.0}, [part])
    said = json.loads(json.dumps(node.to_json()))
    assert NodeResult.from_json(said) == node and said["parts"][0]["passed"] is False
    assert all(isinstance(key, KeyResult) for key in NodeResult.from_json(said).parts[0].keys)


def test_the_benchmark_runs():
    program = Path(__file__).resolve().parents[1] / "bench" / "compare.py"
    command = [sys.executable, program, "--mb", "4", "--tensors", "3", "--repeat", "1"]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[3:]
    assert [row.split()[-2] for row in rows[:1]] == ["1.00"] and len(rows) == 9


def test_the_demonstration_shows_what_stock_passes():
    program = TEMPLATE / "pipeline" / "reprod_log_demo" / "what_stock_passes.py"
    lines = subprocess.run([sys.executable, program], check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(lines) == 6 and all("reprod_log says passed; here red: " in line for line in lines)
