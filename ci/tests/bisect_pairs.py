# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Small pairs of a reference and a port, captured for bisect: many pairs in one process per framework.

    capture(folder, {name: Pair(torch source, paddle source)})    then   compare(folder / name)

A source defines Net, and may define anything of the contract that is to differ from COMMON.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

import yaml

TEMPLATE = Path(__file__).resolve().parents[2] / "{{cookiecutter.repo_name}}"

#: Changes to the template's port.yaml, section by section.
SETTINGS = """
data: {batch_size: 4, num_workers: 0}
fake_data:
  seed: 7
  batch_size: 6
  inputs: [%s]
  label: {shape: [], dtype: int64, low: 0, high: 5}
train: {epochs: 2}
"""

COMMON = {
    "torch": """
import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

def build_model(cfg): return Net()
def build_dataset(cfg, split): return [(np.zeros(1, "float32"), 0)] * 40
def build_loss(cfg): return lambda outputs, labels: F.cross_entropy(outputs["logits"], labels)
def build_optimizer(cfg, model, steps):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9), None
def forward(model, batch): return {"logits": model(batch[0])}
class Metric:
    def update(self, outputs, labels): pass
    def compute(self): return {"accuracy": 0.0}
def build_metric(cfg): return Metric()
""",
    "paddle": """
import math
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.optimizer.lr import LambdaDecay

def build_model(cfg): return Net()
def build_dataset(cfg, split): return [(np.zeros(1, "float32"), 0)] * 40
def build_loss(cfg): return lambda outputs, labels: F.cross_entropy(outputs["logits"], labels)
def build_optimizer(cfg, model, steps):
    return paddle.optimizer.Momentum(0.1, momentum=0.9, parameters=[p for p in model.parameters() if not p.stop_gradient]), None
def forward(model, batch): return {"logits": model(batch[0])}
class Metric:
    def update(self, outputs, labels): pass
    def compute(self): return {"accuracy": 0.0}
def build_metric(cfg): return Metric()
""",
}
FILES = {"torch": ("torch_ref", "reference"), "paddle": ("paddle", "port")}


@dataclass
class Pair:
    """`inputs`: entries of fake_data.inputs in YAML; `weights_map`: weights.map; `modes`: what is captured."""

    torch: str
    paddle: str
    inputs: str = "{shape: [3, 8, 8], dtype: float32, low: -2.0, high: 2.0}"
    weights_map: dict = field(default_factory=dict)
    modes: tuple[str, ...] = ("eval", "train")


def write(folder: Path, pair: Pair) -> None:
    """Write a pair as a repository: both trees and port.yaml."""
    for side, (tree, module) in FILES.items():
        file = folder / tree / f"{module}.py"
        file.parent.mkdir(parents=True)
        file.write_text(COMMON[side] + getattr(pair, side), encoding="utf-8")
    from conftest import sample

    settings = yaml.safe_load((sample() / "port.yaml").read_text(encoding="utf-8"))
    for section, values in yaml.safe_load(SETTINGS % pair.inputs).items():
        settings[section] = {**settings[section], **values}
    settings["weights"]["map"] = pair.weights_map
    (folder / "port.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "modes.json").write_text(json.dumps(pair.modes), encoding="utf-8")


def capture(folder: Path, pairs: dict[str, Pair]) -> dict[tuple[str, str], float]:
    """Write every pair in `folder` and capture it; a failed side leaves <side>.failed.json. Returns {(side, name): seconds}."""
    for name, pair in pairs.items():
        write(folder / name, pair)
    environment = {**os.environ, "PYTHONPATH": str(TEMPLATE), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    spent = {}
    for side in FILES:
        subprocess.run([sys.executable, __file__, side, str(folder), *pairs], check=True, env=environment)
        spent.update(
            {(side, name): seconds for name, seconds in json.loads((folder / f"{side}.seconds.json").read_text()).items()}
        )
    return spent


def compare(folder: Path):
    """The finding of a captured pair, or None, with the notes that bisect shows."""
    from pipeline.align import bisect
    from pipeline.align.paths import Paths

    failed = [json.loads(file.read_text()) for file in sorted(folder.glob("*.failed.json"))]
    notes: list[str] = []
    modes = json.loads((folder / "modes.json").read_text())
    return bisect.compare(Paths(folder), modes, failed, notes.append), notes


def _serve(side: str, folder: Path, names: list[str]) -> None:
    import warnings

    warnings.filterwarnings("ignore")
    from importlib import import_module

    from pipeline.align.context import Context
    from pipeline.align.contract import describe_error
    from pipeline.align.fake_data import ensure_batch
    from pipeline.align.paths import Paths
    from pipeline.align.settings import load_settings
    from pipeline.align.steps import capture as job
    from pipeline.align.steps import weights

    backend = import_module(f"pipeline.align.backend_{side}").Backend()
    spent = {}
    for name in names:
        paths = Paths(folder / name)
        cfg = load_settings(paths.settings)
        ensure_batch(cfg, paths.fake_batch)
        step, started = "contract", time.perf_counter()
        try:
            context = Context(paths, cfg, backend, side)
            step = "weights"
            weights.make(context) if side == "torch" else weights.convert(context)
            for mode in json.loads((folder / name / "modes.json").read_text()):
                step = f"capture\t{mode}\t2"
                backend.guards.clear()
                job.run(context, mode, "2")
        except Exception as error:
            traceback.print_exc()
            failure = {"side": side, "job": step, "status": "failed", "kind": "port", "message": describe_error(error, paths)}
            (folder / name / f"{side}.failed.json").write_text(json.dumps(failure))
        spent[name] = time.perf_counter() - started
        sys.path.remove(str(paths.tree(side)))
        sys.modules.pop(FILES[side][1])
    (folder / f"{side}.seconds.json").write_text(json.dumps(spent))


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
