# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Evaluate weights on the validation data: python paddle/eval.py --weights FILE [-c port.yaml] [-o key.sub=value ...]"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import paddle
from paddle.io import Dataset

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # pipeline/ lies beside this folder

from ranks import choose_device

import port
from checkpoint import load_weights
from cli import make_parser, read_settings, run
from loader import make_loader, split_order


@paddle.no_grad()
def evaluate(cfg: Any, model: paddle.nn.Layer, dataset: Dataset) -> tuple[float, dict[str, float]]:
    """(mean loss per sample, metrics) of the whole data set; the model is left in eval mode."""
    model.eval()
    loss_function, metric = port.build_loss(cfg), port.build_metric(cfg)
    total = 0.0
    for batch in make_loader(dataset, split_order(np.arange(len(dataset)), cfg.data.batch_size), cfg.data.num_workers):
        outputs = port.forward(model, batch)
        total += loss_function(outputs, batch[-1]).item() * len(batch[-1])
        metric.update(outputs, batch[-1])
    return total / len(dataset), metric.compute()


def main() -> None:
    parser = make_parser("Evaluate weights on the validation data.")
    parser.add_argument("--weights", required=True, help="safetensors file, as train.py writes it")
    arguments = parser.parse_args()
    cfg = read_settings(arguments)
    choose_device(cfg.train.device)
    model = port.build_model(cfg)
    load_weights(model, arguments.weights)
    dataset = port.build_dataset(cfg, "val")
    loss, scores = evaluate(cfg, model, dataset)
    print(f"samples: {len(dataset)} loss: {loss:.6f} " + " ".join(f"{name}: {value:.6f}" for name, value in scores.items()))


if __name__ == "__main__":
    sys.exit(run(main))
