# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Judges one part of a node: opens its two records and applies the comparison that its kind of numbers needs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeline.align import init_test, provenance, verdict
from pipeline.align.convert import Plan
from pipeline.align.errors import UserError
from pipeline.align.nodes import Node, Part
from pipeline.align.paths import SIDES, Paths
from pipeline.align.records import Record, read_record, write_record
from pipeline.align.results import KeyResult, PartResult
from pipeline.align.settings import Settings
from pipeline.align.thresholds import Threshold, threshold

Pair = tuple[Record, Record]
Arrays = Mapping[str, np.ndarray]


def judge(paths: Paths, cfg: Settings, node: Node, part: Part) -> PartResult:
    """The verdict on one part. What is wrong with its files is part of the verdict, never an exception."""
    record = part.record or part.name
    files = [paths.part(side, record) for side in SIDES]

    def stale(made: Mapping[str, Any]) -> str | None:
        return provenance.stale_reason(paths, cfg, made)

    try:
        pair = verdict.open_pair(record, *files, eval_mode=part.eval_mode, step=node.step, stale=stale)
        if isinstance(pair, PartResult):
            return dataclasses.replace(pair, name=part.name)
        limit = threshold(part.threshold, cfg.align.thresholds.get(part.threshold))
        return JUDGES[part.judge](paths, cfg, part, pair, limit)
    except UserError as error:
        return PartResult(part.name, "red", str(error))


def _numbers(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    return verdict.compare_records(part.name, *pair, limit, verdict.Rules(zeros=part.zeros))


def _lr(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    return verdict.compare_records(part.name, *pair, limit, verdict.Rules(zeros=True, schedule=True))


def _buffers(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """Running statistics, by the port's names. A network without any has nothing to compare."""
    if not pair[0].arrays and not pair[1].arrays:
        return PartResult(part.name, "green")
    return verdict.compare_records(part.name, *pair, limit, verdict.Rules(zeros=True, convert=converter(paths)))


def _gradients(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """A gradient that exists on one side only means a detached or frozen parameter."""
    rules = verdict.Rules(zeros=True, grouped=True, convert=converter(paths))
    result = verdict.compare_records(part.name, *pair, limit, rules)
    for key in result.keys:
        if key.reason.startswith("missing in the port"):
            key.reason = "no gradient in the port: the parameter is frozen, unused or detached from the loss there"
        elif key.reason.startswith("missing in the reference"):
            key.reason = "a gradient in the port only: the reference freezes this parameter or does not use it"
    made = (pair[1].provenance or {}).get("of_update", {})  # the port's names, as the keys are
    for key in result.keys:
        if key.reason and key.key in made:
            key.reason = f"at update {made[key.key]}: {key.reason}"
    return verdict.summarise(part.name, sorted(result.keys, key=lambda key: made.get(key.key, 0)), result.known)


def _updates(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    rounding = (pair[1].provenance or {}).get("rounding")
    rules = verdict.Rules(zeros=True, grouped=True, convert=converter(paths), context=_adam_context(paths, pair), floors=rounding)
    return verdict.compare_records(part.name, *pair, limit, rules)


def _init(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """Fresh parameters come from other random numbers on each side, so their distributions are compared."""
    reference, port = pair[0].arrays, pair[1].arrays
    plan = plan_of(paths)
    # Whole numbers, such as a table of offsets, are never random: _constants compares them.
    drawn = [name for name, one in plan.tensors["paddle"].items() if "float" in one["dtype"]]
    sources = {name: rows[0].torch for name, rows in plan.sources("paddle").items() if name in drawn}
    keys = []
    for name, source in sources.items():
        if name not in port or source not in reference:
            side = "port" if name not in port else "reference"
            keys.append(KeyResult(name, False, f"missing in the {side}'s record"))
        else:
            keys.append(_same_distribution(name, reference[source], port[name], len(sources)))
    if not keys:
        return PartResult(part.name, "red", "no parameter was recorded, which proves nothing")
    return verdict.summarise(part.name, keys, [])


def _same_distribution(name: str, reference: np.ndarray, port: np.ndarray, count: int) -> KeyResult:
    if not (np.isfinite(reference).all() and np.isfinite(port).all()):
        return KeyResult(name, False, "NaN or infinity in a fresh parameter")
    reason = init_test.difference(reference, port, count)
    distance = abs(float(reference.std()) - float(port.std()))
    return KeyResult(name, reason is None, f"initialised differently: {reason}" if reason else "", mean=distance)


def _constants(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """The elements that are the same in every fresh network must be the same elements, and equal, on both sides."""
    plan = plan_of(paths)
    shapes = {side: {name: tuple(one["shape"]) for name, one in plan.tensors[side].items()} for side in SIDES}
    full = [
        {name: record.arrays.get(name, np.full(shape, np.nan)) for name, shape in shapes[side].items()}
        for side, record in zip(SIDES, pair)
    ]
    for side, arrays in zip(SIDES, full):
        if not any(np.isnan(value).any() for value in arrays.values()):
            title = f"{side} draws the same network from every seed, so nothing can be told apart from random numbers"
            rule = {"id": "fixed_seed", "title": title, "formula": "build_model ignores the seed", "source": "step 5", "key": ""}
            return PartResult(part.name, "green", known=[rule])
    reference = converter(paths)(full[0])
    keys = []
    for name, values in reference.items():
        reason = init_test.constants_differ(values, full[1][name])
        keys.append(KeyResult(name, reason is None, reason or ""))
    return verdict.summarise(part.name, keys, [])


def _steps(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """Which optimizer takes a step when, and which parameters still had a gradient from before: what is cleared and when."""
    result = _numbers(paths, cfg, part, pair, limit)
    rows = {row.torch: row.paddle for row in plan_of(paths).rows}
    reference, port = ((record.provenance or {}).get("made", []) for record in pair)
    for side in (reference, port):
        side[:] = [(name, left) for name, left in side]
    orders = [[name for name, _ in side] for side in (reference, port)]
    if orders[0] != orders[1]:
        files = "torch_ref/reference.py", "paddle/port.py"
        shown = [", ".join(one[:6]) or f"none by itself ({file} has no training_step)" for one, file in zip(orders, files)]
        return dataclasses.replace(result, state="red", reason=f"the reference updates {shown[0]}; the port {shown[1]}")
    for number, ((name, ours), (_, theirs)) in enumerate(zip(reference, port), 1):
        ours = [rows.get(one) or one for one in ours]
        for more, fewer, where, elsewhere in ((theirs, ours, "port", "reference"), (ours, theirs, "reference", "port")):
            left = [one for one in more if one not in fewer]
            if left:
                reason = (
                    f"before update {number} ({name}) gradients of an earlier one are left in the {where} and cleared in the"
                    f" {elsewhere}, in {left[0]} and {len(left) - 1} more: train.clear_grad in port.yaml and the argument clear"
                    " of update() say whether all of the model is cleared or only the optimizer's parameters"
                )
                return dataclasses.replace(result, state="red", reason=reason)
    return result


def _dropout(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """Which probabilities are applied to how many numbers; where that differs, the tensors that only one side drops of."""
    result = _numbers(paths, cfg, part, pair, limit)
    if result.passed:
        return result
    calls = [{(p, size): (shape, count) for p, size, shape, count in record.provenance["calls"]} for record in pair]
    said = [
        f"the {name} drops with p = {key[0]:g} of a tensor of shape {shape}, as the {other} does not"
        for name, other, own, others in (("reference", "port", *calls), ("port", "reference", *reversed(calls)))
        for key, (shape, count) in own.items()
        if count > others.get(key, ("", 0))[1]
    ]
    return dataclasses.replace(result, reason="; ".join(said[:2])) if said else result


def _first_losses(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """Dropout masks come from generators that differ, so these losses were recorded where nothing is random."""
    drawn = [(record.provenance or {}).get("dropout") for record in pair]
    if drawn[0] != drawn[1]:
        sides = f"reference {drawn[0] or 'none'}, port {drawn[1] or 'none'}"
        return PartResult(part.name, "red", f"probabilities of dropout in the training differ: {sides}")
    result = _numbers(paths, cfg, part, pair, limit)
    if drawn[0]:
        title = "both trainings draw dropout masks, from generators that differ; these losses are those without dropout"
        result.known.append({"id": "dropout", "title": title, "formula": f"p = {drawn[0]}", "source": "step 5", "key": "loss"})
    return result


def _benchmark(paths: Paths, cfg: Settings, part: Part, pair: Pair, limit: Threshold) -> PartResult:
    """The final metric against what the paper reports, which is also written as the record that acceptance asks for."""
    paper, got, keys = cfg.benchmark.to_dict(), pair[1].arrays, []
    for name, wanted in paper.items():
        if set(wanted) != {"value", "rule"} or isinstance(wanted["value"], bool) or not isinstance(wanted["value"], (int, float)):
            raise UserError(f"port.yaml: benchmark.{name} must be {{value: number, rule: '>='}}, not {wanted!r}")
        if name not in got:
            raise UserError(f"port.yaml: benchmark.{name} is no metric of the port, which has {', '.join(got)}")
        value = float(got[name].reshape(-1)[0])
        keys.append(verdict.judge_benchmark(name, float(wanted["value"]), wanted["rule"], value, limit.number))
    if not keys:
        raise UserError(
            "port.yaml: 'benchmark' is empty; state what the paper reports, such as accuracy: {value: 0.97, rule: '>='}"
        )
    values = {name: np.array([float(wanted["value"])]) for name, wanted in paper.items()}
    write_record(paths.log_reprod / "train_align_benchmark.npy", values, {"framework": "benchmark", "part": part.record})
    return verdict.summarise(part.name, keys, [])


JUDGES: dict[str, Callable[..., PartResult]] = {
    "numbers": _numbers, "lr": _lr, "buffers": _buffers, "gradients": _gradients, "updates": _updates, "init": _init,
    "constants": _constants, "first_losses": _first_losses, "dropout": _dropout, "steps": _steps,
    "benchmark": _benchmark,
}  # fmt: skip


def plan_of(paths: Paths) -> Plan:
    """The conversion that the last run made. Raises UserError."""
    try:
        return Plan.from_json(json.loads(paths.conversion.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{paths.conversion.relative_to(paths.root)} is missing or damaged; run: python -m pipeline convert"
        ) from None


def converter(paths: Paths) -> Callable[[Arrays], dict[str, np.ndarray]]:
    """From the reference's names and layout to the port's, each tensor by its first name."""
    plan = plan_of(paths)

    def convert(arrays: Arrays) -> dict[str, np.ndarray]:
        return {name: value for name, value in plan.apply(arrays).items() if name not in plan.aliases["paddle"]}

    return convert


def _adam_context(paths: Paths, pair: Pair) -> dict[str, dict[str, Any]]:
    """What the rule on zero gradients under Adam needs to know of every parameter (see known.py)."""
    torch, paddle = (record.provenance or {} for record in pair)
    if not torch.get("betas") or torch.get("betas") != paddle.get("betas"):
        return {}
    try:
        reference, port = (read_record(paths.part(side, "peak_gradients")).arrays for side in SIDES)
    except UserError:
        return {}
    peaks = [converter(paths)(reference), port]
    modules: dict[str, float] = {}
    for name, value in peaks[0].items():
        module = name.rpartition(".")[0]
        modules[module] = max(modules.get(module, 0.0), float(value.max(initial=0)))
    return {
        name: {
            "kind": "adam_zero_gradient",
            "betas": torch["betas"],
            "learning_rates": torch["learning_rates"],
            "gradients": [side.get(name, 0.0) for side in peaks],
            "module_gradient": modules[name.rpartition(".")[0]],
        }
        for name in peaks[0]
    }
