# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Where NaN or infinity comes from, once a loss is not finite."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle


@paddle.no_grad()
def find_first(model: paddle.nn.Layer, batch: tuple[paddle.Tensor, ...], forward: Callable) -> str:
    """A few words on the first value of `forward(model, batch)` that is not finite, in the order of computation."""
    for index, tensor in enumerate(batch[:-1]):
        if not _finite(tensor):
            return f"input {index} of the batch is not finite"
    found: list[str] = []
    handles = [
        layer.register_forward_post_hook(lambda layer, inputs, outputs, name=name: _look(found, name, layer, inputs, outputs))
        for name, layer in model.named_sublayers(include_self=True)
    ]
    try:
        forward(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else "the output of every layer is finite, so it is the loss itself"


def _look(found: list[str], name: str, layer: paddle.nn.Layer, inputs: Any, outputs: Any) -> None:
    if found or all(map(_finite, _tensors(outputs))):
        return
    name = f"{name or 'the network'} ({type(layer).__name__})"
    own = [key for key, value in layer.named_parameters(include_sublayers=False) if not _finite(value)]
    if own:
        found.append(f"the first layer that is not finite is {name}, whose {own[0]} is not finite")
    elif all(map(_finite, _tensors(inputs))):
        found.append(f"the first layer that is not finite is {name}, whose inputs and own parameters are finite")
    else:
        found.append(f"the first layer that is not finite is {name}, which is given inputs that are not finite")


def _tensors(value: Any) -> list[paddle.Tensor]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if isinstance(value, paddle.Tensor) else []


def _finite(tensor: paddle.Tensor) -> bool:
    return not tensor.is_floating_point() or bool(paddle.isfinite(tensor).all().item())
