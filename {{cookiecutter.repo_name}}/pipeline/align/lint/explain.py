# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m pipeline explain`: what is known about a subject, from the table of facts and the rules of convert."""

from __future__ import annotations

import re
import textwrap

from pipeline.align.errors import UserError
from pipeline.align.lint.fact import Fact
from pipeline.align.lint.facts import TABLE
from pipeline.align.lint.layers import LAYERS
from pipeline.align.lint.nearest import nearest

WIDTH = 110
#: What the steps of the pipeline compare.
STEPS = {1: "forward", 2: "data and metric", 3: "loss", 4: "backward and optimizer", 5: "training"}


def subjects() -> list[str]:
    """What can be explained: one name for each group of spellings."""
    found: dict[str, str] = {}
    for name in (*(one for fact in TABLE.values() for one in fact.subjects), *(one.rpartition(".")[2] for one in LAYERS)):
        found.setdefault(_key(name), re.sub(r"[123][dD]\b", "", name))
    return sorted(found.values(), key=str.lower)


def text(subject: str) -> str:
    """Everything about a subject: a function, class, setting, or the name of a rule; raises UserError if nothing is known."""
    key = _key(subject)
    facts = [TABLE[subject]] if subject in TABLE else [fact for fact in TABLE.values() if key in map(_key, fact.subjects)]
    layers = [one for one in LAYERS if _key(one.rpartition(".")[2]) == key] if subject not in TABLE else []
    if not facts and not layers:
        raise UserError(f"nothing is known about {subject!r}; nearest: {nearest(subject, [*subjects(), *TABLE])}")
    blocks = [_fact(fact) for fact in facts]
    if layers:
        from pipeline.align.lint.conversion import lines  # numpy is loaded only where it is needed

        blocks.append("\n".join(["weights, as `python -m pipeline convert` maps them", *lines(layers)]))
    return "\n\n".join(blocks)


def _key(name: str) -> str:
    """One key for all spellings: nn.BatchNorm2D, batch_norm, BatchNorm1d; CrossEntropyLoss, cross_entropy."""
    key = re.sub(r"[^a-z0-9]", "", name.rpartition(".")[2].lower())
    key = re.sub(r"(?<=[a-z])[123]d(?=$|transpose)", "", key)
    key = key.removesuffix("loss") or key
    return {"huber": "smoothl1", "simplernn": "rnn", "simplernncell": "rnncell"}.get(key, key)


def _fact(fact: Fact) -> str:
    parts = [("difference", fact.difference), ("to agree", fact.agree), ("measured", fact.evidence)]
    if fact.step:
        parts.append(("shown by", f"python -m pipeline align {fact.step} ({STEPS[fact.step]})"))
    if fact.fix:
        parts.append(("lint", fact.fix))
    return "\n".join([fact.id, *(_indented(f"{name + ':':<12}{words}") for name, words in parts)])


def _indented(line: str) -> str:
    return textwrap.fill(
        line, WIDTH, initial_indent="  ", subsequent_indent=" " * 14, break_long_words=False, break_on_hyphens=False
    )
