# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m pipeline <command>`: the commands, their options and the exit status.

0: everything asked for passed. 1: a check failed. 2: the input or the environment is wrong. This module imports only
what every command needs, so that `status` and `check` start fast; each command imports the rest itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.align.errors import UserError
from pipeline.align.paths import SIDES, Paths
from pipeline.align.settings import Settings, load_settings

STEPS = (1, 2, 3, 4, 5)
NOTHING_FOUND = "no module differs: if a step is red, what does is made outside of them, in {} or in functions that they call"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace", line_buffering=True)
    try:
        paths = Paths()
        return args.command(args, paths, load_settings(paths.settings, args.override))
    except UserError as error:
        if args.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has closed, as in `… | head`
            sys.stderr.close()
            return 0
        print(f"error: {error.filename or ''}: {error.strerror or error}; nothing was judged", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "-o", dest="override", action="append", default=[], metavar="KEY.SUB=VALUE", help="change a setting of port.yaml"
    )
    common.add_argument("--debug", action="store_true", help="show tracebacks")
    parser = argparse.ArgumentParser(prog="python -m pipeline", description="Prove a port step by step against its reference.")
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, function, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, parents=[common], help=text, description=text)
        command.set_defaults(command=function)
        return command

    align = add("align", _align, "run and check steps 1 to 5 on both sides, and write the report")
    align.add_argument("steps", nargs="*", type=_step, metavar="STEP", help="steps to run (default: all)")
    run = add("run", _run, "run steps and record their numbers, without judging them")
    run.add_argument("steps", nargs="*", type=_step, metavar="STEP", help="steps to run (default: all)")
    run.add_argument("--side", choices=(*SIDES, "both"), default="both", help="which side to run (default: both)")
    check = add("check", _check, "judge the records of steps; exit status 1 where one is not green")
    check.add_argument("steps", nargs="*", type=_step, metavar="STEP", help="steps to check (default: all)")
    check.add_argument("--details", action="store_true", help="show every compared array, not only the failed ones")
    bisect = add("bisect", _bisect, "find the first module in which the port parts from its reference")
    bisect.add_argument("--mode", choices=("eval", "train"), help="look in one mode only (default: eval, then train)")
    bisect.add_argument("--json", action="store_true", help="print the finding as JSON")
    fake = add("fake-data", _fake_data, "write the fake batch that port.yaml describes")
    fake.add_argument("--from-reference", action="store_true", help="also save one batch of the reference's own data for step 1")
    convert = add("convert", _convert, "convert weights between the reference and the port")
    convert.add_argument("checkpoint", nargs="?", help="a checkpoint to convert (default: the reference as port.yaml builds it)")
    convert.add_argument("--output", help="where the converted weights go (.safetensors or .pdparams)")
    convert.add_argument("--entry", help="which dictionary of the checkpoint to use, where several fit")
    convert.add_argument("--trust-pickle", action="store_true", help="run the code that a checkpoint of unknown origin names")
    convert.add_argument("--to", choices=SIDES, default="paddle", help="direction (default: paddle)")
    compare = add("compare", _compare, "compare two record files of any origin")
    compare.add_argument("files", nargs=2, metavar="FILE")
    compare.add_argument("--threshold", type=float, default=1e-6, help="mean absolute difference that passes (default: 1e-6)")
    lint = add("lint", _lint, "name constructs of the port that mean something else than in torch")
    lint.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders (default: the port)")
    lint.add_argument("--json", action="store_true", help="print the findings as JSON")
    explain = add("explain", _explain, "what differs between the frameworks, what makes them agree, and how it was measured")
    explain.add_argument("subject", nargs="?", metavar="SUBJECT", help="such as batchnorm or adamw (default: list the subjects)")
    probe = add("probe", _probe, "run an untouched PyTorch program up to its first module call and show what the module gets")
    probe.add_argument("--module", default="", metavar="models.Net", help="class to wait for (default: the first with weights)")
    probe.add_argument("--cwd", type=Path, default=Path(), metavar="FOLDER", help="folder to run the program in (default: here)")
    probe.add_argument("--out", type=Path, metavar="FOLDER", help="write everything there (default: where step 1 looks for it)")
    probe.add_argument("words", nargs=argparse.REMAINDER, metavar="-- python their_train.py ARGS", help="the command to run")
    draft = add("draft", _draft, "translate PyTorch code with PaConvert, as a first draft of the port")
    draft.add_argument("source", type=Path, metavar="SOURCE", help="a .py file or a folder of the reference")
    draft.add_argument("--out", type=Path, metavar="FOLDER", help="where the draft goes (default: paddle/draft)")
    add("status", _status, "the six nodes and their state")
    add("report", _report, "write the report as HTML and Markdown")
    return parser


def _step(text: str) -> int:
    if text not in map(str, STEPS):
        raise argparse.ArgumentTypeError(f"there is no step {text!r}; steps are 1 to 5")
    return int(text)


def _sides(name: str) -> tuple[str, ...]:
    return SIDES if name == "both" else (name,)


def _run_jobs(args: argparse.Namespace, paths: Paths, cfg: Settings, jobs: dict[str, list[str]]) -> list[dict]:
    from pipeline.align import runner

    failures = runner.run(paths, cfg, jobs, args.override, args.debug)
    for failure in failures:
        print(f"error: {failure['side']} side, {failure['job']}: {failure['message']}", file=sys.stderr)
    return failures


def _run(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align.runner import jobs_for

    return 2 if _run_jobs(args, paths, cfg, jobs_for(args.steps or STEPS, _sides(args.side))) else 0


def _align(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align.runner import jobs_for
    from pipeline.align.todo import unwritten

    started, steps, todo = time.perf_counter(), args.steps or STEPS, unwritten(paths)
    if todo:  # a step runs once its functions are written on both sides
        steps = [step for step in steps if step < todo[0].step]
    if not steps:
        print(f"next: {todo[0].text}\nthen: python -m pipeline align")
        return 1
    failures = _run_jobs(args, paths, cfg, jobs_for(steps, SIDES))
    # weights that do not fit the port are a finding about the port, not bad input
    if any(failure["kind"] == "user" and failure["job"] != "convert" for failure in failures):
        return 2
    args.steps, args.details = steps, False
    status = _check(args, paths, cfg)
    if status and _differs_in_the_model(paths, steps):
        print("looking for the place:")
        args.mode, args.json = None, False
        _bisect(args, paths, cfg)
    _report(args, paths, cfg, quiet=True)
    print(f"{len(steps)} steps on both sides in {time.perf_counter() - started:.1f} s")
    if todo and not status:
        print(f"next: {todo[0].text}\nthen: python -m pipeline align")
    return 1 if todo and todo[0].step <= max(STEPS) else status


def _differs_in_the_model(paths: Paths, steps: Sequence[int]) -> bool:
    """Whether numbers of step 1, 3 or 4 differ, which bisect can trace to a module."""
    from pipeline.align.verdict_file import read_verdicts

    return any(
        node.step in (1, 3, 4) and node.step in steps and node.state == "red" and node.parts for node in read_verdicts(paths)[0]
    )


def _check(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align import check, table

    nodes = check.check(paths, cfg, args.steps or STEPS)
    print(table.details(nodes, everything=args.details) + table.summary(nodes))
    return 0 if all(node.state == "green" for node in nodes) else 1


def _bisect(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    import json

    from pipeline.align import bisect

    show = (lambda line: print(line, file=sys.stderr)) if args.json else print
    finding = bisect.run(paths, cfg, args.override, args.debug, args.mode, show)
    if args.json:
        print(json.dumps(finding.to_json() if finding else None, indent=1))
    else:
        print(bisect.text(finding) if finding else NOTHING_FOUND.format(paths.contract_file("paddle").relative_to(paths.root)))
    return 1 if finding else 0


def _fake_data(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align.fake_data import ensure_batch

    written = ensure_batch(cfg, paths.fake_batch)
    print(f"{paths.fake_batch.relative_to(paths.root)}: {'written' if written else 'up to date'}")
    if args.from_reference:
        if _run_jobs(args, paths, cfg, {"torch": ["batch"]}):
            return 2
        print(f"{paths.real_batch.relative_to(paths.root)}: written")
    return 0


def _convert(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    import json

    from pipeline.align.convert import Fresh, Plan, convert_file, read_source, table

    if args.checkpoint is None and (args.output or args.to != "paddle"):
        raise UserError("name the checkpoint to convert: python -m pipeline convert FILE --output FILE")
    if args.checkpoint is not None and not args.output:
        raise UserError(f"name the file to write: python -m pipeline convert {args.checkpoint} --output FILE")
    if _run_jobs(args, paths, cfg, {"torch": ["weights"], "paddle": ["convert"]}):
        return 2
    plan = Plan.from_json(json.loads(paths.conversion.read_text(encoding="utf-8")))
    if args.checkpoint is None:
        print(table.text(plan))
        return 0
    source = read_source(args.checkpoint, args.entry, args.trust_pickle)
    fresh = Fresh(tuple(cfg.weights.fresh or ()), paths.weight_file("torch", "init")) if args.to == "paddle" else None
    done = convert_file(plan, source, args.output, args.to, fresh)
    print(table.text(plan, done))
    print(f"{args.output}: written")
    return 0


def _compare(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align import table, verdict

    part = verdict.compare_files(Path(args.files[0]), Path(args.files[1]), args.threshold)
    print(table.part_lines(part, everything=True))
    return 0 if part.passed else 1


def _lint(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    import json

    from pipeline.align.lint import lint, summary

    findings = lint(args.paths or [paths.tree("paddle")], cfg.to_dict(), paths.root)
    if args.json:
        print(json.dumps([one.to_json() for one in findings], indent=1))
    else:
        print(*findings, summary(findings), sep="\n")
    return 1 if any(not one.note for one in findings) else 0


def _explain(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align.lint import explain

    print("\n".join(explain.subjects()) if args.subject is None else explain.text(args.subject))
    return 0


def _probe(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align import probe

    command = args.words[1:] if args.words[:1] == ["--"] else args.words
    probe.run(paths, cfg, command, args.cwd, args.module, args.out)
    return 0


def _draft(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align import draft

    return draft.run(paths, cfg, args.source, args.out or paths.tree("paddle") / "draft")


def _status(args: argparse.Namespace, paths: Paths, cfg: Settings) -> int:
    from pipeline.align import status, table
    from pipeline.align.todo import unwritten

    print(table.summary(status.read(paths, cfg)))
    for one in unwritten(paths):
        print(f"to do, for step {one.step}: {one.text}")
    return 0


def _report(args: argparse.Namespace, paths: Paths, cfg: Settings, quiet: bool = False) -> int:
    from pipeline.align import report, status

    html, markdown = report.build(paths.root, cfg.language, status.read(paths, cfg))
    if not quiet:
        print(markdown.read_text(encoding="utf-8"))
    print(f"report: {html.relative_to(paths.root)}")
    return 0
