# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Find the names of a model in the names of a file that wrappers have prefixed, segment by segment, one to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from pipeline.align.errors import UserError

#: Path segments that wrappers add: DataParallel, torch.compile, FSDP, activation checkpointing, DeepSpeed, Lightning and
#: classes that hold the network in an attribute. They are removed only where the model has no such name.
WRAPPERS = frozenset(
    {
        "module",
        "_orig_mod",
        "model",
        "backbone",
        "network",
        "net",
        "_fsdp_wrapped_module",
        "_checkpoint_wrapped_module",
        "_forward_module",
    }
)
#: Wrapper segments tried in one name.
DEEPEST = 6


@dataclass(frozen=True)
class Resolution:
    """`found`: {name in the file: name in the model}; `unknown`: names of the file without one; `note`: what was done."""

    found: dict[str, str]
    unknown: list[str]
    note: str = ""


def resolve(names: Iterable[str], wanted: Iterable[str]) -> Resolution:
    """Match the names of a file with the names of a model.

    Tried in turn: equal names; one prefix taken from, or put before, all names; wrapper segments (WRAPPERS) taken out at
    any depth, as few as possible. Raises UserError where two names of the file would become one.
    """
    names, wanted = list(names), set(wanted)
    if wanted.issuperset(names):
        return Resolution({name: name for name in names}, [])
    for prefix in _common_prefixes(names):
        cut = {name: name[len(prefix) :] for name in names}
        if wanted.issuperset(cut.values()):
            return Resolution(cut, [], f"prefix {prefix!r} removed")
    before = {name[: -len(names[0])] for name in wanted if name.endswith(f".{names[0]}")} if names else set()
    before = [prefix for prefix in before if wanted.issuperset(prefix + name for name in names)]
    if len(before) == 1:
        return Resolution({name: before[0] + name for name in names}, [], f"prefix {before[0]!r} put before the names")
    return _without_wrappers(names, wanted)


#: How TensorFlow, and checkpoints of BERT that were converted from it, call the two parameters of a normalisation.
OLD_NAMES = {"gamma": "weight", "beta": "bias"}


def without_old_names(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """The names of a file with the last segments of OLD_NAMES replaced, unless the model has such names, or the file both."""
    names = list(names)
    made = [f"{path}{dot}{OLD_NAMES.get(last, last)}" for path, dot, last in (name.rpartition(".") for name in names)]
    clash = len(set(made)) < len(names) or any(name.rpartition(".")[2] in OLD_NAMES for name in wanted)
    return names if clash else made


def leading(names: Iterable[str], required: set[str]) -> list[str]:
    """Prefixes under which a file holds all of the required names, among other things."""
    names = set(names)
    if not required:
        return []
    first = min(required)
    ends = {name[: -len(first)] for name in names if name.endswith(f".{first}")}
    return sorted(prefix for prefix in ends if all(prefix + name in names for name in required))


def _common_prefixes(names: list[str]) -> list[str]:
    """The leading segments that all names share, shortest first: "a.", "a.b."."""
    split = [name.split(".")[:-1] for name in names]
    prefixes: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        prefixes.append((prefixes[-1] if prefixes else "") + parts[0] + ".")
    return prefixes


def _without_wrappers(names: list[str], wanted: set[str]) -> Resolution:
    bare: dict[str, list[str]] = {}
    for name in wanted:
        for shorter, _ in shortened(name):
            bare.setdefault(shorter, []).append(name)
    found: dict[str, str] = {}
    unknown: list[str] = []
    removed: Counter[str] = Counter()
    for name in names:
        best: list[tuple[int, str, tuple[str, ...]]] = []
        for shorter, taken in shortened(name):
            if shorter in wanted:
                best.append((len(taken), shorter, taken))
            else:
                best += [(100 + len(taken) + len(longer) - len(shorter), longer, taken) for longer in bare.get(shorter, [])]
        if not best:
            unknown.append(name)
            continue
        cost = min(best)[0]
        nearest = sorted({target for price, target, _ in best if price == cost})
        if len(nearest) > 1:
            raise UserError(
                f"{name!r} in the file could be {nearest[0]!r} or {nearest[1]!r} of the model; rename it in the file"
            )
        found[name] = nearest[0]
        removed.update(next(taken for price, _, taken in best if price == cost))
    doubled = [target for target, count in Counter(found.values()).items() if count > 1]
    if doubled:
        both = [name for name, target in found.items() if target == doubled[0]]
        raise UserError(
            f"{both[0]!r} and {both[1]!r} in the file would both be {doubled[0]!r} of the model; rename one in the file"
        )
    note = ", ".join(f"{segment!r} taken out of {count} names" for segment, count in sorted(removed.items()))
    return Resolution(found, unknown, note)


def shortened(name: str) -> list[tuple[str, tuple[str, ...]]]:
    """The name without any subset of its wrapper segments, and which were taken out."""
    parts = name.split(".")
    places = [i for i, part in enumerate(parts[:-1]) if part in WRAPPERS][:DEEPEST]
    shorter = []
    for count in range(len(places) + 1):
        for out in combinations(places, count):
            shorter.append((".".join(part for i, part in enumerate(parts) if i not in out), tuple(parts[i] for i in out)))
    return shorter
