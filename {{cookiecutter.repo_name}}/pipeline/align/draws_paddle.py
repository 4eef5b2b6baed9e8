# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Random tensors of Paddle at their midpoints: the twin of draws_torch.py, which says why."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import paddle


def _bernoulli(given: dict[str, Any]) -> Any:
    return given["x"] >= 0.5 if given.get("p") is None else given["p"] >= 0.5


def _bernoulli_in_place(given: dict[str, Any]) -> Any:
    return given["p"] >= 0.5


def _uniform(given: dict[str, Any]) -> float:
    return (given["min"] + given["max"]) / 2


def _mean(given: dict[str, Any]) -> Any:
    return given["mean"]


def _constant(value: float) -> Callable[[dict[str, Any]], float]:
    return lambda given: value


#: (owner, name of the function, its midpoint from the arguments by name).
DRAWS = (
    (paddle, "rand", _constant(0.5)),
    (paddle, "rand_like", _constant(0.5)),
    (paddle, "uniform", _uniform),
    (paddle, "randn", _constant(0.0)),
    (paddle, "randn_like", _constant(0.0)),
    (paddle, "standard_normal", _constant(0.0)),
    (paddle, "normal", _mean),
    (paddle, "bernoulli", _bernoulli),
    (paddle, "bernoulli_", _bernoulli_in_place),
    (paddle.Tensor, "bernoulli_", _bernoulli_in_place),
    (paddle.Tensor, "uniform_", _uniform),
    (paddle.Tensor, "normal_", _mean),
)


def midpoint(function: Callable, middle: Callable, args: tuple, kwargs: dict[str, Any]) -> paddle.Tensor:
    """What `function` returns, with its midpoint instead of what it drew."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    with paddle.no_grad():
        value = middle(bound.arguments)
        result = function(*args, **kwargs)
        value = value.astype(result.dtype) if isinstance(value, paddle.Tensor) else paddle.full([], float(value), result.dtype)
        return result.copy_(paddle.broadcast_to(value, result.shape), True)
