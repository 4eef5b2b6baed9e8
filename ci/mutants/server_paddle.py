# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Runs and judges many ports of one base: imports Paddle once, then every port has forks of its own.

    python server_paddle.py PLAN.json WORKERS      (with the base on PYTHONPATH)

A port's jobs run in one fork, as they do in one worker of the kit, and the captures for bisect in a second one. The
fork above them, which never runs Paddle, judges the records with the kit's own functions and writes result.json: {"status":
exit status of `align`, "failures": of the jobs, "nodes": verdicts, "finding": of bisect or null, "bisect_error": text or
null, "seconds"}.
"""
from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import paddle  # noqa: F401  (imported before the forks, for all of them)

from pipeline.align import backend_paddle, bisect, check, worker  # noqa: F401
from pipeline.align.bisect import capture, capture_paddle, optimizer_paddle  # noqa: F401
from pipeline.align.errors import UserError
from pipeline.align.paths import Paths
from pipeline.align.provenance import write_json
from pipeline.align.settings import load_settings
from pipeline.align.steps import step1, step2, step3, step4, step5, weights  # noqa: F401

#: Seconds after which a port's jobs are ended.
LIMIT = 120
#: Steps whose faults bisect looks for; step 2 runs no training step and step 5 is the port's own loop.
BISECTED = (1, 3, 4)


def main(plan: Path, workers: int) -> None:
    """Run all cases of the plan, `workers` at a time."""
    running: set[int] = set()
    for case in json.loads(plan.read_text(encoding="utf-8")):
        if len(running) == workers:
            running.discard(os.wait()[0])
        running.add(_fork(lambda case=case: _case(Path(case["folder"]), case["step"])))
    for pid in running:
        os.waitpid(pid, 0)


def _fork(work: Callable[[], None]) -> int:
    """Call `work` in a new process; returns its id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return pid


def _case(folder: Path, last: int) -> None:
    started = time.perf_counter()
    log = os.open(folder / "case.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    paths = Paths(folder)
    cfg = load_settings(paths.settings)
    steps = range(1, max(last, 1) + 1)
    failures = _jobs(paths, ["convert", *(f"step{step}" for step in steps)])
    nodes = check.check(paths, cfg, steps)
    red = next((node.step for node in nodes if node.state != "green"), 0)
    finding = error = None
    if red in BISECTED and not any(failure["job"] in ("start", "convert") for failure in failures):
        try:
            finding = _bisect(paths)
        except UserError as reason:
            error = str(reason)
    user = any(failure["kind"] == "user" for failure in failures)
    result = {
        "status": 2 if user else int(red > 0), "failures": failures, "nodes": [node.to_json() for node in nodes],
        "finding": finding and finding.to_json(), "bisect_error": error, "seconds": time.perf_counter() - started,
    }  # fmt: skip
    write_json(folder / "result.json", result)


def _bisect(paths: Paths) -> bisect.Finding | None:
    """As bisect.run() does, with the reference's captures at hand already."""
    failures = _jobs(paths, ["convert", *(f"capture\t{mode}\t{bisect.STEPS}" for mode in bisect.MODES)])
    for failure in failures:
        if failure["kind"] in ("user", "stopped") or not failure["job"].startswith("capture"):
            raise UserError(f"{failure['side']} side, {failure['job']}: {failure['message']}")
    return bisect.compare(paths, bisect.MODES, failures, print)


def _jobs(paths: Paths, jobs: Sequence[str]) -> list[dict]:
    """Run jobs in one process of their own, as a worker of the kit does; returns the failures."""
    answers = paths.root / "answers.jsonl"
    answers.unlink(missing_ok=True)
    _, ended = os.waitpid(_fork(lambda: _worker(paths, jobs, answers)), 0)
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    failures = [{"side": "paddle", **line} for line in lines if line.get("status") == "failed"]
    if os.WIFSIGNALED(ended):
        job = lines[-1]["begun"]
        failure = {"side": "paddle", "job": job, "status": "failed", "kind": "crash",
                   "message": f"the paddle process was ended by signal {os.WTERMSIG(ended)} during {job}"}  # fmt: skip
        write_json(paths.failure("paddle", job.split("\t")[0]), failure)
        failures.append(failure)
    elif ended:
        raise RuntimeError(f"the process of {paths.root.name} failed by itself, not by its port")
    return failures


def _worker(paths: Paths, jobs: Sequence[str], answers: Path) -> None:
    signal.alarm(LIMIT)
    side = worker.Side("paddle", (), debug=True)
    side.paths = paths
    with open(answers, "a", encoding="utf-8", buffering=1) as file:
        for job in ("start", *jobs):
            file.write(json.dumps({"begun": job}) + "\n")
            answer = side.attempt(job)
            file.write(json.dumps(answer) + "\n")
            if answer["status"] == "failed" and job in ("start", "convert"):
                return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
