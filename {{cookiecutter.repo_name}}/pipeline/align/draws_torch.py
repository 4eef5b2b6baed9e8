# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Random tensors of torch as both sides draw them, so that code which draws itself, such as stochastic depth, can be compared.

A uniform or Bernoulli draw gives what the number 0.5 would: a path that is kept with probability above one half is kept,
however that is written (a Bernoulli draw, rand() < keep, floor(keep + rand())). Normal noise is the same in both frameworks
(see Normals in random_layers.py), so that its scale shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _like(given: float | torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(given, dtype=result.dtype, device=result.device)


def _bernoulli(result: torch.Tensor, given: torch.Tensor, p: float | None = None, **_: Any) -> Any:
    return given >= 0.5 if p is None else p >= 0.5


def _bernoulli_in_place(result: torch.Tensor, given: torch.Tensor, p: float | torch.Tensor = 0.5, **_: Any) -> Any:
    return p >= 0.5


def _uniform(result: torch.Tensor, given: torch.Tensor, low: float = 0.0, high: float = 1.0, **more: Any) -> Any:
    return (more.get("from", low) + more.get("to", high)) / 2


def _normal(result: torch.Tensor, given: torch.Tensor, mean: float = 0.0, std: float = 1.0, **_: Any) -> Any:
    return mean, std


def _normal_function(result: torch.Tensor, mean: Any = 0.0, std: Any = 1.0, *_: Any, **more: Any) -> Any:
    return mean, std


def _constant(value: Any) -> Callable[..., Any]:
    return lambda result, *args, **kwargs: value


#: (owner, name of the function, its midpoint, or mean and standard deviation, from the result and the arguments).
DRAWS = (
    (torch, "rand", _constant(0.5)),
    (torch, "rand_like", _constant(0.5)),
    (torch, "randn", _constant((0.0, 1.0))),
    (torch, "randn_like", _constant((0.0, 1.0))),
    (torch, "normal", _normal_function),
    (torch, "bernoulli", _bernoulli),
    (torch.Tensor, "bernoulli", _bernoulli),
    (torch.Tensor, "bernoulli_", _bernoulli_in_place),
    (torch.Tensor, "uniform_", _uniform),
    (torch.Tensor, "normal_", _normal),
)


def held(function: Callable, middle: Callable, normals: Callable, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
    """What `function` returns, with its midpoint or `normals` of its shape instead of what it drew."""
    with torch.no_grad():
        result = function(*args, **kwargs)
        value = middle(result, *args, **kwargs)
        if isinstance(value, tuple):
            value = _like(value[0], result) + _like(value[1], result) * _like(normals(result.shape), result)
        return result.copy_(_like(value, result).expand(result.shape))
