# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The text track as its users walk it: aligned, trained, exported, certified, started from checkpoints and from SST-2's files."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

import baking
from pipeline.align import records

LITE = ("data.root=test_tipc/data/lite_data", "data.archive=test_tipc/data/lite_data.tar", "data.batch_size=8")
#: Makes a checkpoint of BERT before fine-tuning, as transformers saves it, as old files are, or of the bare encoder.
CHECKPOINT = """
import json, shutil, sys, torch, transformers
from pathlib import Path
folder, kind, vocabulary = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.manual_seed(3)
config = transformers.BertConfig(vocab_size=4000, hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
                                 intermediate_size=64, max_position_embeddings=64)
model = transformers.BertModel(config) if kind == "bare" else transformers.BertForPreTraining(config)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.05)
model.save_pretrained(folder)
shutil.copy(vocabulary, folder)
(folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
if kind == "old":
    names = {"weight": "gamma", "bias": "beta"}
    old = {}
    for name, tensor in model.state_dict().items():
        path, _, last = name.rpartition(".")
        old[f"{path}.{names[last]}" if "LayerNorm" in path else name] = tensor
    old["bert.embeddings.position_ids"] = torch.arange(64)[None]
    torch.save(old, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
"""
#: What transformers itself computes with a checkpoint of the encoder: the pooler's output for the fake batch.
POOLED = """
import sys, numpy as np, torch, transformers
model = transformers.BertModel.from_pretrained(sys.argv[1]).eval()
batch = np.load(sys.argv[2])
ids, parts, mask = (torch.from_numpy(batch[f"input_{n}"]) for n in range(3))
with torch.no_grad():
    out = model(input_ids=ids, token_type_ids=parts, attention_mask=mask).pooler_output
np.save(sys.argv[3], out.numpy())
"""
#: The port's pooler with converted weights, for the same batch.
PORT_POOLED = """
import sys
sys.path[:0] = ["paddle", "."]
import numpy as np, paddle, port
from pathlib import Path
from checkpoint import load_weights
from pipeline.align.settings import load_settings
model = port.build_model(load_settings(Path("port.yaml")))
load_weights(model, sys.argv[1])
model.eval()
batch = np.load(sys.argv[2])
np.save(sys.argv[3], model.bert(*(paddle.to_tensor(batch[f"input_{n}"]) for n in range(3))).numpy())
"""


def python(repo: Path, *words: str | Path, status: int = 0) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(command, cwd=repo, env=environment, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def generate(folder: Path) -> Path:
    done = baking.run(baking.copy_template(folder / "template"), folder, folder, "repo_name=port", "track=text")
    assert done.returncode == 0, done.stderr
    return folder / "port"


@pytest.fixture(scope="module")
def aligned(tmp_path_factory) -> Path:
    repo = generate(tmp_path_factory.mktemp("text"))
    (repo / "align.out").write_text(python(repo, "-m", "pipeline", "align").stdout, encoding="utf-8")
    return repo


@pytest.fixture
def fresh(tmp_path) -> Path:
    return generate(tmp_path)


def change(repo: Path, section: str, **values) -> None:
    settings = yaml.safe_load((repo / "port.yaml").read_text(encoding="utf-8"))
    settings[section].update(values)
    (repo / "port.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")


def test_five_steps_are_green_and_both_sides_end_alike(aligned):
    text = (aligned / "align.out").read_text(encoding="utf-8")
    assert re.findall(r"^(\w+) +green", text, re.M) == ["forward", "metric", "loss", "backward", "training"], text
    scores = {side: records.read_record(aligned / f"log_reprod/train_align_{side}.npy").arrays for side in ("torch", "paddle")}
    torch, paddle = (float(np.asarray(scores[side]["accuracy"]).ravel()[-1]) for side in ("torch", "paddle"))
    lines = (aligned / "test_tipc/data/reviews/dev.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    share = sum(line.endswith("\t1") for line in lines) / len(lines)
    assert abs(torch - paddle) <= 0.0015 and min(torch, paddle) > max(share, 1 - share) + 0.2
    seconds = float(re.search(r"5 steps on both sides in ([\d.]+) s", text)[1])
    assert seconds < 180
    assert "report.html" in text and (aligned / "pipeline/work/report.html").stat().st_size > 100_000


def test_the_items_are_what_transformers_tokenizer_gives(aligned):
    from transformers import BertTokenizerFast

    vocabulary = str(aligned / "test_tipc/data/vocab.txt")
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=True)
    rows = [line.split("\t")[0] for line in (aligned / "test_tipc/data/reviews/dev.tsv").read_text("utf-8").split("\n")[1:-1]]
    for side in ("torch", "paddle"):
        found = records.read_record(aligned / f"pipeline/work/{side}/data_val.npy").arrays
        sentences = [rows[int(index)].strip() for index in found["index"]]
        wanted = tokenizer(sentences, padding="max_length", truncation=True, max_length=48, return_tensors="np")
        for name, key in (("input_0", "input_ids"), ("input_1", "token_type_ids"), ("input_2", "attention_mask")):
            assert np.array_equal(found[name], wanted[key]), (side, key)


def test_tipc_in_three_chains_and_six_green_nodes(aligned):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore"}

    def bash(script: str, *words: str) -> str:
        command = ["bash", f"test_tipc/{script}", *words]
        done = subprocess.run(command, cwd=aligned, env=environment, capture_output=True, text=True, timeout=540, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    folder = next((aligned / "test_tipc/configs").iterdir())
    for name in ("train_amp_infer_python.txt", "train_infer_python.txt"):
        config = str((folder / name).relative_to(aligned))
        bash("prepare.sh", config, "lite_train_lite_infer")
        assert "7 succeeded, 0 failed, 20 not run" in bash("test_train_inference_python.sh", config, "lite_train_lite_infer")
    status = python(aligned, "-m", "pipeline", "status").stdout
    assert len(re.findall(r"^\w+ +green", status, re.M)) == 6, status
    onnx = str((folder / "paddle2onnx_infer_python.txt").relative_to(aligned))
    bash("prepare.sh", onnx, "paddle2onnx_infer")
    assert "2 succeeded, 0 failed, 0 not run" in bash("test_paddle2onnx.sh", onnx)
    logs = sorted((aligned / "test_tipc/output").glob("python_infer_*.log"))
    results = "test_tipc/results/python_fp32.txt"
    python(aligned, "test_tipc/compare_results.py", "--write", f"--log_file={logs[0]}", f"--gt_file={results}")
    compared = [f"--gt_file={results}", "--log_file=test_tipc/output/python_infer_*.log"]
    assert f"{logs[0].name}: 16 samples" in python(aligned, "test_tipc/compare_results.py", *compared).stdout


def test_predictions_are_the_same_from_the_network_the_export_and_onnx(aligned):
    python(aligned, "paddle/train.py", "-o", *LITE, "train.epochs=2", "train.output_dir=output/lite")
    weights, sentences = "output/lite/best.safetensors", "sentences.txt"
    (aligned / sentences).write_text("A joy from start to end .\n\nDull , and far too long .\n", encoding="utf-8")
    python(aligned, "paddle/export_model.py", "--weights", weights, "--output_dir", "output/exported")
    converted = ["--model_dir", "output/exported", "--save_file", "output/m.onnx"]
    python(aligned, "paddle/export_onnx.py", "--weights", weights, *converted)
    predicted = python(aligned, "paddle/predict.py", "--weights", weights, "--input", sentences).stdout
    assert re.fullmatch(r"(sentences\.txt:[13]: class: [01] probability: 0\.\d{4}\n){2}", predicted)
    for engine in (["--model_dir", "output/exported"], ["--onnx_file", "output/m.onnx"]):
        assert python(aligned, "paddle/infer.py", *engine, "--input", sentences).stdout == predicted
    (aligned / "empty.txt").write_text("\n\n", encoding="utf-8")
    nothing = python(aligned, "paddle/predict.py", "--weights", weights, "--input", "empty.txt", status=2)
    assert nothing.stderr.splitlines()[-1] == "error: nothing to predict in empty.txt"


def test_resuming_gives_the_same_bits(aligned):
    """With dropout and in the middle of an epoch, on both sides."""
    drop = ("model.hidden_dropout_prob=0.1", "model.attention_probs_dropout_prob=0.1", "train.save_freq=1", "train.print_freq=1")
    for side, inside in (("torch_ref", "torch"), ("paddle", "")):
        whole, again = aligned / "output" / f"{side}_whole", aligned / "output" / f"{side}_again"

        def options(folder: Path) -> list[str]:
            return ["-o", *LITE, *drop, "train.epochs=3", f"train.output_dir={folder}"]  # noqa: B023

        python(aligned, f"{side}/train.py", *options(whole))
        command = [sys.executable, "-u", f"{side}/train.py", *options(again)]
        stopped = subprocess.Popen(command, cwd=aligned, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        next(line for line in stopped.stdout if "epoch: [2/3] iter: [1/2]" in line)
        stopped.kill()
        stopped.wait()
        python(aligned, f"{side}/train.py", "--resume", *options(again))
        wanted, found = (load_file(folder / inside / "latest.safetensors") for folder in (whole, again))
        assert wanted.keys() == found.keys() and len(wanted) >= 41
        assert all(np.array_equal(wanted[name], found[name]) for name in wanted), side


def test_the_batch_that_probe_saw_fits_the_contract(fresh):
    """The network's arguments are in another order than the call's keywords, which are those of the batch."""
    said = python(fresh, "-m", "pipeline", "probe", "--", sys.executable, "torch_ref/train.py").stdout
    assert re.findall(r"^argument +(\w+)", said, re.M) == ["input_ids", "token_type_ids", "attention_mask"]
    assert (fresh / "pipeline/fake_data/reference_batch.npz").is_file()
    said = python(fresh, "-m", "pipeline", "align", "1").stdout
    assert re.search(r"^forward +green", said, re.M) and "forward_real: 1 compared" in said, said


@pytest.mark.parametrize("kind", ["new", "old", "bare"])
def test_checkpoints_of_the_bert_family_convert(fresh, kind, tmp_path):
    folder = tmp_path / "bert"
    python(fresh, "-c", CHECKPOINT, folder, kind, fresh / "test_tipc/data/vocab.txt")
    printed = python(fresh, "torch_ref/fetch_checkpoint.py", folder).stdout
    for section, values in yaml.safe_load(printed.split("\n\n", 1)[1]).items():
        change(fresh, section, **values)
    settings = yaml.safe_load((fresh / "port.yaml").read_text(encoding="utf-8"))
    assert settings["data"]["lower_case"] is False and settings["model"]["layer_norm_eps"] == 1e-12
    assert settings["weights"]["fresh"] == ["classifier"]
    assert settings["weights"]["map"] == ({} if kind == "bare" else {"cls": None})
    green = re.findall(r"^(\w+) +green", python(fresh, "-m", "pipeline", "align", "1", "2", "3", "4").stdout, re.M)
    assert green == ["forward", "metric", "loss", "backward"]
    said = python(fresh, "-m", "pipeline", "convert", folder, "--output", "bert.safetensors").stdout
    assert ("'bert.embeddings.position_ids', which the model makes itself" in said) == (kind == "old")
    assert ("14 names of the file end in gamma and beta" in said) == (kind == "old")
    assert ("prefix 'bert.' put before the names" in said) == (kind == "bare")
    if kind != "old":  # which transformers reads with names of its own
        batch = fresh / "pipeline/fake_data/fake_batch.npz"
        python(fresh, "-c", POOLED, folder, batch, tmp_path / "torch.npy")
        python(fresh, "-c", PORT_POOLED, "bert.safetensors", batch, tmp_path / "paddle.npy")
        wanted, found = np.load(tmp_path / "torch.npy"), np.load(tmp_path / "paddle.npy")
        assert np.abs(wanted).max() > 0.1 and np.abs(wanted - found).max() < 1e-6


def test_what_a_checkpoint_lacks_and_has_beside_is_said_with_the_setting(fresh, tmp_path):
    folder = tmp_path / "bert"
    python(fresh, "-c", CHECKPOINT, folder, "new", fresh / "test_tipc/data/vocab.txt")
    printed = python(fresh, "torch_ref/fetch_checkpoint.py", folder).stdout
    for section, values in yaml.safe_load(printed.split("\n\n", 1)[1]).items():
        change(fresh, section, **values)
    change(fresh, "weights", fresh=[], map={})
    error = python(fresh, "-m", "pipeline", "convert", status=2).stderr.splitlines()[-1]
    assert "lacks 'classifier.weight', 'classifier.bias'" in error and "weights.fresh: [classifier]" in error
    assert "has 'cls." in error and '"cls": null' in error
    change(fresh, "weights", fresh=["classifer"], map={"cls": None})
    error = python(fresh, "-m", "pipeline", "convert", status=2).stderr.splitlines()[-1]
    assert "weights.fresh" in error and "'classifer' matches nothing" in error


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"model_type": "roberta"}, "model_type is roberta; the port is BERT"),
        ({"hidden_act": "relu"}, "hidden_act is relu"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is relative_key"),
    ],
)
def test_checkpoints_that_are_not_bert_are_refused(aligned, changed, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **changed}))
    assert words in python(aligned, "torch_ref/fetch_checkpoint.py", tmp_path, status=2).stderr


def test_the_real_files_of_sst_2_are_read(fresh, tmp_path):
    """GLUE's own files: the sentences end in a blank, both files have the header, and there is no archive."""
    rows = ["hide new secretions from the parental units \t0", "contains no wit , only labored gags \t0",
            "that loves its characters and communicates something rather beautiful about human nature \t1"]  # fmt: skip
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("sentence\tlabel\n" + "".join(f"{row}\n" for row in rows * 8), encoding="utf-8")
    for side in ("torch_ref", "paddle"):
        done = python(fresh, f"{side}/train.py", "-o", f"data.root={folder}", "train.epochs=1", "data.batch_size=12",
                      "train.print_freq=1", f"train.output_dir=output/{side}")  # fmt: skip
        assert "iter: [2/2]" in done.stdout


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("train.tsv", "text\tlabel\na\t1\n", "train.tsv: the first line must be"),
        ("train.tsv", "sentence\tlabel\ngood\t1\nbad\n", "train.tsv:3: expected a sentence, a tab"),
        ("train.tsv", "sentence\tlabel\ngood\t7\n", "train.tsv:2: label 7 is out of range"),
        ("train.tsv", "sentence\tlabel\n", "train.tsv holds no sentences"),
        ("dev.tsv", None, "cannot read"),
        ("", None, "does not exist; check data.root in port.yaml"),
    ],
)
def test_bad_data_is_one_line(aligned, name, text, words, tmp_path):
    folder = tmp_path / ("data" if name else "a typing error")
    if name:
        folder.mkdir()
        for one in ("train.tsv", "dev.tsv"):
            (folder / one).write_text("sentence\tlabel\ngood\t1\n" if one != name else text or "", encoding="utf-8")
        if text is None:
            (folder / name).unlink()
    for side in ("torch_ref", "paddle"):
        done = python(aligned, f"{side}/train.py", "-o", f"data.root={folder}", "train.output_dir=output/bad", status=2)
        assert words in done.stderr.splitlines()[-1] and folder.exists() == bool(name)


@pytest.mark.parametrize(("text", "words"), [(None, "cannot read the vocabulary"), ("[UNK]\n[CLS]\n[SEP]\na\n", "has no [PAD]")])
def test_a_bad_vocabulary_is_one_line(aligned, text, words, tmp_path):
    if text is not None:
        (tmp_path / "vocab.txt").write_text(text)
    for side in ("torch_ref", "paddle"):
        options = [f"data.vocabulary={tmp_path}/vocab.txt", "train.output_dir=output/bad"]
        assert words in python(aligned, f"{side}/train.py", "-o", *options, status=2).stderr.splitlines()[-1]
