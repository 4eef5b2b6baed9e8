# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The device, and the other processes of a training that torchrun started."""
from __future__ import annotations

import gc
import os
from typing import Any

import torch
from torch import distributed

from pipeline.align.errors import UserError


def choose_device(wanted: str | None) -> torch.device:
    """ "cpu", "gpu", or None for the GPU where there is one; of several, the one of this process. UserError without a GPU."""
    if wanted == "gpu" and not torch.cuda.is_available():
        raise UserError("train.device is gpu, but this PyTorch sees none: install the GPU build and a driver, or use cpu")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def join(device: torch.device) -> None:
    """Meet the other processes, where there are any. They talk over NCCL on GPUs and over gloo on CPUs."""
    if count() > 1 and not distributed.is_initialized():
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")


def leave() -> None:
    """Part from the other processes; a process that ends without this may be aborted by gloo's threads."""
    if distributed.is_initialized():
        gc.collect()
        distributed.destroy_process_group()


def count() -> int:
    """The number of processes."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """This process, from 0. Rank 0 alone writes."""
    return int(os.environ.get("RANK", "0"))


def gathered(value: Any) -> list[Any]:
    """What every process has for `value`, by rank; all of them must call this."""
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    distributed.all_gather_object(values, value)
    return values


def average_gradients(parameters: list[torch.Tensor]) -> None:
    """Replace every gradient by its mean over all processes, which all must call this; none counts as zero."""
    if count() == 1:
        return
    present = gathered([parameter.grad is not None for parameter in parameters])
    for parameter, anywhere in zip(parameters, map(any, zip(*present))):
        if anywhere:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            distributed.all_reduce(gradient)
            parameter.grad = gradient / count()


def total(values: list[float]) -> list[float]:
    """The sums of `values` over all processes, in double precision."""
    if count() == 1:
        return values
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    distributed.all_reduce(tensor)
    return tensor.tolist()


def parallel(model: torch.nn.Module) -> torch.nn.Module:
    """The model over all processes, or over all GPUs of this one where NCCL is missing; the model itself otherwise."""
    device = next(model.parameters()).device
    if count() > 1:
        return torch.nn.parallel.DistributedDataParallel(model, [device] if device.type == "cuda" else None)
    if device.type == "cuda" and torch.cuda.device_count() > 1 and not distributed.is_nccl_available():
        return torch.nn.DataParallel(model)
    return model
