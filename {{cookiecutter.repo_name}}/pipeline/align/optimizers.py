# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The optimizers and schedules of a training, one or several by name, and the steps that they take in step 4."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: What the only optimizer of a training is called.
MAIN = "main"


def by_name(found: Any) -> dict[str, tuple[Any, Any]]:
    """What build_optimizer returned as {name: (optimizer, schedule or None)}; a single pair is named "main"."""
    return found if isinstance(found, dict) else {MAIN: found}


class Optimizers:
    """All optimizers of a training. `pairs`: see by_name."""

    def __init__(self, backend: Any, pairs: dict[str, tuple[Any, Any]]):
        self.backend, self.pairs = backend, pairs

    @property
    def scheduled(self) -> bool | dict[str, bool]:
        """Whether there is a schedule; of several optimizers, for each."""
        flags = {name: schedule is not None for name, (_, schedule) in self.pairs.items()}
        return flags[MAIN] if list(flags) == [MAIN] else flags

    @property
    def moves(self) -> bool:
        """Whether an LR changes."""
        return any(schedule is not None for _, schedule in self.pairs.values())

    def rates(self) -> dict[str, float]:
        """The LR that each optimizer's next step uses, by the name that it has in records: "lr", or "lr (name)"."""
        return {
            "lr" if list(self.pairs) == [MAIN] else f"lr ({name})": self.backend.learning_rate(optimizer)
            for name, (optimizer, _) in self.pairs.items()
        }

    def advance(self) -> None:
        """One iteration of all schedules, without a step of the optimizers before it."""
        for _, schedule in self.pairs.values():
            if schedule is not None:
                self.backend.advance(schedule)

    def step(self) -> None:
        """A step of every optimizer and schedule, after which there are no gradients."""
        for optimizer, _ in self.pairs.values():
            optimizer.step()
        self.step_schedules()
        for optimizer, _ in self.pairs.values():
            self.backend.zero_grad(optimizer)

    def step_schedules(self) -> None:
        """The end of an iteration."""
        for _, schedule in self.pairs.values():
            if schedule is not None:
                schedule.step()


class Updates:
    """The `update` that step 4 gives to training_step: what Update in step.py does, watched. `done`: as there.

    `made`: for every update of all iterations its name and the parameters that had a gradient before its backward pass;
    `gradients`: of every optimizer's parameters, at its first step; `of_update`: the number of that update, from 1.
    """

    def __init__(self, context: Any, model: Any, optimizers: Optimizers, watch: Callable[[dict[str, np.ndarray]], None]):
        self._context, self._model, self._optimizers, self._watch = context, model, optimizers, watch
        self.made: list[tuple[str, list[str]]] = []
        self.gradients: dict[str, np.ndarray] = {}
        self.of_update: dict[str, int] = {}
        self.done = dict.fromkeys(optimizers.pairs, 0)

    def __call__(self, name: str, loss: Any, clear: str | None = None) -> None:
        context, backend = self._context, self._context.backend
        optimizer = context.contract.optimizer(self._optimizers.pairs, name)
        self.made.append((name, [key for key, value in context.gradients(self._model).items() if np.any(value)]))
        loss.backward()
        own = backend.optimised(optimizer, self._model)
        gradients = {key: value for key, value in context.gradients(self._model).items() if key in own}
        self._watch(gradients)
        self.gradients = {**gradients, **self.gradients}
        self.of_update = {**{key: len(self.made) for key in gradients}, **self.of_update}
        optimizer.step()
        if (clear or context.cfg.train.clear_grad) == "model":
            backend.clear_gradients(self._model)
        backend.zero_grad(optimizer)
        self.done[name] += 1
