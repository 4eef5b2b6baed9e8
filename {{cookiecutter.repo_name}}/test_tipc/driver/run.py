# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Runs a plan: one command after the other, each with its own log, and reports."""
from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from test_tipc.driver.gpus import count_gpus, missing_gpu
from test_tipc.driver.plan import Command
from test_tipc.driver.record import FAILED, NOT_RUN, SUCCEEDED, Result, status_line


def run_plan(root: Path, plan: Sequence[Command], status_log: Path, log_folder: Path) -> list[Result]:
    """Run every command whose input was made and whose GPUs are there; `status_log` and `log_folder` start empty."""
    shutil.rmtree(log_folder, ignore_errors=True)
    log_folder.mkdir(parents=True)
    gpus = count_gpus() if any(command.gpus for command in plan) else 0
    results: list[Result] = []
    with open(status_log, "w", encoding="utf-8") as status:
        for number, command in enumerate(plan):
            reason = _hindrance(command, results, gpus)
            if reason:
                result = Result(command, NOT_RUN, reason)
            else:
                log = log_folder / f"{number + 1:03d}_{command.stage}_{command.entry}.log"
                _show(f"[{number + 1}/{len(plan)}] {command.stage}: {command.entry}\n")
                result = _run_command(root, command, log)
            results.append(result)
            status.write(status_line(result) + "\n")
            status.flush()
            _show(status_line(result) + "\n")
    return results


def _hindrance(command: Command, results: Sequence[Result], gpus: int) -> str:
    """Why a command cannot be run, or nothing."""
    absent = missing_gpu(command.gpus, gpus)
    if absent or command.needs is None or results[command.needs].state == SUCCEEDED:
        return absent
    needed = results[command.needs]
    return needed.reason if needed.state == NOT_RUN else f"{needed.command.stage} failed"


def _run_command(root: Path, command: Command, log: Path) -> Result:
    """Run one command under bash; its output goes to the terminal and to `log`."""
    if command.makes:
        shutil.rmtree(root / command.makes, ignore_errors=True)
    environment = dict(os.environ)
    if command.visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = command.visible
    started = time.monotonic()
    with open(log, "wb") as file:
        status = _call(["bash", "-o", "pipefail", "-c", command.text], root, environment, file)
    seconds = time.monotonic() - started
    if command.shown_log:
        shutil.copyfile(log, root / command.shown_log)
    relative = log.relative_to(root).as_posix()
    return Result(command, FAILED if status else SUCCEEDED, f"exit status {status}" if status else "", seconds, relative)


def _call(words: Sequence[str], root: Path, environment: dict[str, str], log) -> int:
    # A session of its own, so that what the command starts (the launcher its trainers) can be ended with it.
    process = subprocess.Popen(
        words, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        while True:
            # Not by lines: a progress bar has none.
            block = os.read(process.stdout.fileno(), 1 << 16)
            if not block:
                return process.wait()
            log.write(block)
            log.flush()
            _show(block)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise


def _show(text: str | bytes) -> None:
    sys.stdout.buffer.write(text.encode() if isinstance(text, str) else text)
    sys.stdout.buffer.flush()


def table(results: Sequence[Result]) -> str:
    """Every command with its state, seconds and log, then the totals."""
    rows = [("stage", "entry", "state", "seconds", "log")]
    for result in results:
        state = f"{NOT_RUN}: {result.reason}" if result.state == NOT_RUN else result.state
        seconds = f"{result.seconds:.1f}" if result.log else "-"
        rows.append((result.command.stage, result.command.entry, state, seconds, result.log or "-"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(widths[column]) for column, cell in enumerate(row)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    counts = ", ".join(f"{sum(result.state == state for result in results)} {state}" for state in (SUCCEEDED, FAILED, NOT_RUN))
    return "\n".join(lines) + f"\n{len(results)} commands: {counts}\n"


def lacks_only_gpus(result: Result) -> bool:
    """Whether a command was not run for want of a GPU, its own or that of the command it needs."""
    return result.state == NOT_RUN and result.reason.startswith("no GPU")


def exit_status(results: Sequence[Result], strict: bool) -> int:
    """0 where every command succeeded; commands without a GPU to run on count under `strict` only."""
    return 0 if all(r.state == SUCCEEDED or (lacks_only_gpus(r) and not strict) for r in results) else 1
