# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Which GPUs there are, without importing a framework."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path


def count_gpus() -> int:
    """Number of NVIDIA GPUs; 0 where CUDA_VISIBLE_DEVICES hides them all."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return 0
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
        return listed.stdout.count(b"GPU ")
    except (OSError, subprocess.SubprocessError):
        # Containers may have the devices without the tool.
        return len([path for path in Path("/dev").glob("nvidia*") if path.name[len("nvidia") :].isdigit()])


def missing_gpu(wanted: Iterable[str], count: int) -> str:
    """"no GPU", "no GPU 1", or nothing where all of `wanted` (ids) are among `count` GPUs."""
    absent = [gpu for gpu in wanted if int(gpu) >= count]
    if not absent:
        return ""
    return f"no GPU {absent[0]}" if count else "no GPU"
