# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Compare what inference printed with what it printed when it was known to be right.

  python3 test_tipc/compare_results.py --gt_file='test_tipc/results/python_*.txt' --log_file='test_tipc/output/python_*.log'

The logs hold lines `IMAGE name: number name: number …`, as infer.py prints them; the files of results hold one
`image<TAB>{"name": number}` per line and have the precision (fp32, fp16, int8) in their names, as the logs have. Whole
numbers must be equal, others within the tolerances. Exit status 0: all equal; 1: something differs; 2: nothing to
compare, or a file cannot be read.
"""
from __future__ import annotations

import argparse
import glob
import json
import math
import re
import sys
from pathlib import Path

NUMBER = r"-?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
LINE = re.compile(rf"^(?P<image>\S.*?\.\w+(?::\d+)?) *:?((?:[ \t]+\w+: {NUMBER})+)[ \t\r]*$", re.MULTILINE)
PAIR = re.compile(rf"(\w+): ({NUMBER})")


class CompareError(Exception):
    """Nothing to compare: one line (exit status 2)."""


def read_log(text: str) -> dict[str, dict[str, float]]:
    """{image name: {name: number}} of a log."""
    lines = ((Path(match["image"]).name, PAIR.findall(match[2])) for match in LINE.finditer(text))
    return {image: {name: _number(value) for name, value in pairs} for image, pairs in lines}


def _number(text: str) -> float:
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def read_results(path: Path) -> dict[str, dict[str, float]]:
    """The same from a file of results. CompareError where a line is not `image<TAB>JSON`."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        image, tab, values = line.partition("\t")
        try:
            found[Path(image).name] = json.loads(values)
        except ValueError:
            raise CompareError(f"{path}:{number}: expected image, tab and JSON, found {line!r}") from None
    return found


def precision_of(path: Path) -> str:
    """fp32, fp16 or int8, from a file's name. CompareError where it has none."""
    found = re.search(r"fp32|fp16|int8", path.name)
    if not found:
        raise CompareError(f"the name of {path} says neither fp32 nor fp16 nor int8")
    return found[0]


def differences(wanted: dict, found: dict, atol: float, rtol: float) -> list[str]:
    """One text per image or number that is missing, too many or different; NaN is always different."""
    problems = [f"{image} is missing" for image in wanted if image not in found]
    problems += [f"{image} is not expected" for image in found if image not in wanted]
    for image in wanted:
        for name in sorted({*wanted[image], *found.get(image, {})} if image in found else ()):
            one, other = wanted[image].get(name), found[image].get(name)
            if one is None or other is None:
                problems.append(f"{image}: {name} is only in the {'log' if one is None else 'results'}")
            elif not _same(one, other, atol, rtol):
                problems.append(f"{image}: {name} is {other}, expected {one}")
    return problems


def _same(one: float, other: float, atol: float, rtol: float) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return math.isfinite(other) and abs(one - other) <= atol + rtol * abs(one)


def compare(results: list[Path], logs: list[Path], atol: float, rtol: float) -> bool:
    """Compare every log with the results of its precision and print the outcome. CompareError where nothing is compared."""
    by_precision = {precision_of(path): path for path in results}
    same = True
    for log in logs:
        precision = precision_of(log)
        if precision not in by_precision:
            raise CompareError(f"there are no results for {precision}, the precision of {log}")
        wanted = read_results(by_precision[precision])
        if not wanted:
            raise CompareError(f"{by_precision[precision]} holds no results")
        problems = differences(wanted, read_log(log.read_text(encoding="utf-8", errors="replace")), atol, rtol)
        print(f"{'FAIL' if problems else 'pass'}  {log}: {len(wanted)} samples against {by_precision[precision].name}")
        for problem in problems[:10]:
            print(f"      {problem}")
        if len(problems) > 10:
            print(f"      and {len(problems) - 10} more")
        same = same and not problems
    return same


def write(log: Path, path: Path) -> None:
    """Make a file of results from a log."""
    found = read_log(log.read_text(encoding="utf-8", errors="replace"))
    if not found:
        raise CompareError(f"{log} holds no lines of results")
    lines = [f"{image}\t{json.dumps(values)}\n" for image, values in sorted(found.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")
    print(f"{path}: {len(found)} samples")


def _files(pattern: str) -> list[Path]:
    found = [Path(name) for name in sorted(glob.glob(pattern))]
    if not found:
        raise CompareError(f"no file matches {pattern}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare logs of inference with known results.")
    parser.add_argument("--gt_file", required=True, help="files of results (a pattern, in quotes)")
    parser.add_argument("--log_file", required=True, help="logs of inference (a pattern, in quotes)")
    parser.add_argument("--atol", type=float, default=1e-3, help="absolute tolerance (default: 1e-3)")
    parser.add_argument("--rtol", type=float, default=1e-3, help="relative tolerance (default: 1e-3)")
    parser.add_argument("--write", action="store_true", help="make the file --gt_file from the one log --log_file")
    args = parser.parse_args()
    try:
        if args.write:
            write(Path(args.log_file), Path(args.gt_file))
            return 0
        return 0 if compare(_files(args.gt_file), _files(args.log_file), args.atol, args.rtol) else 1
    except (CompareError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
