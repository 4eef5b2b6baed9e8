# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Export for Paddle Inference: python paddle/export_model.py --weights FILE --output_dir FOLDER

Writes inference.json and inference.pdiparams for any batch size, once they have computed the same as the network itself
for two batch sizes. Knows only the contract (port.py); the inputs are those of fake_data in port.yaml.
"""
from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paddle

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # pipeline/ lies beside this folder

from engine import MODEL, PARAMS, PaddleEngine, one_line, shapes

import port
from checkpoint import load_weights
from cli import make_parser, read_settings, run
from pipeline.align.errors import PortError, UserError
from pipeline.align.fake_data import make_batch

BATCH_SIZES = (1, 3)
#: Largest difference, in units of the largest output: rounding of float32 through a deep network, not a wrong operation.
TOLERANCE = 1e-4


class Forward(paddle.nn.Layer):
    """port.forward as a layer whose outputs are a tuple, which is what can be exported."""

    def __init__(self, model: paddle.nn.Layer):
        super().__init__()
        self.model = model

    def forward(self, inputs: list[paddle.Tensor]) -> tuple[paddle.Tensor, ...]:
        """The outputs of port.forward in their order."""
        return tuple(port.forward(self.model, (*inputs, None)).values())


def export_model(cfg: Any, weights: str | Path, folder: Path) -> None:
    """Write the exported model into `folder`, whole or not at all. PortError where it computes something else."""
    network = load_network(cfg, weights)
    specs = [
        paddle.static.InputSpec([None, *spec["shape"]], spec["dtype"], f"input_{index}")
        for index, spec in enumerate(cfg.fake_data.inputs)
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".export.", dir=folder))
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}") from None
    try:
        try:
            paddle.jit.save(network, str(temporary / Path(MODEL).stem), input_spec=[specs])
        except Exception as error:  # whatever the port's forward raises while it is traced
            raise PortError(f"the model cannot be exported: {one_line(error)}") from None
        compare(cfg, network, PaddleEngine(temporary), "the exported model")
        for name in (PARAMS, MODEL):
            os.replace(temporary / name, folder / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_network(cfg: Any, weights: str | Path) -> Forward:
    """The port with its weights, in eval mode, on the CPU."""
    paddle.set_device("cpu")
    model = port.build_model(cfg)
    load_weights(model, weights)
    network = Forward(model)
    network.eval()
    return network


@paddle.no_grad()
def compare(cfg: Any, network: Forward, exported: Callable[[Sequence[np.ndarray]], list[np.ndarray]], what: str) -> float:
    """The largest relative difference between the network and `exported` over the batch sizes. PortError above TOLERANCE."""
    batch = list(make_batch(cfg).values())[:-1]
    worst = 0.0
    for size in BATCH_SIZES:
        inputs = [np.resize(array, (size, *array.shape[1:])) for array in batch]
        wanted = [output.numpy() for output in network([paddle.to_tensor(array) for array in inputs])]
        found = exported(inputs)
        if [array.shape for array in found] != [array.shape for array in wanted]:
            raise PortError(f"{what} has outputs {shapes(found)} for {size} samples, the network has {shapes(wanted)}")
        for index, (a, b) in enumerate(zip(wanted, found)):
            difference = float(np.abs(a.astype(np.float64) - b).max() / max(1.0, np.abs(a).max()))
            if not difference <= TOLERANCE:
                raise PortError(f"output {index} of {what} differs by {difference:.2e} for {size} samples")
            worst = max(worst, difference)
    return worst


def main() -> None:
    parser = make_parser("Export the model for Paddle Inference.")
    parser.add_argument("--weights", required=True, help="safetensors file, as train.py writes it")
    parser.add_argument("--output_dir", required=True, type=Path, help="folder for the exported model")
    arguments = parser.parse_args()
    export_model(read_settings(arguments), arguments.weights, arguments.output_dir)
    sizes = " and ".join(map(str, BATCH_SIZES))
    print(f"exported to {arguments.output_dir / MODEL}; equal to the network for batches of {sizes}")


if __name__ == "__main__":
    sys.exit(run(main))
