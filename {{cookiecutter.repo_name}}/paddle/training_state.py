# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a training needs beside the weights to go on as if it had never stopped: optimizer, generators, schedule, scaler."""
from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import paddle
from paddle.base.core import GeneratorState

from pipeline.align.errors import UserError


def optimizer_arrays(model: paddle.nn.Layer, optimizer: paddle.optimizer.Optimizer) -> dict[str, np.ndarray]:
    """{"parameter/slot": value}, with the parameter's name in the state_dict of `model`.

    Paddle's own keys (linear_8.w_0_moment1_0) count the layers and optimizers that the process has made.
    """
    return {name: tensor.numpy() for name, tensor in _slots(model, optimizer).items()}


def restore_optimizer(
    model: paddle.nn.Layer, optimizer: paddle.optimizer.Optimizer, arrays: Mapping[str, np.ndarray]
) -> None:
    """Put `arrays` back. Moves the weights, so that they are to be loaded afterwards. UserError where names or shapes differ."""
    used = {name.rpartition("/")[0] for name in arrays}
    parameters = [parameter for name, parameter in model.named_parameters() if name in used]
    if parameters:  # the slots come into being with the first step
        sum((parameter * 0).sum() for parameter in parameters).backward()
        optimizer.step()
        optimizer.clear_grad(set_to_zero=False)
    slots = _slots(model, optimizer)
    found = {name: list(array.shape) for name, array in arrays.items()}
    wanted = {name: list(tensor.shape) for name, tensor in slots.items()}
    if found != wanted:
        different = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise UserError(f"the checkpoint is of another optimizer or model: {different[0]} differs; start with --weights instead")
    for name, tensor in slots.items():
        tensor.set_value(arrays[name])


def _slots(model: paddle.nn.Layer, optimizer: paddle.optimizer.Optimizer) -> dict[str, paddle.Tensor]:
    names = {parameter.name: name for name, parameter in model.named_parameters()}
    slots = {}
    for key, tensor in optimizer.state_dict().items():
        if isinstance(tensor, paddle.Tensor):
            own = max((name for name in names if key.startswith(f"{name}_")), key=len)
            slot = re.sub(r"_\d+$", "", key.removeprefix(f"{own}_"))
            slots[f"{names[own]}/{slot}"] = tensor
    return slots


def left_gradients(model: paddle.nn.Layer) -> dict[str, np.ndarray]:
    """{parameter: gradient} of what no step has cleared yet, see train.clear_grad."""
    return {name: parameter.grad.numpy() for name, parameter in model.named_parameters() if parameter.grad is not None}


def restore_gradients(model: paddle.nn.Layer, arrays: Mapping[str, np.ndarray]) -> None:
    """Put back what left_gradients() found."""
    for name, parameter in model.named_parameters():
        parameter.grad = paddle.to_tensor(arrays[name]) if name in arrays else None


def generator_states() -> dict[str, Any]:
    """The states of Python's, numpy's and Paddle's generators, as JSON can hold them."""
    kind, numbers, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [kind, numbers.tolist(), *rest],
        "paddle": [_plain(state) for state in paddle.get_rng_state()],
    }


def restore_generators(states: Mapping[str, Any]) -> None:
    """Put the generators back to where generator_states() found them."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, numbers, *rest = states["numpy"]
    np.random.set_state((kind, np.array(numbers, np.uint32), *rest))
    restored = []
    for state in states["paddle"]:
        restored.append(GeneratorState.__new__(GeneratorState))
        restored[-1].__setstate__((*state[:-1], list(bytes.fromhex(state[-1]))))
    if len(restored) == len(paddle.get_rng_state()):  # otherwise the checkpoint comes from another number of GPUs
        paddle.set_rng_state(restored)


def _plain(state: GeneratorState) -> list[Any]:
    *numbers, text = state.__getstate__()
    return [*numbers, bytes(text).hex()]


def scaler_state(scaler: paddle.amp.GradScaler) -> dict[str, Any]:
    """The loss scaling as JSON can hold it; empty where there is none."""
    return {name: np.asarray(value).item() for name, value in scaler.state_dict().items()}


def restore_scaler(scaler: paddle.amp.GradScaler, state: Mapping[str, Any]) -> None:
    """Put the loss scaling back. A checkpoint without one leaves it as it is."""
    if state:
        scaler.load_state_dict({**state, "scale": np.array([state["scale"]], np.float32)})
