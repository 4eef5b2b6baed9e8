# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The user's map: weights.map of port.yaml, which decides what names and order cannot.

torch.path: paddle.path                 two modules, or two tensors
layer.*.attn: blocks.*.attention        * is one path segment (or a part of one), as is {name}; ** is any number
proj: "head.weight T"                   a tensor and how its axes change: id, T, reshape, perm 1,0,2
qkv: "q + k + v"                        one module or tensor is the others joined (rows of torch's weight), either way
wte.weight: [wte.weight, head.weight]   one tensor for several
aux.classifier: null                    not converted, on purpose
"paddle:head.bias": 0                   a Paddle tensor that the reference lacks gets this number
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from pipeline.align.convert import ops
from pipeline.align.convert.match import Matcher
from pipeline.align.convert.rules import Link, Unfit, find_rule, layout
from pipeline.align.convert.tree import Node, Ref, Tree
from pipeline.align.convert.units import checked
from pipeline.align.errors import UserError

WHERE = "weights.map in port.yaml"
RULE = "weights.map"


def apply_map(matcher: Matcher, user_map: Mapping[str, Any]) -> list[str]:
    """Settle what the map names and pair the modules it names; returns the patterns of torch names that it drops.

    Raises UserError for a line that matches nothing, is matched twice or does not fit.
    """
    lines = [(str(key), value) for key, value in user_map.items()]
    exact = {key for key, _ in lines if not _is_pattern(key)}
    modules: list[tuple[Node, Node]] = []
    links: list[Link] = []
    keys: dict[str, str] = {}
    sources: dict[str, str] = {}
    for key, value in lines:
        if key.startswith("paddle:"):
            links += _filled_tensors(matcher.paddle, key.removeprefix("paddle:"), value)
        elif value is None:
            links += _dropped(matcher.torch, key)
        else:
            for target in value if isinstance(value, list) else [value]:
                for torch_name, paddle_name in _pairs(matcher, key, target, exact):
                    if keys.setdefault(torch_name, key) != key:
                        raise UserError(f"{WHERE}: the lines {keys[torch_name]!r} and {key!r} both name {torch_name!r}")
                    if sources.setdefault(paddle_name, torch_name) != torch_name:
                        raise UserError(
                            f"{WHERE}: {sources[paddle_name]!r} and {torch_name!r} are both mapped to {paddle_name!r}"
                        )
                    pair = _modules(matcher, key, torch_name, paddle_name)
                    modules += pair
                    links += [] if pair else _tensors(matcher, key, torch_name, paddle_name)
    matcher.settle(links, RULE)
    for torch, paddle in modules:
        matcher.paired["torch"].add(torch.index)
        matcher.paired["paddle"].add(paddle.index)
    for torch, paddle in sorted(modules, key=lambda pair: -pair[0].path.count(".")):
        matcher.pair(torch, paddle)
    return [key for key, value in lines if value is None]


def to_regex(pattern: str) -> re.Pattern[str]:
    """A pattern of the map as a regular expression with one group per wildcard."""
    parts = re.split(r"(\*\*|\*|\{\w*\})", pattern)
    return re.compile(
        "".join(
            "(.*)" if p == "**" else "([^.]*)" if p == "*" else "([^.]+)" if re.fullmatch(r"\{\w*\}", p) else re.escape(p)
            for p in parts
        )
    )


def _is_pattern(name: str) -> bool:
    return "*" in name or "{" in name


def _names(tree: Tree) -> list[str]:
    return [path for path in tree.paths if path] + list(tree.refs)


def _pairs(matcher: Matcher, key: str, target: Any, exact: set[str]) -> list[tuple[str, str]]:
    if not isinstance(target, str) or not target.strip():
        raise UserError(f"{WHERE}: {key!r} has the value {target!r}; it must be a Paddle name, a list of them, or null")
    if not _is_pattern(key):
        return [(key, target)]
    parts = key.split(" + ")
    regex, found = to_regex(parts[0].strip()), []
    for name in _names(matcher.torch):
        match = regex.fullmatch(name)
        if match and name not in exact:
            found.append((_filled(key, key, match.groups()), _filled(target, key, match.groups())))
    # a pattern that matches a module also matches tensors below it only if it says so: prefer modules
    modules = [pair for pair in found if pair[0] in matcher.torch.paths]
    if not found:
        raise UserError(f"{WHERE}: {key!r} matches nothing in the reference{_close(parts[0], _names(matcher.torch))}")
    return modules or found


def _filled(template: str, key: str, groups: tuple[str, ...]) -> str:
    """The template with its wildcards replaced: {name} by name, * and ** by position."""
    names = re.findall(r"\*\*|\*|\{\w*\}", key.split(" + ")[0])
    by_name = {name: value for name, value in zip(names, groups, strict=False) if name.startswith("{")}
    starred = [value for name, value in zip(names, groups, strict=False) if not name.startswith("{")]
    places = iter(starred)
    result = []
    for part in re.split(r"(\*\*|\*|\{\w*\}| \+ )", template):
        if part == " + ":
            places = iter(starred)
            result.append(part)
        elif part in ("*", "**"):
            value = next(places, None)
            if value is None:
                raise UserError(f"{WHERE}: {template!r} has more * than {key!r}")
            result.append(value)
        elif re.fullmatch(r"\{\w*\}", part):
            if part not in by_name:
                raise UserError(f"{WHERE}: {template!r} has {part}, which {key!r} lacks")
            result.append(by_name[part])
        else:
            result.append(part)
    return "".join(result)


def _modules(matcher: Matcher, key: str, torch_name: str, target: str) -> list[tuple[Node, Node]]:
    """The pair of modules that a line names, none if it names tensors."""
    paddle_name, _, op = target.strip().partition(" ")
    torch, paddle = matcher.torch.paths.get(torch_name), matcher.paddle.paths.get(paddle_name)
    if torch is None or paddle is None or " + " in target:
        return []
    if op:
        raise UserError(f"{WHERE}: {key!r}: an op ({op}) is for tensors, {torch_name!r} is a module")
    return [(torch, paddle)]


def _tensors(matcher: Matcher, key: str, torch_name: str, target: str) -> list[Link]:
    """The links between the tensors that a line names."""
    if " + " in torch_name or " + " in target:
        return _joined(matcher, key, torch_name, target)
    paddle_name, _, op = target.strip().partition(" ")
    for tree, name in ((matcher.torch, torch_name), (matcher.paddle, paddle_name)):
        if name not in tree.paths and name not in tree.refs:
            raise UserError(
                f"{WHERE}: {name!r} is no module or tensor in the {tree.framework} model{_close(name, _names(tree))}"
            )
    return [_link(_tensor(matcher.torch, torch_name), _tensor(matcher.paddle, paddle_name), op)]


def _tensor(tree: Tree, name: str) -> Ref:
    ref = tree.refs.get(name)
    if ref is None:
        kind = "a module, and the other side of the line is not" if name in tree.paths else "no tensor"
        raise UserError(f"{WHERE}: {name!r} is {kind} in the {tree.framework} model{_close(name, _names(tree))}")
    if not ref.persistent:
        raise UserError(f"{WHERE}: {tree.framework} {name!r} is not in the state_dict, so it cannot be converted")
    return ref


def _close(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, 3, 0.4)
    return f"; close names: {', '.join(map(repr, close))}" if close else ""


def _link(t: Ref, p: Ref, op: str) -> Link:
    """A link by the op, or by the rule of the owners' types, or as it is where neither side has a layout of its own."""
    if not op:
        op = _op_by_rule(t, p) or ""
        if not op and layout(t) != layout(p):
            raise UserError(
                f"{WHERE}: torch {t.key!r} and paddle {p.key!r}: whether to transpose cannot be told from their types;"
                f' write "{p.key} T" or "{p.key} id"'
            )
    op = op or "id"
    if not ops.fits(op, t.shape, p.shape):
        raise UserError(f"{WHERE}: torch {t.key!r} {t.shape} does not fit paddle {p.key!r} {p.shape} by {op!r}")
    return Link(t, p, op)


def _op_by_rule(t: Ref, p: Ref) -> str | None:
    rule = find_rule(t.node, p.node)
    try:
        links = checked(rule, t.node, p.node) if rule else []
    except Unfit:
        links = []
    by_rule = next(
        (link.op for link in links if link.torch and link.paddle and (link.torch.key, link.paddle.key) == (t.key, p.key)), None
    )
    if by_rule or layout(t) is None or layout(p) is None:
        return by_rule
    return "id" if layout(t) == layout(p) else "T"


def _joined(matcher: Matcher, key: str, torch_name: str, target: str) -> list[Link]:
    """One side is the other's parts joined along torch's first axis."""
    sides = [[part.strip() for part in text.split(" + ")] for text in (torch_name, target)]
    if min(map(len, sides)) != 1:
        raise UserError(f"{WHERE}: {key!r}: only one side can be a sum")
    trees = (matcher.torch, matcher.paddle)
    if all(name in tree.paths for tree, names in zip(trees, sides, strict=True) for name in names):
        nodes = [[tree.paths[name] for name in names] for tree, names in zip(trees, sides, strict=True)]
        names = [name for name in nodes[0][0].own if all(name in node.own for side in nodes for node in side)]
        if any(set(node.own) != set(names) for side in nodes for node in side):
            raise UserError(f"{WHERE}: {key!r}: the modules must have parameters of the same names to be joined")
        groups = [[[node.own[name] for node in side] for side in nodes] for name in names]
    else:
        groups = [[[_tensor(tree, name) for name in names] for tree, names in zip(trees, sides, strict=True)]]
    links = []
    for torch, paddle in groups:
        start = 0
        for i in range(max(len(torch), len(paddle))):
            t, p = torch[min(i, len(torch) - 1)], paddle[min(i, len(paddle) - 1)]
            op = "id" if layout(t) == layout(p) else "T"
            if None in (layout(t), layout(p)) and layout(t) != layout(p):
                raise UserError(f"{WHERE}: {key!r}: whether to transpose {t.key!r} cannot be told from the types")
            axis = 1 if op == "T" else 0
            size = p.shape[axis] if len(paddle) > 1 else t.shape[0]
            t, p = (t.slice(start, start + size), p) if len(paddle) > 1 else (t, p.slice(start, start + size, axis))
            if not ops.fits(op, t.shape, p.shape):
                raise UserError(
                    f"{WHERE}: {key!r}: torch {t.key!r} {t.shape} does not fit paddle {p.key!r} {p.shape} by {op!r}"
                )
            links.append(Link(t, p, op))
            start += size
    return links


def _dropped(tree: Tree, key: str) -> list[Link]:
    regex, refs = to_regex(key), {}
    for path, node in tree.paths.items():
        if path and regex.fullmatch(path):
            refs.update({ref.key: ref for ref in node.refs().values()})
    refs.update({name: ref for name, ref in tree.refs.items() if regex.fullmatch(name)})
    return [Link(ref, None, reason=f"{WHERE} says null") for ref in refs.values()]


def _filled_tensors(tree: Tree, name: str, value: Any) -> list[Link]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{WHERE}: 'paddle:{name}' must be a number, not {value!r}")
    regex = to_regex(name)
    refs = [ref for key, ref in tree.refs.items() if regex.fullmatch(key)]
    if not refs:
        raise UserError(f"{WHERE}: 'paddle:{name}' matches no Paddle tensor{_close(name, list(tree.refs))}")
    return [Link(None, ref, reason=f"{WHERE} gives this number", fill=float(value)) for ref in refs]
