# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Make the image sample's archives from scikit-learn's digits: python ci/make_digits.py [FOLDER]

Writes digits.tar.gz (all 1,797 images) and lite_data.tar (16 per split) into FOLDER, by default with the template's names
into its test_tipc/data. Nothing in them depends on the time, the user or the machine.
"""
from __future__ import annotations

import gzip
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from archives import make_tar_of, write_archives

VAL_COUNT, LITE_COUNT = 797, 16

README = """\
Handwritten digits: grey PNG images of 8x8, one list per split ("path label" in each line).

Source: sklearn.datasets.load_digits of scikit-learn (BSD 3-Clause, see LICENSE), which is the test set of "Optical
Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49, CC BY 4.0).
Changes: the values 0 to 16 became grey values 0 to 255; the split into train and val is ours, evenly spaced per class.
"""

LICENSE = """\
BSD 3-Clause License

Copyright (c) 2007-2026 The scikit-learn developers.
All rights reserved.

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:

* Redistributions of source code must retain the above copyright notice, this
  list of conditions and the following disclaimer.

* Redistributions in binary form must reproduce the above copyright notice,
  this list of conditions and the following disclaimer in the documentation
  and/or other materials provided with the distribution.

* Neither the name of the copyright holder nor the names of its
  contributors may be used to endorse or promote products derived from
  this software without specific prior written permission.

THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
"""


def grey_png(pixels: np.ndarray) -> bytes:
    """A grey PNG of uint8 [H, W], stored without compression: libraries compress differently, all store alike."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def split_digits(labels: np.ndarray) -> dict[str, np.ndarray]:
    """Indices of "train" and "val" in their original order; `VAL_COUNT` for val, evenly spaced through every class."""
    by_class = np.argsort(labels, kind="stable")
    ranks = np.arange(len(labels))
    is_val = (ranks + 1) * VAL_COUNT // len(labels) > ranks * VAL_COUNT // len(labels)
    return {"train": np.sort(by_class[~is_val]), "val": np.sort(by_class[is_val])}


def lite_split(indices: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """`LITE_COUNT` of `indices`: the first one of every class, then the next in order."""
    first = [indices[labels[indices] == label][0] for label in np.unique(labels)]
    rest = [index for index in indices if index not in first]
    return np.sort(np.array(first + rest[: LITE_COUNT - len(first)]))


def make_tar(top: str, images: np.ndarray, labels: np.ndarray, splits: dict[str, np.ndarray]) -> bytes:
    """The bytes of a tar with the folder `top`: images/, both lists, README and LICENSE."""
    files = {"README": README.encode(), "LICENSE": LICENSE.encode()}
    for split, indices in splits.items():
        names = [f"images/{split}_{number:04d}.png" for number in range(1, len(indices) + 1)]
        files |= {name: grey_png(images[index]) for name, index in zip(names, indices, strict=True)}
        lines = [f"{name} {labels[index]}\n" for name, index in zip(names, indices, strict=True)]
        files[f"{split}_list.txt"] = "".join(lines).encode()
    return make_tar_of(top, files)


def make(folder: Path | None = None) -> None:
    """Write both archives into `folder`, or into the template."""
    digits = load_digits()
    images = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)
    labels = digits.target
    full = split_digits(labels)
    lite = {split: lite_split(indices, labels) for split, indices in full.items()}
    compressed = gzip.compress(make_tar("digits", images, labels, full), mtime=0)
    write_archives("image", {"digits.tar.gz": compressed, "lite_data.tar": make_tar("lite_data", images, labels, lite)}, folder)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
