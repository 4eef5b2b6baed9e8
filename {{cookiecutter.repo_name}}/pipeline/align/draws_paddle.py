# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Random tensors of Paddle as both sides draw them: the twin of draws_torch.py, which says why."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle


def _bernoulli(given: dict[str, Any]) -> Any:
    return given["x"] >= 0.5 if given.get("p") is None else given["p"] >= 0.5


def _bernoulli_in_place(given: dict[str, Any]) -> Any:
    return given["p"] >= 0.5


def _uniform(given: dict[str, Any]) -> float:
    return (given["min"] + given["max"]) / 2


def _normal(given: dict[str, Any]) -> tuple[Any, Any]:
    return given["mean"], given["std"]


def _constant(value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda given: value


#: (owner, name of the function, its midpoint, or mean and standard deviation, from the arguments by name).
DRAWS = (
    (paddle, "rand", _constant(0.5)),
    (paddle, "rand_like", _constant(0.5)),
    (paddle, "uniform", _uniform),
    (paddle, "randn", _constant((0.0, 1.0))),
    (paddle, "randn_like", _constant((0.0, 1.0))),
    (paddle, "standard_normal", _constant((0.0, 1.0))),
    (paddle, "normal", _normal),
    (paddle, "bernoulli", _bernoulli),
    (paddle, "bernoulli_", _bernoulli_in_place),
    (paddle.Tensor, "bernoulli_", _bernoulli_in_place),
    (paddle.Tensor, "uniform_", _uniform),
    (paddle.Tensor, "normal_", _normal),
)


def held(function: Callable, middle: Callable, normals: Callable, args: tuple, kwargs: dict[str, Any]) -> paddle.Tensor:
    """What `function` returns, with its midpoint or `normals` of its shape instead of what it drew."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    with paddle.no_grad():
        value = middle(bound.arguments)
        result = function(*args, **kwargs)
        if isinstance(value, tuple):
            value = _like(value[0], result) + _like(value[1], result) * _like(normals(result.shape), result)
        return result.copy_(paddle.broadcast_to(_like(value, result), result.shape), True)


def _like(value: Any, result: paddle.Tensor) -> paddle.Tensor:
    if isinstance(value, paddle.Tensor):
        return value.astype(result.dtype)
    return paddle.to_tensor(np.asarray(value, np.float64)).astype(result.dtype)
