# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m pipeline lint`: constructs of the port that run but mean something else than in torch.

    findings = lint([paths.tree("paddle")], cfg.to_dict(), paths.root)

Only the syntax tree is read: nothing of the port is imported or run. The rules' words are in the table (facts*.py), what
to look for in checks_*.py.
"""

from __future__ import annotations

from pipeline.align.lint.run import Finding, lint, summary

__all__ = ["Finding", "lint", "summary"]
