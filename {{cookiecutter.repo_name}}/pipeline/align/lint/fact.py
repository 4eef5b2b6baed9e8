# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a fact about the two frameworks is. The facts are the one source of `lint` (reason and fix) and of `explain`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One difference (or agreement that is often doubted), measured with torch 2.13.0 and paddle 3.3.1 on a CPU.

    difference, fix: the two halves of a finding; `fix` is empty where a syntax tree cannot tell, so that lint has no rule.
    agree: what to write so that both frameworks do the same. number: what the experiment in `measured` gives, where it
    stands for {n}. step: the step of the pipeline that shows the difference, 0 where none does by itself.
    """

    id: str
    subjects: tuple[str, ...]
    difference: str
    agree: str
    measured: str
    number: float | None = None
    step: int = 1
    fix: str = ""

    @property
    def evidence(self) -> str:
        """The measurement in words."""
        return self.measured if self.number is None else self.measured.format(n=f"{self.number:.4g}")
