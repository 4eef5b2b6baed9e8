# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the masked words."""
from __future__ import annotations

import torch


class WordAccuracy:
    """Share of labelled positions whose word has the highest score, and one of the three highest."""

    def __init__(self, ignore_index: int):
        self.ignore_index = ignore_index
        self.first = self.three = self.total = 0

    def update(self, outputs: dict[str, torch.Tensor], labels: torch.Tensor) -> None:
        """outputs["logits"]: float [N, L, V]; labels: int64 [N, L]."""
        counted = labels != self.ignore_index
        hits = outputs["logits"].topk(3, dim=-1).indices == labels[:, :, None]
        self.first += (hits[:, :, 0] & counted).sum().item()
        self.three += (hits.any(dim=-1) & counted).sum().item()
        self.total += counted.sum().item()

    def compute(self) -> dict[str, float]:
        """{"accuracy": ..., "top3": ...}, shares in [0, 1]"""
        return {"accuracy": self.first / self.total, "top3": self.three / self.total}
