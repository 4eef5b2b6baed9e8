# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Memory of a conversion: the operating system enforces the bound, in a process without either framework."""

import json
import subprocess
import sys

import numpy as np
import paddle
import pytest
import safetensors.torch
import torch

from conftest import TEMPLATE
from convert_models import TOLERANCE, difference, outputs
from pipeline.align.convert import describe_paddle, describe_torch
from pipeline.align.convert.load_paddle import load_into_paddle
from pipeline.align.convert.load_torch import load_into_torch

SIDE = 2048  # weights of 16 MiB
LAYERS = 6
SCRIPT = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
sys.modules["torch"] = sys.modules["paddle"] = None
from pipeline.align.convert import convert_file, plan, read_source
made = plan(json.load(open("torch.json")), json.load(open("paddle.json")))
source, target, to, kind, allowed = sys.argv[2:]
checkpoint = read_source(source)

def used(field):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(field + ":"))

# DATA is all private memory, mapped files not counted; AS is the whole address space, mapped files counted
limit, field = {"DATA": (resource.RLIMIT_DATA, "VmData"), "AS": (resource.RLIMIT_AS, "VmSize")}[kind]
resource.setrlimit(limit, (used(field) + int(allowed),) * 2)
convert_file(made, checkpoint, target, to=to)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models of 96 MiB, described, and the first one's weights in files of all kinds."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    ours = torch.nn.Sequential(*(torch.nn.Linear(SIDE, SIDE) for _ in range(LAYERS)))
    theirs = paddle.nn.Sequential(*(paddle.nn.Linear(SIDE, SIDE) for _ in range(LAYERS)))
    for side, described in (("torch", describe_torch.describe(ours)), ("paddle", describe_paddle.describe(theirs))):
        (folder / f"{side}.json").write_text(json.dumps(described))
    state = ours.state_dict()
    safetensors.torch.save_file(state, folder / "w.safetensors")
    safetensors.torch.save_file({name: value.bfloat16() for name, value in state.items()}, folder / "half.safetensors")
    torch.save({name: value.double() for name, value in state.items()}, folder / "double.pth")
    torch.save(state, folder / "w.pth")
    torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
    (folder / "shards").mkdir()
    weight_map = {}
    for i in range(LAYERS):
        part = {name: value for name, value in state.items() if name.startswith(f"{i}.")}
        torch.save(part, folder / f"shards/{i}.bin")
        weight_map |= dict.fromkeys(part, f"{i}.bin")
    (folder / "shards/pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder, ours, theirs


def convert(folder, source, target, kind="DATA", tensors=2.0, to="paddle"):
    """Run the conversion with room for `tensors` of the largest tensor, and a mebibyte for names and buffers."""
    allowed = int(tensors * SIDE * SIDE * 4) + (1 << 20)
    command = [sys.executable, "-c", SCRIPT, str(TEMPLATE), source, target, to, kind, str(allowed)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("target", ["out.safetensors", "out.pdparams"])
@pytest.mark.parametrize("source", ["w.safetensors", "w.pth", "old.pth", "shards", "half.safetensors", "double.pth"])
def test_twice_the_largest_tensor_is_enough(source, target, folder):
    where, ours, theirs = folder
    done = convert(where, source, target)
    assert done.returncode == 0, done.stderr
    load_into_paddle(theirs, where / target)
    x = np.random.default_rng(0).normal(size=(2, SIDE)).astype(np.float32)
    if source != "half.safetensors":
        assert difference(*outputs(ours, theirs, (x,))) <= TOLERANCE
    else:
        assert np.array_equal(theirs[3].weight.numpy(), ours[3].weight.detach().bfloat16().float().numpy().T)


@pytest.mark.parametrize("source", ["out.safetensors", "out.pdparams"])
def test_the_way_back_as_well(source, folder):
    where, ours, theirs = folder
    assert convert(where, "w.pth", source).returncode == 0
    done = convert(where, source, "back.safetensors", to="torch")
    assert done.returncode == 0, done.stderr
    other = torch.nn.Sequential(*(torch.nn.Linear(SIDE, SIDE) for _ in range(LAYERS)))
    load_into_torch(other, where / "back.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), other.state_dict().values()))


@pytest.mark.parametrize("source", ["shards", "w.safetensors", "w.pth"])
def test_checkpoint_larger_than_the_address_space(source, folder):
    """96 MiB of weights in a process that can map no more than three tensors of 16 MiB in all."""
    done = convert(folder[0], source, "out.safetensors", kind="AS", tensors=3.0)
    assert done.returncode == 0, done.stderr


def test_the_bound_is_real(folder):
    """Half a tensor is not enough, so the limit of the tests above does bind; and nothing half-written is left."""
    where = folder[0]
    done = convert(where, "w.safetensors", "never.safetensors", tensors=0.5)
    assert done.returncode != 0 and "MemoryError" in done.stderr
    assert not (where / "never.safetensors").exists() and not list(where.glob(".never*"))
