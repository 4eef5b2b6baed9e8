# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What is matched by type and order: layers with a rule, and single parameters and buffers of other modules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.align.convert import ops
from pipeline.align.convert.rules import Link, Rule, Unfit, find_rule, layout, type_of
from pipeline.align.convert.rules_sequence import attention_parts
from pipeline.align.convert.tree import Node, Ref

ATTENTION = "torch.nn.MultiheadAttention"
OPENED = "matrices of torch.nn.MultiheadAttention"
ATTENTIONS = (ATTENTION, OPENED, "paddle.nn.MultiHeadAttention")
#: A bare parameter and a bare buffer of one shape fit, after everything else.
OTHER_KIND = 2


@dataclass(frozen=True, eq=False)
class Unit:
    """A layer that has a rule (`node`), or one tensor (`ref`). `kind`: class key, or "param" / "buffer"."""

    kind: str
    node: Node
    ref: Ref | None = None

    @property
    def path(self) -> str:
        """Path of the module, or state name of the tensor."""
        return self.ref.key if self.ref else self.node.path

    @property
    def virtual(self) -> bool:
        """Whether the module is a part of another one."""
        return isinstance(self.node, _Virtual)

    @property
    def group(self) -> tuple:
        """Units with equal groups are interchangeable."""
        if self.ref:
            return self.kind, self.ref.shape, layout(self.ref)
        return self.kind, tuple((name, ref.shape) for name, ref in self.node.refs().items()), bool(self.node.norms)

    def refs(self) -> list[Ref]:
        """The tensors of this unit."""
        return [self.ref] if self.ref else list(self.node.refs().values())

    @property
    def text(self) -> str:
        """For messages: path, type and shapes."""
        shapes = f"{self.ref.shape}" if self.ref else ", ".join(f"{n} {r.shape}" for n, r in self.node.refs().items())
        kind = self.kind.rpartition(".")[2] if self.node.kinds and not self.ref else self.kind
        return f"{self.path!r} ({kind}: {shapes})"


def units(node: Node, framework: str, done: set[str], inside: bool = False) -> Iterator[Unit]:
    """The units of a module and all below in definition order, without tensors whose names are in `done`.

    `inside`: the tensors of a layer one by one, as its counterpart is no layer that has a rule.
    """
    kind = type_of(node, framework)
    refs = node.refs() if kind is not None else {}
    if refs and not inside and not any(ref.key in done for ref in refs.values()):
        yield Unit(kind, node)
        return
    if kind == ATTENTION and any(name.startswith("in_proj") and ref.key not in done for name, ref in node.own.items()):
        yield Unit(OPENED, node)  # its children were matched by name, its own matrices are still to be matched
        return
    for ref in node.own.values():
        if ref.persistent and ref.key not in done:
            yield Unit(ref.kind, node, ref)
    for child in node.children.values():
        yield from units(child, framework, done)


def opened(unit: Unit, framework: str, done: set[str], fused: bool) -> list[Unit]:
    """An attention layer as the Linear layers it consists of: fused query-key-value, or one for each."""
    if unit.kind == "paddle.nn.MultiHeadAttention":
        return [one for child in unit.node.children.values() for one in units(child, framework, done)]
    if unit.kind not in (ATTENTION, OPENED) or "bias_k" in unit.node.own:
        return [unit]
    parts = attention_parts(unit.node)
    if fused and "in_proj_weight" in unit.node.own:
        groups = [[ref for name, ref in unit.node.own.items() if name in ("in_proj_weight", "in_proj_bias")]]
    else:
        groups = [[ref for name, ref in parts.items() if name.startswith(letter)] for letter in "qkv"]
    inner = [Unit("torch.nn.Linear", _linear(unit.node, refs)) for refs in groups]
    return inner + [one for child in unit.node.children.values() for one in units(child, framework, done)]


def _linear(attention: Node, refs: list[Ref]) -> Node:
    """A Linear module made of parts of an attention layer."""
    node = _Virtual(attention.path, attention.name, attention.parent, attention.index, ("torch.nn.Linear",), {}, {})
    for ref in refs:
        name = "weight" if len(ref.shape) == 2 else "bias"
        node.own[name] = replace(ref, node=node, name=name)
    return node


class _Virtual(Node):
    def refs(self) -> dict[str, Ref]:
        return dict(self.own)


def fit(torch: Unit, paddle: Unit) -> tuple[int, list[Link], str] | None:
    """(nearness, links, rule name) if the two units can be the same thing, None if not."""
    if torch.ref and paddle.ref:
        if torch.ref.shape != paddle.ref.shape or layout(torch.ref) or layout(paddle.ref):
            return None
        return (0 if torch.kind == paddle.kind else OTHER_KIND), [Link(torch.ref, paddle.ref)], "bare " + torch.kind
    if torch.ref or paddle.ref:
        return None
    rule = find_rule(torch.node, paddle.node)
    if rule is None or rule.name in BY_NAME_ONLY:
        return None
    try:
        return rule.near, checked(rule, torch.node, paddle.node), rule.name
    except Unfit:
        return None


#: Rules for pairs that nothing but a name or the user can tell apart from a coincidence.
BY_NAME_ONLY = ("Embedding to output head", "output head to Embedding")


def checked(rule: Rule, torch: Node, paddle: Node) -> list[Link]:
    """The links of a rule, with shapes checked; raises Unfit with both shapes and the rule."""
    links = rule.links(torch, paddle)
    for link in links:
        if link.torch and link.paddle and not ops.fits(link.op, link.torch.shape, link.paddle.shape):
            raise Unfit(
                f"torch {link.torch.key!r} {link.torch.shape} does not fit paddle {link.paddle.key!r} {link.paddle.shape}"
                f" by the rule {rule.name} ({link.op})"
            )
    return links


def fits(rule: Rule, torch: Node, paddle: Node) -> bool:
    """Whether the rule can be applied."""
    try:
        checked(rule, torch, paddle)
    except Unfit:
        return False
    return True
