# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The module tree of a model, as described by describe_torch.py or describe_paddle.py, made easy to walk.

A description is plain JSON:
    {"framework": "torch", "modules": [module...], "aliases": {state name: first state name of the same tensor}}
    module = {"path", "name", "parent": index of the parent or null, "class", "bases": [full paths, own class first],
              "hyper": {attribute: simple value}, "params": [tensor...], "buffers": [tensor...],
              "norms": {parameter name: {"kind": "weight_norm" | "spectral_norm" | other, "dim": int or null}}}
    tensor = {"name", "key": state_dict name, "shape", "dtype", "trainable"} and for buffers also "persistent"
Modules come in definition order, the root first. A module that is used under two paths is listed under both; the
names under the second path are aliases of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.align.errors import UserError

#: Longest list of numbers or names that is kept as a hyperparameter.
LONGEST = 32
#: Attributes of the frameworks' base classes that say nothing about a layer.
INTERNAL = {
    "training",
    "call_super_init",
    "dump_patches",
    "_full_name",
    "_dtype",
    "_built",
    "_init_in_dynamic_mode",
    "_helper",
    "_cast_to_low_precision",
    "_is_full_backward_hook",
    "_version",
    "name",
    "_name",
    "_forward_hooks_always_called",
    "_device",
    "_flat_weights_names",
}


@dataclass(eq=False)
class Ref:
    """One parameter or buffer of a module, or its part (axis, start, stop)."""

    node: Node
    name: str
    key: str
    shape: tuple[int, ...]
    dtype: str
    kind: str  # "param" or "buffer"
    trainable: bool = False
    persistent: bool = True
    part: tuple[int, int, int] | None = None

    def slice(self, start: int, stop: int, axis: int = 0) -> Ref:
        """The part from start to stop along an axis."""
        shape = (*self.shape[:axis], stop - start, *self.shape[axis + 1 :])
        return replace(self, shape=shape, part=(axis, start, stop))


@dataclass(eq=False)
class Node:
    """One module. `kinds`: class keys along the MRO, own class first, such as "torch.nn.Linear"."""

    path: str
    name: str
    parent: Node | None
    index: int
    kinds: tuple[str, ...]
    hyper: dict[str, Any]
    norms: dict[str, dict[str, Any]]
    own: dict[str, Ref] = field(default_factory=dict)
    children: dict[str, Node] = field(default_factory=dict)

    def walk(self) -> Iterator[Node]:
        """This module and all below, in definition order."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def refs(self) -> dict[str, Ref]:
        """Every parameter and buffer here and below, by its name relative to this module."""
        start = len(self.path) + 1 if self.path else 0
        return {ref.key[start:]: ref for node in self.walk() for ref in node.own.values()}

    def has_refs(self) -> bool:
        """Whether anything is stored here or below."""
        return any(node.own for node in self.walk())

    def isa(self, *kinds: str) -> bool:
        """Whether this is one of the classes or a subclass."""
        return any(kind in kinds for kind in self.kinds)

    @property
    def label(self) -> str:
        """Path and class for messages."""
        return f"{self.path or 'the model'!r} ({self.kinds[0].rpartition('.')[2]})"


class Tree:
    """A described model. `tensors`: first state name -> Ref; `aliases`: other state names -> first state name."""

    def __init__(self, described: dict[str, Any]):
        self.framework: str = described["framework"]
        self.aliases: dict[str, str] = described["aliases"]
        self.nodes: list[Node] = []
        self.paths: dict[str, Node] = {}
        self.refs: dict[str, Ref] = {}
        for module in described["modules"]:
            self._add(module)
        self.root = self.nodes[0]
        self.tensors = {key: ref for key, ref in self.refs.items() if ref.persistent and key not in self.aliases}

    def _add(self, module: dict[str, Any]) -> None:
        parent = None if module["parent"] is None else self.nodes[module["parent"]]
        kinds = tuple(class_key(base) for base in module["bases"])
        node = Node(module["path"], module["name"], parent, len(self.nodes), kinds, module["hyper"], module["norms"])
        for kind in ("params", "buffers"):
            for tensor in module[kind]:
                ref = Ref(
                    node,
                    tensor["name"],
                    tensor["key"],
                    tuple(tensor["shape"]),
                    tensor["dtype"],
                    kind[:-1],
                    tensor["trainable"],
                    tensor.get("persistent", True),
                )
                node.own[ref.name] = self.refs[ref.key] = ref
        if parent is not None:
            parent.children[node.name] = node
        self.nodes.append(node)
        self.paths[node.path] = node

    def first(self, key: str) -> str:
        """The first state name of the tensor that `key` names."""
        return self.aliases.get(key, key)


def class_key(path: str) -> str:
    """The public path of a class: "torch.nn.modules.conv.Conv2d" -> "torch.nn.Conv2d".

    Keyed on the package as well as the name: paddle.compat.nn.Linear keeps torch's layout, paddle.nn.Linear does not.
    """
    package, _, name = path.rpartition(".")
    if package.startswith("torch.nn.modules"):
        return f"torch.nn.{name}"
    if package.startswith("paddle.nn.layer"):
        return f"paddle.nn.{name}"
    if package.startswith("paddle.compat.nn"):
        return f"paddle.compat.nn.{name}"
    return path


def simple(value: Any) -> Any:
    """A hyperparameter as JSON: numbers, text, None, short tuples of these, functions by name; otherwise NotImplemented."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)) and len(value) <= LONGEST:
        items = [simple(item) for item in value]
        return NotImplemented if any(item is NotImplemented for item in items) else items
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return NotImplemented


def hyperparameters(attributes: dict[str, Any]) -> dict[str, Any]:
    """The simple values among an object's attributes."""
    found = {name: simple(value) for name, value in attributes.items() if name not in INTERNAL}
    return {name: value for name, value in found.items() if value is not NotImplemented}


def aliases_of(named: list[tuple[str, Any]]) -> dict[str, str]:
    """{later name: first name} of the (name, identity) pairs whose identity was seen before."""
    first: dict[Any, str] = {}
    return {name: first[identity] for name, identity in named if first.setdefault(identity, name) != name}


def check_state(framework: str, owned: list[str], state: list[str]) -> None:
    """Every name of state_dict() must be a parameter or buffer of some module; raises UserError otherwise."""
    known = set(owned)
    extra = [name for name in state if name not in known]
    if extra:
        raise UserError(
            f"the {framework} model's state_dict() has {extra[0]!r}, which is no parameter or buffer of a module"
            f" ({len(extra)} such names): a state_dict hook or extra state cannot be converted; remove it from the model"
        )
