# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a training needs beside the weights to go on as if it had never stopped: optimizer, generators."""
from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pipeline.align.errors import UserError


def optimizer_arrays(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """{"parameter/slot": value}, with the parameter's name in the state_dict of `model`."""
    names = _names(model, optimizer)
    return {
        f"{names[index]}/{slot}": value.detach().cpu().clone()
        for index, slots in optimizer.state_dict()["state"].items()
        for slot, value in slots.items()
        if isinstance(value, torch.Tensor)
    }


def optimizer_groups(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """What the optimizer's parameter groups hold beside the parameters."""
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def restore_optimizer(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, arrays: Mapping[str, torch.Tensor], groups: list[dict[str, Any]]
) -> None:
    """Put `arrays` and `groups` back. UserError where they are of another optimizer or model."""
    numbers = {name: index for index, name in _names(model, optimizer).items()}
    shapes = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
    state = optimizer.state_dict()
    different = [] if [set(group) for group in groups] == [set(group) for group in optimizer_groups(optimizer)] else ["its kind"]
    for name, array in arrays.items():
        own, _, slot = name.rpartition("/")
        if own not in numbers or (array.ndim and list(array.shape) != shapes[own]):
            different.append(name)
        else:
            state["state"].setdefault(numbers[own], {})[slot] = array
    if different:
        raise UserError(f"the checkpoint is of another optimizer or model: {different[0]} differs; start with --weights instead")
    optimizer.load_state_dict(state)
    for group, kept in zip(optimizer.param_groups, groups):
        group.update(kept)


def _names(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[int, str]:
    """{number of a parameter in the optimizer's state_dict: its name}."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {index: names[id(parameter)] for index, parameter in enumerate(parameters)}


def left_gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """{parameter: gradient} of what no step has cleared yet, see train.clear_grad."""
    return {name: one.grad.detach().cpu().clone() for name, one in model.named_parameters() if one.grad is not None}


def restore_gradients(model: torch.nn.Module, arrays: Mapping[str, torch.Tensor]) -> None:
    """Put back what left_gradients() found."""
    for name, parameter in model.named_parameters():
        parameter.grad = arrays[name].to(parameter.device) if name in arrays else None


def generator_states() -> dict[str, Any]:
    """The states of Python's, numpy's and PyTorch's generators, as JSON can hold them."""
    kind, numbers, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [kind, numbers.tolist(), *rest],
        "torch": _plain(torch.get_rng_state()),
        "cuda": [_plain(state) for state in torch.cuda.get_rng_state_all()],
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Put the generators back to where generator_states() found them."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, numbers, *rest = states["numpy"]
    np.random.set_state((kind, np.array(numbers, np.uint32), *rest))
    torch.set_rng_state(_tensor(states["torch"]))
    if len(states["cuda"]) == torch.cuda.device_count():  # otherwise the checkpoint comes from another number of GPUs
        torch.cuda.set_rng_state_all([_tensor(state) for state in states["cuda"]])


def _plain(state: torch.Tensor) -> str:
    return bytes(state.tolist()).hex()


def _tensor(text: str) -> torch.Tensor:
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)
