# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The sentences of the sequence pair: made from a fixed seed, so that nothing has to be shipped.

Four topics have four words each that follow one another in a circle; a sentence walks along one circle from anywhere. So
every masked word follows from its neighbours, and a right network learns all of them within seconds. Some words are
capitalised and some sentences are longer than the network reads, for the reader of the files to deal with.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

TOPICS, CIRCLE = 4, 4
SIZES = {"train": 500, "val": 130}
SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te")


def write(folder: Path) -> None:
    """Write vocabulary.txt, train.txt and val.txt into `folder`."""
    random = np.random.default_rng(5)
    words = _words(random)
    folder.mkdir(parents=True)
    kept = [word for circle in words for word in circle][: TOPICS * CIRCLE - 1]  # the last one is unknown to the network
    (folder / "vocabulary.txt").write_text("\n".join(["[pad]", "[mask]", "[unknown]", ".", "…", *kept]) + "\n", encoding="utf-8")
    for split, size in SIZES.items():
        lines = [_sentence(random, words) for _ in range(size)]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _words(random: np.random.Generator) -> list[list[str]]:
    names = [a + b for a in SYLLABLES for b in SYLLABLES]
    chosen = random.permutation(names)[: TOPICS * CIRCLE].tolist()
    return [chosen[start : start + CIRCLE] for start in range(0, len(chosen), CIRCLE)]


def _sentence(random: np.random.Generator, words: list[list[str]]) -> str:
    circle, start, length = words[random.integers(TOPICS)], int(random.integers(CIRCLE)), int(random.integers(4, 16))
    chosen = [circle[(start + index) % CIRCLE] for index in range(length)]
    return " ".join(word.capitalize() if index == 0 or random.random() < 0.1 else word for index, word in enumerate(chosen))
