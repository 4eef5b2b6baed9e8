# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The table: every fact, by its id."""

from __future__ import annotations

from pipeline.align.lint.fact import Fact
from pipeline.align.lint.facts_code import CODE
from pipeline.align.lint.facts_layers import LAYERS
from pipeline.align.lint.facts_losses import LOSSES
from pipeline.align.lint.facts_training import TRAINING

TABLE: dict[str, Fact] = {fact.id: fact for fact in (*LOSSES, *LAYERS, *TRAINING, *CODE)}
