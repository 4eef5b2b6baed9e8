# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Handwritten digits: 1,797 grey images of 8x8 from scikit-learn, as PNG files with one list per split.

A data folder holds images/*.png, train_list.txt and val_list.txt; each line of a list is "path label".
"""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from paddle.io import Dataset
from PIL import Image

from pipeline.align.errors import UserError


class Digits(Dataset):
    """One split of the digits; an item is (float32 [1, image_size, image_size], int).

    `data`: the settings of this data set (image_size, mean, std). Raises UserError for a list that is missing or has a
    line that is no "path label" with a label below `num_classes`.
    """

    def __init__(self, root: Path, split: str, data: Mapping, num_classes: int):
        self.root, self.data = root, data
        self.samples = read_list(root / f"{split}_list.txt", num_classes)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        name, label = self.samples[index]
        return load_image(self.root / name, self.data), label


def read_list(path: Path, num_classes: int) -> list[tuple[str, int]]:
    """The (image path, label) pairs of a list file, in its order."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the list {path}: {error}; see data.root in port.yaml") from None
    samples = [_parse_line(line, f"{path}:{number}", num_classes) for number, line in enumerate(lines, 1) if line.strip()]
    if not samples:
        raise UserError(f"{path} lists no images; each line must be: path label")
    return samples


def _parse_line(line: str, where: str, num_classes: int) -> tuple[str, int]:
    name, label = line.rsplit(maxsplit=1) if len(line.split()) > 1 else (line, "")
    if not (label.isascii() and label.isdigit()):
        raise UserError(f"{where}: expected 'path label' with a whole number from 0, found {line!r}")
    if int(label) >= num_classes:
        raise UserError(f"{where}: label {label} is out of range; model.num_classes is {num_classes}")
    return name, int(label)


def load_image(path: Path, data: Mapping) -> np.ndarray:
    """Decode one image file of any size and colour to the network's input: float32 [1, image_size, image_size]."""
    size = (data["image_size"], data["image_size"])
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L").resize(size, Image.Resampling.BILINEAR), np.float32)
    except FileNotFoundError:
        raise UserError(f"the image {path} does not exist") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"cannot decode the image {path}: {error}") from None
    pixels = pixels[:, :, np.newaxis] / 255  # HWC in [0, 1]
    pixels = (pixels - np.float32(data["mean"])) / np.float32(data["std"])
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
