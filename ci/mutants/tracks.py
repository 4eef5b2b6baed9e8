# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The pairs of reference and port."""
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
TEXT = Track(
    "text",
    overlay=None,
    settings=(
        "data.root=test_tipc/data/lite_data",
        "data.archive=test_tipc/data/lite_data.tar",
        "data.max_length=24",  # cuts some of the sentences
        "data.batch_size=6",  # leaves a smaller last batch in both splits
        "model.hidden_dropout_prob=0.1",
        "model.attention_probs_dropout_prob=0.1",
        "train.epochs=4",
        "train.accumulate=2",
        "train.clip_grad_norm=0.5",
        "optimizer.weight_decay=0.1",
        "schedule.warmup_share=0.25",
        "benchmark.accuracy={value: 0.1, rule: '>='}",
        "align.thresholds.training=0.3",  # a few sentences, and dropout: the last accuracies differ
    ),
    cases=read_cases(HERE / "text.md"),
    sample="text",
)
RECOMMENDATION = Track(
    "recommendation",
    overlay=None,
    settings=(
        "data.root=test_tipc/data/lite_data",
        "data.archive=test_tipc/data/lite_data.tar",
        "data.batch_size=6",  # leaves a smaller last batch in both splits
        "model.p_drop=0.1",
        "optimizer.embedding_l2=0.1",
        "optimizer.epsilon=1.0e-3",  # so that Paddle's default shows
        "train.epochs=4",
        "train.accumulate=2",
        "benchmark.auc={value: 0.1, rule: '>='}",
        "align.thresholds.training=0.3",  # a few rows, and dropout: the last scores differ
    ),
    cases=read_cases(HERE / "recommendation.md"),
    sample="recommendation",
)
GAN = Track("gan", overlay=HERE / "gan", settings=(), cases=read_cases(HERE / "gan.md"))
TRACKS = (IMAGE, SEQUENCE, TEXT, RECOMMENDATION, GAN)
