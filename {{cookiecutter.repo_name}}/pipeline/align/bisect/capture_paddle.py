# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What tap.py needs from Paddle. Same names and order as capture_torch.py."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import paddle


def modules(model: paddle.nn.Layer) -> Iterator[tuple[str, paddle.nn.Layer]]:
    """(first path, layer) of every layer, each once; the cells inside a recurrent layer are part of it."""
    inside: set[int] = set()
    for path, layer in model.named_sublayers(include_self=True):
        if id(layer) in inside:
            continue
        if isinstance(layer, paddle.nn.layer.rnn.RNNBase):
            inside.update(id(cell) for cell in layer.sublayers())
        yield path, layer


def aliases(model: paddle.nn.Layer) -> dict[str, str]:
    """{further path: first path} of layers that are used under several paths."""
    first: dict[int, str] = {}
    paths = model.named_sublayers(include_self=True, remove_duplicate=False)
    return {path: first[id(layer)] for path, layer in paths if first.setdefault(id(layer), path) != path}


def trainable(model: paddle.nn.Layer) -> dict[str, bool]:
    """Whether each parameter is trained."""
    return {name: not parameter.stop_gradient for name, parameter in model.named_parameters()}


def attach(layer: paddle.nn.Layer, before: Callable, after: Callable) -> list[Any]:
    """Call before(layer, args, kwargs) -> (args, kwargs) or None, and after(layer, args, kwargs, output) at every call."""
    return [
        layer.register_forward_pre_hook(before, with_kwargs=True),
        layer.register_forward_post_hook(after, with_kwargs=True),
    ]


def builds_graph() -> bool:
    """Whether operations are recorded for the backward pass now."""
    return paddle.is_grad_enabled()


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor with plain memory."""
    return isinstance(value, paddle.Tensor) and value.is_dense()


def needs_grad(tensor: paddle.Tensor) -> bool:
    """Whether a gradient will be computed for it."""
    return not tensor.stop_gradient


def clone(tensor: paddle.Tensor) -> paddle.Tensor:
    """A differentiable copy."""
    return tensor.clone()


def version(tensor: paddle.Tensor) -> int:
    """Changes whenever the tensor is changed in place."""
    return tensor.inplace_version


def write_back(tensor: paddle.Tensor, changed: paddle.Tensor) -> None:
    """Do to `tensor` what was done in place to its copy."""
    paddle.assign(changed, output=tensor)


def on_gradient(tensor: paddle.Tensor, call: Callable[[paddle.Tensor], None]) -> None:
    """call(gradient) in the backward pass; Paddle's layers have no backward hooks, its tensors do."""
    tensor.register_hook(call)


def disturb(model: paddle.nn.Layer, scale: float, random: np.random.Generator) -> None:
    """Move every floating point parameter and buffer by up to 2 `scale` units in the last place."""
    with paddle.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and tensor.size:
                unit = 2 * scale * paddle.finfo(tensor.dtype).eps
                factor = 1 + unit * random.uniform(-1, 1, tuple(tensor.shape))
                tensor.set_value(tensor * paddle.to_tensor(factor.astype("float32")).astype(tensor.dtype))
