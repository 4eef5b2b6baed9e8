# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A blank start, walked as its messages say: each function that `align` asks for is written, until six nodes are green."""
from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import baking

NEXT = re.compile(r"^next: (\S+):(\d+): write (\w+)\(.*\); it receives .+, and must return .+$", re.M)
#: What a user brings along: own layers, data sets and metrics, and the settings that these need.
BROUGHT = ("paddle/models/resnet.py", "paddle/data/digits.py", "paddle/metric.py", "torch_ref/models/resnet.py",
           "torch_ref/data/digits.py", "torch_ref/metric.py", "port.yaml", "paddle/pictures.py",
           "test_tipc/data/digits.tar.gz", "test_tipc/data/lite_data.tar")  # fmt: skip
ORDER = ("build_model", "forward", "build_dataset", "build_metric", "build_loss", "build_optimizer")
NEEDED = (ORDER[:2], ORDER[2:4], ORDER[4:5], ORDER[5:])


@pytest.fixture(scope="module")
def starts(tmp_path_factory) -> dict[str, Path]:
    """A repository of either start."""
    folder = tmp_path_factory.mktemp("starts")
    template = baking.copy_template(folder / "template")
    for start in ("example", "blank"):
        done = baking.run(template, folder, folder, f"repo_name={start}", f"start={start}")
        assert done.returncode == 0, done.stderr
    return {start: folder / start for start in ("example", "blank")}


def call(folder: Path, *words: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)


def pipeline(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return call(folder, sys.executable, "-m", "pipeline", *words)


def write(blank: Path, example: Path, file: str, function: str) -> None:
    """Put the example's function, with what it needs beside it, where the blank one stands."""
    wanted, target = (example / file).read_text(encoding="utf-8"), blank / file
    text = target.read_text(encoding="utf-8")
    nodes = {node.name: node for node in ast.parse(wanted).body if isinstance(node, ast.FunctionDef)}
    stub = next(node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == function)
    imports = re.search(r"from __future__ import annotations\n(.+?)\n\n\n", wanted, re.S)[1]
    parts = {"build_optimizer": ["warmup_cosine", function], "read_samples": []}.get(function, [function])  # that is imported
    body = "\n\n\n".join(ast.get_source_segment(wanted, nodes[name]) for name in parts)
    text = text.replace(ast.get_source_segment(text, stub), body)
    if imports not in text:
        text = text.replace("from __future__ import annotations\n", f"from __future__ import annotations\n{imports}\n")
    target.write_text(text, encoding="utf-8")


def test_a_blank_repository_says_what_is_to_be_written(starts):
    done = pipeline(starts["blank"], "align")
    assert done.returncode == 1 and NEXT.search(done.stdout)[1] == "torch_ref/reference.py", done.stdout + done.stderr
    todo = re.findall(r"^to do, for step (\d): (\S+?):\d+: write (\w+)\(", pipeline(starts["blank"], "status").stdout, re.M)
    assert [name for _, _, name in todo] == [*(name for names in NEEDED for name in names * 2), "read_samples"]
    assert [step for step, _, _ in todo] == sorted(step for step, _, _ in todo)


@pytest.mark.timeout(1800)
def test_the_messages_alone_lead_to_six_green_nodes(starts):
    blank, example = starts["blank"], starts["example"]
    for name in BROUGHT:
        (blank / name).parent.mkdir(exist_ok=True)
        shutil.copy(example / name, blank / name)
    done, written = pipeline(blank, "align"), []
    while (found := NEXT.search(done.stdout)) is not None:
        assert done.returncode == (found[3] != "read_samples"), done.stdout + done.stderr
        assert not re.search(r"^\w+ +red", done.stdout, re.M), done.stdout
        file, line, function = found.groups()
        assert (file, function) not in written, f"asked twice for {function} in {file}"
        assert f"def {function}(" in (blank / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        write(blank, example, file, function)
        written.append((file, function))
        done = pipeline(blank, "align")
        green = re.findall(r"^(\w+) +green", done.stdout, re.M)
        whole = [sum(name in names for _, name in written) == 2 * len(names) for names in NEEDED]
        assert len(green) >= (whole + [False]).index(False), done.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(written) == 2 * len(ORDER) + 1
    tipc = call(blank, "make", "tipc", f"PYTHON={sys.executable}")
    assert tipc.returncode == 0, tipc.stdout[-3000:] + tipc.stderr[-3000:]
    status = pipeline(blank, "status").stdout
    assert len(re.findall(r"^\w+ +green", status, re.M)) == 6 and "to do" not in status, status

