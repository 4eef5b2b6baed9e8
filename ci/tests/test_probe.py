# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""probe: programs of all kinds are stopped at the right call, with the numbers that they fed to it, and stay as they were."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

import baking
from conftest import TEMPLATE, sample
from pipeline.align import probe
from pipeline.align.errors import UserError
from pipeline.align.fake_data import make_batch, read_batch
from pipeline.align.paths import Paths
from pipeline.align.settings import Settings, load_settings

NET = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3), nn.Linear(8, 10)
    def forward(self, images, *, mask=None, extra=None, **more):
        features = self.conv(images).mean((2, 3))
        images.zero_()
        return {"logits": self.head(features), "more": (features, None)}

images = (torch.arange(8 * 3 * 6 * 5, dtype=torch.float32) / 100).view(8, 3, 6, 5)
labels = torch.arange(8) % 10
"""
TRAIN = """
from models import Net, images, labels, nn, torch
print("starting")
norm, net = nn.BatchNorm2d(3, affine=False), Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    norm(images)                      # no parameters: not the model
    extra = {"a": [torch.full((8, 2), 3.0, dtype=torch.bfloat16), None], "n": 3}
    outputs = net(images, mask=images[:, 0, :, 0] > 1, extra=extra, names=["a", "b"], file=labels.float().double())
    loss = torch.nn.functional.cross_entropy(outputs["logits"], labels.where(labels > 0, torch.tensor(-100)))
    loss.backward()
    open("trained", "w").close()
"""
IMAGES = (np.arange(8 * 3 * 6 * 5, dtype=np.float32) / np.float32(100)).reshape(8, 3, 6, 5)


def settings() -> Settings:
    return load_settings(sample() / "port.yaml")


@pytest.fixture
def reference(tmp_path) -> Path:
    """A folder with models/__init__.py, which gets its classes from models/net.py, and train.py."""
    folder = tmp_path / "their code"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "__init__.py").write_text("from models.net import *\nfrom models.net import nn, torch\n")
    (folder / "models" / "net.py").write_text(NET)
    (folder / "train.py").write_text(TRAIN)
    return folder


def run(folder: Path, *command: str, module: str = "") -> tuple[dict, dict[str, np.ndarray], Path]:
    """(description, arrays, folder of what was written)."""
    out = folder.parent / "out"
    probe.run(Paths(), settings(), command or (sys.executable, "train.py"), folder, module, out)
    with np.load(out / "arguments.npz") as file:
        arrays = dict(file)
    return json.loads((out / "arguments.json").read_text(encoding="utf-8")), arrays, out


def script(folder: Path, text: str) -> Path:
    (folder / "train.py").write_text("from models import *\nfrom models import F, nn, torch\n" + text)
    return folder


def test_a_training_program(reference, capsys):
    before, started = baking.snapshot(reference), time.monotonic()
    about, arrays, out = run(reference)
    assert time.monotonic() - started < 20
    assert baking.snapshot(reference) == before
    assert set(arrays) == {"images", "mask", "extra.a[0]", "file", "label"}
    assert np.array_equal(arrays["images"], IMAGES) and arrays["images"].dtype == np.float32  # before the call emptied them
    assert np.array_equal(arrays["mask"], IMAGES[:, 0, :, 0] > 1)
    assert np.array_equal(arrays["extra.a[0]"], np.full((8, 2), 3, np.float32))
    assert np.array_equal(arrays["file"], np.arange(8, dtype=np.float64)) and arrays["file"].dtype == np.float64
    assert arrays["label"].tolist() == [-100, 1, 2, 3, 4, 5, 6, 7] and arrays["label"].dtype == np.int64
    leaves = {leaf["name"]: leaf for leaf in about["arguments"]}
    assert leaves["extra.a[0]"] == {"name": "extra.a[0]", "kind": "tensor", "shape": [8, 2], "dtype": "bfloat16", "device": "cpu"}
    assert [leaves[name]["text"] for name in ("extra.a[1]", "extra.n", "names")] == ["None", "3", "['a', 'b']"]
    assert [(leaf["name"], leaf.get("shape")) for leaf in about["outputs"]] == [
        ("output.logits", [8, 10]), ("output.more[0]", [8, 8]), ("output.more[1]", None)]  # fmt: skip
    assert (about["module"], about["place"]) == ("models.net.Net", "train.py:9")
    assert (about["training"], about["gradients"], about["label"]["seen_in"]) == (True, True, "target of cross_entropy")
    assert (out / "reference.log").read_text() == "starting\n"

    batch = read_batch(out / "reference_batch.npz")
    assert [array.dtype.name for array in batch] == ["float32", "bool", "float32", "float64", "int64"]
    assert [len(array) for array in batch] == [6] * 5 and np.array_equal(batch[0], IMAGES[:6])

    shown = capsys.readouterr().out
    assert "argument  extra.a[0]      [8, 2]        bfloat16  cpu     3 to 3\n" in shown
    section = yaml.safe_load(shown[shown.index("fake_data:") : shown.index("\nwritten:")])["fake_data"]
    middle, spread = 3.595, 2 * ((720**2 - 1) / 12) ** 0.5 / 100  # of 0.00, 0.01, … 7.19
    low, high = float(f"{middle - spread:.3g}"), float(f"{middle + spread:.3g}")
    assert section["inputs"][0] == {"shape": [3, 6, 5], "dtype": "float32", "low": low, "high": high}
    assert section["label"] == {"shape": [], "dtype": "int64", "low": 0, "high": 10, "ignored": -100}
    fake = make_batch(Settings({"fake_data": section}))
    assert [(fake[name].shape[1:], fake[name].dtype) for name in fake] == [(one.shape[1:], one.dtype) for one in batch]
    assert abs(fake["input_0"].mean() - IMAGES.mean()) < 0.3 and abs(fake["input_0"].std() - IMAGES.std()) < 0.3


def test_a_table_gets_a_limit_for_each_column(reference, capsys):
    """Categorical columns have each their own table of embeddings: one limit for all would be outside of the smaller ones."""
    script(reference, """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embs = nn.ModuleList([nn.Embedding(n, 2) for n in (9, 2, 50, 9)])

    def forward(self, columns, words):
        return sum(emb(columns[:, i]) for i, emb in enumerate(self.embs)).sum(1)

row = torch.arange(64).reshape(64, 1)
Net()(torch.cat([row % 9, row % 2, row % 50, 3 + row % 6], 1), (row * torch.arange(1, 9)) % 61)
""")
    run(reference)
    shown = capsys.readouterr().out
    inputs = yaml.safe_load(shown[shown.index("fake_data:") : shown.index("\nwritten:")])["fake_data"]["inputs"]
    assert inputs[0] == {"shape": [4], "dtype": "int64", "low": 0, "high": [9, 2, 50, 9]}
    assert inputs[1] == {"shape": [8], "dtype": "int64", "low": 0, "high": 61}  # the words of sentences are of one kind


def test_the_command_line(reference):
    """From the generated repository, which gets the batch where step 1 looks for it."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    where = reference.parent / "port"
    subprocess.run(["cp", "-r", sample(), where], check=True)
    words = ["probe", "--module", "models.Net", "--cwd", str(reference), "--", "python", "train.py", "--lr", "1", "-o", "x"]
    done = subprocess.run([sys.executable, "-m", "pipeline", *words], cwd=where, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        0, "running python train.py --lr 1 -o x (its output: pipeline/work/probe/reference.log)\n")  # fmt: skip
    assert done.stdout.startswith("models.net.Net, called at train.py:9, train mode, gradients on, torch ")
    assert len(read_batch(where / "pipeline/fake_data/reference_batch.npz")) == 5
    assert {path.name for path in (where / "pipeline/work/probe").iterdir()} == {
        "arguments.npz", "arguments.json", "reference.log"}  # fmt: skip


def test_wrappers_modules_and_launchers(reference, monkeypatch):
    """`python -m`, an inner module named by its class, DataParallel, compile, no_grad, and a sitecustomize of their own."""
    (reference / "site").mkdir()
    (reference / "site" / "sitecustomize.py").write_text("import builtins\nbuiltins.THEIRS = 1\n")
    monkeypatch.setenv("PYTHONPATH", str(reference / "site"))
    (reference / "tool").mkdir()
    (reference / "tool" / "main.py").write_text("""
from models import Net, images, nn, torch
import sys, sitecustomize
assert THEIRS == 1 and "site" in sitecustomize.__file__ and not any("probe-" in entry for entry in sys.path)

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(30, 4, batch_first=True)
    def forward(self, x, lengths, *states):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.lstm(packed, states)

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.inner = Net(), Inner()
    def forward(self, x):
        return self.inner(x.flatten(2), torch.tensor([3] * 8), torch.zeros(1, 8, 4), torch.ones(1, 8, 4))

outer = nn.DataParallel(torch.compile(Outer())).eval()
with torch.no_grad():
    outer(images)
""")
    about, arrays, out = run(reference, sys.executable, "-m", "tool.main")
    assert (about["module"], about["wrappers"]) == ("tool.main.Outer", ["DataParallel"])
    assert (about["training"], about["gradients"], about["label"]) == (False, False, None)
    assert set(arrays) == {"x"} and np.array_equal(arrays["x"], IMAGES)
    assert [leaf["name"] for leaf in about["outputs"]] == [
        "output[0].data", "output[0].batch_sizes", "output[0].sorted_indices", "output[0].unsorted_indices",
        "output[1][0]", "output[1][1]"]  # fmt: skip
    assert read_batch(out / "reference_batch.npz")[-1].tolist() == [0] * 6
    (out / "reference_batch.npz").unlink()
    about, arrays, out = run(reference, sys.executable, "-m", "tool.main", module="Inner")
    assert {name: list(array.shape) for name, array in arrays.items()} == {
        "x": [8, 3, 30], "lengths": [8], "states[0]": [1, 8, 4], "states[1]": [1, 8, 4]}  # fmt: skip
    assert not (out / "reference_batch.npz").exists()


def test_two_processes_of_torchrun(reference):
    """Rank 0 is the one that is recorded, and both are ended, although each has a process group of its own."""
    script(reference, """
import os, torch.distributed as dist
dist.init_process_group("gloo")
open(f"../pid{dist.get_rank()}", "w").write(str(os.getpid()))
net = nn.parallel.DistributedDataParallel(Net())
images += 100 * dist.get_rank()
loss = F.nll_loss(F.log_softmax(net(images)["logits"], 1), labels)
loss.backward()
dist.barrier()
""")  # fmt: skip
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "train.py")
    about, arrays, _ = run(reference, *launcher)
    assert (about["module"], about["wrappers"]) == ("models.net.Net", ["DistributedDataParallel"])
    assert np.array_equal(arrays["images"], IMAGES) and arrays["label"].tolist() == list(range(8))
    for rank in (0, 1):
        pid = (reference.parent / f"pid{rank}").read_text()
        assert not Path("/proc", pid).exists() or "Z" in Path("/proc", pid, "stat").read_text().split()[2]


LABELS = {
    "an argument": ("""
class Bert(Net):
    def forward(self, batch):
        return F.cross_entropy(super().forward(batch["images"])["logits"], batch["labels"])
Bert()({"images": images, "labels": labels}).backward()
""", "argument batch.labels"),
    "a loss module of their own": ("""
class FocalLoss(nn.Module):
    def forward(self, x, y):
        return F.binary_cross_entropy_with_logits(x[:, 0], (y > 3).float())
FocalLoss()(Net()(images)["logits"], labels)
""", "target of FocalLoss"),
    "a function by its own name": ("""
from torch.nn.functional import mse_loss as distance
distance(Net()(images)["logits"][:, 0], labels)
""", "target of mse_loss"),
    "none": ("Net()(images)['logits'].sum().backward()\nraise SystemExit(3)\n", None),
}  # fmt: skip


@pytest.mark.parametrize("case", LABELS)
def test_the_label(reference, case, capsys):
    text, source = LABELS[case]
    about, arrays, out = run(script(reference, text))
    batch = read_batch(out / "reference_batch.npz")
    if source is None:
        assert about["label"] is None and batch[-1].tolist() == [0] * 6
        assert "zeros stand for it" in capsys.readouterr().out
    else:
        assert about["label"]["seen_in"] == source and len(batch) == 2 and batch[-1].tolist() == list(range(6))


STEP = "F.cross_entropy(net{}(images + {})['logits'], labels).backward()\n"
#: Ways to call the model: (program, added to the images, whether the label is seen).
WAYS = {
    "forward itself": ("net = Net()\nfor add in (0, 5, 7):\n    " + STEP.format(".forward", "add")[:-12], 5, True),
    "forward itself, once": ("net = Net()\n" + STEP.format(".forward", "3"), 3, False),
    "a trial without gradients": (
        "net = Net().eval()\nwith torch.no_grad():\n    net(images[:1].clone())\nnet.train()\n" + STEP.format("", "2"), 2, True),
    "only without gradients": ("net = Net()\nwith torch.no_grad():\n    net(images + 1)\n    net(images)\n", 1, False),
    "data parallel and compiled": ("net = nn.DataParallel(torch.compile(Net()))\n" + STEP.format("", "4"), 4, True),
    "a main function that exits": ("""
import argparse, sys
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--add", type=float, default=6)
    add, net = parser.parse_args().add, Net()
    """ + STEP.format("", "add") + """
if __name__ == "__main__":
    sys.exit(main())
""", 6, True),
    "everything is caught": ("""
net, add = Net(), 0
while True:
    try:
        add += 1
        """ + STEP.format("", "add") + """
    except BaseException as error:
        print(error)
""", 1, True),
    "a file beside the program": (
        "torch.save(images, 'data.pt')\nimages, net = torch.load('data.pt'), Net()\n" + STEP.format("", "8"), 8, True),
    "workers": ("""
from torch.utils.data import DataLoader, TensorDataset
net = Net()
for images, labels in DataLoader(TensorDataset(images, labels), batch_size=8, num_workers=2, persistent_workers=True):
    """ + STEP.format("", "9"), 9, True),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_call_the_model(reference, way):
    program, add, label = WAYS[way]
    about, arrays, _ = run(script(reference, program))
    assert about["module"] == "models.net.Net" and about["arguments"][0]["name"] == "images"
    assert np.array_equal(arrays["images"], IMAGES + np.float32(add))
    assert ("label" in arrays) is label and (not label or arrays["label"].tolist() == list(range(8)))
    assert about["outputs"] or way == "forward itself, once"
    assert about["place"].startswith("train.py:")


def test_forward_itself_once_with_other_arguments_by_then(reference):
    text = refused(script(reference, """
class Other(Net):
    def forward(self, images):
        images = images + 1
        return super().forward(images)
Other().forward(images)
"""), [sys.executable, "train.py"])  # fmt: skip
    assert "called forward() of train.Other once, without its __call__, and it changed its arguments" in text


@pytest.mark.parametrize("command", [
    "import subprocess, sys; subprocess.run([sys.executable, 'train.py'], env={})",
    "import subprocess, sys; subprocess.check_call(sys.executable + ' train.py', shell=True, env={'PYTHONPATH': '.'})",
    "import os, sys; os.environ['PYTHONPATH'] = '.'; os.system('python train.py')",
])  # fmt: skip
def test_a_program_that_is_started_with_other_variables(reference, command, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    about, arrays, _ = run(reference, sys.executable, "-c", command)
    assert about["module"] == "models.net.Net" and np.array_equal(arrays["images"], IMAGES)


def test_a_shell_script_that_sets_the_path(reference, monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (reference / "run.sh").write_text("export PYTHONPATH=./models\ncd .\nPYTHONPATH=. python -u train.py --name 'a b'\n")
    about, arrays, _ = run(reference, "bash", "run.sh")
    assert about["module"] == "models.net.Net" and np.array_equal(arrays["images"], IMAGES)


def test_inputs_that_are_objects(reference):
    """A dataclass, an ordered dictionary with attributes, a named tuple, and None."""
    about, arrays, _ = run(script(reference, """
import collections, dataclasses
@dataclasses.dataclass
class Batch:
    images: torch.Tensor
    sizes: list
    note: str = "note"
class Outputs(collections.OrderedDict):
    def __getattr__(self, name):
        return self[name]
Pair = collections.namedtuple("Pair", "left right")
class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def forward(self, batch, outputs=None, pair=None, *rest, **more):
        return Outputs(logits=self.net(batch.images)["logits"])
Wide()(Batch(images, [labels, None]), Outputs(hidden=images[0]), Pair(labels, None), None, flag=True)
"""))  # fmt: skip
    assert set(arrays) == {"batch.images", "batch.sizes[0]", "outputs.hidden", "pair.left"}
    texts = {leaf["name"]: leaf["text"] for leaf in about["arguments"] if "text" in leaf}
    assert texts == {"batch.sizes[1]": "None", "batch.note": "'note'", "pair.right": "None", "rest[0]": "None", "flag": "True"}
    assert [leaf["name"] for leaf in about["outputs"]] == ["output.logits"]


def test_the_batch_of_an_earlier_call_goes_where_the_new_one_does_not_fit(reference, capsys):
    out = run(reference)[2]
    assert (out / "reference_batch.npz").exists()
    run(script(reference, "nn.Linear(3, 4)(torch.ones(3))\nNet()(images, extra=images[:3])\n"), module="Net")
    assert not (out / "reference_batch.npz").exists()
    assert f"removed: {out}/reference_batch.npz, the batch of an earlier call\n" in capsys.readouterr().out


def test_the_output_in_the_documents_is_real(tmp_path, monkeypatch, capsys):
    from pipeline.align import cli

    where = tmp_path / "port"
    subprocess.run(["cp", "-r", sample(), where], check=True)
    monkeypatch.chdir(where)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(cli, "Paths", lambda: Paths(where))
    assert cli.main(["probe", "--", "python", "torch_ref/train.py"]) == 0
    shown = capsys.readouterr().out
    for readme in sample().glob("README*.md"):
        assert f"```\n{shown}```" in readme.read_text(encoding="utf-8"), readme


def test_a_call_that_fails(reference, capsys):
    about, arrays, _ = run(script(reference, "Net()(images.double())\n"))
    assert about["error"].startswith("RuntimeError: ") and arrays["images"].dtype == np.float64
    assert f"\nthe call failed: {about['error']}\n" in capsys.readouterr().out


def test_the_batch_avoids_the_other_axes(reference):
    """Step 1 refuses a batch as long as another axis of an output; 6 is the size in port.yaml."""
    _, _, out = run(script(reference, "nn.Linear(3, 6)(torch.ones(20, 7, 3))\n"), module="Linear")
    assert read_batch(out / "reference_batch.npz")[0].shape == (8, 7, 3)


ERRORS = {
    "nothing": ([], "name the command that runs the reference"),
    "no such program": (["no-such-python", "train.py"], "cannot run no-such-python: No such file or directory"),
    "no such script": ([sys.executable, "none.py"], "can't open file"),
    "no Python": (["ls"], "started no Python that the probe can enter"),
    "isolated": ([sys.executable, "-I", "-c", "import torch"], "started no Python that the probe can enter"),
    "no torch": ([sys.executable, "-c", "print(1)"], "ended without importing torch"),
    "crash": ([sys.executable, "-c", "import no_such"], "its last line: ModuleNotFoundError: No module named 'no_such'"),
    "signal": ([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], "ended by signal 9 and printed nothing"),
}  # fmt: skip
CALLS = {
    "no call": ("import torch", "", "ended without calling a module"),
    "no parameters": ("import torch; torch.nn.ReLU()(torch.ones(1))", "", "called only modules without parameters: torch.nn."),
    "another": ("from models import *; Net()(images)", "Other", "without calling a module Other; called were: models.net.Net"),
}  # fmt: skip


def refused(folder: Path, command, module: str = "") -> str:
    with pytest.raises(UserError) as caught:
        probe.run(Paths(), settings(), command, folder, module, folder.parent / "out")
    assert "\n" not in str(caught.value)
    left = folder.parent / "out"
    assert not left.exists() or {path.name for path in left.iterdir()} <= {"reference.log"}
    return str(caught.value)


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_no_reference(reference, case):
    command, text = ERRORS[case]
    assert text in refused(reference, command)


@pytest.mark.parametrize("case", CALLS)
def test_no_such_call(reference, case):
    program, module, text = CALLS[case]
    assert text in refused(reference, [sys.executable, "-c", program], module)


def test_no_such_folder(tmp_path):
    assert "there is no folder" in refused(tmp_path / "none", [sys.executable, "-c", ""])


def test_the_kit_imports_no_framework_and_starts_fast():
    program = "import sys; from pipeline.align import cli, probe, draft; print({'torch', 'paddle'} & set(sys.modules))"
    started = time.perf_counter()
    assert subprocess.check_output([sys.executable, "-c", program], cwd=TEMPLATE, text=True) == "set()\n"
    assert time.perf_counter() - started < 1.5  # 0.2 s on an idle machine


def test_what_runs_in_the_reference_is_old_python():
    """The reference may need a Python that the kit does not run on; `ast` has kept the grammar of 3.6 apart from few words."""
    import ast

    for name in ("injected.py", "injected_calls.py", "injected_store.py"):
        text = (TEMPLATE / "pipeline/align/probe" / name).read_text(encoding="utf-8")
        tree = ast.parse(text, feature_version=(3, 6))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert imported <= {*sys.stdlib_module_names, "torch", "reprod_probe_calls", "reprod_probe_store"} - {"__future__"}
