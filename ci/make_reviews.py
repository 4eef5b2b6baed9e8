# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Make the text sample's archives and vocabulary: python ci/make_reviews.py SDIST [FOLDER]

SDIST is the source distribution of vaderSentiment 3.3.2, which holds 10,605 sentences of movie reviews with human scores:

    pip download --no-binary :all: --no-deps vaderSentiment==3.3.2

Writes reviews.tar.gz (all sentences), lite_data.tar (16 per split) and vocab.txt (WordPiece, trained on the training
sentences) into FOLDER, by default with the template's names into its test_tipc/data. Nothing in them depends on the time,
the user or the machine.
"""
from __future__ import annotations

import gzip
import hashlib
import io
import sys
import tarfile
from pathlib import Path

from tokenizers import BertWordPieceTokenizer

from archives import make_tar_of, write_archives

SDIST_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"
OUTER, INNER = "additional_resources/hutto_ICWSM_2014.tar.gz", "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
COUNT, LITE_COUNT, VAL_SHARE = 10_605, 16, 5
VOCABULARY, MIN_FREQUENCY = 4000, 2
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
Row = tuple[str, int]

README = """\
Sentences of movie reviews: train.tsv and dev.tsv with a header and "sentence<TAB>label" in each line, as in SST-2 of GLUE;
infer.txt holds the sentences of dev.tsv alone, one per line.

Source: movieReviewSnippets_GroundTruth.txt in the source distribution of vaderSentiment 3.3.2 (MIT License, see LICENSE):
10,605 sentences, each with the mean of the scores from -4 to 4 that people gave. Please cite: C.J. Hutto and E. Gilbert,
"VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text", ICWSM 2014.
Changes: label 1 is a score above 0, label 0 any other; dev holds the sentences whose SHA-256 is a multiple of 5.
"""


def read_sdist(path: Path) -> tuple[list[Row], str]:
    """((sentence, label) in the order of the source, licence). SystemExit where the file is another one."""
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SDIST_SHA256:
        raise SystemExit(f"{path} is not the source distribution of vaderSentiment 3.3.2: SHA-256 {found}")
    with tarfile.open(fileobj=io.BytesIO(data)) as outer:
        top = outer.getnames()[0].split("/")[0]
        inner, licence = (outer.extractfile(f"{top}/{name}").read() for name in (OUTER, "LICENSE.txt"))
    with tarfile.open(fileobj=io.BytesIO(inner)) as tar:
        text = tar.extractfile(INNER).read().decode("utf-8")
    fields = [line.split("\t") for line in text.split("\r\n") if line]
    rows = [(sentence.strip(), int(float(score) > 0)) for _, score, sentence in fields]
    assert len(rows) == COUNT and all(sentence and "\n" not in sentence for sentence, _ in rows)
    return rows, licence.decode("utf-8").replace("\r\n", "\n").rstrip() + "\n"


def split_rows(rows: list[Row]) -> dict[str, list[Row]]:
    """"train" and "dev" by the hash of the sentence, so that equal sentences are never in both."""
    splits: dict[str, list[Row]] = {"train": [], "dev": []}
    for row in rows:
        number = int.from_bytes(hashlib.sha256(row[0].encode()).digest()[:8], "big")
        splits["dev" if number % VAL_SHARE == 0 else "train"].append(row)
    return splits


def lite_rows(rows: list[Row]) -> list[Row]:
    """The first `LITE_COUNT` rows, half of either label, in their order."""
    kept = [[row for row in rows if row[1] == label][: LITE_COUNT // 2] for label in (0, 1)]
    return sorted(kept[0] + kept[1], key=rows.index)


def tsv(rows: list[Row]) -> bytes:
    """A file like those of SST-2."""
    return "".join(["sentence\tlabel\n", *(f"{sentence}\t{label}\n" for sentence, label in rows)]).encode()


def make_tar(top: str, splits: dict[str, list[Row]], sentences: list[Row], licence: str) -> bytes:
    """The bytes of a tar with the folder `top`."""
    files = {f"{split}.tsv": tsv(rows) for split, rows in splits.items()}
    files["infer.txt"] = "".join(f"{sentence}\n" for sentence, _ in sentences).encode()
    files |= {"README": README.encode(), "LICENSE": licence.encode()}
    return make_tar_of(top, files)


def train_vocabulary(rows: list[Row]) -> str:
    """The text of vocab.txt: `VOCABULARY` lower-case word pieces of the sentences, special ones first.

    The trainer numbers the pieces of one letter as it meets them, in the order of a random hash, and takes the lower number
    where two pairs are as frequent. Named before, they are in the order of the alphabet in every run.
    """
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    letters = sorted({letter for sentence, _ in rows for letter in tokenizer.normalize(sentence) if not letter.isspace()})
    pieces = [f"##{letter}" for letter in letters if letter.isalnum()]
    tokenizer.train_from_iterator(
        (sentence for sentence, _ in rows), vocab_size=VOCABULARY, min_frequency=MIN_FREQUENCY,
        special_tokens=SPECIAL + pieces, show_progress=False,
    )  # fmt: skip
    words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return "".join(f"{word}\n" for word, _ in words)


def make(sdist: Path, folder: Path | None = None) -> None:
    """Write the three files into `folder`, or into the template."""
    rows, licence = read_sdist(sdist)
    full = split_rows(rows)
    lite = {split: lite_rows(part) for split, part in full.items()}
    made = {
        "reviews.tar.gz": gzip.compress(make_tar("reviews", full, full["dev"], licence), mtime=0),
        "lite_data.tar": make_tar("lite_data", lite, lite["dev"], licence),
        "vocab.txt": train_vocabulary(full["train"]).encode(),
    }
    write_archives("text", made, folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
