# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Match two module trees: by the user's map, by equal path, then by type and order inside matched parents.

Names decide where they agree. What is left in a matched parent is matched by type, shape and definition order; where
names contradict that order, or the numbers of candidates differ, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.align.convert.assign import Pairing, assign
from pipeline.align.convert.rules import Link, Unfit, dropped_counter, find_rule, layout, type_of
from pipeline.align.convert.rules_sequence import CHILD_NAMES
from pipeline.align.convert.tree import Node, Ref, Tree
from pipeline.align.convert.units import ATTENTIONS, Unit, checked, fits, opened, units

#: Names of one tensor in layers that have no rule, such as a port's own norms.
SAME_TENSOR = (
    ("weight", "gamma", "scale", "_weight"),
    ("bias", "beta"),
    ("running_mean", "_mean", "moving_mean"),
    ("running_var", "_variance", "moving_var", "moving_variance"),
)
BLOCK = "block"


class Matcher:
    """Collects `links` [(link, rule name)], `pairs` [(torch node, paddle node)] and `problems` [text]."""

    def __init__(self, torch: Tree, paddle: Tree):
        self.torch, self.paddle = torch, paddle
        self.links: list[tuple[Link, str]] = []
        self.pairs: list[tuple[Node, Node]] = []
        self.problems: list[str] = []
        self.done: dict[str, set[str]] = {"torch": set(), "paddle": set()}
        self.paired: dict[str, set[int]] = {"torch": set(), "paddle": set()}

    def add(self, links: Sequence[Link], rule: str) -> None:
        """Accept links: their tensors are settled."""
        for link in links:
            self.links.append((link, rule))
            for side, ref in (("torch", link.torch), ("paddle", link.paddle)):
                if ref is not None:
                    self.done[side].add(ref.key)

    def problem(self, text: str, torch: Sequence[Ref], paddle: Sequence[Ref]) -> None:
        """Report a problem; the tensors it is about are settled, so that they are reported once."""
        self.problems.append(text)
        self.done["torch"].update(ref.key for ref in torch)
        self.done["paddle"].update(ref.key for ref in paddle)

    def left(self, node: Node, side: str, inside: bool = False) -> list[Unit]:
        """What is not settled in `node` and below."""
        return list(units(node, side, self.done[side], inside))

    def settle(self, links: Sequence[Link], rule: str) -> None:
        """Accept links that the user gives: for the rules, their tensors are no longer there."""
        self.add(links, rule)
        for ref in (ref for link in links for ref in (link.torch, link.paddle) if ref is not None):
            ref.node.own.pop(ref.name, None)

    def pair(self, torch: Node, paddle: Node, settled: bool = False) -> None:
        """Match two modules that are the same thing, and all below. `settled`: their rule has been applied."""
        self.pairs.append((torch, paddle))
        self.paired["torch"].add(torch.index)
        self.paired["paddle"].add(paddle.index)
        rule = find_rule(torch, paddle)
        if rule is not None and not settled:
            try:
                self.add(checked(rule, torch, paddle), rule.name)
            except Unfit as problem:
                self.problem(str(problem), [*torch.refs().values()], [*paddle.refs().values()])
        self._own_by_name(torch, paddle)
        late = self._children_by_name(torch, paddle)
        self._blocks(torch, paddle)
        self.align(self.left(torch, "torch"), self.left(paddle, "paddle"))
        if rule is None and (type_of(torch, "torch") or type_of(paddle, "paddle")):
            self.align(self.left(torch, "torch", inside=True), self.left(paddle, "paddle", inside=True))
        for torch_child, paddle_child in late:
            if self._free(torch_child, "torch") and self._free(paddle_child, "paddle"):
                self.pair(torch_child, paddle_child)
        self._plain_children(torch, paddle)

    def _own_by_name(self, torch: Node, paddle: Node) -> None:
        for name, t in torch.own.items():
            p = paddle.own.get(name) or _same_tensor(name, torch, paddle)
            if t.key in self.done["torch"]:
                continue
            if p is None or p.key in self.done["paddle"]:
                if name == "num_batches_tracked" and p is None:
                    self.add(dropped_counter(torch), "BatchNorm")
                continue
            if t.persistent and not p.persistent:
                self.add(
                    [Link(t, None, reason=f"Paddle's {p.key!r} is not in its state_dict (persistable=False)")], "not stored"
                )
            elif p.persistent and not t.persistent:
                self.problem(
                    f"paddle {p.key!r} is stored, torch's {t.key!r} is not (persistent=False): register it in Paddle with"
                    " persistable=False",
                    [t],
                    [p],
                )
            elif t.persistent and t.shape != p.shape:
                self.problem(
                    f"torch {t.key!r} {t.shape} does not fit paddle {p.key!r} {p.shape}; if the numbers are the same, say how:"
                    f' "{t.key}": "{p.key} reshape" (or T) in weights.map of port.yaml',
                    [t],
                    [p],
                )
            elif t.persistent and layout(t) != layout(p):
                self.problem(
                    f"torch {t.key!r} ({torch.label}) and paddle {p.key!r} ({paddle.label}), both {t.shape}: whether to transpose"
                    f' cannot be told from these types; write "{t.key}": "{p.key} T" (or "{p.key} id") in weights.map of'
                    " port.yaml",
                    [t],
                    [p],
                )
            elif t.persistent:
                self.add([Link(t, p)], f"same name, bare {t.kind}")

    def _children_by_name(self, torch: Node, paddle: Node) -> list[tuple[Node, Node]]:
        """Pair children of equal names; returns pairs that agree in name and type only, for when order has failed too."""
        names = next((names for (t, p), names in CHILD_NAMES.items() if torch.isa(t) and paddle.isa(p)), {})
        found, late = [], []
        for name, t in torch.children.items():
            p = paddle.children.get(names.get(name, name))
            if p is not None and self._free(t, "torch") and self._free(p, "paddle") and _alike(t, p):
                found.append((t, p))
        numbered = [pair for pair in found if pair[0].name.isdigit()]
        if numbered and not self._same_numbers(torch, paddle, numbered):
            late, found = numbered, [pair for pair in found if not pair[0].name.isdigit()]
        for t, p in found:
            self.pair(t, p)
        return late

    def _free(self, node: Node, side: str) -> bool:
        """Whether the module is still to be matched: it has unsettled tensors, or is a layer that can have some."""
        return node.index not in self.paired[side] and (type_of(node, side) is not None or bool(self.left(node, side)))

    def _same_numbers(self, torch: Node, paddle: Node, numbered: list[tuple[Node, Node]]) -> bool:
        """Whether equal numbers of children mean equal things: one side's contain the other's, and the modules fit.

        0, 2, 4 of a Sequential against 0, 1, 2 of a list count different things, as do layers against blocks of layers.
        """
        numbers = [
            {name for name, child in node.children.items() if name.isdigit() and self._free(child, side)}
            for node, side in ((torch, "torch"), (paddle, "paddle"))
        ]
        if not (numbers[0] <= numbers[1] or numbers[1] <= numbers[0]):
            return False
        for t, p in numbered:
            rule, plain = find_rule(t, p), type_of(t, "torch") is None and type_of(p, "paddle") is None
            if rule is None and not (plain and numbers[0] == numbers[1]) and not self._whole(Unit(BLOCK, t), Unit(BLOCK, p)):
                return False
            if rule is not None and not fits(rule, t, p):
                return False
        return True

    def _blocks(self, torch: Node, paddle: Node) -> None:
        """Pair containers of other names that hold the same layers, so that names inside them count."""
        blocks = []
        for node, side in ((torch, "torch"), (paddle, "paddle")):
            blocks.append(
                [
                    Unit(BLOCK, child)
                    for child in node.children.values()
                    if self._free(child, side) and type_of(child, side) is None and len(self.left(child, side)) > 1
                ]
            )
        if all(blocks):
            for pairing in self._assign(*blocks, whole=True):
                self.pair(pairing.torch.node, pairing.paddle.node)

    def align(self, torch: list[Unit], paddle: list[Unit]) -> None:
        """Match units by type, shape and order; what stays is left unsettled.

        Where numbers differ, other names of tensors that stand elsewhere are left out, and attention layers are opened.
        """
        for pairing in self._assign(torch, paddle):
            self._accept(pairing)
        left = self._unsettled(torch, "torch"), self._unsettled(paddle, "paddle")
        firsts = [
            [unit for unit in side if any(ref.key not in tree.aliases for ref in unit.refs())]
            for side, tree in zip(left, (self.torch, self.paddle))
        ]
        if all(firsts) and (len(firsts[0]), len(firsts[1])) != (len(left[0]), len(left[1])):
            for pairing in self._assign(*firsts):
                self._accept(pairing)
            left = self._unsettled(torch, "torch"), self._unsettled(paddle, "paddle")
        if all(left) and any(unit.kind in ATTENTIONS for unit in left[0] + left[1]):
            tried = [
                self._assign(
                    *(
                        [part for unit in side for part in opened(unit, name, self.done[name], fused)]
                        for side, name in zip(left, ("torch", "paddle"))
                    ),
                    quiet=True,
                )
                for fused in (True, False)
            ]
            for pairing in max(tried, key=len):
                self._accept(pairing)

    def _unsettled(self, units: list[Unit], side: str) -> list[Unit]:
        return [unit for unit in units if any(ref.key not in self.done[side] for ref in unit.refs())]

    def _assign(self, torch: list[Unit], paddle: list[Unit], whole: bool = False, quiet: bool = False) -> list[Pairing]:
        pairings, doubts = assign(torch, paddle, self._whole if whole else None)
        for doubt in () if quiet else doubts:
            self.problem(doubt.text, [r for u in doubt.torch for r in u.refs()], [r for u in doubt.paddle for r in u.refs()])
        return pairings

    def _whole(self, torch: Unit, paddle: Unit) -> bool:
        """Whether two containers hold the same types and shapes, as many of each."""
        inner = self.left(torch.node, "torch"), self.left(paddle.node, "paddle")
        return len(inner[0]) == len(inner[1]) == len(assign(*inner, names=False)[0])

    def _accept(self, pairing: Pairing) -> None:
        torch, paddle = pairing.torch, pairing.paddle
        self.add(pairing.links, pairing.rule)
        if not torch.ref and torch.node.index not in self.paired["torch"] and not torch.virtual and not paddle.virtual:
            self.pair(torch.node, paddle.node, settled=True)

    def _plain_children(self, torch: Node, paddle: Node) -> None:
        """Pair children without parameters, by name and by kind in order, for the comparison of hyperparameters."""
        left = [
            [child for child in node.children.values() if child.index not in self.paired[side] and not child.has_refs()]
            for node, side in ((torch, "torch"), (paddle, "paddle"))
        ]
        for t in left[0]:
            p = paddle.children.get(t.name)
            if p in left[1] and (not t.name.isdigit() or _kind(t) == _kind(p)):
                self.pair(t, p)
        for kind in dict.fromkeys(map(_kind, left[0])):
            rest = [
                [child for child in children if _kind(child) == kind and child.index not in self.paired[side]]
                for children, side in zip(left, ("torch", "paddle"))
            ]
            if len(rest[0]) == len(rest[1]):
                for t, p in zip(*rest):
                    self.pair(t, p)


def _same_tensor(name: str, torch: Node, paddle: Node) -> Ref | None:
    """Paddle's tensor of the same shape under another usual name, which torch's module does not have itself."""
    names = next((names for names in SAME_TENSOR if name in names), ())
    found = (paddle.own[other] for other in names if other in paddle.own and other not in torch.own)
    return next((ref for ref in found if ref.shape == torch.own[name].shape and layout(ref) is None), None)


#: Classes whose names differ beyond case.
SAME_KIND = {"swish": "silu", "thresholdedrelu": "threshold", "module": "layer", "modulelist": "layerlist"}


def _kind(node: Node) -> str:
    """The name of a module's class as both frameworks know it: "maxpool2d" for MaxPool2d and MaxPool2D."""
    name = node.kinds[0].rpartition(".")[2].lower()
    return SAME_KIND.get(name, name)


def _alike(torch: Node, paddle: Node) -> bool:
    """Whether two modules of one name can be the same thing: a rule for both, or one is no known layer."""
    kinds = type_of(torch, "torch"), type_of(paddle, "paddle")
    return None in kinds or find_rule(torch, paddle) is not None
