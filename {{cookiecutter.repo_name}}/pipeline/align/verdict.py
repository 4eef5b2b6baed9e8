# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Judges pairs of records: may they be compared at all, and do their numbers agree. Green is said only where both hold."""
from __future__ import annotations

import fnmatch
import math
import operator
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align import known
from pipeline.align.compare import compare_arrays, module_floors
from pipeline.align.diff_log import write_diff_log
from pipeline.align.errors import UserError
from pipeline.align.records import Record, read_record
from pipeline.align.results import KeyResult, NodeResult, PartResult
from pipeline.align.thresholds import Threshold, threshold

__all__ = [
    "KeyResult", "NodeResult", "PartResult", "Rules", "compare_files", "compare_records", "judge_benchmark", "judge_lr",
    "judge_part", "open_pair", "summarise", "write_diff_log",
]  # fmt: skip
#: From this many elements per array on two threads share the work; numpy computes outside the interpreter's lock.
PARALLEL_FROM = 1 << 16
RULES = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Rules:
    """How the numbers of a part are read.

    zeros: an array of zeros is legitimate, for all keys or for those that match a pattern; eval_mode: the records must
    say that no module was in train mode; convert: from the reference's arrays to the port's names and layout; grouped:
    gradients (or their updates), of which some are zero by construction and hold only rounding; schedule: an LR curve, see
    judge_lr; floors: {key: difference that is still rounding}; context: {key: dict} for the rules of known.py, by default
    what the port's record says.
    """

    zeros: bool | tuple[str, ...] = False
    eval_mode: bool = False
    convert: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]] | None = None
    grouped: bool = False
    schedule: bool = False
    floors: Mapping[str, float] | None = None
    context: Mapping[str, Mapping[str, Any]] | None = None

    def may_be_zero(self, key: str) -> bool:
        """Whether zeros everywhere are legitimate for `key`."""
        return self.zeros is True or bool(self.zeros) and any(fnmatch.fnmatchcase(key, pattern) for pattern in self.zeros)


def judge_part(
    part: str, torch_path: Path, paddle_path: Path, limit: Threshold, rules: Rules | None = None, *, step: int,
    stale: Callable[[Mapping[str, Any]], str | None] | None = None,
) -> PartResult:
    """The verdict on one pair of record files: `open_pair`, then `compare_records`. Nothing in the files makes it raise."""
    rules = rules or Rules()
    pair = open_pair(part, torch_path, paddle_path, eval_mode=rules.eval_mode, step=step, stale=stale)
    return pair if isinstance(pair, PartResult) else compare_records(part, *pair, limit, rules)


def open_pair(
    part: str, torch_path: Path, paddle_path: Path, *, eval_mode: bool, step: int,
    stale: Callable[[Mapping[str, Any]], str | None] | None = None,
) -> tuple[Record, Record] | PartResult:
    """The reference's and the port's record, or the verdict where they may not be compared.

    step: named in what to run again; stale(provenance): why a record no longer speaks for the code, or None.
    """
    found: dict[str, Record] = {}
    for side, path in (("torch", Path(torch_path)), ("paddle", Path(paddle_path))):
        again = f"run `python -m pipeline run {step} --side {side}`"
        if not path.is_file():
            return PartResult(part, "missing", f"{path.name} is missing: {again}")
        try:
            found[side] = read_record(path)
        except UserError as error:
            return PartResult(part, "red", str(error))
        reason = _wrong_origin(found[side].provenance, side, part)
        if reason:
            return PartResult(part, "red", f"{path.name} {reason}: {again}")
        outdated = stale(found[side].provenance) if stale else None
        if outdated:
            return PartResult(part, "stale", f"{path.name} is stale, {outdated}: {again}")
        reason = _not_in_eval_mode(found[side].provenance, eval_mode)
        if reason:
            return PartResult(part, "red", f"{path.name}: {reason}")
    reason = _different_start(found["torch"].provenance, found["paddle"].provenance)
    if reason:
        return PartResult(part, "red", f"{reason}: run `python -m pipeline run {step}`")
    try:
        _verify(found["torch"], found["paddle"])
    except UserError as error:
        return PartResult(part, "red", str(error))
    return found["torch"], found["paddle"]


def compare_records(part: str, torch: Record, paddle: Record, limit: Threshold, rules: Rules | None = None) -> PartResult:
    """Compare the arrays of two open records, the reference's and the port's. Raises only what `rules.convert` raises."""
    rules = rules or Rules()
    for record in (torch, paddle):
        if not record.arrays:
            return PartResult(part, "red", f"{record.path.name} is empty, which proves nothing")
    arrays = rules.convert(torch.arrays) if rules.convert else torch.arrays
    floors = dict(rules.floors or {})
    if rules.grouped:
        floors = {key: max(value, floors.get(key, 0.0)) for key, value in module_floors(arrays).items()}
    contexts = rules.context if rules.context is not None else (paddle.provenance or {}).get("known_context")

    def one(key: str) -> tuple[KeyResult, known.KnownDifference | None]:
        if key not in paddle.arrays or key not in arrays:
            side, other = ("port", "reference") if key in arrays else ("reference", "port")
            return KeyResult(key, False, f"missing in the {side}'s record, the {other}'s has it", worst=math.inf), None
        a, b = arrays[key], paddle.arrays[key]
        dtypes = (paddle.dtype(key) if rules.convert else torch.dtype(key), paddle.dtype(key))
        result = compare_arrays(key, a, b, limit, floor=floors.get(key, 0.0), zeros=rules.may_be_zero(key), dtypes=dtypes)
        rule = None if result.passed or not isinstance(contexts, Mapping) else known.explain(a, b, contexts.get(key), limit)
        if rule:
            result.passed, result.reason, result.worst, result.known = True, "", 0.0, rule.id
        return result, rule

    keys = [*arrays, *(key for key in paddle.arrays if key not in arrays)]
    if sum(array.size for array in arrays.values()) < PARALLEL_FROM * len(arrays):
        results = [one(key) for key in keys]
    else:
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(one, keys))
    explained = [rule.describe(result.key) for result, rule in results if rule]
    result = summarise(part, [result for result, _ in results], explained)
    return judge_lr(result, torch, paddle) if rules.schedule else result


def compare_files(a_path: str | Path, b_path: str | Path, limit: Threshold | float = 1e-6) -> PartResult:
    """Compare two record files of any origin, `a` as the reference. Raises UserError for a file that cannot be read.

    limit: a number is the guides' mean limit. Two files that state one framework are refused, as is one file given twice.
    """
    a, b = read_record(a_path), read_record(b_path)
    _verify(a, b)
    frameworks = [(record.provenance or {}).get("framework") for record in (a, b)]
    name = f"{a.path.name} and {b.path.name}"
    if a.path.samefile(b.path):
        return PartResult(name, "red", f"{a.path.name} is compared with itself, which proves nothing")
    if frameworks[0] is not None and frameworks[0] == frameworks[1]:
        return PartResult(name, "red", f"both were made by {frameworks[0]}, so that their agreement says nothing about a port")
    if not isinstance(limit, Threshold):
        limit = threshold("forward", limit)
    return compare_records(name, a, b, limit)


def judge_lr(result: PartResult, torch: Record, paddle: Record) -> PartResult:
    """The verdict on an LR curve, given that of its numbers: a schedule must move it, and on both sides or none.

    The records say with provenance["has_schedule"] whether build_optimizer returned a schedule.
    """
    reasons = []
    flags = {side: (record.provenance or {}).get("has_schedule") for side, record in (("reference", torch), ("port", paddle))}
    if flags["reference"] != flags["port"]:
        reasons.append("only the {} has a schedule".format("reference" if flags["reference"] else "port"))
    for side, record in (("reference", torch), ("port", paddle)):
        for key, rates in record.arrays.items():
            own = flags[side]
            if (own.get(key[4:-1]) if isinstance(own, dict) else own) and rates.size > 1 and (rates == rates.flat[0]).all():
                reasons.append(f"{key}: the {side} has a schedule, but its LR never changes")
    if not reasons or result.state != "green":
        return result
    keys = [KeyResult(**{**key.to_json(), "passed": False, "reason": reasons[0], "worst": math.inf}) for key in result.keys]
    return PartResult(result.name, "red", "; ".join(reasons), keys, result.known)


def judge_benchmark(name: str, value: float, rule: str, got: float, limit: float) -> KeyResult:
    """Hold a final metric against the paper's number: rule ">=", ">", "<=", "<", or "~" for at most `limit` away."""
    result = KeyResult(name, False, worst=math.inf, scale=abs(value), shape=[], dtype="float64")
    if rule not in RULES and rule != "~":
        raise UserError(f"port.yaml: benchmark.{name}.rule is {rule!r}; it must be one of {', '.join(RULES)} or ~")
    if not (math.isfinite(got) and math.isfinite(value)):
        result.reason = f"{name} is {got}, the benchmark {value}"
        return result
    result.mean = result.max = abs(got - value)
    result.threshold = limit if rule == "~" else None
    result.passed = RULES[rule](got, value) if rule in RULES else result.mean <= limit
    result.worst = 0.0 if result.passed else math.inf
    if not result.passed:
        wanted = f"within {limit:g} of" if rule == "~" else rule
        result.reason = f"{name} is {got:.6g}, it must be {wanted} {value:.6g}"
    return result


def _verify(*pair: Record) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(Record.verify, pair))


def summarise(part: str, keys: list[KeyResult], explained: list[dict[str, Any]]) -> PartResult:
    """The verdict on a part from those on its arrays; its reason is that of the first failed one."""
    failed = [key for key in keys if not key.passed]
    reason = f"{failed[0].key}: {failed[0].reason}" if failed else ""
    if len(failed) > 1:
        reason += f" (and {len(failed) - 1} more of {len(keys)})"
    return PartResult(part, "red" if failed else "green", reason, keys, explained)


def _wrong_origin(provenance: Mapping[str, Any] | None, side: str, part: str) -> str | None:
    if provenance is None:
        return "does not say what made it (edited, or not made by this kit)"
    if provenance.get("framework") != side:
        return f"was made by {provenance.get('framework')}, not {side}"
    if provenance.get("part") != part:
        return f"is a record of '{provenance.get('part')}', not '{part}'"
    return None


def _not_in_eval_mode(provenance: Mapping[str, Any], required: bool) -> str | None:
    mode = provenance.get("eval_mode")
    if not isinstance(mode, Mapping):
        return "it does not say that the model was in eval mode" if required else None
    training, random = mode.get("training_modules"), mode.get("random_outputs")
    if training:
        return f"the model was in train mode: {_first(training)}"
    if random:
        return f"two runs gave different outputs, something random is active in eval mode: {_first(random)}"
    return None


def _different_start(torch: Mapping[str, Any], paddle: Mapping[str, Any]) -> str | None:
    """Why the two sides did not compute the same task, or None."""
    for name in ("seed", "settings", "inputs"):
        ours, theirs = torch.get(name), paddle.get(name)
        if ours == theirs:
            continue
        detail = f"{ours} and {theirs}"
        if name == "settings":
            ours, theirs = torch.get("settings_values"), paddle.get("settings_values")
        if name == "settings" and isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            detail = _first([f"{key} {ours.get(key)!r} and {theirs.get(key)!r}" for key in _differing(ours, theirs)])
        if name == "inputs" and isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            detail = _first(_differing(ours, theirs))
        return f"the two sides were made from different {name} ({detail})"
    return None


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]


def _first(names: Any) -> str:
    """The first few of a list in words."""
    if not isinstance(names, list):
        return str(names)
    return ", ".join(map(str, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
