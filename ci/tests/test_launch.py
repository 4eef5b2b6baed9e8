# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The launchers: which command they make of the devices, and real runs of two processes and two nodes on the CPU."""
from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from conftest import TEMPLATE, sample

LAUNCH = TEMPLATE / "launch"
LITE = ("data.root=test_tipc/data/lite_data", "data.archive=test_tipc/data/lite_data.tar", "train.epochs=1", "data.batch_size=4")


@pytest.fixture
def repo(tmp_path) -> Path:
    return Path(shutil.copytree(sample(), tmp_path / "a repository"))


def launch(repo: Path, script: str, *words: str, gpus: int = 0, **environment: str) -> subprocess.CompletedProcess:
    """Run a launcher from another folder, on a machine with that many GPUs."""
    tools = repo.parent / "tools"
    tools.mkdir(exist_ok=True)
    smi = tools / "nvidia-smi"
    listed = "".join(f'echo "GPU {number}: model (UUID: x)"\n' for number in range(gpus))
    smi.write_text(f"#!/bin/bash\n{listed}exit {0 if gpus else 9}\n")
    smi.chmod(0o755)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("CUDA")}
    inherited |= {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["bash", str(repo / "launch" / script), *words]
    return subprocess.run(
        command, cwd=repo.parent, env={**inherited, **environment}, capture_output=True, text=True, timeout=300, check=False
    )


def command(repo: Path, script: str, *words: str, **more) -> list[str]:
    done = launch(repo, script, *words, DRY_RUN="1", **more)
    assert done.returncode == 0, done.stderr
    return shlex.split(done.stdout)


PADDLE = [sys.executable, "-m", "paddle.distributed.launch"]
TORCH = [sys.executable, "-m", "torch.distributed.run"]
LOG = ["--log_dir", "output/log"]


def test_one_gpu(repo):
    words = ["-o", "train.epochs=1 x", "--resume"]
    assert command(repo, "single_gpu.sh", *words, gpus=3) == [
        "CUDA_VISIBLE_DEVICES=0", sys.executable, "paddle/train.py", "-o", "train.device=gpu", *words
    ]  # fmt: skip
    assert command(repo, "single_gpu.sh", DEVICES="2,3", TREE="torch_ref")[:3] == [
        "CUDA_VISIBLE_DEVICES=2", sys.executable, "torch_ref/train.py"
    ]  # fmt: skip
    assert command(repo, "single_gpu.sh", DEVICES="cpu") == [sys.executable, "paddle/train.py", "-o", "train.device=cpu"]


def test_all_gpus_of_a_machine(repo):
    gpu, cpu = ["-o", "train.device=gpu"], ["-o", "train.device=cpu"]
    expected = ["CUDA_VISIBLE_DEVICES=0,1,2,3", *PADDLE, "--devices", "0,1,2,3", *LOG, "paddle/train.py", *gpu, "--resume"]
    assert command(repo, "multi_gpu.sh", "--resume", gpus=4) == expected
    # the numbers that the launcher gets are those of the GPUs that it sees
    expected = ["CUDA_VISIBLE_DEVICES=5,2", *PADDLE, "--devices", "0,1", *LOG, "paddle/train.py", *gpu]
    assert command(repo, "multi_gpu.sh", gpus=8, DEVICES="5,2") == expected
    expected = ["CUDA_VISIBLE_DEVICES=0,1", *TORCH, "--nproc_per_node", "2", "--standalone", "torch_ref/train.py", *gpu]
    assert command(repo, "multi_gpu.sh", gpus=2, TREE="torch_ref") == expected
    # --devices does not work on a CPU build of Paddle
    expected = [*PADDLE, "--nproc_per_node", "2", *LOG, "paddle/train.py", *cpu]
    assert command(repo, "multi_gpu.sh", DEVICES="cpu:2") == expected


def test_several_machines(repo):
    node = {"MASTER": "10.0.0.1:29500", "NNODES": "2", "NODE_RANK": "1", "DEVICES": "0,1"}
    gpu = ["-o", "train.device=gpu"]
    of_node = ["--master", "10.0.0.1:29500", "--nnodes", "2", "--rank", "1"]
    expected = ["CUDA_VISIBLE_DEVICES=0,1", *PADDLE, "--devices", "0,1", *LOG, *of_node, "paddle/train.py", *gpu]
    assert command(repo, "multi_node.sh", **node) == expected
    of_node = ["--nnodes", "2", "--node_rank", "1", "--master_addr", "10.0.0.1", "--master_port", "29500"]
    expected = ["CUDA_VISIBLE_DEVICES=0,1", *TORCH, "--nproc_per_node", "2", *of_node, "torch_ref/train.py", *gpu]
    assert command(repo, "multi_node.sh", TREE="torch_ref", **node) == expected


@pytest.mark.parametrize(
    ("script", "environment", "words"),
    [
        ("single_gpu.sh", {}, "no GPU found (nvidia-smi lists none); on the CPU: DEVICES=cpu:2 bash launch/single_gpu.sh"),
        ("multi_gpu.sh", {}, "no GPU found (nvidia-smi lists none); on the CPU: DEVICES=cpu:2 bash launch/multi_gpu.sh"),
        ("multi_gpu.sh", {"DEVICES": "two"}, "DEVICES is 'two'; it must be GPU numbers such as 0,1, or cpu:N"),
        ("multi_gpu.sh", {"DEVICES": "cpu:0"}, "DEVICES is 'cpu:0'"),
        ("multi_gpu.sh", {"DEVICES": "1,1"}, "a GPU is named twice"),
        ("multi_gpu.sh", {"DEVICES": "0", "TREE": "jax"}, "TREE is 'jax'; it must be paddle or torch_ref"),
        ("multi_node.sh", {"DEVICES": "cpu:1"}, "MASTER is ''; it must be address:port"),
        ("multi_node.sh", {"DEVICES": "cpu:1", "MASTER": "a:1"}, "NNODES is ''"),
        ("multi_node.sh", {"DEVICES": "cpu:1", "MASTER": "a:1", "NNODES": "2", "NODE_RANK": "2"}, "NODE_RANK is '2'"),
    ],
)
def test_bad_input_is_one_line(repo, script, environment, words):
    done = launch(repo, script, **environment)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("error: ")
    assert words in done.stderr and done.stderr.count("\n") == 1


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize(("tree", "inside"), [("paddle", ""), ("torch_ref", "torch")])
def test_two_nodes_of_one_process_train_as_two_processes_of_one_node(repo, tree, inside):
    """Really run, over gloo: the launchers of both nodes on this machine."""
    options = ["-o", *LITE]
    done = launch(repo, "multi_gpu.sh", *options, "train.output_dir=output/one", DEVICES="cpu:2", TREE=tree)
    assert done.returncode == 0, done.stdout + done.stderr
    node = {"MASTER": f"127.0.0.1:{free_port()}", "NNODES": "2", "DEVICES": "cpu:1", "TREE": tree}
    environment = {**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **node}
    line = ["bash", "launch/multi_node.sh", *options, "train.output_dir=output/two"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    nodes = [subprocess.Popen(line, cwd=repo, env={**environment, "NODE_RANK": str(rank)}, **pipes) for rank in range(2)]
    said = [one.communicate(timeout=200)[0] for one in nodes]
    assert [one.returncode for one in nodes] == [0, 0], said
    one, two = (load_file(repo / "output" / name / inside / "latest.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys() and len(one["training/history/iter"]) == 2  # 16 samples in two iterations of 2 x 4
    assert all(np.allclose(one[name], two[name], rtol=0, atol=1e-6) for name in one)


def test_slurm_job(repo):
    """With stand-ins for Slurm: one task per node, the first node of the list is the master."""
    tools = repo.parent / "tools"
    tools.mkdir()
    programs = {
        "scontrol": 'echo "node7"; echo "node8"',
        "srun": 'for id in 0 1; do SLURM_NODEID=$id SLURM_NNODES=2 "$@"; done',
    }
    for name, text in programs.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PYTHON": sys.executable, "DRY_RUN": "1",
        "DEVICES": "0,1", "SLURM_SUBMIT_DIR": str(repo), "SLURM_JOB_NODELIST": "node[7-8]",
    }  # fmt: skip
    line = ["bash", str(repo / "launch/slurm.sbatch"), "-o", "train.epochs=1"]
    done = subprocess.run(line, cwd=repo.parent, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    ranks = [shlex.split(line) for line in done.stdout.splitlines()]
    assert len(ranks) == 2
    for rank, words in enumerate(ranks):
        assert words[words.index("--master") + 1] == "node7:29500" and words[words.index("--rank") + 1] == str(rank)
        assert words[-2:] == ["-o", "train.epochs=1"]


def test_shell_scripts_are_clean():
    files = [*LAUNCH.glob("*.sh"), LAUNCH / "slurm.sbatch"]
    assert len(files) == 5 and all(file.stat().st_mode & 0o111 for file in files)
    done = subprocess.run([Path(sys.executable).with_name("shellcheck"), *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
