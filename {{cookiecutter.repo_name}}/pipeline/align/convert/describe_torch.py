# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Describe a torch model: its module tree as JSON (see tree.py) and its state as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from pipeline.align.convert.arrays import NUMPY, Array
from pipeline.align.convert.tree import aliases_of, check_state, hyperparameters
from pipeline.align.errors import UserError

#: Wrappers around a whole model that add a prefix to every name, and the attribute that holds the model.
WRAPPERS = {
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
}


def describe(model: torch.nn.Module) -> dict[str, Any]:
    """The module tree of `model` (DataParallel and torch.compile are looked through), see tree.py.

    Raises UserError for what has no values to convert: lazy, meta, quantised and sparse tensors, pruned weights.
    """
    model = unwrap(model)
    modules: list[dict[str, Any]] = []
    _walk(model, "", "", None, modules, ())
    state = model.state_dict(keep_vars=True)
    check_state("torch", [tensor["key"] for module in modules for tensor in module["params"] + module["buffers"]], list(state))
    aliases = aliases_of([(name, _identity(tensor)) for name, tensor in state.items()])
    return {"framework": "torch", "modules": modules, "aliases": aliases}


def unwrap(model: torch.nn.Module) -> torch.nn.Module:
    """The model inside DataParallel, DistributedDataParallel and torch.compile, in any order."""
    while (attribute := WRAPPERS.get(_class_path(type(model)))) is not None:
        model = getattr(model, attribute)
    return model


def state(model: torch.nn.Module) -> dict[str, Array]:
    """Every tensor of state_dict() once, by its first name; values are read when asked for."""
    tensors = unwrap(model).state_dict(keep_vars=True)
    aliases = aliases_of([(name, _identity(tensor)) for name, tensor in tensors.items()])
    return {name: as_array(tensor) for name, tensor in tensors.items() if name not in aliases}


def as_array(tensor: torch.Tensor) -> Array:
    """A tensor of any dtype and layout of strides as an Array."""
    return Array(tuple(tensor.shape), _dtype(tensor), lambda: _raw(tensor))


def _raw(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _class_path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _identity(tensor: torch.Tensor) -> Any:
    """Equal for two names of one tensor, also where two Parameters share one storage."""
    if not isinstance(tensor, torch.Tensor) or not tensor.numel() or tensor.is_sparse or tensor.is_meta:
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _walk(module: torch.nn.Module, path: str, name: str, parent: int | None, found: list, above: tuple) -> None:
    if id(module) in above:
        raise UserError(f"the torch model contains itself at {path!r}; it cannot be described")
    prefix = f"{path}." if path else ""
    index = len(found)
    found.append(
        {
            "path": path,
            "name": name,
            "parent": parent,
            "class": _class_path(type(module)),
            "bases": [_class_path(base) for base in type(module).__mro__[:-1]],
            "hyper": hyperparameters(vars(module)),
            "params": [_tensor(key, prefix + key, value) for key, value in module._parameters.items() if value is not None],
            "buffers": [
                {**_tensor(key, prefix + key, value), "persistent": key not in module._non_persistent_buffers_set}
                for key, value in module._buffers.items()
                if value is not None
            ],
            "norms": _norms(module, path),
        }
    )
    for key, child in module._modules.items():
        if child is not None:
            _walk(child, prefix + key, key, index, found, (*above, id(module)))


def _tensor(name: str, key: str, tensor: torch.Tensor) -> dict[str, Any]:
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise UserError(f"torch tensor {key!r} is not initialised yet (a lazy module): run the model once before converting")
    if tensor.is_meta:
        raise UserError(f"torch tensor {key!r} is on the meta device, without values: load the weights before converting")
    if tensor.is_quantized:
        raise UserError(f"torch tensor {key!r} is quantised ({tensor.dtype}): convert the model from before quantisation")
    if tensor.layout != torch.strided:
        raise UserError(f"torch tensor {key!r} is {tensor.layout}: call to_dense() before converting")
    if _dtype(tensor) not in NUMPY:
        raise UserError(f"torch tensor {key!r} is {_dtype(tensor)}: convert the model from before quantisation")
    return {"name": name, "key": key, "shape": list(tensor.shape), "dtype": _dtype(tensor), "trainable": tensor.requires_grad}


def _norms(module: torch.nn.Module, path: str) -> dict[str, dict[str, Any]]:
    """Parameters that are computed from others: weight norm and spectral norm, both the old hooks and parametrisations."""
    norms: dict[str, dict[str, Any]] = {}
    for hook in module._forward_pre_hooks.values():
        kind = {"WeightNorm": "weight_norm", "SpectralNorm": "spectral_norm"}.get(type(hook).__name__)
        if kind:
            norms[hook.name] = {"kind": kind, "dim": _dim(kind, hook.dim)}
    if any(f"{key.removesuffix('_mask')}_orig" in module._parameters for key in module._buffers if key.endswith("_mask")):
        raise UserError(
            f"torch module {path!r} is pruned (weight_orig and weight_mask): make it permanent with"
            " torch.nn.utils.prune.remove(module, 'weight') before converting"
        )
    if torch.nn.utils.parametrize.is_parametrized(module):
        for name, applied in module.parametrizations.items():
            kinds = [type(one).__name__ for one in applied]
            kind = {"_WeightNorm": "weight_norm", "_SpectralNorm": "spectral_norm"}.get(kinds[0]) if len(kinds) == 1 else None
            norms[name] = {"kind": kind or "+".join(kinds), "dim": _dim(kind, getattr(applied[0], "dim", None))}
    return norms


def _dim(kind: str | None, dim: int | None) -> int | None:
    """Weight norm writes dim=None as -1."""
    return None if kind == "weight_norm" and dim == -1 else dim
