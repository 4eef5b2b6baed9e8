# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The device, and the other processes of a training that python -m paddle.distributed.launch started."""
from __future__ import annotations

from typing import Any

import paddle
from paddle import distributed

from pipeline.align.errors import UserError


def choose_device(wanted: str | None) -> None:
    """Compute on "cpu" or "gpu" from here on; None leaves it to Paddle: the GPU where there is one. UserError without a GPU."""
    if wanted == "gpu" and not (paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count()):
        raise UserError("train.device is gpu, but this Paddle sees none: install the GPU build and a driver, or use cpu")
    if wanted:
        paddle.set_device(wanted)


def join() -> None:
    """Meet the other processes, where there are any. They talk over NCCL on GPUs and over gloo on CPUs."""
    if count() > 1 and not distributed.is_initialized():
        distributed.init_parallel_env()


def count() -> int:
    """The number of processes."""
    return distributed.get_world_size()


def rank() -> int:
    """This process, from 0. Rank 0 alone writes."""
    return distributed.get_rank()


def gathered(value: Any) -> list[Any]:
    """What every process has for `value`, by rank; all of them must call this."""
    if count() == 1:
        return [value]
    values: list[Any] = []
    distributed.all_gather_object(values, value)
    return values


def average_gradients(parameters: list[paddle.Tensor]) -> None:
    """Replace every gradient by its mean over all processes, which all must call this; none counts as zero."""
    if count() == 1:
        return
    present = gathered([parameter.grad is not None for parameter in parameters])
    for parameter, anywhere in zip(parameters, map(any, zip(*present))):
        if anywhere:
            gradient = paddle.zeros_like(parameter) if parameter.grad is None else parameter.grad
            distributed.all_reduce(gradient)
            parameter.grad = gradient / count()


def total(values: list[float]) -> list[float]:
    """The sums of `values` over all processes, in double precision."""
    if count() == 1:
        return values
    tensor = paddle.to_tensor(values, dtype="float64")
    distributed.all_reduce(tensor)
    return tensor.tolist()
