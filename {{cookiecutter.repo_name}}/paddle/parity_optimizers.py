# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Torch-exact optimizers and schedules for those that Paddle computes differently; see parity.py."""
from __future__ import annotations

from typing import Any

import paddle


class _Optimizer(paddle.optimizer.Optimizer):
    """Optimizers whose step is written in tensor operations. `slots`: the accumulators of every parameter."""

    slots: tuple[str, ...] = ()

    def _create_accumulators(self, block: Any, parameters: Any) -> None:
        for parameter in parameters["params"] if isinstance(parameters, dict) else parameters:
            for slot in self.slots:
                self._add_accumulator(slot, parameter)

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> None:
        parameter, gradient = param_and_grad["params"] if isinstance(param_and_grad, dict) else param_and_grad
        with paddle.no_grad():
            rate = self._create_param_lr((parameter, gradient))
            slots = [self._get_accumulator(slot, parameter) for slot in self.slots]
            parameter.set_value(parameter - rate * self.direction(gradient, *slots))

    def direction(self, gradient: paddle.Tensor, *slots: paddle.Tensor) -> paddle.Tensor:
        """What is subtracted, divided by the learning rate; updates the slots."""
        raise NotImplementedError


class RMSProp(_Optimizer):
    """torch.optim.RMSprop. Paddle's adds epsilon inside of the root and keeps the learning rate in the momentum."""

    slots = ("square_avg", "grad_avg", "velocity")

    def __init__(
        self, learning_rate: Any = 0.01, alpha: float = 0.99, epsilon: float = 1e-8, momentum: float = 0.0,
        centered: bool = False, parameters: Any = None, weight_decay: float | None = None, grad_clip: Any = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameters, weight_decay or None, grad_clip)
        self.alpha, self.epsilon, self.momentum, self.centered = alpha, epsilon, momentum, centered

    def direction(self, gradient: paddle.Tensor, *slots: paddle.Tensor) -> paddle.Tensor:
        square, mean, velocity = slots
        square.set_value(self.alpha * square + (1 - self.alpha) * gradient * gradient)
        variance = square
        if self.centered:
            mean.set_value(self.alpha * mean + (1 - self.alpha) * gradient)
            variance = square - mean * mean
        step = gradient / (variance.sqrt() + self.epsilon)
        if not self.momentum:
            return step
        velocity.set_value(self.momentum * velocity + step)
        return velocity


class SGD(_Optimizer):
    """torch.optim.SGD with momentum, dampening and nesterov; Paddle's Momentum has no dampening."""

    slots = ("velocity", "started")

    def __init__(
        self, learning_rate: Any = 1e-3, momentum: float = 0.0, dampening: float = 0.0, nesterov: bool = False,
        parameters: Any = None, weight_decay: float | None = None, grad_clip: Any = None,
    ):  # fmt: skip
        super().__init__(learning_rate, parameters, weight_decay or None, grad_clip)
        self.momentum, self.dampening, self.nesterov = momentum, dampening, nesterov

    def direction(self, gradient: paddle.Tensor, *slots: paddle.Tensor) -> paddle.Tensor:
        velocity, started = slots
        if not self.momentum:
            return gradient
        share = 1 - self.dampening * started  # the first gradient is taken whole
        velocity.set_value(self.momentum * velocity + share * gradient)
        started.set_value(paddle.ones_like(started))
        return gradient + self.momentum * velocity if self.nesterov else velocity


def OneCycleLR(
    max_learning_rate: float, total_steps: int, pct_start: float = 0.3, anneal_strategy: str = "cos", div_factor: float = 25.0,
    final_div_factor: float = 1e4, three_phase: bool = False,
) -> paddle.optimizer.lr.OneCycleLR:  # fmt: skip
    """torch.optim.lr_scheduler.OneCycleLR with its names and its end, initial / final_div_factor; Paddle's ends at 1e-4.

    torch also moves the momentum, which Paddle cannot: pass cycle_momentum=False there.
    """
    end = max_learning_rate / div_factor / final_div_factor
    return paddle.optimizer.lr.OneCycleLR(
        max_learning_rate, total_steps, divide_factor=div_factor, end_learning_rate=end,
        phase_pct=pct_start, anneal_strategy=anneal_strategy, three_phase=three_phase,
    )  # fmt: skip


def clear_grad(optimizer: paddle.optimizer.Optimizer) -> None:
    """torch's zero_grad(): no gradient, not zeros, so that a parameter that took no part is not moved by the next step."""
    optimizer.clear_grad(set_to_zero=False)
