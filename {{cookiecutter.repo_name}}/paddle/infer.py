# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Predict with an exported model: python paddle/infer.py --model_dir FOLDER --input FILE_OR_FOLDER

Prints the same lines as predict.py and keeps the same beside them. With --onnx_file instead of --model_dir: ONNX Runtime.
"""
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # pipeline/ lies beside this folder

from engine import PRECISIONS, OnnxEngine, PaddleEngine
from prediction import classify, read_batches, save

from cli import make_parser, read_settings, run
from pipeline.align.errors import UserError
from pipeline.align.paths import ROOT


def main() -> None:
    arguments = read_arguments()
    cfg = read_settings(arguments)
    batches = read_batches(arguments.input, cfg, arguments.batch_size)
    engine = open_engine(arguments)
    seconds, counted = 0.0, 0
    for number, (names, inputs) in enumerate(batches):
        if arguments.benchmark and number == 0:
            engine(inputs)  # the first call of a shape also chooses kernels and allocates
        started = time.perf_counter()
        outputs = engine(inputs)
        seconds, counted = seconds + time.perf_counter() - started, counted + len(names)
        for prediction in classify(names, outputs[0]):
            save(arguments.input, prediction, ROOT / cfg.train.output_dir / "predictions")
            print(prediction, flush=True)
    if arguments.benchmark:
        print(f"benchmark: {counted} {cfg.data.unit} in batches of {arguments.batch_size}, "
              f"{1000 * seconds / counted:.3f} ms each, {counted / seconds:.1f} {cfg.data.unit}/sec")  # fmt: skip


def open_engine(arguments: argparse.Namespace) -> PaddleEngine | OnnxEngine:
    """The exported model that the command line names."""
    if (arguments.model_dir is None) == (arguments.onnx_file is None):
        raise UserError("name the exported model: either --model_dir, or --onnx_file")
    if arguments.onnx_file:
        return OnnxEngine(arguments.onnx_file, arguments.cpu_threads)
    return PaddleEngine(
        arguments.model_dir, arguments.device, arguments.precision, arguments.enable_mkldnn, arguments.use_tensorrt,
        arguments.cpu_threads,
    )  # fmt: skip


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = make_parser("Predict with an exported model.")
    parser.add_argument("--model_dir", type=Path, help="folder that export_model.py wrote")
    parser.add_argument("--onnx_file", type=Path, help="file that export_onnx.py wrote, instead of --model_dir")
    parser.add_argument("--input", "--image_dir", type=Path, required=True, metavar="PATH", help="file or folder to predict")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--batch_size", type=positive, default=1)
    parser.add_argument("--cpu_threads", type=positive, default=1)
    parser.add_argument("--enable_mkldnn", type=boolean, default=False, metavar="True|False", help="oneDNN on the CPU")
    parser.add_argument("--use_tensorrt", type=boolean, default=False, metavar="True|False", help="TensorRT on the GPU")
    parser.add_argument("--precision", choices=tuple(PRECISIONS), default="fp32")
    parser.add_argument("--benchmark", type=boolean, default=False, metavar="True|False", help="also print the speed")
    return parser.parse_args()


def boolean(text: str) -> bool:
    """True or False in any case."""
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither True nor False")
    return text.lower() == "true"


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(run(main))
