# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Convert an exported model to ONNX: python paddle/export_onnx.py --weights FILE --model_dir FOLDER --save_file FILE

The ONNX file appears only once onnx.checker accepts it, it holds the weights, and ONNX Runtime computes the same as the
network with `--weights` for two batch sizes. Needs test_tipc/requirements_onnx.txt.
"""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))  # pipeline/ lies beside this folder

from engine import MODEL, PARAMS, OnnxEngine, check_files, one_line, read_parameters
from export_model import BATCH_SIZES, compare, load_network
from infer import boolean, positive

from cli import make_parser, read_settings, run
from pipeline.align.errors import PortError, UserError


def export_onnx(cfg: Any, weights: Path, model: Path, params: Path, target: Path, opset: int, checker: bool) -> float:
    """Convert the exported `model` and `params` to `target`. Returns the largest difference to the network."""
    check_files(model, params)
    network = load_network(cfg, weights)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.onnx")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _convert(model, params, temporary, opset)
        _check(temporary, model, checker)
        worst = compare(cfg, network, OnnxEngine(temporary), "the ONNX model")
        os.replace(temporary, target)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)
    return worst


def _convert(model: Path, params: Path, target: Path, opset: int) -> None:
    """Run paddle2onnx in a process of its own, because it ends the process where it fails."""
    # Without --optimize_tool None it would install a package from the network.
    command = [
        sys.executable, "-m", "paddle2onnx.command", "--model_dir", str(model.parent), "--model_filename", model.name,
        "--params_filename", os.path.relpath(params, model.parent), "--save_file", str(target), "--opset_version", str(opset),
        "--enable_auto_update_opset", "False", "--enable_onnx_checker", "False", "--optimize_tool", "None",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    if "No module named" in said:
        raise UserError("paddle2onnx is missing: pip install -r test_tipc/requirements_onnx.txt")
    if done.returncode or not target.is_file():
        raise PortError(f"paddle2onnx failed with exit status {done.returncode}: {one_line(Exception(said))}")


def _check(path: Path, model: Path, checker: bool) -> None:
    """PortError unless the file is valid and holds at least as many weights as the exported model has."""
    import onnx

    loaded = onnx.load(str(path))
    if checker:
        try:
            onnx.checker.check_model(loaded, full_check=True)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise PortError(f"onnx.checker refuses the converted model: {one_line(error)}") from None
    constants = [attribute.t for node in loaded.graph.node if node.op_type == "Constant" for attribute in node.attribute]
    found = sum(int(np.prod(tensor.dims)) for tensor in [*loaded.graph.initializer, *constants])
    wanted = sum(int(np.prod(shape)) for shape, _ in read_parameters(model).values())
    if found < wanted:
        raise PortError(f"the converted model holds {found} weights, the exported one {wanted}")


def main() -> None:
    parser = make_parser("Convert an exported model to ONNX.")
    parser.add_argument("--weights", required=True, type=Path, help="safetensors file that the model was exported from")
    parser.add_argument("--model_dir", required=True, type=Path, help="folder that export_model.py wrote")
    parser.add_argument("--model_filename", default=MODEL)
    parser.add_argument("--params_filename", default=PARAMS)
    parser.add_argument("--save_file", required=True, type=Path, help="the ONNX file to write")
    parser.add_argument("--opset_version", type=positive, default=17)
    parser.add_argument("--enable_onnx_checker", type=boolean, default=True, metavar="True|False")
    arguments = parser.parse_args()
    worst = export_onnx(
        read_settings(arguments), arguments.weights, arguments.model_dir / arguments.model_filename,
        arguments.model_dir / arguments.params_filename, arguments.save_file, arguments.opset_version,
        arguments.enable_onnx_checker,
    )  # fmt: skip
    sizes = " and ".join(map(str, BATCH_SIZES))
    print(f"converted to {arguments.save_file}; differs from the network by at most {worst:.1e} for batches of {sizes}")


if __name__ == "__main__":
    sys.exit(run(main))
