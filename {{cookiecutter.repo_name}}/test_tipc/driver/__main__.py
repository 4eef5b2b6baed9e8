# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m test_tipc.driver <chain> CONFIG MODE`: what the shell scripts beside this folder call.

Exit status: 0 everything ran and succeeded; 1 a command failed or was not run; 2 the configuration, an argument or the
environment is wrong, and nothing was run.
"""
from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from test_tipc.driver import onnx_chain, prepare, record, run
from test_tipc.driver.config import read_config
from test_tipc.driver.errors import TipcError
from test_tipc.driver.grammar import MODES
from test_tipc.driver.plan import Command, make_plan

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "test_tipc" / "output"


def main(chain: str, arguments: list[str]) -> int:
    try:
        return CHAINS[chain](arguments)
    except TipcError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def _parser(script: str, text: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"bash test_tipc/{script}", description=text)
    parser.add_argument("config", type=Path, help="configuration file")
    return parser


def _train_infer(arguments: list[str]) -> int:
    parser = _parser("test_train_inference_python.sh", "Training, evaluation, export and inference.")
    parser.add_argument("mode", help=", ".join(MODES))
    parser.add_argument("gpu_id", nargs="?", default="", help="CUDA_VISIBLE_DEVICES for the modes that do not train")
    parser.add_argument("--strict", action="store_true", help="commands that lack a GPU count as failed")
    args = parser.parse_args(arguments)
    config = read_config(args.config, args.mode)
    for warning in config.warnings:
        print(f"warning: {args.config}: {warning}", file=sys.stderr)
    prepare.warn_if_prepared_otherwise(ROOT, args.mode)
    return _run(args.config, args.mode, config.python, make_plan(config, args.gpu_id), "results_python", args.strict)


def _paddle2onnx(arguments: list[str]) -> int:
    parser = _parser("test_paddle2onnx.sh", "Conversion to ONNX, and inference with it.")
    parser.add_argument("mode", nargs="?", default=prepare.ONNX_MODE, choices=[prepare.ONNX_MODE], help="the only one")
    args = parser.parse_args(arguments)
    python, plan = onnx_chain.read_plan(args.config)
    return _run(args.config, args.mode, python, plan, "results_paddle2onnx")


def _prepare(arguments: list[str]) -> int:
    parser = _parser("prepare.sh", "Check a configuration, install what is missing, lay out the data.")
    parser.add_argument("mode", help=", ".join((*MODES, prepare.ONNX_MODE)))
    args = parser.parse_args(arguments)
    prepare.prepare(ROOT, args.config, args.mode)
    return 0


CHAINS = {"train_infer": _train_infer, "paddle2onnx": _paddle2onnx, "prepare": _prepare}


def _run(config: Path, mode: str, python: str, plan: list[Command], name: str, strict: bool = False) -> int:
    _check_python(python)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    record_file = OUTPUT / f"{name}.json"
    expectation = record.write_expectation(record_file, ROOT, config, mode, plan)
    started = time.monotonic()
    results = run.run_plan(ROOT, plan, OUTPUT / f"{name}.log", OUTPUT / f"logs_{name}")
    expectation["seconds"] = round(time.monotonic() - started, 1)
    record.write_json(record_file, expectation)
    print(f"\n{run.table(results)}total time: {expectation['seconds']:.1f} s; status lines in test_tipc/output/{name}.log")
    if all(run.lacks_only_gpus(result) for result in results):
        print("warning: nothing was run: every command needs a GPU", file=sys.stderr)
    return run.exit_status(results, strict)


def _check_python(python: str) -> None:
    """TipcError where line 3 names no program."""
    program = python.split()[0]
    if not shutil.which(program):
        raise TipcError(f"line 3: the interpreter {program!r} is not there; write the one that has Paddle")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
