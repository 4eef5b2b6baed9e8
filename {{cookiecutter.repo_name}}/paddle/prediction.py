# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What predict.py and infer.py share, so that they print the same: which images, the answer for each, and its picture."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from pipeline.align.errors import UserError
from port import load_image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
#: Shorter sides of pictures are enlarged to this many pixels, so that the text can be read.
PICTURE_SIDE = 224


@dataclass(frozen=True)
class Prediction:
    """The class of one image and its probability."""

    image: Path
    label: int
    probability: float

    def __str__(self) -> str:
        return f"{self.image.name}: class: {self.label} probability: {self.probability:.4f}"


def find_images(path: Path) -> list[Path]:
    """`path` itself, or the images in the folder `path` by name. UserError where there are none."""
    found = [path] if path.is_file() else sorted(file for file in path.glob("*") if file.suffix.lower() in ENDINGS)
    if not found:
        raise UserError(f"no image at {path}: name an image file, or a folder with {', '.join(ENDINGS)}")
    return found


def read_batches(images: Sequence[Path], cfg: Any, batch_size: int) -> Iterator[tuple[Sequence[Path], np.ndarray]]:
    """(files, the network's input float32 [N, channels, height, width]) for up to `batch_size` images at a time."""
    for start in range(0, len(images), batch_size):
        files = images[start : start + batch_size]
        yield files, np.stack([load_image(file, cfg.data) for file in files])


def classify(files: Sequence[Path], logits: np.ndarray) -> list[Prediction]:
    """The likeliest class of each image; `logits`: float [N, classes], the first output of port.forward."""
    exponents = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities = exponents / exponents.sum(axis=1, keepdims=True)
    labels = probabilities.argmax(axis=1)
    return [Prediction(file, int(label), float(row[label])) for file, label, row in zip(files, labels, probabilities)]


def draw(prediction: Prediction, folder: Path) -> Path:
    """Write the image with the answer under it as a PNG into `folder`; returns the file."""
    with Image.open(prediction.image) as image:
        image = image.convert("RGB")
    scale = max(1, -(-PICTURE_SIDE // min(image.size)))
    image = image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)
    picture = Image.new("RGB", (image.width, image.height + 24), "white")
    picture.paste(image)
    text = f"class: {prediction.label}  probability: {prediction.probability:.4f}"
    ImageDraw.Draw(picture).text((6, image.height + 6), text, fill="black")
    path = folder / f"{prediction.image.stem}.png"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        picture.save(path)
    except OSError as error:
        raise UserError(f"cannot write the picture {path}: {error}") from None
    return path
