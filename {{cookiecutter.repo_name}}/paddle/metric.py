# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Accuracy."""
from __future__ import annotations

import paddle

from pipeline.align.errors import PortError


class Accuracy:
    """Share of samples whose largest logit is that of their label; samples labelled `ignore_index` do not count.

    Counts samples, not batches, so that a smaller last batch weighs what it should.
    """

    def __init__(self, ignore_index: int):
        self.ignore_index = ignore_index
        self.correct = self.total = 0

    def update(self, outputs: dict[str, paddle.Tensor], labels: paddle.Tensor) -> None:
        """outputs["logits"]: float [N, C]; labels: int64 [N]."""
        counted = labels != self.ignore_index
        hits = (outputs["logits"].argmax(axis=-1) == labels) & counted
        self.correct += hits.sum().item()
        self.total += counted.sum().item()

    def compute(self) -> dict[str, float]:
        """{"accuracy": share in [0, 1]}"""
        if not self.total:
            raise PortError("the accuracy of no sample at all was asked for")
        return {"accuracy": self.correct / self.total}
