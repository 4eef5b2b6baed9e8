# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One side's process. It imports one framework once and then runs the jobs that the parent asks for, one line each.

Protocol: the parent writes a job per line to stdin, its name and then arguments after tabs; for each the worker answers one
line of JSON on the original stdout: {"job", "status": "done" | "failed", "kind", "message", "seconds"}. Whatever the port
prints goes to stderr.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from pipeline.align import provenance
from pipeline.align.context import Context
from pipeline.align.contract import describe_error
from pipeline.align.errors import PortError, UserError
from pipeline.align.fake_data import ensure_batch
from pipeline.align.paths import ROOT, Paths
from pipeline.align.settings import Settings, load_settings

JOBS = {
    "weights": "weights.make", "convert": "weights.convert", "batch": "real_batch.save",
    "capture": "capture.run", "checkpoint": "checkpoint.convert",
    "step1": "step1.run", "step2": "step2.run", "step3": "step3.run", "step4": "step4.run", "step5": "step5.run",
}  # fmt: skip

#: Warnings of the frameworks that say nothing about a port.
KNOWN_WARNINGS = ("No ccache found", "When training, we now always track global mean and variance")
#: The job that gives each side its weights.
FIRST_JOB = {"torch": "weights", "paddle": "convert"}


def run_job(context: Context, job: str) -> None:
    """Run one job on this side: its name, and its arguments after tabs."""
    name, *arguments = job.split("\t")
    module, function = JOBS[name].split(".")
    context.started = time.perf_counter()
    context.backend.guards.clear()
    getattr(importlib.import_module(f"pipeline.align.steps.{module}"), function)(context, *arguments)


def open_context(side: str, paths: Paths, cfg: Settings) -> Context:
    """Import the framework and the contract of one side. Raises UserError or PortError."""
    for noise in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message=noise)
    try:
        if importlib.import_module(side).__file__ is None:  # without Paddle, `paddle` is this repository's folder
            raise ImportError(f"no module named {side!r}")
        backend = importlib.import_module(f"pipeline.align.backend_{side}").Backend()
    except ImportError as error:
        raise UserError(f"{sys.executable} cannot import {side} ({error}); run make setup, or name the interpreter of that "
                        f"side in {side.upper()}_PYTHON") from error  # fmt: skip
    made = provenance.make(paths, cfg, backend, "environment", {})
    provenance.write_json(paths.environment(side), {key: made[key] for key in made if key not in ("settings_values", "code")})
    return Context(paths, cfg, backend, side)


class Side:
    """One side in this process: "start" opens it, every other job runs in what was opened."""

    def __init__(self, side: str, overrides: Sequence[str], debug: bool):
        self.side, self.overrides, self.debug = side, overrides, debug
        self.paths = Paths(ROOT)
        self._context: Context | None = None

    def attempt(self, job: str) -> dict[str, Any]:
        """Run a job; what it raises becomes the answer, and is kept in a file for the verdict."""
        started, name = time.perf_counter(), job.split("\t")[0]
        answer: dict[str, Any] = {"job": job, "status": "done"}
        self.paths.failure(self.side, name).unlink(missing_ok=True)
        try:
            if job == "start":
                self._context = open_context(self.side, self.paths, load_settings(self.paths.settings, self.overrides))
            else:
                run_job(self._context, job)
        except (KeyboardInterrupt, SystemExit) as error:
            answer.update(status="failed", kind="stopped", message=f"stopped by {describe_error(error, self.paths)}")
        except UserError as error:
            answer.update(status="failed", kind="user", message=str(error))
        except PortError as error:
            answer.update(status="failed", kind="port", message=str(error))
        except Exception as error:  # the port's or the reference's own fault, or a defect of the framework
            answer.update(status="failed", kind="port", message=describe_error(error, self.paths))
            if self.debug:
                traceback.print_exc()
        answer["seconds"] = round(time.perf_counter() - started, 3)
        if answer["status"] == "failed":
            provenance.write_json(self.paths.failure(self.side, name), answer)
        return answer


def serve(side: str, overrides: Sequence[str], debug: bool) -> None:
    """Answer jobs until stdin ends."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a port that reads from the terminal gets an error, not our jobs
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    one = Side(side, overrides, debug)
    _answer(channel, one.attempt("start"))
    for line in jobs:
        _answer(channel, one.attempt(line.rstrip("\n")))


def _answer(channel: Any, answer: dict[str, Any]) -> None:
    sys.stderr.flush()
    channel.write(json.dumps(answer) + "\n")
    channel.flush()


def run_script(side: str, step: int) -> None:
    """What the scripts in pipeline/Step<n>/ call: run one step of one side in this process, then exit."""
    parser = argparse.ArgumentParser(
        description=f"Record step {step} of the {side} side; judge it with: python -m pipeline check {step}"
    )
    parser.add_argument(
        "-o", dest="override", action="append", default=[], metavar="KEY.SUB=VALUE", help="change a setting of port.yaml"
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    args = parser.parse_args()
    one = Side(side, args.override, args.debug)
    try:
        ensure_batch(load_settings(one.paths.settings, args.override), one.paths.fake_batch)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for job in ("start", FIRST_JOB[side], f"step{step}"):
        answer = one.attempt(job)
        if answer["status"] == "failed":
            print(f"error: {side} side, {job}: {answer['message']}", file=sys.stderr)
            sys.exit(2)
    print(f"step {step} of the {side} side recorded; judge it with: python -m pipeline check {step}")
    sys.exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[3:], debug=sys.argv[2] == "debug")
