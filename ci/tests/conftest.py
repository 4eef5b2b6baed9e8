# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Puts the generated repository, as it lies in the template, on sys.path: tests write `from pipeline.align import ...`."""
import os
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TEMPLATE = REPO / "{{cookiecutter.repo_name}}"

sys.path.insert(0, str(TEMPLATE))
# Byte code written inside the template would be copied into every repository generated from this folder.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
