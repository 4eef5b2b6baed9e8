# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Tensors inside what modules take and return: lists, tuples, dicts, dataclasses and objects like them."""
from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

#: How deep structures are followed.
DEPTH = 4
#: An object with more attributes than this is no bundle of outputs.
WIDTH = 32


def change(value: Any, is_tensor: Callable[[Any], bool], visit: Callable[[str, Any], Any], name: str = "", depth: int = 0) -> Any:
    """`value` with every tensor replaced by `visit(name, tensor)`; names are positions and keys joined by dots.

    Containers are copied only where something in them is replaced by another object, so that what a module tests for
    identity stays the same.
    """
    if is_tensor(value):
        return visit(name, value)
    if depth == DEPTH or value is None or isinstance(value, (str, bytes, int, float, complex)):
        return value
    inside = _parts(value)
    if inside is None:
        return value
    new = {key: change(part, is_tensor, visit, f"{name}.{key}" if name else str(key), depth + 1) for key, part in inside.items()}
    if all(new[key] is inside[key] for key in inside):
        return value
    return _rebuilt(value, new)


def _parts(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if type(value).__module__ != "builtins" and not callable(value) and 0 < len(getattr(value, "__dict__", ())) <= WIDTH:
        return dict(vars(value))
    return None


def _rebuilt(value: Any, new: dict[Any, Any]) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*new.values())
    if type(value) in (list, tuple):
        return type(value)(new.values())
    made = copy.copy(value)
    if isinstance(value, (list, Mapping)):
        for key, part in new.items():
            if part is not value[key]:
                made[key] = part
    else:
        for key, part in new.items():
            if part is not getattr(value, key, None):
                object.__setattr__(made, key, part)
    return made
