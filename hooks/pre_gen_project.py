# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Refuse, with one line, answers that cannot give a working repository (cookiecutter then removes the empty folder)."""
import json
import sys

answers = json.loads(r"""{{ cookiecutter | tojson }}""")

if answers["__empty_names"]:
    name = answers["__empty_names"].split()[0]
    sys.exit(f"{name} must contain at least one letter or digit: choose another {name}.")
