# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Wrong and right ports: what they are, how the lists of them are read, and how one is written over a copy of the port.

A list is a Markdown file with one heading per port, "## name: class of error", and below it

    step: 1                 the first step that must not be green, 0 for the conversion of the weights
    at: stage1.conv1        what must be accused, see Mutant; "the model" is the outermost module
    says: padding | stride  texts that the explanation must contain
    map: stage1 = a, ...    of a right port: lines for weights.map of port.yaml
    models/resnet.py        a file of the port's folder, and what is changed in it:
    -old text               which must occur exactly once; several lines with - are one text
    +new text

A heading without a class of error is a right port.
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

#: A file of the port's folder, the text to replace there and the new text.
Edit = tuple[str, str, str]
#: The last step that is run for a right port.
LAST_STEP = 5
ROOT_MODULE = "the model"


@dataclass(frozen=True)
class Mutant:
    """A wrong port.

    at: the path of the module that must be accused, or the stage of bisect where no module is at fault ("loss", "optimizer",
    "schedule", "failure"); None where bisect has nothing to look at (steps 0, 2 and 5), so that only `says` counts.
    """

    name: str
    kind: str
    step: int
    at: str | None
    says: tuple[str, ...]
    edits: tuple[Edit, ...]

    @property
    def line(self) -> str:
        """What is expected, for a table."""
        return f"step {self.step}, at {self.at!r}, {', '.join(self.says)}"


@dataclass(frozen=True)
class Right:
    """A port that is written otherwise and computes the same."""

    name: str
    edits: tuple[Edit, ...]
    weights_map: dict[str, str] = field(default_factory=dict)

    step = LAST_STEP
    line = "green"


@dataclass(frozen=True)
class Track:
    """A pair of reference and port with its cases.

    overlay: folder to lay over the generated sample, None for the sample itself; settings: overrides of port.yaml; sample: the
    track that is generated.
    """

    name: str
    overlay: Path | None
    settings: tuple[str, ...]
    cases: tuple[Mutant | Right, ...]
    sample: str = "image"


def read_cases(path: Path) -> tuple[Mutant | Right, ...]:
    """The ports of a list, in its order. ValueError for a line that means nothing, or a name given twice."""
    blocks = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    cases = tuple(_case(*block.split("\n", 1)) for block in blocks)
    names = [case.name for case in cases]
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name}: given twice: {sorted({name for name in names if names.count(name) > 1})}")
    return cases


def _case(title: str, body: str) -> Mutant | Right:
    name, _, kind = title.partition(": ")
    given: dict[str, str] = {}
    edits: list[list[str]] = []
    file = last = ""
    for line in body.split("\n"):
        if line[:1] in "-+" and line:
            if line[0] == "-" and last != "-":
                edits.append([file, line[1:], ""])
            elif line[0] != last:
                edits[-1][2] = line[1:]
            else:
                edits[-1][1 if last == "-" else 2] += "\n" + line[1:]
            last = line[0]
        elif re.fullmatch(r"(step|at|says|map): .*", line):
            key, _, given[key] = line.partition(": ")
        elif re.fullmatch(r"[\w/]+\.\w+", line):
            file, last = line, ""
        elif line.strip() and not line.startswith("# "):
            raise ValueError(f"{name}: cannot read {line!r}")
    changes = tuple((file, old, new) for file, old, new in edits)
    if not kind:
        pairs = (entry.split(" = ") for entry in given["map"].split(", ")) if "map" in given else ()
        return Right(name, changes, {torch: paddle for torch, paddle in pairs})
    at = given.get("at")
    says = tuple(given["says"].split(" | ")) if "says" in given else ()
    return Mutant(name, kind, int(given["step"]), "" if at == ROOT_MODULE else at, says, changes)


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
