# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Weight files: safetensors under this side's own names, read and written whole or not at all."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paddle
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError

#: Names of safetensors' types.
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def save_weights(model: paddle.nn.Layer, path: Path) -> None:
    """Write every parameter and buffer of the state_dict."""
    state = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    with replacing(path) as file:
        file.write(save(state))


def load_weights(model: paddle.nn.Layer, path: str | Path) -> None:
    """Load a file that has exactly this model's names, shapes and types. UserError, with nothing changed, otherwise."""
    state = model.state_dict()
    try:
        with safe_open(path, framework="np") as file:
            _check(state, {name: file.get_slice(name) for name in file.keys()}, path)
            loaded = {name: file.get_tensor(name) for name in state}
    except FileNotFoundError:
        raise UserError(f"the weight file {path} does not exist") from None
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is no complete safetensors file: {error}") from None
    for name, tensor in state.items():
        tensor.set_value(loaded[name])


def _check(state: Mapping[str, Any], stored: Mapping[str, Any], path: str | Path) -> None:
    missing, unknown = sorted(set(state) - set(stored)), sorted(set(stored) - set(state))
    if missing or unknown:
        raise UserError(
            f"{path} does not fit the model: {len(missing)} of its {len(state)} names are missing ({_some(missing)}) and "
            f"{len(unknown)} are unknown ({_some(unknown)}); convert the weights for this side or correct model in port.yaml"
        )
    for name, tensor in state.items():
        wanted = (TYPES[str(tensor.dtype).removeprefix("paddle.")], list(tensor.shape))
        found = (stored[name].get_dtype(), list(stored[name].get_shape()))
        if found != wanted:
            raise UserError(f"{path} does not fit the model: {name} is {found}, the model wants {wanted}")


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "") if names else "none"
