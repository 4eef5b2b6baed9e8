# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the steps need from PyTorch. Same names and order as backend_paddle.py."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.align import draws_torch
from pipeline.align.convert import describe_torch, load_torch
from pipeline.align.random_layers import RandomSwitch, enlarging, moved


class Backend:
    """PyTorch on one device."""

    name = "torch"
    version = torch.__version__
    model_type, tensor_type = "torch.nn.Module", "torch.Tensor"
    running_variance = "running_var"

    def __init__(self) -> None:
        self.device = "cuda:0" if torch.cuda.is_available() else "cpu"
        self.random = RandomSwitch(torch.nn.functional, draws_torch)
        self.guards: set[str] = set()

    def seed(self, seed: int) -> None:
        """Seed every generator that a model or a data set may draw from."""
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)

    def is_model(self, value: Any) -> bool:
        """Whether `value` is a network."""
        return isinstance(value, torch.nn.Module)

    def is_tensor(self, value: Any) -> bool:
        """Whether `value` is a tensor."""
        return isinstance(value, torch.Tensor)

    def place(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model on this backend's device."""
        return model.to(self.device)

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """A copy of `array` on this backend's device."""
        return torch.from_numpy(np.array(array)).to(self.device)

    def leaf(self, array: np.ndarray) -> torch.Tensor:
        """A copy of `array` that collects its gradient."""
        return self.tensor(array).requires_grad_(array.dtype.kind == "f")

    def gradient(self, leaf: torch.Tensor) -> torch.Tensor | None:
        """The gradient that `leaf` collected."""
        return leaf.grad

    def numpy(self, tensor: torch.Tensor) -> np.ndarray:
        """A copy of `tensor` (any shape) as numpy; bfloat16 becomes float32."""
        tensor = tensor.detach()
        return np.array((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).cpu().numpy())

    def no_grad(self) -> contextlib.AbstractContextManager:
        """No graph is built inside."""
        return torch.no_grad()

    def set_mode(self, model: torch.nn.Module, training: bool) -> None:
        """Train or eval mode for the whole network."""
        model.train(training)

    def training_modules(self, model: torch.nn.Module) -> list[str]:
        """Paths of the modules that are in train mode ("" is the network itself)."""
        return [name for name, module in model.named_modules() if module.training]

    @contextlib.contextmanager
    def without_randomness(self, model: torch.nn.Module, draws: bool = True) -> Iterator[None]:
        """Dropout of every kind has probability 0 inside, and, with `draws`, random tensors are as both sides draw them."""
        recurrent = [module for module in model.modules() if isinstance(module, torch.nn.RNNBase) and module.dropout]
        kept = [module.dropout for module in recurrent]
        for module in recurrent:
            module.dropout = 0.0
        try:
            self.random.calls.update((value, 0) for value in kept)
            with self.random.off(draws):
                yield
        finally:
            for module, value in zip(recurrent, kept):
                module.dropout = value

    def describe(self, model: torch.nn.Module) -> dict[str, Any]:
        """The module tree (see pipeline.align.convert)."""
        return describe_torch.describe(model)

    def load(self, model: torch.nn.Module, path: Path) -> None:
        """Load a weight file, strictly."""
        load_torch.load_into_torch(model, path)

    def state(self, model: torch.nn.Module) -> dict[str, np.ndarray]:
        """Every parameter and persistent buffer by its state_dict name."""
        return {name: self.numpy(value) for name, value in model.state_dict().items()}

    def gradients(self, model: torch.nn.Module) -> dict[str, np.ndarray | None]:
        """Gradient of every parameter by name; None where there is none."""
        return {name: None if p.grad is None else self.numpy(p.grad) for name, p in model.named_parameters()}

    def parameter_shapes(self, model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter by name."""
        return {name: tuple(p.shape) for name, p in model.named_parameters()}

    def set_gradients(self, model: torch.nn.Module, given: dict[str, np.ndarray]) -> None:
        """Give every trainable parameter the gradient `given[name]`: that of sum(parameter * given)."""
        terms = [(p * self.tensor(given[name])).sum() for name, p in model.named_parameters() if p.requires_grad]
        torch.stack(terms).sum().backward()

    def buffer_names(self, model: torch.nn.Module) -> set[str]:
        """State names that no optimizer changes."""
        return {name for name, _ in model.named_buffers()}

    def scramble(self, model: torch.nn.Module, seed: int) -> None:
        """Move whatever is constant after initialisation: norm scales, biases, running statistics. Enlarge small weights.

        Fresh ones and zeros would hide tensors that are swapped or not converted at all; weights as small as BERT's at its
        start keep activations where every nonlinearity is a line.
        """
        generator = np.random.default_rng(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point() and parameter.numel() and parameter.min() == parameter.max():
                    parameter.copy_(self.tensor(moved(generator, self.numpy(parameter))))
                elif parameter.is_floating_point() and parameter.ndim > 1:
                    parameter.mul_(enlarging(float(parameter.float().std(unbiased=False)), parameter.numel() // len(parameter)))
            for module in model.modules():
                for name in ("running_mean", "running_var"):
                    buffer = getattr(module, name, None)
                    if self.is_tensor(buffer) and buffer.min() == buffer.max():
                        buffer.copy_(self.tensor(moved(generator, self.numpy(buffer), positive=name == "running_var")))

    def batch_norms(self, model: torch.nn.Module) -> Iterator[tuple[str, Any, float]]:
        """(path, layer, momentum as torch means it) of every batch normalisation that keeps running statistics."""
        kind = torch.nn.modules.batchnorm._BatchNorm
        for name, module in model.named_modules():
            if isinstance(module, kind) and module.track_running_stats and module.momentum is not None:
                yield name, module, module.momentum

    def on_input(self, layer: torch.nn.Module, call: Any) -> Any:
        """Call `call(first input tensor)` whenever `layer` runs; the result has remove()."""
        return layer.register_forward_pre_hook(lambda _, inputs: call(inputs[0]))

    def learning_rate(self, optimizer: torch.optim.Optimizer) -> float:
        """The LR that the next step uses (first parameter group)."""
        return float(optimizer.param_groups[0]["lr"])

    def betas(self, optimizer: torch.optim.Optimizer) -> list[float] | None:
        """beta1 and beta2 of an optimizer of Adam's family, else None."""
        betas = optimizer.defaults.get("betas")
        return None if betas is None else [float(beta) for beta in betas]

    def zero_grad(self, optimizer: torch.optim.Optimizer) -> None:
        """Forget the gradients, so that a parameter without one stays out of the next step."""
        optimizer.zero_grad(set_to_none=True)

    def clear_gradients(self, model: torch.nn.Module) -> None:
        """The same for all of the model."""
        model.zero_grad(set_to_none=True)

    def optimised(self, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> set[str]:
        """Names of the parameters that an optimizer has."""
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return {name for name, parameter in model.named_parameters() if id(parameter) in own}

    def advance(self, schedule: Any) -> None:
        """One schedule step without an optimizer step before it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schedule.step()
