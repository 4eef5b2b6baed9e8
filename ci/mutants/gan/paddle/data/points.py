# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Points of two clouds, each with noise for the generator, from numpy's generators: nothing is stored."""
from __future__ import annotations

import numpy as np
from paddle.io import Dataset

SPLITS = {"train": 1, "val": 2}


class Points(Dataset):
    """One split; an item is (point float32 [8], noise float32 [4], cloud int)."""

    def __init__(self, split: str, count: int):
        random = np.random.default_rng(SPLITS[split])
        self.clouds = random.integers(0, 2, count)
        self.points = (random.normal(0, 0.3, (count, 8)) + np.where(self.clouds[:, None], 1.0, -0.5)).astype(np.float32)
        self.noise = random.normal(0, 1, (count, 4)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray, int]:
        return self.points[index], self.noise[index], int(self.clouds[index])
