# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 3 on the paddle side: record what `python -m pipeline check 3` compares."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from pipeline.align.worker import run_script  # noqa: E402

run_script("paddle", step=3)
