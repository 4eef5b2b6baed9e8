# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Randomness under control: dropout switched off on both sides, and weights that hide nothing."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

#: Functions of torch.nn.functional and paddle.nn.functional that draw random numbers, with their probability argument.
RANDOM_FUNCTIONS = {
    "dropout": "p", "dropout1d": "p", "dropout2d": "p", "dropout3d": "p", "alpha_dropout": "p",
    "feature_alpha_dropout": "p", "scaled_dot_product_attention": "dropout_p",
}  # fmt: skip
#: Positional arguments of torch's scaled_dot_product_attention, a C function without a signature.
C_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
DEFAULTS = {"p": 0.5, "dropout_p": 0.0}


def _is_probability(value: Any) -> bool:
    return isinstance(value, (int, float)) and 0 < value <= 1


def _dropped(function: Callable, asked: dict[str, Any]) -> list[int]:
    """The shape of what dropout is applied to: the first argument, or the attention weights [N, heads, queries, keys]."""
    if function.__name__ != "scaled_dot_product_attention":
        return [int(size) for size in next(iter(asked.values())).shape]
    query, key = ([int(size) for size in asked[name].shape] for name in ("query", "key"))
    if function.__module__ and function.__module__.startswith("paddle"):  # [N, length, heads, width]
        return [*query[:-3], query[-2], query[-3], key[-3]]
    return [*query[:-1], key[-2]]


class Normals:
    """Standard normal numbers that are the same in both frameworks: those of a shape depend on how many of it came before."""

    def __init__(self):
        self._drawn: Counter[tuple[int, ...]] = Counter()

    def __call__(self, shape: Iterable[int]) -> np.ndarray:
        """float64 of `shape`."""
        shape = tuple(int(size) for size in shape)
        self._drawn[shape] += 1
        return np.random.default_rng([self._drawn[shape], *shape]).standard_normal(shape)


class RandomSwitch:
    """Wraps the random functions of one `functional` namespace, so that they can be called with probability 0.

    The networks' own Dropout layers call the same functions, so layers and functional code are both covered. Install it
    before the port is imported: a name imported from the namespace earlier would escape. `draws`: the module draws_torch or
    draws_paddle, whose functions then give midpoints, or normal numbers that are the same on both sides.
    """

    def __init__(self, functional: Any, draws: Any = None):
        self._off = False
        self._draws = draws
        self.silenced: set[str] = set()
        #: How often a probability above 0 was asked for in train mode, whether or not it was silenced, by the probability and
        #: how many numbers it is applied to; `shapes`: how these were arranged.
        self.calls: Counter[tuple[float, int]] = Counter()
        self.shapes: dict[tuple[float, int], list[int]] = {}
        for name, argument in RANDOM_FUNCTIONS.items():
            if hasattr(functional, name):
                setattr(functional, name, self._wrap(getattr(functional, name), argument))

    def _wrap(self, function: Callable, argument: str) -> Callable:
        try:
            signature = inspect.signature(function)
        except ValueError:  # a C function without a signature: torch's scaled_dot_product_attention
            signature = None

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs) if signature else None
            asked = bound.arguments if bound else {**dict(zip(C_ARGUMENTS, args)), **kwargs}
            if asked.get("training", True) and _is_probability(asked.get(argument, DEFAULTS.get(argument))):
                self._count(round(float(asked.get(argument, DEFAULTS[argument])), 6), _dropped(function, asked))
            if not self._off:
                return function(*args, **kwargs)
            self.silenced.add(function.__name__)
            if bound is None:
                return function(*args[:4], **{**kwargs, argument: 0.0}, **dict(zip(("is_causal",), args[5:6])))
            bound.arguments[argument] = 0.0
            return function(*bound.args, **bound.kwargs)

        return call

    def _count(self, probability: float, shape: list[int]) -> None:
        key = probability, math.prod(shape)
        self.calls[key] += 1
        self.shapes[key] = shape

    @property
    def probabilities(self) -> list[float]:
        """The probabilities that were asked for, each once."""
        return sorted({probability for probability, _ in self.calls})

    @contextlib.contextmanager
    def off(self, draws: bool = True) -> Iterator[None]:
        """Every random function runs with probability 0 inside, and, with `draws`, random tensors are as both sides draw them."""
        found = [one for one in (self._draws.DRAWS if self._draws and draws else ()) if hasattr(*one[:2])]
        originals = [getattr(owner, name) for owner, name, _ in found]
        self._off, normals = True, Normals()
        try:
            for (owner, name, middle), original in zip(found, originals):
                setattr(owner, name, self._held(original, middle, name, normals))
            yield
        finally:
            self._off = False
            for (owner, name, _), original in zip(found, originals):
                setattr(owner, name, original)

    def _held(self, function: Callable, middle: Callable, name: str, normals: Normals) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.silenced.add(name)
            return self._draws.held(function, middle, normals, args, kwargs)

        return call


def moved(random: np.random.Generator, values: np.ndarray, positive: bool = False) -> np.ndarray:
    """`values` (constant after initialisation) moved by about 20 %, or 0.1 where they are zero; same dtype and shape."""
    if positive:
        return (values * random.uniform(0.5, 1.5, values.shape)).astype(values.dtype)
    step = np.where(values == 0, 0.1, 0.2 * np.abs(values))
    return (values + step * random.standard_normal(values.shape)).astype(values.dtype)


def enlarging(deviation: float, fan_in: int) -> float:
    """The factor that gives weights the standard deviation at which a layer keeps the size of its input; 1 for larger ones.

    Also 1 for a fan-in of 1, which factors have, such as those of weight normalisation.
    """
    wanted = fan_in**-0.5
    return wanted / deviation if fan_in > 1 and 0 < deviation < wanted / 2 else 1.0
