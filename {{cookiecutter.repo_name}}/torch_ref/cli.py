# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the command lines of this folder share."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from pipeline.align.errors import PortError, UserError
from pipeline.align.paths import ROOT
from pipeline.align.settings import Settings, load_settings


def make_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options -c and -o."""
    parser = argparse.ArgumentParser(description=description)
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
