# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Exported models: the files that export_model.py and export_onnx.py write, checked and run without any training code."""
from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import paddle
from paddle import inference

from pipeline.align.errors import PortError, UserError

MODEL, PARAMS = "inference.json", "inference.pdiparams"
PRECISIONS = {"fp32": "Float32", "fp16": "Half", "bf16": "Bfloat16", "int8": "Int8"}
#: Bytes of one element by the type names of a Paddle 3 program.
SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui8": 1, "bool": 1}


class PaddleEngine:
    """A model under Paddle Inference. `precision`: a key of PRECISIONS; `threads`: of the CPU's math library."""

    def __init__(
        self, folder: Path, device: str = "cpu", precision: str = "fp32", mkldnn: bool = False, tensorrt: bool = False,
        threads: int = 1,
    ):  # fmt: skip
        check_files(folder / MODEL, folder / PARAMS)
        config = inference.Config(str(folder / MODEL), str(folder / PARAMS))
        config.disable_glog_info()
        if device == "gpu":
            _use_gpu(config, precision, tensorrt)
        else:
            _use_cpu(config, precision, mkldnn, tensorrt, threads)
        try:
            self._predictor = inference.create_predictor(config)
        except Exception as error:  # Paddle's own exception types differ by fault
            raise UserError(f"Paddle Inference cannot load {folder}: {one_line(error)}; export the model again") from None

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs in the order of port.forward, for the model's inputs in their order."""
        names = self._predictor.get_input_names()
        if len(names) != len(inputs):
            raise PortError(f"the exported model has the inputs {', '.join(names)}, but {len(inputs)} were given")
        for name, array in zip(names, inputs):
            handle = self._predictor.get_input_handle(name)
            handle.reshape(array.shape)
            handle.copy_from_cpu(np.ascontiguousarray(array))
        try:
            self._predictor.run()
        except Exception as error:
            raise PortError(f"the exported model fails on inputs {shapes(inputs)}: {one_line(error)}") from None
        return [self._predictor.get_output_handle(name).copy_to_cpu() for name in self._predictor.get_output_names()]


class OnnxEngine:
    """A model under ONNX Runtime, on the CPU."""

    def __init__(self, path: Path, threads: int = 1):
        try:
            import onnxruntime
        except ImportError:
            raise UserError("onnxruntime is missing: pip install -r test_tipc/requirements_onnx.txt") from None
        if not path.is_file():
            raise UserError(f"the ONNX file {path} does not exist; make it with paddle/export_onnx.py")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors only
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has no public base class of its exceptions
            raise UserError(f"ONNX Runtime cannot load {path}: {one_line(error)}; export the model again") from None

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs in the order of port.forward, for the model's inputs in their order."""
        names = [entry.name for entry in self._session.get_inputs()]
        try:
            return self._session.run(None, dict(zip(names, inputs, strict=True)))
        except Exception as error:
            raise PortError(f"the ONNX model fails on inputs {shapes(inputs)}: {one_line(error)}") from None


def _use_gpu(config: inference.Config, precision: str, tensorrt: bool) -> None:
    if not (paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count()):
        raise UserError("--device is gpu, but this Paddle sees none: install the GPU build and a driver, or use cpu")
    mode = getattr(inference.PrecisionType, PRECISIONS[precision])
    config.enable_use_gpu(256, 0, mode)
    if tensorrt:
        config.enable_tensorrt_engine(workspace_size=1 << 30, max_batch_size=1, min_subgraph_size=3, precision_mode=mode)


def _use_cpu(config: inference.Config, precision: str, mkldnn: bool, tensorrt: bool, threads: int) -> None:
    if tensorrt:
        raise UserError("--use_tensorrt needs --device gpu")
    if precision != "fp32" and not (precision == "bf16" and mkldnn):
        raise UserError(f"--precision {precision} is not available on the CPU: use fp32, or bf16 with --enable_mkldnn True")
    config.disable_gpu()
    config.set_cpu_math_library_num_threads(threads)
    if mkldnn:
        config.enable_mkldnn()
    else:
        config.disable_mkldnn()
    if precision == "bf16":
        config.enable_mkldnn_bfloat16()


def check_files(model: Path, params: Path) -> None:
    """UserError unless the weights have exactly the bytes that the program needs: Paddle and paddle2onnx load less silently."""
    older = model.with_suffix(".pdmodel")
    if not model.is_file():
        more = f"; {older.name} is the format before Paddle 3" if older.is_file() else ""
        raise UserError(f"no exported model at {model}{more}; make one with paddle/export_model.py")
    if not params.is_file():
        raise UserError(f"{model} has no weights beside it: {params.name} is missing; export the model again")
    try:
        wanted = sum(_stored_bytes(shape, kind) for shape, kind in read_parameters(model).values())
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{model} is damaged or no Paddle 3 program ({error}); export the model again") from None
    if params.stat().st_size != wanted:
        raise UserError(
            f"{params} has {params.stat().st_size} bytes, {model.name} needs {wanted}: cut off, or of another model; export again"
        )


def read_parameters(model: Path) -> Mapping[str, tuple[list[int], str]]:
    """{name: (shape, type)} of every parameter of a Paddle 3 program."""
    program = json.loads(model.read_bytes())
    operations = program["program"]["regions"][0]["blocks"][0]["ops"]
    types = {op["A"][3]: op["O"]["TT"]["D"] for op in operations if op["#"] == "p"}
    return {name: (entry[1], entry[0]["#"].rpartition("t_")[2]) for name, entry in types.items()}


def _stored_bytes(shape: Sequence[int], kind: str) -> int:
    """Size of one tensor in a .pdiparams file: two version numbers, an empty level of detail, the description, the data.

    The description is a protobuf message: the type, then a tag and a variable-length number per dimension.
    """
    description = 2 + sum(1 + max(1, -(-size.bit_length() // 7)) for size in shape)
    return 4 + 8 + 4 + 4 + description + math.prod(shape) * SIZES[kind]


def shapes(arrays: Sequence[np.ndarray]) -> str:
    """Shapes as text."""
    return ", ".join(str(list(array.shape)) for array in arrays)


def one_line(error: BaseException) -> str:
    """The message of an exception that brings a stack or source code along."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith(("---", "C++"))]
    _, found, message = " ".join(lines).rpartition("Error: ")
    return message[:300] if found else message[-300:] or type(error).__name__
