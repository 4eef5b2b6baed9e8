# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The measure of the judge: wrong ports it must find and right ones it must pass.

    python ci/mutants/run.py [--track NAME] [--only NAME ...] [--keep FOLDER] [--details]

Exit status 1 where a wrong port is not red at its step, under 95 % are named, or a right port is red.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bases
from catalog import Mutant, Right, Track, edited
from judge import Outcome, judged, read
from tracks import TRACKS

#: Share of the wrong ports whose place must be named.
NAMED = 0.95


@dataclass(frozen=True)
class Result:
    """A case and what the kit made of it."""

    track: str
    case: Mutant | Right
    outcome: Outcome

    @property
    def step_right(self) -> bool:
        """Red at the right step, or green for a right port."""
        return judged(self.case, self.outcome)[0]

    @property
    def named(self) -> bool:
        """The right place is named as well."""
        return judged(self.case, self.outcome)[1]


def run(folder: Path, tracks: Sequence[Track] = TRACKS, only: Sequence[str] = ()) -> list[Result]:
    """Build and run everything in `folder`, which must be empty. `only`: names of cases, all by default."""
    samples = {name: bases.generate(folder, name) for name in {track.sample for track in tracks}}
    groups = [group for track in tracks for group in _groups(track, only)]
    built = [
        bases.build(track, samples[track.sample], folder / name, cases[0].weights_map if isinstance(cases[0], Right) else {})
        for name, track, cases in groups
    ]
    for base, (_, _, cases) in zip(built, groups):
        for case in cases:
            edited(base / "paddle", case.edits)
    _all(built, bases.start_reference)
    servers = []
    for base, (name, _, cases) in zip(built, groups):
        plan = []
        for case in cases:
            at = folder / f"{name}-cases" / case.name
            bases.make_case(base, at, case.edits)
            plan.append({"folder": str(at), "step": case.step})
        bases.write_plan(folder / f"{name}.json", plan)
        servers.append((base, folder / f"{name}.json"))
    workers = max(1, (os.cpu_count() or 2))
    for base, plan in servers:
        _finish(base, bases.start_server(base, plan, workers))
    return [
        Result(track.name, case, read(folder / f"{name}-cases" / case.name)) for name, track, cases in groups for case in cases
    ]


def _groups(track: Track, only: Sequence[str]) -> list[tuple[str, Track, list]]:
    """(name, track, cases) for every repository that the reference must run in: one per weights.map."""
    groups: dict[str, list] = {}
    for case in track.cases:
        if not only or case.name in only:
            mapped = isinstance(case, Right) and case.weights_map
            groups.setdefault(f"{track.name}-{case.name}" if mapped else track.name, []).append(case)
    return [(name, track, cases) for name, cases in groups.items()]


def _all(folders: Sequence[Path], start) -> None:
    """Run `start(folder)` for all, as many at a time as there are cores."""
    cores, running = os.cpu_count() or 2, []
    for folder in folders:
        if len(running) == cores:
            _finish(*running.pop(0))
        running.append((folder, start(folder)))
    for folder, process in running:
        _finish(folder, process)


def _finish(base: Path, process: subprocess.Popen) -> None:
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{base}: exit status {process.returncode}\n{output[-4000:]}")


def report(results: Sequence[Result], details: bool = False) -> str:
    """The score, and what went wrong, as text."""
    wrong = [result for result in results if isinstance(result.case, Mutant)]
    right = [result for result in results if isinstance(result.case, Right)]
    lines = []
    for result in results:
        bad = not (result.step_right and result.named)
        if bad or details:
            verdict = "ok" if not bad else "MISSED" if not result.step_right else "not named"
            lines += [
                f"{verdict:10}{result.track} {result.case.name} ({result.outcome.seconds:.1f} s)",
                f"          expected {result.case.line}",
                f"          got {result.outcome.line}",
            ]
    for track in dict.fromkeys(result.track for result in results):
        some = [result for result in wrong if result.track == track]
        green = [result for result in right if result.track == track]
        lines.append(
            f"{track}: {sum(r.step_right for r in some)} of {len(some)} wrong ports red at the right step, "
            f"{sum(r.named for r in some)} named; {sum(r.step_right for r in green)} of {len(green)} right ports green"
        )
    lines.append(
        f"score: red at the right step {share(wrong, 'step_right'):.1%}, named {share(wrong, 'named'):.1%}, "
        f"right ports green {share(right, 'step_right'):.1%}"
    )
    return "\n".join(lines)


def share(results: Sequence[Result], what: str) -> float:
    """The share of `results` for which `what` holds; 1 where there are none."""
    return sum(getattr(result, what) for result in results) / len(results) if results else 1.0


def passed(results: Sequence[Result]) -> bool:
    """Whether the judge is good enough."""
    wrong = [result for result in results if isinstance(result.case, Mutant)]
    right = [result for result in results if isinstance(result.case, Right)]
    return share(wrong, "step_right") == 1 and share(wrong, "named") >= NAMED and share(right, "step_right") == 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Score the judge on wrong and right ports.")
    parser.add_argument("--track", choices=[track.name for track in TRACKS], help="one track only")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cases to run (default: all)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="an empty or new folder to work in, which is kept")
    parser.add_argument("--details", action="store_true", help="show what was said about every case")
    args = parser.parse_args()
    tracks = [track for track in TRACKS if args.track in (None, track.name)]
    started = time.perf_counter()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        results = run(args.keep.resolve(), tracks, args.only)
    else:
        with tempfile.TemporaryDirectory() as folder:
            results = run(Path(folder), tracks, args.only)
    print(report(results, args.details))
    print(f"{len(results)} ports in {time.perf_counter() - started:.0f} s")
    return 0 if passed(results) else 1


if __name__ == "__main__":
    sys.exit(main())
