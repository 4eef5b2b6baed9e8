# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The chain paddle2onnx: 13 lines, two commands."""
from __future__ import annotations

from pathlib import Path

from test_tipc.driver.errors import TipcError
from test_tipc.driver.grammar import OFF, Entry, Lines
from test_tipc.driver.plan import OUTPUT, Command

LENGTH = 13
KEYS = {2: ("model_name",), 3: ("python",), 4: ("2onnx",), 11: ("inference",)}


def read_plan(path: Path) -> tuple[str, list[Command]]:
    """(interpreter, commands) of a configuration. TipcError says what is wrong and where."""
    lines = Lines(path)
    try:
        lines.require(LENGTH, "a paddle2onnx configuration")
        lines.require_layout((1,), (), KEYS)
        for number in (3, 4, 8, 11):
            if lines[number].value in OFF:
                raise TipcError(f"line {number}: {lines[number].key} is empty")
        model = _model_file(lines[5], lines[6])
        # Without the weights paddle2onnx writes a network that has none, and exits with 0.
        folder, weights = Path(lines[5].value), lines[7].value
        if weights not in OFF and (folder / model).is_file() and not (folder / weights).is_file():
            raise TipcError(f"line 7: {lines[5].value} has {model} but no {weights}; export the model again")
    except TipcError as error:
        raise TipcError(f"{path}: {error}") from None
    python = lines[3].value
    flags = [lines[5].flag(), lines[6].flag(model), *(lines[number].flag() for number in range(7, 11))]
    infer = [python, lines[11].value, lines[13].flag(), lines[12].flag(lines[8].value)]
    return python, [
        Command("convert", "onnx", " ".join([lines[4].value, *flags])),
        Command("inference", "onnx", " ".join(infer), f"{OUTPUT}/paddle2onnx_infer_cpu.log", needs=0),
    ]


def _model_file(folder: Entry, file: Entry) -> str:
    """The model's file name: Paddle 3 writes .json where older configurations name .pdmodel."""
    named = Path(folder.value, file.value)
    newer = named.with_suffix(".json")
    return newer.name if named.suffix == ".pdmodel" and not named.exists() and newer.exists() else file.value
