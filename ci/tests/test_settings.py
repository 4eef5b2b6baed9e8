# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Settings: both sides read one file, and a mistake in it or in an override is one clear line."""


import numpy as np
import pytest

from conftest import sample
from pipeline.align.errors import UserError
from pipeline.align.fake_data import ensure_batch, make_batch, read_batch
from pipeline.align.settings import Settings, load_settings, recorded_settings, settings_hash
from pipeline.align.thresholds import threshold


@pytest.fixture(scope="module")
def text() -> str:
    """port.yaml as it is generated."""
    return (sample() / "port.yaml").read_text(encoding="utf-8")


@pytest.fixture
def write(text, tmp_path):
    """A settings file with the given replacements."""

    def write(*changes: tuple[str, str]):
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        path = tmp_path / "port.yaml"
        path.write_text(changed, encoding="utf-8")
        return path

    return write


def test_values_by_attribute(write):
    cfg = load_settings(write())
    assert cfg.optimizer.momentum == 0.9 and cfg.train.seed == 42
    assert dict(cfg.fake_data.inputs[0])["shape"] == [1, 8, 8]


@pytest.mark.parametrize("number, value", [("1e-3", 1e-3), ("5E2", 500.0), (".5", 0.5), ("1.", 1.0), ("2", 2)])
def test_numbers_of_yaml_1_2_and_whole_numbers_for_floats(write, number, value):
    got = load_settings(write(), [f"optimizer.learning_rate={number}"]).optimizer.learning_rate
    assert got == value and not isinstance(got, str)


@pytest.mark.parametrize(
    "override, words",
    [
        ("optimizer.learning_rat=1", ["unknown setting 'optimizer.learning_rat'", "learning_rate"]),
        ("optimiser.learning_rate=1", ["unknown setting 'optimiser'", "optimizer"]),
        ("optimizer.learning_rate=fast", ["optimizer.learning_rate", "a number", "'fast'"]),
        ("train.epochs=1.5", ["train.epochs", "whole number"]),
        ("train.epochs=true", ["train.epochs", "whole number"]),
        ("train.epochs=null", ["train.epochs", "null"]),
        ("train.epochs=0", ["train.epochs", "at least 1"]),
        ("optimizer=1", ["optimizer", "section"]),
        ("optimizer.learning_rate.x=1", ["optimizer.learning_rate.x"]),
        ("optimizer.learning_rate", ["key.sub=value"]),
        ("model.name=[", ["model.name"]),
        ("track=audio", ["track", "image"]),
    ],
)
def test_wrong_overrides(write, override, words):
    with pytest.raises(UserError) as error:
        load_settings(write(), [override])
    assert all(word in str(error.value) for word in words) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change, words",
    [
        (("train:\n", "train:\n  epoch: 3\n"), ["unknown setting 'train.epoch'", "epochs"]),
        (("  seed: 42\n", ""), ["'train.seed' is missing"]),
        (("  seed: 42\n", "  seed: 42\n  seed: 43\n"), ["'seed' is given twice"]),
        (("  seed: 42", "  seed: forty"), ["train.seed", "whole number"]),
        (("    loss: 1.0e-6", "    loss: small"), ["align.thresholds.loss", "number"]),
        (("    loss: 1.0e-6", "    lsos: 1.0e-6"), ["unknown setting 'align.thresholds.lsos'", "loss"]),
        (("train:\n", "train: [1]\nx:\n"), ["train", "section"]),
        (("data:\n", "data: !!python/object/apply:os.getcwd []\nx:\n"), ["port.yaml"]),
        (("data:\n", "data:\n\t- x\n"), ["port.yaml", "line"]),
    ],
)
def test_wrong_files(write, change, words):
    with pytest.raises(UserError) as error:
        load_settings(write(change))
    assert all(word in str(error.value) for word in words) and "\n" not in str(error.value)


def test_a_setting_that_is_read_but_not_there_is_named(write):
    with pytest.raises(UserError, match=r"no setting 'model.widht' \(did you mean 'width'\?\)"):
        _ = load_settings(write()).model.widht


def test_thresholds_by_dtype(write):
    cfg = load_settings(write(("    loss: 1.0e-6", "    loss: {float16: 1.0e-3}")))
    limits = threshold("loss", cfg.align.thresholds.get("loss"))
    assert limits.limits("float16").mean == 1e-3 and limits.limits("float32").mean == 1e-6


def test_missing_file(tmp_path):
    with pytest.raises(UserError, match="cannot read the settings"):
        load_settings(tmp_path / "port.yaml")


def test_records_depend_on_what_is_computed_only(write):
    base = settings_hash(recorded_settings(load_settings(write())))
    same = ["align.thresholds.loss=1.0e-3", "train.print_freq=3", "train.output_dir=elsewhere", "paper.title=other"]
    assert settings_hash(recorded_settings(load_settings(write(), same))) == base
    for other in ("optimizer.learning_rate=0.2", "align.seed=1", "data.batch_size=7"):
        assert settings_hash(recorded_settings(load_settings(write(), [other]))) != base


def test_fake_batch(write, tmp_path):
    cfg = load_settings(write())
    batch = make_batch(cfg)
    assert batch["input_0"].shape == (6, 1, 8, 8) and batch["input_0"].dtype == np.float32
    assert abs(batch["input_0"].mean()) < 0.1 and abs(batch["input_0"].std() - 0.5) < 0.1  # limits are two deviations away
    assert batch["label"].tolist()[0] == 255 and batch["label"][1:].max() < 10
    path = tmp_path / "a" / "batch.npz"
    assert ensure_batch(cfg, path) and not ensure_batch(cfg, path)
    first = path.read_bytes()
    path.unlink()
    ensure_batch(cfg, path)
    assert path.read_bytes() == first
    assert [array.tolist() for array in read_batch(path)] == [array.tolist() for array in batch.values()]
    assert ensure_batch(load_settings(write(), ["fake_data.seed=8"]), path)


def test_fake_data_of_a_table_has_limits_for_each_column():
    """As the categories of columns differ in number."""
    columns = {"shape": [3], "dtype": "int64", "low": 0, "high": [2, 40, 3]}
    floats = {"shape": [2, 2], "dtype": "float32", "low": [-2, 98], "high": [2, 102]}
    section = {"seed": 0, "batch_size": 500, "inputs": [columns, floats], "label": {**columns, "shape": []}}
    section["label"]["high"] = 2
    batch = make_batch(Settings({"fake_data": section}))
    assert batch["input_0"].min(axis=0).tolist() == [0, 0, 0] and batch["input_0"].max(axis=0).tolist() == [1, 39, 2]
    assert batch["input_0"].dtype == np.int64 and batch["input_1"].dtype == np.float32
    assert np.abs(batch["input_1"].mean(axis=0) - [[0, 100], [0, 100]]).max() < 0.2
    assert np.abs(batch["input_1"].std(axis=0) - 1).max() < 0.2
    for high, word in (([2, 40], "2 numbers for the shape"), ([2, 0, 3], "low < high"), (["a", 2, 3], "list of numbers")):
        with pytest.raises(UserError, match=word):
            make_batch(Settings({"fake_data": {**section, "inputs": [{**columns, "high": high}]}}))


@pytest.mark.parametrize(
    "old, new, word",
    [
        ("dtype: float32", "dtype: real", "real"),
        ("low: -1.0", "low: 2.0", "low < high"),
        ("shape: [1, 8, 8]", "shape: [1, 0, 8]", "shape"),
        ("shape: [1, 8, 8], ", "", "shape"),
        ("dtype: float32", "dtype: complex64", "complex64"),
    ],
)
def test_wrong_fake_data(write, old, new, word):
    with pytest.raises(UserError, match="fake_data") as error:
        make_batch(load_settings(write((old, new))))
    assert word in str(error.value)


def test_a_damaged_batch_file(tmp_path):
    path = tmp_path / "batch.npz"
    path.write_bytes(b"PK\x03\x04 no zip")
    with pytest.raises(UserError, match="no batch file"):
        read_batch(path)
