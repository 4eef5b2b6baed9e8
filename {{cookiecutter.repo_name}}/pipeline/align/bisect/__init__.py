# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m pipeline bisect`: where a port parts from its reference, and the likely cause.

Each side runs two training steps in eval mode and two in train mode with hooks on every module (capture.py); the captures
are then compared here, with neither framework: stages.py goes through what may differ, search.py finds the place.
"""
from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.align.bisect.distance import LIMIT
from pipeline.align.bisect.finding import Finding, text
from pipeline.align.bisect.pairing import Both
from pipeline.align.bisect.stages import Known, Stages
from pipeline.align.bisect.static import Difference, differences, other_layouts
from pipeline.align.bisect.store import Capture, stem
from pipeline.align.bisect.tap import Breadcrumb
from pipeline.align.convert import Plan
from pipeline.align.errors import UserError
from pipeline.align.paths import SIDES, Paths
from pipeline.align.settings import Settings

__all__ = ["Finding", "compare", "run", "settings", "text"]
MODES = ("eval", "train")
STEPS = 2
#: In the second step the rounding errors of the first have gone through gradients and optimizer: limits are so much wider.
LATER = 4
SUMS = "sums that Paddle adds one by one in float32 made the first update differ by more than other rounding does"


def run(
    paths: Paths,
    cfg: Settings,
    overrides: Sequence[str] = (),
    debug: bool = False,
    mode: str | None = None,
    show: Callable[[str], None] = print,
) -> Finding | None:
    """Capture both sides, compare and remove the tensors, unless `debug`. `mode`: "eval" or "train" only.

    Raises UserError where a side cannot run at all.
    """
    from pipeline.align import runner
    from pipeline.align.worker import FIRST_JOB

    for side in SIDES:
        shutil.rmtree(paths.work / side / "bisect", ignore_errors=True)
    modes = [mode] if mode else list(MODES)
    jobs = {side: [FIRST_JOB[side], *(f"capture\t{one}\t{STEPS}" for one in modes)] for side in SIDES}
    failures = runner.run(paths, cfg, jobs, overrides, debug, show)
    for failure in failures:
        if failure["kind"] in ("user", "stopped") or not failure["job"].startswith("capture"):
            raise UserError(f"{failure['side']} side, {failure['job']}: {failure['message']}")
    try:
        return compare(paths, modes, failures, show)
    finally:
        for file in () if debug else paths.work.glob("*/bisect/*.bin"):
            file.unlink()


def compare(
    paths: Paths, modes: Sequence[str], failures: Sequence[dict[str, Any]], show: Callable[[str], None]
) -> Finding | None:
    """Compare finished captures. `failures`: of the runner, for sides that stopped before the end."""
    plan = Plan.from_json(_read(paths.conversion))
    trees = {side: _read(paths.modules(side)) for side in SIDES}
    found = settings(paths)
    known = Known(found, _momenta(trees["torch"]), other_layouts(trees["torch"], trees["paddle"], plan.modules))
    unclear: set[str] = set()
    looked: dict[tuple[str, int], Both] = {}
    notes: list[str] = []
    for mode, step in _order(modes):
        if step and mode in unclear:
            continue
        finding, both = None, _open(paths, mode, step, plan)
        if both is not None:
            looked[mode, step] = both
            stages = Stages(both, plan, known, looked.get((mode, step - 1)))
            draws = _random(both, notes) if step == 0 else False
            finding = draws if isinstance(draws, Finding) else stages.find(before_random=draws)
            if draws:
                unclear.add(mode)
            elif finding is None and stages.sums_differ():
                unclear.add(mode)
                notes.append(f"in {mode} mode the second step was not compared: {SUMS}")
        failed = [one for one in failures if one["job"].split("\t")[1:2] == ["eval" if mode == "given" else mode]]
        if finding is None and failed and (both is None or any(side.index["failed"] for side in (both.torch, both.paddle))):
            finding = _failure(paths, failed[0], mode, step, found)
        if finding is not None:
            finding.notes = _notes(looked, failed if finding.stage != "failure" else [], notes)
            return finding
    for note in _notes(looked, [], notes):
        show(f"note: {note}")
    for one in found:
        show(f"note: without effect on what was run, {one.text}")
    return None


def _order(modes: Sequence[str]) -> list[tuple[str, int]]:
    """(mode, step) in the order in which captures are compared."""
    order = [(mode, 0) for mode in modes] + [(mode, step) for step in range(1, STEPS) for mode in modes]
    return order[:1] + [("given", step) for step in range(STEPS)] + order[1:] if "eval" in modes else order


def settings(paths: Paths) -> list[Difference]:
    """Settings of paired modules that differ, from the descriptions that the conversion left; available without a capture."""
    plan = Plan.from_json(_read(paths.conversion))
    return differences(_read(paths.modules("torch")), _read(paths.modules("paddle")), plan.modules)


def _open(paths: Paths, mode: str, step: int, plan: Plan) -> Both | None:
    stems = [stem(paths, side, mode, step) for side in SIDES]
    if not all(one.with_suffix(".json").is_file() for one in stems):
        return None
    return Both(Capture(stems[0]), Capture(stems[1]), plan.modules, LIMIT * (1 if step == 0 else LATER))


def _random(both: Both, notes: list[str]) -> Finding | bool:
    """The finding that one side draws random numbers, or whether both do, so that numbers behind cannot be compared.

    In train mode one side may draw them by own code where the other's dropout was switched off: that is no fault either.
    """
    torch, paddle = (side.index["random"] for side in (both.torch, both.paddle))
    mode = both.torch.index["mode"]
    if not (torch or paddle) or (torch and paddle and torch["held"] and paddle["held"]):
        return False
    side, other = (both.torch, both.paddle) if torch else (both.paddle, both.torch)
    if (torch and paddle) or (mode == "train" and other.index["silenced"]):
        where = ", ".join(f"{name}: in {_of(one)}" for name, one in (("torch", torch), ("Paddle", paddle)) if one)
        notes.append(f"random numbers are drawn in {mode} mode ({where}); what comes after them was not compared")
        return True
    call, name = side.index["random"], {"torch": "torch", "paddle": "Paddle"}[side.index["side"]]
    finding = Finding("random", mode, 1, _of(call), before=call["before"])
    setattr(finding, side.index["side"], {"path": call["path"], "kind": call["kind"].rpartition(".")[2]})
    what = "while dropout is switched off" if mode == "train" else "such as dropout that stays active"
    finding.paragraph = (
        f"In {mode} mode: two forward passes of the {name} side differ although nothing changed but the random seed, first in"
        f" {finding.where}. It draws random numbers, {what}; the other side does not."
    )
    return finding


def _of(call: dict[str, Any]) -> str:
    kind = call["kind"].rpartition(".")[2]
    where = f"'{call['path']}' ({kind})" if call["path"] else f"the model ({kind})"
    return where + (f", before '{call['before']}'" if call["before"] else "")


def _failure(paths: Paths, failure: dict[str, Any], mode: str, step: int, found: list[Difference]) -> Finding:
    """A side that stopped while nothing differed yet: where it was, as its last breadcrumb says."""
    side = failure["side"]
    crumb = Breadcrumb.read(paths.work / side / "bisect" / f"{mode}_breadcrumb")
    finding = Finding("failure", mode, step + 1, crumb.text if crumb else f"the {side} side")
    if crumb and crumb.kind:
        setattr(finding, side, {"path": crumb.path, "kind": crumb.kind})
        finding.causes = [one.text for one in found if getattr(one, side) == crumb.path]
    cause = f" Likely cause: {'; '.join(finding.causes)}." if finding.causes else ""
    finding.paragraph = (
        f"The {side} side stopped during {finding.where}: {failure['message'].rstrip('.')}. Up to there nothing differs.{cause}"
    )
    return finding


def _notes(looked: dict[tuple[str, int], Both], failed: Sequence[dict[str, Any]], more: Sequence[str]) -> list[str]:
    notes = [*more, *(f"{one['side']} side: {one['message']}" for one in failed)]
    for (mode, _), both in looked.items():
        for side in (both.torch, both.paddle):
            notes += side.index["guards"]
        silenced = sorted({*both.torch.index["silenced"], *both.paddle.index["silenced"]})
        if mode == "train" and silenced:
            notes.append(f"in train mode {', '.join(silenced)} ran without randomness")
    return list(dict.fromkeys(notes))


def _momenta(tree: dict[str, Any]) -> dict[str, float]:
    """{path: momentum} of torch's batch normalisations."""
    norms = (module for module in tree["modules"] if any(buffer["name"] == "running_var" for buffer in module["buffers"]))
    return {module["path"]: module["hyper"]["momentum"] for module in norms if module["hyper"].get("momentum") is not None}


def _read(path: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is missing or damaged ({error}); run: python -m pipeline convert") from None
