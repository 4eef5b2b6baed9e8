# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Time and memory of comparing two records, beside one plain numpy pass over the same data and beside reprod_log.

    python ci/bench/compare.py [--mb 1024] [--tensors 200] [--repeat 3]

Every operation runs in fresh processes, on files in the page cache; the best time counts. Memory is what the process
allocated beyond its start (anonymous pages; the pages of a memory map belong to the page cache).
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

TEMPLATE = Path(__file__).resolve().parents[2] / "{{cookiecutter.repo_name}}"
sys.path.insert(0, str(TEMPLATE))
sys.dont_write_bytecode = True
BLOCK = 1 << 18


def anonymous_mb() -> float:
    """Anonymous memory of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError("this benchmark reads /proc, which only Linux has")


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Seconds of `work()` and the highest memory above the start, sampled every 2 ms."""
    start, peak, done = anonymous_mb(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak[0] = max(peak[0], anonymous_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    return {"seconds": seconds, "mb": max(0.0, peak[0] - start)}


def make(folder: Path, mb: int, tensors: int) -> None:
    """Two records, ours and stock's, of `tensors` arrays; the sides differ by rounding."""
    from pipeline.align.records import write_record

    size = mb * (1 << 18) // tensors
    for side in ("torch", "paddle"):
        random = np.random.default_rng(0)
        arrays = {}
        for index in range(tensors):
            values = random.standard_normal(size, np.float32)
            arrays[f"layer{index}.weight"] = values if side == "torch" else values * np.float32(1 + 1e-7)
        write_record(folder / f"ours_{side}.npy", arrays, {"framework": side, "part": "bench"})
        np.save(folder / f"stock_{side}.npy", arrays)
    times = [(folder / f"ours_{side}.npy").stat().st_mtime_ns for side in ("torch", "paddle")]
    (folder / "times.json").write_text(json.dumps(times))


def plain(folder: Path, kind: str) -> Callable[[], object]:
    """mean |a - b| in blocks that stay in the cache, on mapped files that are open already."""
    from pipeline.align.records import read_record

    a, b = (read_record(folder / f"{kind}_{side}.npy").arrays for side in ("torch", "paddle"))

    def work() -> float:
        buffer, total = np.empty(BLOCK, np.float32), 0.0
        for key in a:
            x, y = a[key].reshape(-1), b[key].reshape(-1)
            for start in range(0, x.size, BLOCK):
                d = buffer[: min(BLOCK, x.size - start)]
                np.subtract(x[start : start + BLOCK], y[start : start + BLOCK], out=d)
                total += float(np.abs(d, out=d).mean())
        return total

    return work


def numbers(folder: Path, kind: str) -> Callable[[], object]:
    """Our comparison of all numbers, files open already."""
    from pipeline.align.records import read_record
    from pipeline.align.thresholds import threshold
    from pipeline.align.verdict import compare_records

    pair = [read_record(folder / f"{kind}_{side}.npy") for side in ("torch", "paddle")]

    def work() -> None:
        assert compare_records("bench", *pair, threshold("forward")).passed

    return work


def judge(folder: Path, kind: str) -> Callable[[], object]:
    """Our whole verdict: open, check that nothing was edited, compare. "clone": with other time stamps all is read for that."""
    from pipeline.align.thresholds import threshold
    from pipeline.align.verdict import judge_part

    paths = [folder / f"ours_{side}.npy" for side in ("torch", "paddle")]
    for path, moment in zip(paths, json.loads((folder / "times.json").read_text())):
        moment += kind == "clone"
        os.utime(path, ns=(moment, moment))

    def work() -> None:
        assert judge_part("bench", *paths, threshold("forward"), step=1).passed

    return work


def stock(folder: Path, kind: str) -> Callable[[], object]:
    """reprod_log: load two files, compare, report."""
    from reprod_log import ReprodDiffHelper

    def work() -> None:
        helper = ReprodDiffHelper()
        helper.compare_info(*(helper.load_info(str(folder / f"{kind}_{side}.npy")) for side in ("torch", "paddle")))
        helper.report(path=str(folder / "stock.log"))

    return work


def write(folder: Path, kind: str) -> Callable[[], object]:
    """Write one record, ours or numpy.save as reprod_log calls it."""
    from pipeline.align.records import read_record, write_record

    arrays = {key: np.array(value) for key, value in read_record(folder / "ours_torch.npy").arrays.items()}
    path = folder / "written.npy"
    path.unlink(missing_ok=True)
    return (lambda: write_record(path, arrays, {})) if kind == "ours" else (lambda: np.save(path, arrays))


OPERATIONS = {
    "one plain numpy pass": (plain, "ours"),
    "numbers, both files open": (numbers, "ours"),
    "whole verdict, files to result": (judge, "ours"),
    "whole verdict, after git clone": (judge, "clone"),
    "reprod_log: load, compare, report": (stock, "stock"),
    "plain pass, stock files": (plain, "stock"),
    "numbers, stock files": (numbers, "stock"),
    "write one record": (write, "ours"),
    "reprod_log: write one record": (write, "stock"),
}


def main() -> None:
    """Print the table; with --one, measure one operation and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=1024, help="size of one record in MB (default: 1024)")
    parser.add_argument("--tensors", type=int, default=200, help="arrays per record (default: 200)")
    parser.add_argument("--repeat", type=int, default=3, help="processes per operation, the best counts (default: 3)")
    parser.add_argument("--one", nargs=2, metavar=("OPERATION", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        function, kind = OPERATIONS[args.one[0]]
        print(json.dumps(measured(function(Path(args.one[1]), kind))))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), args.mb, args.tensors)
        print(f"{args.mb} MB float32 in {args.tensors} tensors, best of {args.repeat}, seconds and MB of memory\n")
        print(f"{'operation':36s}{'s':>8s}{'ratio':>8s}{'MB':>8s}")
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in OPERATIONS}
        for _ in range(args.repeat):  # in turn, so that what else the machine does falls on all of them
            for name in OPERATIONS:
                command = [sys.executable, __file__, "--one", name, folder]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                runs[name].append(json.loads(done.stdout.splitlines()[-1]))
        best = {name: min(run["seconds"] for run in found) for name, found in runs.items()}
        unit = best["one plain numpy pass"]
        for name, seconds in best.items():
            memory = max(run["mb"] for run in runs[name])
            print(f"{name:36s}{seconds:8.3f}{seconds / unit:8.2f}{memory:8.0f}")


if __name__ == "__main__":
    main()
