# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How long the conversion of 1 GB of weights takes and how much memory, against one numpy pass and a copy of the file.

    python ci/bench/convert.py [--megabytes 1024] [--folder /tmp]

Each kind of source is converted in a process of its own, with neither framework imported, and converts Linear layers
(transposed) and convolutions (copied), half and half. Best of three; memory is the peak of anonymous pages, the mapped
source not counted. Needs three times the size on disk.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parents[2] / "{{cookiecutter.repo_name}}"
SIDE = 2048  # a Linear weight of 16 MiB

CONVERT = """
import json, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from pipeline.align.convert import convert_file, plan
made = plan(json.load(open("torch.json")), json.load(open("paddle.json")))

def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) / 1024

start, peak, stop = anonymous(), 0.0, threading.Event()
def watch():
    global peak
    while not stop.wait(0.002):
        peak = max(peak, anonymous())
threading.Thread(target=watch, daemon=True).start()
times = []
for _ in range(3):
    begin = time.perf_counter()
    convert_file(made, sys.argv[2], sys.argv[3])
    times.append(time.perf_counter() - begin)
stop.set()
print(json.dumps({"seconds": min(times), "megabytes": peak - start}))
"""


def describe(framework, count):
    """A described model of `count` Linear layers and as many convolutions of the same size."""
    torch = framework == "torch"
    modules = [
        {
            "path": "",
            "name": "",
            "parent": None,
            "class": "Net",
            "bases": ["Net"],
            "hyper": {},
            "params": [],
            "buffers": [],
            "norms": {},
        }
    ]
    for i in range(count):
        for kind, shape in (("linear", [SIDE, SIDE]), ("conv", [SIDE, SIDE // 16, 4, 4])):
            name = f"{kind}{i}"
            bases = {"linear": ["torch.nn.Linear", "paddle.nn.Linear"], "conv": ["torch.nn.Conv2d", "paddle.nn.Conv2D"]}[kind][
                not torch
            ]
            weight = {"name": "weight", "key": f"{name}.weight", "shape": shape, "dtype": "float32", "trainable": True}
            modules.append(
                {**modules[0], "path": name, "name": name, "parent": 0, "class": bases, "bases": [bases], "params": [weight]}
            )
    return {"framework": framework, "modules": modules, "aliases": {}}


def best(function):
    """Seconds of the fastest of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the weights (default: 1024)")
    parser.add_argument("--folder", type=Path, help="where the files go (default: the temporary folder)")
    args = parser.parse_args()
    import numpy as np
    import safetensors.torch
    import torch

    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        count = max(1, args.megabytes // (2 * SIDE * SIDE * 4 >> 20))
        trees = {side: describe(side, count) for side in ("torch", "paddle")}
        for side, tree in trees.items():
            (folder / f"{side}.json").write_text(json.dumps(tree))
        state = {one["key"]: torch.rand(one["shape"]) for module in trees["torch"]["modules"] for one in module["params"]}
        size = sum(value.numel() * 4 for value in state.values())
        safetensors.torch.save_file(state, folder / "w.safetensors")
        torch.save(state, folder / "w.pth")
        torch.save(state, folder / "old.pth", _use_new_zipfile_serialization=False)
        safetensors.torch.save_file({key: value.bfloat16() for key, value in state.items()}, folder / "half.safetensors")
        del state
        mapped = np.memmap(folder / "w.safetensors", np.uint8)[-size:].view(np.float32)
        rows = [
            ("numpy pass (sum of the mapped file)", best(mapped.sum), 0.0),
            ("copy of the file", best(lambda: shutil.copyfile(folder / "w.safetensors", folder / "copy")), 0.0),
        ]
        (folder / "copy").unlink()
        for title, source, target in (
            ("safetensors to safetensors", "w.safetensors", "out.safetensors"),
            ("safetensors to pdparams", "w.safetensors", "out.pdparams"),
            ("torch zip to safetensors", "w.pth", "out.safetensors"),
            ("old torch file to safetensors", "old.pth", "out.safetensors"),
            ("bfloat16 safetensors to float32", "half.safetensors", "out.safetensors"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", CONVERT, str(TEMPLATE), source, target], cwd=folder, capture_output=True, text=True
            )
            if done.returncode:
                sys.exit(done.stderr)
            found = json.loads(done.stdout)
            rows.append((title, found["seconds"], found["megabytes"]))
            (folder / target).unlink()
    print(f"{size >> 20} MiB of float32 in {2 * count} tensors; the largest has {SIDE * SIDE * 4 >> 20} MiB")
    for title, seconds, megabytes in rows:
        print(f"{title:36} {seconds:6.2f} s  {seconds / rows[0][1]:5.1f} x a pass  {megabytes:6.1f} MiB")


if __name__ == "__main__":
    main()
