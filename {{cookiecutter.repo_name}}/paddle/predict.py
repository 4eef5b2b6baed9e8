# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Predict one image: python paddle/predict.py --image FILE --weights FILE [-c port.yaml] [-o key.sub=value ...]"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import paddle

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # pipeline/ lies beside this folder

import port
from checkpoint import load_weights
from cli import make_parser, read_settings, run
from data.digits import load_image


@paddle.no_grad()
def predict(cfg: Any, model: paddle.nn.Layer, image: Path) -> tuple[int, float]:
    """(class, its probability) of one image file of any size."""
    model.eval()
    batch = (paddle.to_tensor(load_image(image, cfg.data)).unsqueeze(0),)
    probabilities = paddle.nn.functional.softmax(port.forward(model, batch)["logits"][0], axis=-1)
    label = probabilities.argmax().item()
    return label, probabilities[label].item()


def main() -> None:
    parser = make_parser("Predict one image.")
    parser.add_argument("--image", required=True, help="image file")
    parser.add_argument("--weights", required=True, help="safetensors file, as train.py writes it")
    arguments = parser.parse_args()
    cfg = read_settings(arguments)
    model = port.build_model(cfg)
    load_weights(model, arguments.weights)
    label, probability = predict(cfg, model, Path(arguments.image))
    print(f"class: {label} probability: {probability:.6f}")


if __name__ == "__main__":
    sys.exit(run(main))
