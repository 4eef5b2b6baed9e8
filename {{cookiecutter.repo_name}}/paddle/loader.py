# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The order of the training data and the loader that follows it."""
from __future__ import annotations

import numpy as np
from paddle.io import DataLoader, Dataset


def epoch_order(length: int, seed: int, epoch: int) -> np.ndarray:
    """The order in which epoch `epoch` (from 0) sees the samples: int64 [length].

    numpy's generator makes it, because those of the frameworks draw different numbers from the same seed.
    """
    return np.random.default_rng([seed, epoch]).permutation(length)


def make_loader(dataset: Dataset, order: np.ndarray, batch_size: int, num_workers: int) -> DataLoader:
    """Batches of the samples in `order`, each sample once; the last batch may be smaller."""
    batches = [order[start : start + batch_size].tolist() for start in range(0, len(order), batch_size)]
    return DataLoader(dataset, batch_sampler=batches, num_workers=num_workers)
