# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Sentences with masked words: vocabulary.txt, train.txt and val.txt, one word or one sentence per line.

The sentences are those of corpus.py. Every third word is masked, starting at another place in every sentence.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np
from paddle.io import Dataset

PAD, MASK, UNKNOWN = 0, 1, 2
MASK_EVERY = 3


class Sentences(Dataset):
    """One split; an item is (tokens int64 [length], number of words int, labels int64 [length]).

    Labels hold the words that are masked in tokens, and `ignore_index` everywhere else and for unknown words.
    """

    def __init__(self, root: Path, split: str, length: int, ignore_index: int):
        self.length, self.ignore_index = length, ignore_index
        words = (root / "vocabulary.txt").read_text(encoding="utf-8").split()
        self.vocabulary = {word: index for index, word in enumerate(words)}
        self.lines = (root / f"{split}.txt").read_text(encoding="utf-8").splitlines()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int, np.ndarray]:
        words = self.lines[index].lower().split()[: self.length]
        ids = np.array([self.vocabulary.get(word, UNKNOWN) for word in words], np.int64)
        masked = (np.arange(len(ids)) + index) % MASK_EVERY == 0
        tokens = np.full(self.length, PAD, np.int64)
        tokens[: len(ids)] = np.where(masked, MASK, ids)
        labels = np.full(self.length, self.ignore_index, np.int64)
        labels[: len(ids)] = np.where(masked & (ids != UNKNOWN), ids, self.ignore_index)
        return tokens, len(ids), labels
