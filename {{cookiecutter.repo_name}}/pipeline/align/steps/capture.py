# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The job of `python -m pipeline bisect`: everything that the modules take and return."""
from __future__ import annotations

from pipeline.align.bisect import capture
from pipeline.align.context import Context


def run(context: Context, mode: str, steps: str) -> None:
    """Capture `steps` training steps in `mode`, "eval" or "train", to pipeline/work/<side>/bisect/."""
    capture.run(context, mode, int(steps))
