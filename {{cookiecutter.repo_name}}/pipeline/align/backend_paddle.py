# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the steps need from Paddle. Same names and order as backend_torch.py."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from pipeline.align import draws_paddle, guards_paddle
from pipeline.align.convert import describe_paddle, load_paddle
from pipeline.align.random_layers import RandomSwitch


class Backend:
    """Paddle on one device."""

    name = "paddle"
    version = paddle.__version__
    model_type, tensor_type = "paddle.nn.Layer", "paddle.Tensor"
    running_variance = "_variance"

    def __init__(self) -> None:
        self.device = "gpu:0" if paddle.is_compiled_with_cuda() and paddle.device.cuda.device_count() else "cpu"
        paddle.set_device(self.device)
        self.random = RandomSwitch(paddle.nn.functional, draws_paddle)
        self.guards: set[str] = set()
        guards_paddle.install(self.guards)

    def seed(self, seed: int) -> None:
        """Seed every generator that a model or a data set may draw from."""
        random.seed(seed)
        np.random.seed(seed % 2**32)
        paddle.seed(seed)

    def is_model(self, value: Any) -> bool:
        """Whether `value` is a network."""
        return isinstance(value, paddle.nn.Layer)

    def is_tensor(self, value: Any) -> bool:
        """Whether `value` is a tensor."""
        return isinstance(value, paddle.Tensor)

    def place(self, model: paddle.nn.Layer) -> paddle.nn.Layer:
        """The model on this backend's device, where Paddle has put it already."""
        return model

    def tensor(self, array: np.ndarray) -> paddle.Tensor:
        """A copy of `array` on this backend's device."""
        return paddle.to_tensor(array)

    def leaf(self, array: np.ndarray) -> paddle.Tensor:
        """A copy of `array` that collects its gradient."""
        return paddle.to_tensor(array, stop_gradient=array.dtype.kind != "f")

    def gradient(self, leaf: paddle.Tensor) -> paddle.Tensor | None:
        """The gradient that `leaf` collected."""
        return leaf.grad

    def numpy(self, tensor: paddle.Tensor) -> np.ndarray:
        """A copy of `tensor` (any shape) as numpy; bfloat16 becomes float32."""
        return np.array((tensor.astype("float32") if tensor.dtype == paddle.bfloat16 else tensor).numpy())

    def no_grad(self) -> contextlib.AbstractContextManager:
        """No graph is built inside."""
        return paddle.no_grad()

    def set_mode(self, model: paddle.nn.Layer, training: bool) -> None:
        """Train or eval mode for the whole network."""
        if training:
            model.train()
        else:
            model.eval()

    def training_modules(self, model: paddle.nn.Layer) -> list[str]:
        """Paths of the layers that are in train mode ("" is the network itself)."""
        return [name for name, layer in model.named_sublayers(include_self=True) if layer.training]

    @contextlib.contextmanager
    def without_randomness(self, model: paddle.nn.Layer, draws: bool = True) -> Iterator[None]:
        """Dropout of every kind has probability 0 inside, and, with `draws`, random tensors are as both sides draw them."""
        recurrent = [layer for layer in model.sublayers(True) if isinstance(layer, paddle.nn.layer.rnn.RNNBase) and layer.dropout]
        kept = [layer.dropout for layer in recurrent]
        for layer in recurrent:
            layer.dropout = 0.0
        try:
            self.random.calls.update((value, 0) for value in kept)
            with self.random.off(draws):
                yield
        finally:
            for layer, value in zip(recurrent, kept):
                layer.dropout = value

    def describe(self, model: paddle.nn.Layer) -> dict[str, Any]:
        """The module tree (see pipeline.align.convert)."""
        return describe_paddle.describe(model)

    def load(self, model: paddle.nn.Layer, path: Path) -> None:
        """Load a weight file, strictly."""
        load_paddle.load_into_paddle(model, path)

    def state(self, model: paddle.nn.Layer) -> dict[str, np.ndarray]:
        """Every parameter and persistent buffer by its state_dict name."""
        return {name: self.numpy(value) for name, value in model.state_dict().items()}

    def gradients(self, model: paddle.nn.Layer) -> dict[str, np.ndarray | None]:
        """Gradient of every parameter by name; None where there is none."""
        return {name: None if p.grad is None else self.numpy(p.grad) for name, p in model.named_parameters()}

    def set_gradients(self, model: paddle.nn.Layer, given: dict[str, np.ndarray]) -> None:
        """Give every trainable parameter the gradient `given[name]`: that of sum(parameter * given)."""
        terms = [(p * self.tensor(given[name])).sum() for name, p in model.named_parameters() if not p.stop_gradient]
        paddle.stack(terms).sum().backward()

    def buffer_names(self, model: paddle.nn.Layer) -> set[str]:
        """State names that no optimizer changes; Paddle keeps running statistics as parameters without gradient."""
        names = {name for name, _ in model.named_buffers()}
        for path, _, _ in self.batch_norms(model):
            names.update(f"{path}.{name}".lstrip(".") for name in ("_mean", "_variance"))
        return names

    def batch_norms(self, model: paddle.nn.Layer) -> Iterator[tuple[str, Any, float]]:
        """(path, layer, momentum as torch means it) of every batch normalisation that keeps running statistics."""
        kind = paddle.nn.layer.norm._BatchNormBase
        for name, layer in model.named_sublayers(include_self=True):
            if isinstance(layer, kind):
                yield name, layer, 1.0 - layer._momentum

    def on_input(self, layer: paddle.nn.Layer, call: Any) -> Any:
        """Call `call(first input tensor)` whenever `layer` runs; the result has remove()."""
        return layer.register_forward_pre_hook(lambda _, inputs: call(inputs[0]))

    def learning_rate(self, optimizer: paddle.optimizer.Optimizer) -> float:
        """The LR that the next step uses (scheduler.get_lr() would compute another one: CASES S1)."""
        return float(optimizer.get_lr())

    def betas(self, optimizer: paddle.optimizer.Optimizer) -> list[float] | None:
        """beta1 and beta2 of an optimizer of Adam's family, else None."""
        betas = [getattr(optimizer, name, None) for name in ("_beta1", "_beta2")]
        return None if None in betas else [float(beta) for beta in betas]

    def zero_grad(self, optimizer: paddle.optimizer.Optimizer) -> None:
        """Forget the gradients, so that a parameter without one stays out of the next step.

        Paddle's default leaves zeros, with which AdamW still decays and moves (2.5e-2 after 20 steps).
        """
        optimizer.clear_grad(set_to_zero=False)

    def clear_gradients(self, model: paddle.nn.Layer) -> None:
        """The same for all of the model."""
        model.clear_gradients(set_to_zero=False)

    def optimised(self, optimizer: paddle.optimizer.Optimizer, model: paddle.nn.Layer) -> set[str]:
        """Names of the parameters that an optimizer has, in groups or not."""
        groups = getattr(optimizer, "_param_groups", None) or ()
        own = {id(one) for group in groups for one in (group["params"] if isinstance(group, dict) else [group])}
        return {name for name, parameter in model.named_parameters() if id(parameter) in own}

    def advance(self, schedule: Any) -> None:
        """One schedule step without an optimizer step before it."""
        schedule.step()
