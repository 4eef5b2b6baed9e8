# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Writes the *_diff.log that acceptance reads, line for line as reprod_log 1.0.1's report() does."""
from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pipeline.align.atomic import replacing
from pipeline.align.results import KeyResult, PartResult


def write_diff_log(path: str | Path, parts: Iterable[PartResult]) -> None:
    """Replace the log at `path` by the verdict on `parts`. What this kit calls red never reads "passed" in it."""
    parts = list(parts)
    lines = []
    for key in (key for part in parts for key in part.keys):
        lines += [f"{key.key}: ", f"\tmean diff: check passed: {key.passed}, value: {_value(key)}"]
    passed = bool(parts) and all(part.passed and part.keys for part in parts)
    lines.append(f"diff check {'passed' if passed else 'failed'}")
    stamp = time.strftime("[%Y/%m/%d %H:%M:%S]")
    with replacing(path) as file:
        file.write("".join(f"{stamp} root INFO: {line}\n" for line in lines).encode("utf-8"))


def _value(key: KeyResult) -> str:
    """The mean difference in the dtype, and so with the digits, in which numpy's mean gives it to reprod_log."""
    if key.mean is None:
        return "nan"
    # format() shows a float32 with all digits of its double, as reprod_log does; str() would round
    return format(np.dtype(key.dtype).type(key.mean) if key.dtype in ("float16", "float32") else np.float64(key.mean))
