# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Describe a Paddle model: its module tree as JSON (see tree.py) and its state as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import paddle

from pipeline.align.convert.arrays import NUMPY, Array
from pipeline.align.convert.tree import aliases_of, check_state, hyperparameters
from pipeline.align.errors import UserError


def describe(model: paddle.nn.Layer) -> dict[str, Any]:
    """The module tree of `model` (paddle.DataParallel is looked through), see tree.py.

    Paddle keeps BatchNorm's _mean and _variance as parameters without gradient; they are listed as buffers here.
    """
    model = unwrap(model)
    modules: list[dict[str, Any]] = []
    _walk(model, "", "", None, modules, ())
    tensors = state_tensors(model)
    check_state(
        "paddle", [tensor["key"] for module in modules for tensor in module["params"] + module["buffers"]], list(tensors)
    )
    aliases = aliases_of([(name, _identity(tensor)) for name, tensor in tensors.items()])
    return {"framework": "paddle", "modules": modules, "aliases": aliases}


def unwrap(model: paddle.nn.Layer) -> paddle.nn.Layer:
    """The model inside paddle.DataParallel."""
    while isinstance(model, paddle.DataParallel):
        model = model._layers
    return model


def state_tensors(model: paddle.nn.Layer) -> dict[str, paddle.Tensor]:
    """state_dict(), and the weights that Paddle forgets to register (AdaptiveLogSoftmaxWithLoss)."""
    model = unwrap(model)
    tensors = dict(model.state_dict())
    for path, layer in model.named_sublayers(include_self=True):
        tensors.update({f"{path}.{name}" if path else name: value for name, value in _unregistered(layer)})
    return tensors


def state(model: paddle.nn.Layer) -> dict[str, Array]:
    """Every tensor of the state once, by its first name; values are read when asked for."""
    tensors = state_tensors(model)
    aliases = aliases_of([(name, _identity(tensor)) for name, tensor in tensors.items()])
    return {name: as_array(tensor) for name, tensor in tensors.items() if name not in aliases}


def as_array(tensor: paddle.Tensor) -> Array:
    """A tensor as an Array; Paddle gives the bits of bfloat16 as uint16, which is what Array holds."""
    return Array(tuple(tensor.shape), _dtype(tensor), lambda: np.asarray(tensor.numpy()))


def _dtype(tensor: paddle.Tensor) -> str:
    return str(tensor.dtype).removeprefix("paddle.")


def _class_path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _identity(tensor: paddle.Tensor) -> Any:
    """Equal for two names of one tensor, also where two Parameters share one storage."""
    if not tensor.size or not tensor._is_initialized():
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), str(tensor.dtype)


def _unregistered(layer: paddle.nn.Layer) -> Iterator[tuple[str, paddle.Tensor]]:
    """AdaptiveLogSoftmaxWithLoss keeps its tail in a plain list of lists, outside of state_dict()."""
    if isinstance(layer, paddle.nn.AdaptiveLogSoftmaxWithLoss):
        for i, pair in enumerate(layer.tail_weights):
            for j, weight in enumerate(pair):
                yield f"tail_weights.{i}.{j}", weight


def _walk(layer: paddle.nn.Layer, path: str, name: str, parent: int | None, found: list, above: tuple) -> None:
    if id(layer) in above:
        raise UserError(f"the Paddle model contains itself at {path!r}; it cannot be described")
    prefix = f"{path}." if path else ""
    index = len(found)
    params, buffers = [], []
    for key, value in (*layer._parameters.items(), *_unregistered(layer)):
        if value is not None:
            statistic = isinstance(layer, paddle.nn.layer.norm._BatchNormBase) and key in ("_mean", "_variance")
            (buffers if statistic else params).append(_tensor(key, prefix + key, value))
    for key, value in layer._buffers.items():
        if value is not None:
            persistent = key not in layer._non_persistable_buffer_names_set
            buffers.append({**_tensor(key, prefix + key, value, persistent), "persistent": persistent})
    found.append(
        {
            "path": path,
            "name": name,
            "parent": parent,
            "class": _class_path(type(layer)),
            "bases": [_class_path(base) for base in type(layer).__mro__[:-1]],
            "hyper": hyperparameters(vars(layer)),
            "params": params,
            "buffers": buffers,
            "norms": _norms(layer),
        }
    )
    for key, child in layer._sub_layers.items():
        if child is not None:
            _walk(child, prefix + key, key, index, found, (*above, id(layer)))


def _tensor(name: str, key: str, tensor: paddle.Tensor, stored: bool = True) -> dict[str, Any]:
    if stored and not tensor._is_initialized():
        raise UserError(f"Paddle tensor {key!r} has no values yet (LazyGuard): initialise the model before converting")
    if _dtype(tensor) not in NUMPY:
        raise UserError(f"Paddle tensor {key!r} is {_dtype(tensor)}: convert the model from before quantisation")
    return {
        "name": name,
        "key": key,
        "shape": list(tensor.shape),
        "dtype": _dtype(tensor),
        "trainable": not tensor.stop_gradient,
    }


def _norms(layer: paddle.nn.Layer) -> dict[str, dict[str, Any]]:
    """Parameters that are computed from others by paddle.nn.utils.weight_norm or spectral_norm."""
    norms: dict[str, dict[str, Any]] = {}
    for hook in layer._forward_pre_hooks.values():
        kind = type(hook).__name__
        if kind == "WeightNorm":
            # WeightNorm writes dim=None as -1
            norms[hook.name] = {"kind": "weight_norm", "dim": None if hook.dim == -1 else hook.dim}
        elif kind == "SpectralNorm":
            norms[hook.name] = {"kind": "spectral_norm", "dim": hook.dim}
    return norms
