# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The contract: loads paddle/port.py or torch_ref/reference.py and checks what its functions return.

A function that is missing, raises or returns the wrong thing gives one line naming the function, the file and what it
must return.
"""

from __future__ import annotations

import contextlib
import importlib
import numbers
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pipeline.align.errors import PortError, UserError
from pipeline.align.optimizers import Optimizers, by_name
from pipeline.align.paths import TREES, Paths

RETURNS = {
    "build_model": "the network, freshly initialised as the paper says: build_model(cfg)",
    "build_dataset": 'a map-style dataset for "train", "val" or "test" with items (inputs…, label): build_dataset(cfg, split)',
    "build_loss": "a callable (outputs, labels) -> scalar tensor: build_loss(cfg)",
    "build_optimizer": "(optimizer, schedule or None), or {name: such a pair}: build_optimizer(cfg, model, steps_per_epoch)",
    "build_metric": "an object with update(outputs, labels) and compute() -> dict[str, float]: build_metric(cfg)",
    "forward": "a dict of named output tensors: forward(model, batch)",
}


class Contract:
    """The functions of one side's contract, each checked at every call."""

    def __init__(self, paths: Paths, side: str, backend: Any):
        self.file = paths.contract_file(side).relative_to(paths.root).as_posix()
        self._root, self._backend = paths, backend
        tree = paths.tree(side)
        if not paths.contract_file(side).is_file():
            raise UserError(f"{self.file} is missing; it must define {', '.join(RETURNS)}")
        if (tree / "__init__.py").exists():
            raise UserError(f"{tree.name}/__init__.py hides the framework of that name; delete it")
        sys.path.insert(0, str(tree))
        try:
            self._module = importlib.import_module(TREES[side][1])
        except UserError:
            raise
        except Exception as error:
            raise PortError(f"importing {self.file}: {describe_error(error, paths)}") from error
        for name in RETURNS:
            if not callable(getattr(self._module, name, None)):
                raise UserError(f"{self.file} does not define {name}(); it must return {RETURNS[name]}")

    def build_model(self, cfg: Any) -> Any:
        """The network on the backend's device."""
        model = self._call("build_model", cfg)
        self._require(self._backend.is_model(model), "build_model", model, f"a {self._backend.model_type}")
        return self._backend.place(model)

    def build_dataset(self, cfg: Any, split: str) -> Any:
        """The dataset of `split`, with a length of at least 1."""
        dataset = self._call("build_dataset", cfg, split)
        usable = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        self._require(usable, "build_dataset", dataset, "a dataset with __len__ and __getitem__")
        if len(dataset) < 1:
            raise PortError(f'build_dataset(cfg, "{split}") in {self.file} returned an empty dataset')
        return dataset

    def build_loss(self, cfg: Any) -> Callable:
        """The loss; calling it returns a scalar tensor."""
        loss = self._call("build_loss", cfg)
        self._require(callable(loss), "build_loss", loss, "a callable (outputs, labels) -> scalar tensor")

        def checked(outputs: dict, labels: Any) -> Any:
            value = loss(outputs, labels)
            self._require(self._is_scalar(value), "build_loss", value, "a callable that returns a scalar tensor")
            return value

        return checked

    @contextlib.contextmanager
    def changed(self, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
        """Inside, whoever calls the function `name` of the contract's file, train.py too, gets `change(what it returns)`."""
        original = getattr(self._module, name)
        setattr(self._module, name, lambda *args: change(original(*args)))
        try:
            yield
        finally:
            setattr(self._module, name, original)

    def build_optimizer(self, cfg: Any, model: Any, steps_per_epoch: int) -> Optimizers:
        """The optimizers and schedules by name."""
        found = self._call("build_optimizer", cfg, model, steps_per_epoch)
        wanted = "(optimizer, schedule or None), or {name: such a pair}"
        self._require(not isinstance(found, dict) or bool(found), "build_optimizer", found, wanted)
        for name, pair in by_name(found).items():
            right = isinstance(name, str) and "/" not in name and isinstance(pair, tuple) and len(pair) == 2
            right = right and hasattr(pair[0], "step") and (pair[1] is None or hasattr(pair[1], "step"))
            self._require(right, "build_optimizer", found, wanted)
        return Optimizers(self._backend, by_name(found))

    @property
    def has_training_step(self) -> bool:
        """Whether the file defines the optional training_step."""
        return callable(getattr(self._module, "training_step", None))

    def training_step(self, cfg: Any, model: Any, batch: tuple, update: Callable) -> dict[str, Any]:
        """The losses by name; `update` is called with the name of an optimizer and a loss for every step."""
        losses = self._call("training_step", cfg, model, batch, update)
        right = isinstance(losses, dict) and losses and all(isinstance(name, str) for name in losses)
        right = right and all(self._is_scalar(value) for value in losses.values())
        self._require(right, "training_step", losses, "a dict of named scalar losses")
        return losses

    def optimizer(self, optimizers: Mapping[str, tuple[Any, Any]], name: str) -> Any:
        """The optimizer of an update. PortError for an unknown name."""
        if name not in optimizers:
            known = ", ".join(map(repr, optimizers))
            raise PortError(f"training_step in {self.file} updates {name!r}, but build_optimizer has {known}")
        return optimizers[name][0]

    def _is_scalar(self, value: Any) -> bool:
        return self._backend.is_tensor(value) and list(value.shape) in ([], [1])

    def build_metric(self, cfg: Any) -> Any:
        """The metric, with update and compute."""
        metric = self._call("build_metric", cfg)
        usable = callable(getattr(metric, "update", None)) and callable(getattr(metric, "compute", None))
        self._require(usable, "build_metric", metric, "an object with update(outputs, labels) and compute()")
        return metric

    def compute(self, metric: Any) -> dict[str, float]:
        """The metric's values, checked."""
        values = metric.compute()
        right = isinstance(values, dict) and values and all(isinstance(name, str) for name in values)
        right = right and all(isinstance(value, numbers.Real) for value in values.values())
        self._require(right, "build_metric", values, "an object whose compute() returns a dict[str, float]")
        return {name: float(value) for name, value in values.items()}

    def forward(self, model: Any, batch: tuple) -> dict[str, Any]:
        """The named outputs."""
        outputs = self._call("forward", model, batch)
        right = isinstance(outputs, dict) and outputs and all(isinstance(name, str) for name in outputs)
        right = right and all(self._backend.is_tensor(value) for value in outputs.values())
        self._require(right, "forward", outputs, "a dict of named output tensors")
        scalar = next((name for name, value in outputs.items() if not len(value.shape)), None)
        if scalar is not None:
            raise PortError(f"forward in {self.file} returned {scalar!r} without a batch axis; give one number per sample")
        return outputs

    def _call(self, name: str, *args: Any) -> Any:
        return getattr(self._module, name)(*args)

    def _require(self, right: bool, name: str, value: Any, wanted: str) -> None:
        if not right:
            raise PortError(f"{name} in {self.file} returned {_short(value)}; it must return {wanted}")


def _short(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, dict):
        inside = ", ".join(f"{key!r}: {type(item).__name__}" for key, item in list(value.items())[:4])
        return f"a dict {{{inside}}}"
    if isinstance(value, tuple):
        return f"a tuple ({', '.join(type(item).__name__ for item in value[:4])})"
    return "None" if value is None else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def describe_error(error: BaseException, paths: Paths) -> str:
    """One line for an exception: the innermost place inside this repository, the type and the message."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.startswith(str(paths.root)) and "site-packages" not in frame.filename]
    own = [frame for frame in inside if "/pipeline/align/" not in frame.filename.replace("\\", "/")] or inside
    message = " ".join(str(error).split()) or "no message"
    text = f"{type(error).__name__}: {message[:300]}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename.removeprefix(str(paths.root)).lstrip('/')}:{error.lineno}: {text}"
    if own:
        last = own[-1]
        return f"{last.filename.removeprefix(str(paths.root)).lstrip('/')}:{last.lineno} in {last.name}: {text}"
    return text
