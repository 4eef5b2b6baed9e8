# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the kit said about a case, and whether that was right."""
from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog import Mutant, Right

#: Step of a port whose weights cannot be converted.
CONVERSION = 0


@dataclass(frozen=True)
class Outcome:
    """step: the first that was not green, 0 where the weights could not be converted, None where all were; accused: module
    path or stage; text: the explanation that a user reads."""

    step: int | None
    accused: str | None
    text: str
    seconds: float

    @property
    def line(self) -> str:
        """For a table."""
        if self.step is None:
            return self.text or "green"
        where = "conversion" if self.step == CONVERSION else f"step {self.step}"
        return f"{where}, {'at ' + repr(self.accused) if self.accused is not None else 'no place'}: {self.text}"


def read(folder: Path) -> Outcome:
    """The outcome of a case that has run."""
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except OSError:
        return Outcome(None, None, "the case did not end: " + (folder / "case.log").read_text(errors="replace")[-2000:], 0.0)
    early = [failure for failure in result["failures"] if failure["job"] in ("start", "convert")]
    if early:
        return Outcome(CONVERSION, None, early[0]["message"], result["seconds"])
    red = next((node for node in result["nodes"] if node["state"] != "green"), None)
    if red is not None and red["state"] != "red":
        return Outcome(None, None, f"step {red['step']} is {red['state']}: {red['reason']}", result["seconds"])
    if red is None:
        return Outcome(None, None, "", result["seconds"])
    finding = result["finding"]
    if finding is None:
        text = f"{red['state']}: {red['reason']}" + (f" [bisect: {result['bisect_error']}]" if result["bisect_error"] else "")
        return Outcome(red["step"], None, text, result["seconds"])
    return Outcome(red["step"], accused(finding), finding["paragraph"], result["seconds"])


def accused(finding: dict[str, Any]) -> str:
    """The module whose own code or settings a finding accuses, by torch's path, or the stage where it accuses none."""
    if finding["stage"] in ("optimizer", "schedule", "loss", "failure"):
        return finding["stage"]
    module = finding["parent"] or finding["torch"] or finding["paddle"]
    path = module["path"] if module else finding["where"]
    return "loss" if path == "@loss" else path


def judged(case: Mutant | Right, outcome: Outcome) -> tuple[bool, bool]:
    """(red at the right step, right place named); for a right port twice whether it is green."""
    if isinstance(case, Right):
        return (outcome.step is None and not outcome.text,) * 2
    right_step = outcome.step == case.step
    named = right_step and outcome.accused == case.at and all(text in outcome.text for text in case.says)
    return right_step, named
