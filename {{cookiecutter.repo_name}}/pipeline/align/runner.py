# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The parent: starts one worker per side and hands out jobs as soon as what they need is done."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.align.errors import UserError
from pipeline.align.fake_data import ensure_batch
from pipeline.align.paths import SIDES, Paths
from pipeline.align.provenance import write_json
from pipeline.align.settings import Settings
from pipeline.align.worker import FIRST_JOB

TAB = "\t"  # between a job and its arguments
#: What must be done before a job of a side: (side, job) pairs. Each side runs its own jobs in order.
NEEDS = {
    ("paddle", "convert"): [("torch", "weights")],
    ("paddle", "step2"): [("torch", "step2")],
    ("paddle", "step3"): [("torch", "step1")],
}


class Worker:
    """One side's process and its output, line by line."""

    def __init__(self, paths: Paths, side: str, overrides: Sequence[str], debug: bool, show: Callable[[str], None]):
        self.side, self.busy, self.tail, self._show = side, "start", deque(maxlen=40), show
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.root), os.environ.get("PYTHONPATH", "")])),
        }
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
        command = [interpreter(side), "-m", "pipeline.align.worker", side, "debug" if debug else "plain", *overrides]
        try:
            self.process = subprocess.Popen(
                command, cwd=paths.root, env=environment, text=True, encoding="utf-8", errors="replace",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            raise UserError(f"cannot start {command[0]} for the {side} side ({error}); set {side.upper()}_PYTHON") from None

    def follow(self, events: queue.Queue) -> None:
        """Read both pipes in threads; answers go to `events`, all other lines are shown."""

        def read_errors() -> None:
            for line in self.process.stderr:
                self.tail.append(line.rstrip())
                self._show(f"[{self.side}] {line.rstrip()}")

        def read_answers() -> None:
            for line in self.process.stdout:
                events.put((self.side, json.loads(line)))
            reader.join()
            events.put((self.side, {"job": self.busy, "status": "ended"}))

        reader = threading.Thread(target=read_errors, daemon=True)
        reader.start()
        threading.Thread(target=read_answers, daemon=True).start()

    def send(self, job: str) -> None:
        """Ask for a job."""
        self.busy = job
        try:
            self.process.stdin.write(job + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it has just ended; read_answers reports that
            pass

    def stop(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def interpreter(side: str) -> str:
    """The Python of one side: TORCH_PYTHON or PADDLE_PYTHON, by default the running one."""
    return os.environ.get(f"{side.upper()}_PYTHON") or sys.executable


def run(
    paths: Paths,
    cfg: Settings,
    jobs: dict[str, list[str]],
    overrides: Sequence[str] = (),
    debug: bool = False,
    show: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Run `jobs` ({side: job names in order}) on both sides at the same time.

    Returns the failures: {"side", "job", "kind": "user" | "port" | "crash", "message"}. A job whose needs failed is not
    run; the other side goes on with what it can.
    """
    ensure_batch(cfg, paths.fake_batch)
    events: queue.Queue = queue.Queue()
    workers = {side: Worker(paths, side, overrides, debug, show) for side in SIDES if jobs.get(side)}
    waiting = {side: deque(jobs[side]) for side in workers}
    asked = {(side, job) for side in workers for job in jobs[side]}
    done: set[tuple[str, str]] = set()
    failures: list[dict[str, Any]] = []
    idle: set[str] = set()

    def ready(side: str) -> bool:
        return all(need in done or need not in asked for need in NEEDS.get((side, waiting[side][0]), []))

    try:
        for worker in workers.values():
            worker.follow(events)
        while workers:
            side, answer = events.get()
            if side not in workers:
                continue
            worker, job = workers[side], answer["job"]
            if answer["status"] == "ended":
                failures.append(_crash(paths, worker))
                workers.pop(side).stop()
            elif answer["status"] == "failed":
                failures.append({"side": side, **answer})
                if job in ("start", "weights", "convert"):
                    workers.pop(side).stop()
            else:
                done.add((side, job))
                if job != "start":
                    show(f"[{side}] {job.replace(TAB, ' ')} done in {answer['seconds']:.1f} s")
            idle.add(side)
            idle &= set(workers)
            blocked = {(f["side"], f["job"]) for f in failures} | {
                (s, j) for s, j in asked if s not in workers and (s, j) not in done
            }
            for name in sorted(idle):
                while waiting[name] and any(need in blocked for need in NEEDS.get((name, waiting[name][0]), [])):
                    asked_job = waiting[name].popleft()
                    if asked_job == "convert":
                        waiting[name].clear()
                if not waiting[name]:
                    workers.pop(name).stop()
                elif ready(name):
                    idle.discard(name)
                    workers[name].send(waiting[name].popleft())
            idle &= set(workers)
    finally:
        for worker in workers.values():
            worker.stop()
    return failures


def _crash(paths: Paths, worker: Worker) -> dict[str, Any]:
    code, name = worker.process.wait(), worker.busy.split(TAB)[0]
    how = f"by signal {-code}" if code < 0 else f"with exit status {code}"
    last = next((line for line in reversed(worker.tail) if line.strip()), "no output")
    failure = {"side": worker.side, "job": worker.busy, "status": "failed", "kind": "crash",
               "message": f"the {worker.side} process was ended {how} during {name}; its last line: {last[:200]}"}  # fmt: skip
    write_json(paths.failure(worker.side, name), failure)
    return failure


def jobs_for(steps: Sequence[int], sides: Sequence[str]) -> dict[str, list[str]]:
    """The jobs of `sides` for `steps`, with the weights first."""
    return {side: [FIRST_JOB[side], *(f"step{step}" for step in steps)] for side in sides}
