# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The port after training: exported, under Paddle Inference and ONNX Runtime, and what happens where a file is damaged."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import baking
from conftest import REPO
from export_side import DAMAGES, SIZES


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Path:
    """A freshly generated repository with the lite data unpacked."""
    folder = tmp_path_factory.mktemp("export")
    done = baking.run(baking.copy_template(folder / "template"), folder, folder, "repo_name=sample")
    assert done.returncode == 0, done.stderr
    data = folder / "sample" / "test_tipc" / "data"
    subprocess.run(["tar", "-xf", data / "lite_data.tar", "-C", data], check=True)
    return folder / "sample"


@pytest.fixture(scope="module")
def out(repo, tmp_path_factory) -> Path:
    """What export_side.py leaves."""
    folder = tmp_path_factory.mktemp("exported")
    done = python(repo, REPO / "ci" / "tests" / "export_side.py", "paddle", repo, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def facts(out) -> dict:
    return json.loads((out / "facts.json").read_text())


def python(cwd: Path, *words: str | Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("engine", ["plain", "onednn", "onnx"])
def test_exported_models_compute_what_the_network_does(facts, engine):
    """At batch sizes that were not exported, too."""
    assert set(facts["difference"][engine]) == set(map(str, SIZES))
    for size, (shape, difference) in facts["difference"][engine].items():
        assert shape == [int(size), 10] and difference < 1e-5
    assert facts["files"] == ["inference.json", "inference.pdiparams", "model.onnx"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_export_is_refused(facts, damage):
    """Paddle and paddle2onnx load a cut or missing weight file without a word and compute with what is in memory."""
    words = {
        "cut params": "inference.pdiparams has", "empty params": "inference.pdiparams has 0 bytes",
        "longer params": "inference.pdiparams has", "no params": "inference.pdiparams is missing",
        "cut json": "inference.json is damaged", "other json": "inference.json is damaged",
        "no json": "no exported model", "old name": "inference.pdmodel is the format before Paddle 3",
    }  # fmt: skip
    found = facts["damage"][damage]
    assert words[damage] in found["paddle"] and words[damage] in found["onnx"] and not found["written"]
    assert all("export" in found[kind] and "\n" not in found[kind] for kind in ("paddle", "onnx"))


def test_a_network_that_cannot_be_exported_leaves_nothing(facts):
    words = {
        "two_unknowns": "cannot be exported", "fixed_batch": "fails on inputs [3, 1, 8, 8]",
        "other_numbers": "differs by 1.00e-02 for 1 samples", "fails": "cannot be exported",
    }  # fmt: skip
    for fault, (said, left) in facts["refused"].items():
        assert words.pop(fault) in said and "\n" not in said and left == []
    assert not words


def test_a_faulty_conversion_is_found_and_not_kept(facts):
    for case, (said, kept) in facts["converter"].items():
        kind, checker = case.rsplit(" ", 1)
        wanted = {
            "aborts": "paddle2onnx failed with exit status -6: Unsupported operator x",
            "no weights": "onnx.checker refuses" if checker == "True" else "holds 0 weights",
            "other numbers": "output 0 of the ONNX model differs",
        }[kind]
        assert wanted in said and not kept, case


IMAGES = "test_tipc/data/lite_data/images"


@pytest.fixture(scope="module")
def predicted(repo, out) -> list[str]:
    """The lines of predict.py."""
    done = python(repo, "paddle/predict.py", "--image", IMAGES, "--weights", out / "weights", "-o", "data.batch_size=5")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_all_programs_print_the_same(repo, out, predicted):
    assert len(predicted) == 32 and all(
        re.fullmatch(r"(train|val)_\d+\.png: class: \d probability: 0\.\d{4}", line) for line in predicted
    )
    exported = python(repo, "paddle/export_model.py", f"--weights={out / 'weights'}", f"--output_dir={out / 'again'}")
    assert exported.returncode == 0 and "batches of 1 and 3" in exported.stdout, exported.stderr
    for words in (
        ["--model_dir", out / "again"],
        ["--model_dir", out / "again", "--batch_size=8", "--enable_mkldnn=True", "--cpu_threads=2", "--benchmark=True"],
        ["--onnx_file", out / "onnx" / "model.onnx", "--batch_size", "3"],
    ):
        done = python(repo, "paddle/infer.py", "--image_dir", IMAGES, *words)
        lines = done.stdout.splitlines()
        assert done.returncode == 0 and lines[:32] == predicted, done.stderr
        assert [line.split(",")[0] for line in lines[32:]] == (
            ["benchmark: 32 images in batches of 8"] if "--benchmark=True" in words else []
        )


def test_the_picture_shows_the_image_and_the_answer(repo, predicted):
    original = Image.open(repo / IMAGES / "val_0001.png").convert("RGB")
    picture = Image.open(repo / "output" / "predictions" / "val_0001.png")
    assert picture.width >= 200 and picture.height > picture.width
    square = picture.crop((0, 0, picture.width, picture.width))
    assert square.resize(original.size, Image.Resampling.BOX).tobytes() == original.tobytes()
    under = picture.crop((0, picture.width, picture.width, picture.height)).convert("L")
    assert under.getextrema()[0] < 100 and under.getextrema()[1] == 255


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--model_dir", "nowhere", "--image_dir", IMAGES], "no exported model at nowhere/inference.json"),
        (["--model_dir", "nowhere", "--image_dir", "none"], "no image at none"),
        (["--image_dir", IMAGES], "either --model_dir, or --onnx_file"),
        (["--model_dir", "x", "--image_dir", IMAGES, "--use_gpu=True"], "unknown option --use_gpu"),
        (["--model_dir", "x", "--image_dir", IMAGES, "--enable_mkldnn=yes"], "neither True nor False"),
    ],
)
def test_infer_refuses_bad_input_with_one_line(repo, words, wanted):
    done = python(repo, "paddle/infer.py", *words)
    assert done.returncode == 2 and wanted in done.stderr and done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
