# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A generator and a discriminator of points, with which several optimizers are tried (arXiv:1406.2661)."""
from __future__ import annotations

import torch
from torch import nn


class Gan(nn.Module):
    """Both networks; noise has 4 numbers, points have 8."""

    def __init__(self, width: int):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 8))
        self.discriminator = nn.Sequential(nn.Linear(8, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def score(self, points: torch.Tensor) -> torch.Tensor:
        """float32 [N, 8] -> logit of being real, [N]"""
        return self.discriminator(points).squeeze(1)
