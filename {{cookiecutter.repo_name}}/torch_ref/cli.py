# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the command lines of this folder share."""
from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from pipeline.align.errors import PortError, UserError
from pipeline.align.paths import ROOT
from pipeline.align.settings import Settings, load_settings


class Parser(argparse.ArgumentParser):
    """A parser whose every complaint is one line, and that names the nearest known option for an unknown one."""

    def __init__(self, description: str):
        super().__init__(description=description, allow_abbrev=False)

    def parse_args(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """The arguments of the command line; UserError where something is wrong with them."""
        arguments, unknown = self.parse_known_args(words)
        if unknown:
            name = unknown[0].partition("=")[0]
            near = difflib.get_close_matches(name, self._option_string_actions, 1)
            raise UserError(f"unknown option {name}" + (f"; did you mean {near[0]}?" if near else "; see --help"))
        return arguments

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see --help")


def make_parser(description: str) -> Parser:
    """A parser with the options -c and -o."""
    parser = Parser(description)
    parser.add_argument("-c", "--config", default=ROOT / "port.yaml", help="settings file (default: port.yaml)")
    parser.add_argument(
        "-o", "--override", nargs="+", action="extend", default=[], metavar="KEY.SUB=VALUE", help="change settings"
    )
    return parser


def read_settings(arguments: argparse.Namespace) -> Settings:
    """The settings that -c and -o ask for."""
    return load_settings(arguments.config, arguments.override)


def run(command: Callable[[], None]) -> int:
    """Call `command`. Returns the exit status: 0, 1 where the port failed, 2 for bad input, each with one line."""
    try:
        command()
    except (PortError, UserError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1 if isinstance(error, PortError) else 2
    return 0
