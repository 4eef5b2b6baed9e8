# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Listens to one forward and one backward pass of a model; neutral, the framework is behind `hooks`.

`hooks` is capture_torch.py or capture_paddle.py.

Every tensor that a module takes or returns is written once as a *value* ("v<number>"). Each differentiable input is
replaced by a copy of its own, whose gradient is the module's share ("s<call>.<input>"): where a tensor feeds several
modules, their contributions stay apart, and a module that works in place changes its own copy (which is then written
back, so that the model computes what it always does). The gradient of a value that a module returns ("g<number>") is
that of the whole network with respect to it.
"""
from __future__ import annotations

import mmap
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.align.bisect.tensors import change

#: Tensors that are remembered, so that what one module returns and the next takes is written once.
REMEMBERED = 256
CRUMB_SIZE = 512


@dataclass(frozen=True)
class Crumb:
    """What was being run: `text` for people; `path`, `kind`: of the module, where it was one."""

    text: str
    path: str = ""
    kind: str = ""


class Breadcrumb:
    """A small file that always says what is being run; its content survives a crash of the process."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0" * CRUMB_SIZE)
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), CRUMB_SIZE)

    def drop(self, doing: str, path: str = "", kind: str = "") -> None:
        """Say what runs now."""
        raw = "\t".join((doing, path, kind)).encode()[: CRUMB_SIZE - 1]
        self._map[: len(raw) + 1] = raw + b"\0"

    @staticmethod
    def read(file: Path) -> Crumb | None:
        """What ran last, None where nothing did."""
        raw = file.read_bytes().partition(b"\0")[0].decode(errors="replace") if file.is_file() else ""
        if not raw:
            return None
        doing, path, kind = (raw.split("\t") + ["", ""])[:3]
        module = f" of '{path}' ({kind})" if path else f" of the model ({kind})" if kind else ""
        return Crumb(doing + module, path, kind)


class Tap:
    """One pass through a model. Enter it, run the contract's forward and loss, then backward; `index()` describes it.

    `put(key, array)` takes the tensors, `to_numpy(tensor)` converts them.
    """

    def __init__(self, hooks: Any, model: Any, put: Any, to_numpy: Any, crumb: Breadcrumb, where: str):
        self._hooks, self.model, self._put, self._numpy, self._crumb, self._where = hooks, model, put, to_numpy, crumb, where
        self.calls: list[dict[str, Any]] = []
        self.values: list[dict[str, Any]] = []
        self._stack: list[tuple[int, dict[int, tuple[Any, Any, int, str]]]] = []
        self._known: OrderedDict[int, tuple[Any, Any, int]] = OrderedDict()
        self._handles: list[Any] = []
        self._clock, self.listening = 0, False

    def __enter__(self) -> Tap:
        for path, module in self._hooks.modules(self.model):
            kind = f"{type(module).__module__}.{type(module).__qualname__}"
            before = lambda module, args, kwargs, path=path, kind=kind: self._before(path, kind, module.training, args, kwargs)  # noqa: E731
            self._handles += self._hooks.attach(module, before, self._after)
        self.listening = True
        return self

    def __exit__(self, *_: Any) -> None:
        self.listening = False
        for handle in self._handles:
            handle.remove()
        self._known.clear()  # their gradient hooks know this object: a cycle that no garbage collector sees

    def outer(self, path: str, *args: Any, **kwargs: Any) -> tuple[tuple, dict]:
        """Begin a call that is no module: "@forward" and "@loss". Returns the arguments to use."""
        return self._before(path, path, None, args, kwargs)

    def outer_end(self, output: Any) -> Any:
        """End it."""
        return self._after(None, None, None, output)

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _before(self, path: str, kind: str, training: bool | None, args: tuple, kwargs: Mapping) -> tuple[tuple, dict] | None:
        if not self.listening:
            return None
        self._crumb.drop(f"{self._where}, forward", path, kind.rpartition(".")[2])
        number = len(self.calls)
        call = {
            "path": path, "kind": kind, "training": training, "graph": self._hooks.builds_graph(),
            "parent": self._stack[-1][0] if self._stack else -1, "start": self._tick(), "inputs": [], "outputs": [], "end": None,
        }  # fmt: skip
        self.calls.append(call)
        copies: dict[int, tuple[Any, Any, int, str]] = {}

        def take(name: str, tensor: Any) -> Any:
            value = self._value(tensor)
            if id(tensor) not in copies and self._hooks.needs_grad(tensor):
                copy = self._hooks.clone(tensor)
                if self._hooks.needs_grad(copy):  # not inside no_grad
                    copies[id(tensor)] = (tensor, copy, self._hooks.version(copy), name)
                    self._listen(copy, f"s{number}.{name}", call)
                    self._remember(copy, self._new_value(copy, same_as=value))
            _, copy, _, share = copies.get(id(tensor), (None, tensor, None, None))
            call["inputs"].append([name, value, share])
            return copy

        args = change(args, self._hooks.is_tensor, take)
        kwargs = change(dict(kwargs), self._hooks.is_tensor, take)
        self._stack.append((number, copies))
        return args, kwargs

    def _after(self, module: Any, args: Any, kwargs: Any, output: Any) -> Any:
        if not self.listening:
            return None
        number, copies = self._stack.pop()
        call = self.calls[number]
        for tensor, copy, version, _ in copies.values():
            if self._hooks.version(copy) != version:
                self._hooks.write_back(tensor, copy)

        def give(name: str, tensor: Any) -> Any:
            value = self._value(tensor)
            call["outputs"].append([name, value])
            described = self.values[value]
            if described["needs_grad"] and not described["listens"]:
                described["listens"] = True
                self._listen(tensor, f"g{value}", call)
            return tensor

        change(output, self._hooks.is_tensor, give)
        call["end"] = self._tick()
        return None

    def _value(self, tensor: Any) -> int:
        known = self._known.get(id(tensor))
        if known is not None and known[1] == self._hooks.version(tensor):
            self._known.move_to_end(id(tensor))
            return known[2]
        number = self._new_value(tensor)
        self._remember(tensor, number)
        return number

    def _new_value(self, tensor: Any, same_as: int | None = None) -> int:
        number = len(self.values)
        data = number if same_as is None else self.values[same_as]["data"]
        self.values.append({"data": data, "needs_grad": bool(self._hooks.needs_grad(tensor)), "listens": False})
        if same_as is None:
            self._put(f"v{number}", self._numpy(tensor))
        return number

    def _remember(self, tensor: Any, value: int) -> None:
        self._known[id(tensor)] = (tensor, self._hooks.version(tensor), value)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _listen(self, tensor: Any, key: str, call: dict[str, Any]) -> None:
        def arrived(gradient: Any) -> None:
            self._crumb.drop(f"{self._where}, backward", call["path"], call["kind"].rpartition(".")[2])
            self._put(key, self._numpy(gradient))

        self._hooks.on_gradient(tensor, arrived)
