# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The text sample's data: what the archives and the vocabulary hold, and that they are made again from their source."""
from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPO, sample
from pipeline.align.archive import ensure_unpacked

SDIST = "vaderSentiment-3.3.2.tar.gz"


@pytest.fixture(scope="module")
def shipped() -> Path:
    return sample("text") / "test_tipc" / "data"


def read_split(folder: Path, split: str) -> list[tuple[str, int]]:
    header, *lines = (folder / f"{split}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    assert header == "sentence\tlabel"
    pairs = [line.split("\t") for line in lines]
    return [(sentence, int(label)) for sentence, label in pairs]


def unpacked(archive: Path, folder: Path) -> Path:
    ensure_unpacked(archive, folder)
    return folder


def test_the_sentences_are_split_by_their_hash(shipped, tmp_path):
    folder = unpacked(shipped / "reviews.tar.gz", tmp_path / "reviews")
    splits = {split: read_split(folder, split) for split in ("train", "dev")}
    assert sum(map(len, splits.values())) == 10_605
    for split, rows in splits.items():
        for sentence, label in rows:
            first = hashlib.sha256(sentence.encode()).hexdigest()[:16]
            assert (int(first, 16) % 5 == 0) == (split == "dev") and label in (0, 1), sentence
        assert 0.48 < sum(label for _, label in rows) / len(rows) < 0.53
    assert (folder / "infer.txt").read_text(encoding="utf-8").split("\n")[:-1] == [sentence for sentence, _ in splits["dev"]]


def test_lite_data_is_a_small_part_of_it_with_both_labels(shipped, tmp_path):
    full, lite = (unpacked(shipped / name, tmp_path / name[:4]) for name in ("reviews.tar.gz", "lite_data.tar"))
    for split in ("train", "dev"):
        rows = read_split(lite, split)
        assert len(rows) == 16 and sum(label for _, label in rows) == 8
        assert set(rows) <= set(read_split(full, split))


def test_the_files_are_small_and_say_where_they_come_from(shipped, tmp_path):
    assert sum(path.stat().st_size for path in shipped.iterdir() if path.is_file()) < 1_000_000
    for name in ("reviews.tar.gz", "lite_data.tar"):
        folder = unpacked(shipped / name, tmp_path / name[:4])
        assert "The MIT License" in (folder / "LICENSE").read_text() and "C.J. Hutto" in (folder / "LICENSE").read_text()
        assert "Hutto and E. Gilbert" in (folder / "README").read_text() and "ICWSM 2014" in (folder / "README").read_text()


def test_the_vocabulary_knows_nearly_every_training_sentence(shipped, tmp_path):
    from tokenizers import BertWordPieceTokenizer

    words = (shipped / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(words) == len(set(words)) == 4000 and words[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = BertWordPieceTokenizer(str(shipped / "vocab.txt"))
    rows = read_split(unpacked(shipped / "reviews.tar.gz", tmp_path / "reviews"), "train")
    unknown = [sentence for sentence, _ in rows if 1 in tokenizer.encode(sentence).ids]
    assert len(unknown) < len(rows) / 1000


def test_the_files_are_made_again_bit_by_bit(shipped, tmp_path):
    folder = REPO / "build" / "reviews"
    if not (folder / SDIST).is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps", "--dest", str(folder)]
        subprocess.run([*command, "vaderSentiment==3.3.2"], check=True, stdin=subprocess.DEVNULL)
    for name in ("a", "b"):
        subprocess.run([sys.executable, REPO / "ci" / "make_reviews.py", folder / SDIST, tmp_path / name], check=True)
    for name in ("lite_data.tar", "vocab.txt"):
        made = [(tmp_path / run / name).read_bytes() for run in ("a", "b")]
        assert made[0] == made[1] == (shipped / name).read_bytes()
    # zlib and its replacements compress differently; what they compress must not differ.
    made, kept = (gzip.decompress((where / "reviews.tar.gz").read_bytes()) for where in (tmp_path / "a", shipped))
    assert made == kept
    (tmp_path / SDIST).write_bytes((folder / SDIST).read_bytes() + b"1")
    refused = subprocess.run([sys.executable, REPO / "ci" / "make_reviews.py", tmp_path / SDIST], capture_output=True, text=True)
    assert refused.returncode == 1 and "is not the source distribution" in refused.stderr
