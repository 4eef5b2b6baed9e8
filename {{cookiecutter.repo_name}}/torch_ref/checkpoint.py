# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Weight files and checkpoints: safetensors under this side's own names, read and written whole or not at all.

A checkpoint is a weight file that also holds what a training needs to go on: tensors whose names begin with "training/"
and the rest as JSON in the header. One file, so that the parts always belong together, whenever the process dies.
"""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError

#: Names of safetensors' types.
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
TRAINING = "training/"
#: What DataParallel and DistributedDataParallel put in front of every name.
WRAPPER = "module."


def save_weights(model: torch.nn.Module, path: Path) -> None:
    """Write every parameter and buffer of the state_dict."""
    _write(path, _state(model), None)


def save_training(model: torch.nn.Module, path: Path, arrays: Mapping[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Write the weights and the state of a training: `arrays` by name and `values` that JSON can hold."""
    named = {f"{TRAINING}{name}": array for name, array in arrays.items()}
    _write(path, {**_state(model), **named}, {"training": json.dumps(values)})


def load_weights(model: torch.nn.Module, path: str | Path) -> None:
    """Load a file that has exactly this model's names, shapes and types, beside the state of a training.

    `path` may lack ".safetensors", and its names may have WRAPPER in front. UserError, with nothing changed, where the file
    does not fit.
    """
    state = model.state_dict()
    path = find(path)
    try:
        with safe_open(path, framework="pt") as file:
            stored = [name for name in file.keys() if not name.startswith(TRAINING)]
            wrapped = WRAPPER if all(name.startswith(WRAPPER) for name in stored) else ""
            keys = _with_tied(state, {name.removeprefix(wrapped): name for name in stored})
            _check(state, {name: file.get_slice(key) for name, key in keys.items()}, path)
            loaded = {name: file.get_tensor(keys[name]) for name in state}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is no complete safetensors file: {error}") from None
    for name, tensor in state.items():
        tensor.copy_(loaded[name])


def read_training(path: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """(arrays, values) that save_training wrote. UserError where the file holds none."""
    path = find(path)
    try:
        with safe_open(path, framework="pt") as file:
            values = json.loads((file.metadata() or {}).get("training", "null"))
            arrays = {name.removeprefix(TRAINING): file.get_tensor(name) for name in file.keys() if name.startswith(TRAINING)}
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"{path} is no complete safetensors file: {error}") from None
    if values is None:
        raise UserError(f"{path} holds weights but no state of a training; start from it with --weights, or resume from latest")
    return arrays, values


def find(path: str | Path) -> Path:
    """The file at `path`, or at `path` with the ending .safetensors. UserError where neither is there."""
    path = Path(path)
    found = [file for file in (path, path.with_name(f"{path.name}.safetensors")) if file.is_file()]
    if not found:
        raise UserError(f"the weight file {path} does not exist")
    return found[0]


def _state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}


def _write(path: Path, arrays: dict[str, torch.Tensor], metadata: dict[str, str] | None) -> None:
    """Replace `path` in one step, once the new content is on the disk."""
    try:
        with replacing(path) as file:
            file.write(save(arrays, metadata))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; what was there is unchanged, make room and resume") from None


def _with_tied(state: Mapping[str, Any], keys: dict[str, str]) -> dict[str, str]:
    """`keys` ({name: key in the file}) with tied tensors under each of their names; a file may hold them once."""
    tied: dict[Any, list[str]] = {}
    for name, tensor in state.items():
        tied.setdefault(tensor.data_ptr() if tensor.numel() else name, []).append(name)
    held = {name: [keys[other] for other in names if other in keys] for names in tied.values() for name in names}
    return {**{name: found[0] for name, found in held.items() if found}, **keys}


def _check(state: Mapping[str, Any], stored: Mapping[str, Any], path: str | Path) -> None:
    missing, unknown = sorted(set(state) - set(stored)), sorted(set(stored) - set(state))
    if missing or unknown:
        raise UserError(
            f"{path} does not fit the model: {len(missing)} of its {len(state)} names are missing ({_some(missing)}) and "
            f"{len(unknown)} are unknown ({_some(unknown)}); convert the weights for this side or correct model in port.yaml"
        )
    for name, tensor in state.items():
        wanted = (TYPES[str(tensor.dtype).removeprefix("torch.")], list(tensor.shape))
        found = (stored[name].get_dtype(), list(stored[name].get_shape()))
        if found != wanted:
            raise UserError(f"{path} does not fit the model: {name} is {found}, the model wants {wanted}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "") if names else "none"
