# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How often the discriminator is right."""
from __future__ import annotations

import torch


class Right:
    """Share of points, real and made, that the discriminator tells right."""

    def __init__(self):
        self.right = self.total = 0

    def update(self, outputs: dict[str, torch.Tensor], labels: torch.Tensor) -> None:
        """outputs["real"], outputs["fake"]: logits [N]."""
        self.right += (outputs["real"] > 0).sum().item() + (outputs["fake"] <= 0).sum().item()
        self.total += 2 * len(labels)

    def compute(self) -> dict[str, float]:
        """{"right": share in [0, 1]}"""
        return {"right": self.right / self.total}
