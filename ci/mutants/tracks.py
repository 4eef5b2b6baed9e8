# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The two pairs of reference and port."""
from __future__ import annotations

from pathlib import Path

from catalog import Track, read_cases

HERE = Path(__file__).resolve().parent

IMAGE = Track(
    "image",
    overlay=None,
    settings=(
        "data.image_size=10",  # the images have 8x8 pixels: the resize filter shows
        "data.batch_size=48",  # leaves a smaller last batch in both splits
        "loss.label_smoothing=0.1",
        "train.epochs=2",
        "train.accumulate=2",
        "schedule.warmup_epochs=1",
        "benchmark.accuracy={value: 0.5, rule: '>='}",
    ),
    cases=read_cases(HERE / "image.md"),
)
SEQUENCE = Track("sequence", overlay=HERE / "sequence", settings=(), cases=read_cases(HERE / "sequence.md"))
TRACKS = (IMAGE, SEQUENCE)
