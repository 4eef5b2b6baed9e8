# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The order of the training data, each process's share of it, and the loader that follows it."""
from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import paddle
from paddle.io import DataLoader, Dataset

from pipeline.align.errors import UserError


def epoch_order(length: int, seed: int, epoch: int) -> np.ndarray:
    """The order in which epoch `epoch` (from 0) sees the samples: int64 [length].

    numpy's generator makes it, because those of the frameworks draw different numbers from the same seed.
    """
    return np.random.default_rng([seed, epoch]).permutation(length)


class Share(NamedTuple):
    """What one process does of an iteration."""

    samples: list[int]
    #: The mean over the processes of weight times mean loss is the mean loss over all samples of the iteration.
    weight: float
    #: Samples of all processes.
    total: int


def split_order(order: np.ndarray, batch_size: int, processes: int = 1, process: int = 0) -> list[Share]:
    """The iterations of an epoch for one of several processes that each take `batch_size` samples.

    Each sample once: the last iteration may have fewer, divided as evenly as they go. A process that is left without one
    takes one with weight 0, so that all make the same number of steps.
    """
    shares = []
    for start in range(0, len(order), batch_size * processes):
        samples = order[start : start + batch_size * processes]
        own = np.array_split(samples, processes)[process]
        weight = len(own) * processes / len(samples)
        shares.append(Share((own if len(own) else samples[:1]).tolist(), weight, len(samples)))
    return shares


class Seeded(Dataset):
    """A data set whose random augmentation depends on the seed, the epoch and the sample, and on nothing else.

    So it is the same with any number of workers, on both sides, and after resuming. Python's and numpy's generators are
    as before afterwards.
    """

    def __init__(self, dataset: Dataset, seed: int, epoch: int):
        self.dataset, self.seed, self.epoch = dataset, seed, epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        states = random.getstate(), np.random.get_state()
        number = int(np.random.SeedSequence([self.seed, self.epoch, index]).generate_state(1)[0])
        random.seed(number)
        np.random.seed(number)
        try:
            return self.dataset[index]
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


class Caught(Dataset):
    """A data set for worker processes: None where the sample is bad, because Paddle loses what a worker raises."""

    def __init__(self, dataset: Dataset):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.dataset[index]
        except UserError:
            return None


def make_loader(dataset: Dataset, shares: Sequence[Share], num_workers: int) -> Iterator[tuple[paddle.Tensor, ...]]:
    """The batches of `shares` in their order; inputs, then the label."""
    if not num_workers:  # Paddle's loader would read in a thread, where an error in the data ends without its message
        for share in shares:
            yield tuple(map(paddle.to_tensor, _stack([dataset[index] for index in share.samples])))
        return
    batches = [share.samples for share in shares]
    loader = DataLoader(Caught(dataset), batch_sampler=batches, collate_fn=_stack, num_workers=num_workers)
    for samples, batch in zip(batches, loader):
        if len(batch) == 1:
            for index in samples:
                dataset[index]  # raises what the worker could not
        yield tuple(batch)


def _stack(items: list[Any]) -> list[np.ndarray]:
    """The fields of the items, each stacked; a single field where an item is None."""
    return [np.zeros(1)] if any(item is None for item in items) else [np.stack(field) for field in zip(*items)]
