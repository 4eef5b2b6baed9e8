# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The sixth node: whether the basic TIPC chain ran as a whole, succeeded, and would do the same today."""
from __future__ import annotations

import json

from pipeline.align.paths import Paths

CONFIG = "train_infer_python.txt"
RUN = "run: make tipc"


def read(paths: Paths) -> tuple[str, str]:
    """(state, reason) from the status log and the JSON file beside it; state as in NodeResult.

    Green: every command that the configuration asks for has its line of success. Commands that were not run for want of a
    GPU are counted in the reason; training, export and inference must have run on something.
    """
    try:
        from test_tipc.driver import record
    except ImportError:
        return "missing", "the folder test_tipc/ is not here"
    try:
        log = paths.tipc_results.read_text(encoding="utf-8")
        made = json.loads(paths.tipc_results.with_suffix(".json").read_text(encoding="utf-8"))
        config, mode, expected = paths.root / made["config"], made["mode"], made["expected"]
        hashes = (made["config_sha256"], made["code_sha256"])
    except FileNotFoundError:
        return "missing", f"the TIPC chain has not run; {RUN}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "missing", f"the record of the TIPC run cannot be read ({error}); {RUN}"
    if config.name != CONFIG or not mode.startswith(("lite_train", "whole_train")):
        return "missing", f"the last TIPC run was {config.name} in {mode}; {RUN}"
    if not config.is_file() or record.text_hash(config) != hashes[0]:
        return "stale", f"{made['config']} has changed since the TIPC run; {RUN}"
    if record.code_hash(paths.root) != hashes[1]:
        return "stale", f"port.yaml or paddle/ has changed since the TIPC run; {RUN}"
    return _judge(expected, record.read_status_lines(log))


def _judge(expected: list[dict[str, str]], found: dict[str, tuple[str, str]]) -> tuple[str, str]:
    without_gpu, done = 0, set()
    for command in expected:
        state, reason = found.get(command["command"], ("not run", "the run ended before it"))
        where = f"{command['stage']} of {command['entry']}"
        if state == "failed":
            return "red", f"{where} failed; its log is in test_tipc/output/"
        if state == "succeeded":
            done.add(command["stage"])
        elif reason.startswith("no GPU"):
            without_gpu += 1
        else:
            return "red", f"{where} did not run: {reason}"
    lacking = [stage for stage in ("train", "export", "inference") if stage not in done]
    if lacking:
        return "missing", f"the TIPC run has no {' and no '.join(lacking)}; {without_gpu} of {len(expected)} commands lack a GPU"
    return "green", f"{len(expected) - without_gpu} commands succeeded" + (f", {without_gpu} lack a GPU" if without_gpu else "")
