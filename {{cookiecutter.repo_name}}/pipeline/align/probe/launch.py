# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Start the reference with the probe inside, wait for the call, and end it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError

HERE = Path(__file__).parent
#: Seconds that the reference may run on after the call, to its loss.
LOSS_WAIT = 20.0
#: Seconds between SIGTERM and SIGKILL.
GRACE = 5.0
POLL = 0.05


def run(command: Sequence[str], cwd: Path, module: str, folder: Path, log: Path) -> None:
    """Run `command` in `cwd` until a call was recorded into `folder`, then end it. Its output goes to `log`.

    Raises UserError where no call came.
    """
    hook = folder / "path"
    hook.mkdir()
    shutil.copyfile(HERE / "injected.py", hook / "sitecustomize.py")
    for name in ("calls", "store"):
        shutil.copyfile(HERE / f"injected_{name}.py", hook / f"reprod_probe_{name}.py")
    own = {
        "REPROD_PROBE": str(folder), "REPROD_PROBE_MODULE": module, "REPROD_PROBE_HOOK": str(hook),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "TORCHDYNAMO_DISABLE": "1",
    }  # fmt: skip
    path = os.pathsep.join(filter(None, [str(hook), os.environ.get("PYTHONPATH")]))
    programs = os.pathsep.join(filter(None, [str(_programs(folder / "bin", hook, own)), os.environ.get("PATH")]))
    environment = {**os.environ, **own, "PYTHONPATH": path, "PATH": programs}
    if not cwd.is_dir():
        raise UserError(f"there is no folder {cwd} to run in; name the reference's with --cwd")
    with replacing(log) as output:
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise UserError(f"cannot run {command[0]}: {error.strerror}; write: -- python their_train.py") from None
        try:
            _wait(process, folder)
        finally:
            _end(process, folder)
    if not (folder / "call.json").is_file():
        raise UserError(_reason(command, module, process.returncode, folder, log))


def _programs(folder: Path, hook: Path, variables: Mapping[str, str]) -> Path:
    """`python` and `python3` for shell scripts, which may set PYTHONPATH themselves: they put the probe back in."""
    folder.mkdir()
    for name in ("python", "python3"):
        real = shutil.which(name)
        if real is not None:
            given = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())
            path = f"PYTHONPATH={shlex.quote(str(hook))}${{PYTHONPATH:+:$PYTHONPATH}}"
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec env {given} {path} {shlex.quote(real)} "$@"\n', encoding="utf-8")
            program.chmod(0o755)
    return folder


def _wait(process: subprocess.Popen, folder: Path) -> None:
    called = None
    while process.poll() is None and not (folder / "finished").exists():
        if called is None and (folder / "call.json").exists():
            called = time.monotonic()
        if called is not None and time.monotonic() - called > LOSS_WAIT:
            return
        time.sleep(POLL)


def _end(process: subprocess.Popen, folder: Path) -> None:
    """End the command, its process group, and the processes it started in groups of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in [-process.pid, *_alive(folder)]:
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue
        deadline = time.monotonic() + GRACE
        while number == signal.SIGTERM and time.monotonic() < deadline and (process.poll() is None or any(_alive(folder))):
            time.sleep(POLL)
    process.wait()


def _alive(folder: Path) -> Iterator[int]:
    """Processes with the probe inside that still run: the number may belong to another program by now, so its variables count."""
    for mark in folder.glob("python-*"):
        pid = int(mark.name.split("-")[1])
        try:
            if f"REPROD_PROBE={folder}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                yield pid
        except OSError:
            continue


def _reason(command: Sequence[str], module: str, status: int, folder: Path, log: Path) -> str:
    """One line that says why there was no call."""
    shown = " ".join(command[:3])
    if not any(folder.glob("python-*")):
        return f"'{shown}' started no Python that the probe can enter (python -I, -E and -S keep it out){_last_line(status, log)}"
    if status != 0:
        return f"'{shown}' failed before the call{_last_line(status, log)}"
    if not any(folder.glob("torch-*")):
        return f"'{shown}' ended without importing torch; name the script that trains or evaluates the reference"
    if (folder / "direct.json").is_file():
        name = json.loads((folder / "direct.json").read_text(encoding="utf-8"))
        return f"'{shown}' called forward() of {name} once, without its __call__, and it changed its arguments; make it model(x)"
    called = sorted({name for file in folder.glob("called-*.json") for name in json.loads(file.read_text(encoding="utf-8"))})
    own = [name for name in called if not name.startswith("torch.")] or called
    if not own:
        return f"'{shown}' ended without calling a module; pass the options with which it trains or evaluates"
    if not module:
        return f"'{shown}' called only modules without parameters: {', '.join(own[:8])}; choose one with --module"
    return f"'{shown}' ended without calling a module {module}; called were: {', '.join(own[:8])}"


def _last_line(status: int, log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    ended = f"by signal {-status}" if status < 0 else f"with exit status {status}"
    return f"; it ended {ended}" + (f", its last line: {lines[-1][:200]} (all: {log})" if lines else " and printed nothing")
