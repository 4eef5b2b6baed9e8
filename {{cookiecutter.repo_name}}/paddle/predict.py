# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Predict with the network as it was trained: python paddle/predict.py --input FILE_OR_FOLDER --weights FILE

Prints one line per sample. What a port keeps beside it, such as a picture, goes into the folder predictions of train.output_dir.
"""
from __future__ import annotations

import sys
from pathlib import Path

import paddle

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # pipeline/ lies beside this folder

from prediction import classify, read_batches, save
from ranks import choose_device

import port
from checkpoint import load_weights
from cli import make_parser, read_settings, run
from pipeline.align.paths import ROOT


@paddle.no_grad()
def main() -> None:
    parser = make_parser("Predict with the network as it was trained.")
    parser.add_argument("--input", "--image", required=True, type=Path, metavar="PATH", help="file or folder to predict")
    parser.add_argument("--weights", required=True, help="safetensors file, as train.py writes it")
    arguments = parser.parse_args()
    cfg = read_settings(arguments)
    choose_device(cfg.train.device)
    model = port.build_model(cfg)
    load_weights(model, arguments.weights)
    model.eval()
    for names, inputs in read_batches(arguments.input, cfg, cfg.data.batch_size):
        outputs = port.forward(model, (*map(paddle.to_tensor, inputs), None))
        for prediction in classify(names, next(iter(outputs.values())).numpy()):
            save(arguments.input, prediction, ROOT / cfg.train.output_dir / "predictions")
            print(prediction, flush=True)


if __name__ == "__main__":
    sys.exit(run(main))
