# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""bisect as the command runs it, with a side that crashes, and how its time grows with the network."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import bisect_pairs
from bisect_pairs import Pair

NET = """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.act = nn.Linear(16, 16), nn.LayerNorm(16), nn.ReLU()
    def forward(self, x):
        return x + self.norm(self.act(self.fc(x)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 16), nn.Linear(16, 5)
        self.parts = nn.Sequential(*[Part() for _ in range(COUNT)])
    def forward(self, x):
        return self.last(self.parts(self.first(x)))
"""
VECTOR = "{shape: [12], dtype: float32, low: -2.0, high: 2.0}"


def nets(count, edit=("", "")):
    torch = NET.replace("COUNT", str(count))
    paddle = torch.replace("nn.Module", "nn.Layer").replace(*edit)
    rate = "\ndef build_optimizer(cfg, model, steps): return {}, None\n"
    return Pair(
        torch + rate.format("torch.optim.SGD(model.parameters(), lr=1e-3)"),
        paddle + rate.format("paddle.optimizer.SGD(1e-3, parameters=model.parameters())"),
        VECTOR,
        modes=("eval",),
    )


def test_a_crash_is_reported_with_its_module(tmp_path):
    crash = ("return x + self.norm(", "if self is PARTS[1]: __import__('ctypes').string_at(0)\n        return x + self.norm(")
    pair = nets(3, crash)
    pair.paddle += "\nPARTS = []\ndef build_model(cfg):\n    net = Net()\n    PARTS[:] = list(net.parts)\n    return net\n"
    bisect_pairs.write(tmp_path / "pair", pair)
    shutil.copytree(
        bisect_pairs.TEMPLATE / "pipeline", tmp_path / "pair" / "pipeline", ignore=shutil.ignore_patterns("work", "weights")
    )
    command = [sys.executable, "-m", "pipeline", "bisect", "--json", "--mode", "eval"]
    environment = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=tmp_path / "pair", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert (found["stage"], found["mode"]) == ("failure", "eval")
    assert found["paddle"] == {"path": "parts.1", "kind": "Part"}
    assert "signal 11" in found["paragraph"] and "'parts.1'" in found["paragraph"]


def test_time_grows_as_the_network(tmp_path):
    """10, 100 and 1000 modules: ten times the modules may not take more than twenty times as long."""
    counts = {f"n{count}": count for count in (2, 25, 250)}
    spent = bisect_pairs.capture(tmp_path, {name: nets(count) for name, count in counts.items()})
    for name in counts:
        started = time.perf_counter()
        found, _ = bisect_pairs.compare(tmp_path / name)
        spent["compare", name] = time.perf_counter() - started
        assert found is None, found.paragraph
    for what in ("torch", "paddle", "compare"):
        small, large = spent[what, "n25"], spent[what, "n250"]
        assert large < 20 * small + 0.5, spent
    assert sum(spent[what, "n250"] for what in ("torch", "paddle", "compare")) < 60, spent
