# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a wrong port and a right one are, and how they are written over a copy of the port."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

#: A file of the port's folder, the text to replace there (which must occur exactly once) and the new text.
Edit = tuple[str, str, str]
#: The last step that is run for a right port.
LAST_STEP = 5


@dataclass(frozen=True)
class Mutant:
    """A wrong port.

    kind: the class of error; step: the first that must not be green, 0 for the conversion of the weights; at: the module
    path that must be accused, or the stage of bisect where no module is at fault ("loss", "optimizer", "schedule"), empty
    where bisect has nothing to look at (steps 0, 2 and 5); says: texts that the explanation must contain.
    """

    name: str
    kind: str
    step: int
    at: str | None
    says: tuple[str, ...]
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class Right:
    """A port that is written otherwise and computes the same; `weights_map`: lines for weights.map of port.yaml."""

    name: str
    edits: tuple[Edit, ...]
    weights_map: dict[str, str] = field(default_factory=dict)

    step = LAST_STEP


@dataclass(frozen=True)
class Track:
    """A pair of reference and port with its cases.

    overlay: folder to lay over the generated sample, None for the sample itself; settings: overrides of port.yaml, so that
    every setting has an effect and training is short.
    """

    name: str
    overlay: Path | None
    settings: tuple[str, ...]
    mutants: tuple[Mutant, ...]
    rights: tuple[Right, ...]


def mutant(name: str, kind: str, step: int, at: str | None, says: str | tuple[str, ...], *edits: Edit) -> Mutant:
    """A Mutant; `says` may be one text."""
    return Mutant(name, kind, step, at, (says,) if isinstance(says, str) else says, edits)


def right(name: str, *edits: Edit, weights_map: dict[str, str] | None = None) -> Right:
    """A Right."""
    return Right(name, edits, weights_map or {})


def edited(folder: Path, edits: tuple[Edit, ...]) -> dict[str, str]:
    """{file: new text} of the port in `folder`; AssertionError where a text to replace does not occur exactly once."""
    texts: dict[str, str] = {}
    for name, old, new in edits:
        text = texts.get(name) or (folder / name).read_text(encoding="utf-8")
        count = text.count(old)
        assert count == 1 and old != new, f"{name}: {count} times instead of once, or without effect: {old!r}"
        texts[name] = text.replace(old, new)
    return texts


def write_edits(folder: Path, edits: tuple[Edit, ...]) -> None:
    """Apply edits to the port in `folder`, whose files may be hard links."""
    for name, text in edited(folder, edits).items():
        temporary = folder / f"{name}.new"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, folder / name)
