# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Weight files of all kinds as {name: Array}, and the choice of what in them fits a model.

Read are safetensors, torch's .pth/.pt/.bin (any name; new and old format, without running code), Paddle's .pdparams, and
directories of these, sharded with an index or a single file. Values stay in the files until they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.align.convert import prefix
from pipeline.align.convert.arrays import Array, equal
from pipeline.align.convert.usermap import to_regex
from pipeline.align.errors import UserError

#: How the command line and port.yaml name the choice among the dictionaries of a file.
CHOICE = "--entry"
SHOWN = 3
COUNTER = "num_batches_tracked"
#: What a model whose parts stand in several dictionaries is called in messages.
JOINED = "several entries, joined"


@dataclass
class Selected:
    """The tensors of a model found in a file, by first name; `notes`: what was chosen, removed and left aside."""

    arrays: dict[str, Array]
    notes: list[str]


@dataclass
class _Fit:
    entry: str
    arrays: dict[str, Array]
    found: dict[str, str]
    missing: list[str]
    extra: list[str]
    notes: list[str]


@dataclass
class Checkpoint:
    """An opened file. `entries`: {"state_dict" or "a.b", or "" for the top: {name: Array}}; `chosen`: the entry to use.

    `origin`: "torch" or "paddle" where the file says whose it is. A matrix of the other framework would load unnoticed.
    """

    label: str
    entries: dict[str, dict[str, Array]]
    chosen: str | None = None
    notes: list[str] = field(default_factory=list)
    origin: str | None = None

    def select(
        self,
        wanted: Mapping[str, tuple[int, ...]],
        aliases: Mapping[str, str],
        optional: Iterable[str | None],
        ignored: Iterable[str],
        side: str,
        unstored: Iterable[str] = (),
    ) -> Selected:
        """The tensors of the model: every name of `wanted` ({first name: shape}) once, by itself or by an alias.

        `optional` may be absent. Names of the file that match a pattern of `ignored` are left aside, and said so; so are
        those of `unstored`, buffers that the model makes itself (persistent=False) and that older versions stored.
        Raises UserError if nothing fits, several entries fit equally, copies differ, or something is missing, left over
        or of another shape.
        """
        if self.origin not in (None, side):
            raise UserError(
                f"{self.label} holds weights of {self.origin}, not of {side}; convert it first, or name another file"
            )
        optional, unstored = set(optional), set(unstored)
        entries = self._entries()

        def fit_of(entry: str, arrays: dict[str, Array]) -> _Fit:
            return self._fit(entry, arrays, wanted, aliases, optional, list(ignored), unstored)

        fits = [fit_of(entry, arrays) for entry, arrays in entries.items()]
        whole = [fit for fit in fits if not fit.missing and not fit.extra]
        if not whole and len(entries) > 1:
            joined = fit_of(JOINED, _joined(entries, {*wanted, *aliases}))
            whole = [joined] if not joined.missing and not joined.extra else []
        if not whole:
            self._explain(fits, {name for name in wanted if name not in optional}, {*wanted, *aliases}, side)
        if len(whole) > 1:
            names = " or ".join(f"{CHOICE} {fit.entry or '.'}" for fit in whole)
            raise UserError(f"{self.label} holds several sets of weights that fit the model; choose with {names}")
        fit = whole[0]
        others = [repr(entry or ".") for entry in self.entries if entry != fit.entry and fit.entry != JOINED]
        notes = [f"used: {fit.entry!r}"] if fit.entry else []
        notes += [f"left aside: {', '.join(others[:8])}{', …' if len(others) > 8 else ''}"] if others else []
        notes += [*self.notes, *fit.notes]
        return Selected(_checked(fit, wanted, aliases, optional, side, self.label), notes)

    def _entries(self) -> dict[str, dict[str, Array]]:
        """The entries to look at: all that hold tensors, or the chosen one, which may also be a prefix of names."""
        if self.chosen is None:
            return self.entries or {"": {}}
        name = "" if self.chosen == "." else self.chosen
        if name in self.entries:
            return {name: self.entries[name]}
        for entry, arrays in self.entries.items():
            inner = name.removeprefix(f"{entry}.") if entry else name
            cut = {key[len(inner) + 1 :]: array for key, array in arrays.items() if key.startswith(f"{inner}.")}
            if cut:
                return {name: cut}
        raise UserError(f"{self.label} has no {self.chosen!r}; it holds {', '.join(repr(e or '.') for e in self.entries)}")

    def _fit(
        self,
        entry: str,
        arrays: dict[str, Array],
        wanted: Mapping[str, tuple[int, ...]],
        aliases: Mapping[str, str],
        optional: set,
        ignored: list[str],
        unstored: set[str],
    ) -> _Fit:
        kept = {name: array for name, array in arrays.items() if not matches(name, ignored)}
        renamed = prefix.without_old_names(kept, [*wanted, *aliases])
        old = sum(a != b for a, b in zip(kept, renamed))
        kept = dict(zip(renamed, kept.values()))
        resolution = prefix.resolve(kept, [*wanted, *aliases, *unstored])
        found = {name: target for name, target in resolution.found.items() if target not in unstored}
        have = {aliases.get(name, name) for name in found.values()}
        notes = [resolution.note] if resolution.note else []
        if len(kept) < len(arrays):
            notes.append(f"{len(arrays) - len(kept)} tensors of the file left aside, as weights.map or weights.fresh says")
        if old:
            notes.append(f"{old} names of the file end in gamma and beta, which are weight and bias")
        if len(found) < len(resolution.found):
            names = _listed([name for name in resolution.found if name not in found])
            notes.append(f"left aside: {names}, which the model makes itself and does not store")
        missing = [name for name in wanted if name not in have and name not in optional]
        extra = [name for name in resolution.unknown if not name.endswith(COUNTER)]
        if len(extra) < len(resolution.unknown):
            notes.append(
                f"{len(resolution.unknown) - len(extra)} {COUNTER} of the file left aside: the model has no such counters"
            )
        return _Fit(entry, kept, found, missing, extra, notes)

    def _explain(self, fits: list[_Fit], required: set[str], known: set[str], side: str) -> None:
        """Raise the error for a file in which no entry fits."""
        choices = [f"{fit.entry}.{lead}".strip(".") for fit in fits for lead in prefix.leading(fit.arrays, required)]
        if choices:
            names = " or ".join(f"{CHOICE} {name}" for name in choices)
            raise UserError(f"{self.label} holds the model's weights under a prefix beside other tensors; choose with {names}")
        best = max(fits, key=lambda fit: (len(fit.found) - len(fit.extra), len(fit.found)))
        where = f"{self.label}, entry {best.entry!r}," if best.entry else self.label
        if not best.found:
            held = ", ".join(map(repr, list(best.arrays)[:SHOWN])) or "no tensors"
            raise UserError(
                f"{where} fits 0 of the model's {len(known)} tensors; it holds {held}; the model has"
                f" {', '.join(map(repr, sorted(required)[:SHOWN]))}"
            )
        parts = []
        if best.missing:
            fresh = _apart(best.missing, set(best.found.values()))
            more = f" (to start them as build_model does: weights.fresh: [{fresh}] in port.yaml)" if side == "torch" else ""
            parts.append(f"lacks {_listed(best.missing)}{more}")
        if best.extra:
            parts.append(
                f"has {_listed(best.extra)}, which the model lacks (to leave it out on purpose:"
                f' "{_apart(best.extra, {*known, *best.found})}": null in weights.map of port.yaml)'
            )
        raise UserError(
            f"{where} fits {len(set(best.found.values()))} of the model's {len(known)} tensors: it {' and '.join(parts)}"
        )


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern of port.yaml matches the name or a module above it, with or without what wrappers add."""
    compiled = [to_regex(pattern) for pattern in patterns]
    if not compiled:
        return False
    paths = {shorter[: len(shorter) if end < 0 else end] for shorter, _ in prefix.shortened(name) for end in _dots(shorter)}
    return any(pattern.fullmatch(path) for pattern in compiled for path in paths)


def _apart(names: list[str], others: Iterable[str]) -> str:
    """The module nearest to the top that holds the first of `names` and another one, but none of `others`; else that name."""
    parts = names[0].split(".")
    for depth in range(1, len(parts)):
        inside = f"{'.'.join(parts[:depth])}."
        if sum(name.startswith(inside) for name in names) > 1 and not any(other.startswith(inside) for other in others):
            return inside[:-1]
    return names[0]


def _dots(name: str) -> list[int]:
    return [-1, *(i for i, letter in enumerate(name) if letter == ".")]


def _joined(entries: dict[str, dict[str, Array]], names: set[str]) -> dict[str, Array]:
    """All entries of which the model has tensors by name, with the entry before the name: {"encoder": …, "decoder": …}."""
    joined = [{f"{entry}.{name}".lstrip("."): array for name, array in arrays.items()} for entry, arrays in entries.items()]
    return {name: array for part in joined if names & part.keys() for name, array in part.items()}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def _checked(
    fit: _Fit, wanted: Mapping[str, tuple[int, ...]], aliases: Mapping[str, str], optional: set, side: str, label: str
) -> dict[str, Array]:
    """The arrays by first name, with shapes checked and copies under several names compared."""
    made: dict[str, Array] = {}
    source: dict[str, str] = {}
    for name, target in fit.found.items():
        first, array = aliases.get(target, target), fit.arrays[name]
        if first in optional and array.shape != wanted[first]:
            continue
        if array.shape != wanted[first]:
            raise UserError(f"{label}: {name!r} has shape {array.shape}, the {side} model's {target!r} has {wanted[first]}")
        if first in made and not (made[first].dtype == array.dtype and equal(made[first].read(), array.read())):
            raise UserError(
                f"{label}: {source[first]!r} and {name!r} differ, but they are one tied tensor in the {side} model;"
                " the file is of an untied model"
            )
        if first not in made:
            made[first], source[first] = array, name
    return made


def read_source(path: str | Path, entry: str | None = None, trust_pickle: bool = False) -> Checkpoint:
    """Open a weight file or directory. `entry`: which of its dictionaries to use ("." is the top), where several fit.

    `trust_pickle`: run the code that a torch file names; without it such a file is refused, and what it names is said.
    Raises UserError for files that are missing, damaged, of another kind or in need of code.
    """
    from pipeline.align.convert.formats import open_path

    path = Path(path)
    entries, notes, origin = open_path(path, trust_pickle)
    return Checkpoint(str(path), entries, entry, notes, origin)
