# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What tap.py needs from PyTorch. Same names and order as capture_paddle.py."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


def modules(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    """(first path, module) of every module, each once."""
    return ((path, module) for path, module in model.named_modules() if not isinstance(module, torch.jit.ScriptModule))


def aliases(model: torch.nn.Module) -> dict[str, str]:
    """{further path: first path} of modules that are used under several paths."""
    first: dict[int, str] = {}
    paths = model.named_modules(remove_duplicate=False)
    return {path: first[id(module)] for path, module in paths if first.setdefault(id(module), path) != path}


def trainable(model: torch.nn.Module) -> dict[str, bool]:
    """Whether each parameter is trained."""
    return {name: parameter.requires_grad for name, parameter in model.named_parameters()}


def attach(module: torch.nn.Module, before: Callable, after: Callable) -> list[Any]:
    """Call before(module, args, kwargs) -> (args, kwargs) or None, and after(module, args, kwargs, output) at every call."""
    return [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True),
    ]


def builds_graph() -> bool:
    """Whether operations are recorded for the backward pass now."""
    return torch.is_grad_enabled()


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor with plain memory."""
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def needs_grad(tensor: torch.Tensor) -> bool:
    """Whether a gradient will be computed for it."""
    return tensor.requires_grad


def clone(tensor: torch.Tensor) -> torch.Tensor:
    """A differentiable copy."""
    return tensor.clone()


def version(tensor: torch.Tensor) -> int:
    """Changes whenever the tensor is changed in place."""
    return tensor._version


def write_back(tensor: torch.Tensor, changed: torch.Tensor) -> None:
    """Do to `tensor` what was done in place to its copy."""
    tensor.copy_(changed)


def on_gradient(tensor: torch.Tensor, call: Callable[[torch.Tensor], None]) -> None:
    """call(gradient) in the backward pass."""
    tensor.register_hook(call)


def disturb(model: torch.nn.Module, scale: float, random: np.random.Generator) -> None:
    """Move every floating point parameter and buffer by up to 2 `scale` units in the last place."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and tensor.numel():
                unit = 2 * scale * torch.finfo(tensor.dtype).eps
                factor = 1 + unit * random.uniform(-1, 1, tuple(tensor.shape))
                tensor.mul_(torch.from_numpy(np.asarray(factor)).to(tensor.device).to(tensor.dtype))
