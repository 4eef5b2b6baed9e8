# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Convert weights between torch and Paddle: by module type, all or nothing, streamed, in both directions.

    tree = describe_torch.describe(model)            # in the torch process; describe_paddle.describe in the other
    made = plan(torch_tree, paddle_tree, user_map)   # neutral: one row per tensor, or an error that says what to do
    convert_file(made, "reference.pth", "paddle.safetensors")          # or to="torch"
    made.apply(arrays), made.apply_back(arrays)      # the same maps on any arrays, such as gradients
    load_into_paddle(model, path), load_into_torch(model, path)        # strict (load_paddle.py, load_torch.py)

Nothing here imports a framework, except the modules named *_torch.py and *_paddle.py.
"""

from __future__ import annotations

from pipeline.align.convert import rules_sequence  # noqa: F401  (its rules are part of the table)
from pipeline.align.convert.checkpoint import read_source
from pipeline.align.convert.files import Fresh, convert_file, save_port, save_reference
from pipeline.align.convert.plan import Plan, plan
from pipeline.align.convert.rules import register

__all__ = ["Fresh", "Plan", "convert_file", "plan", "read_source", "register", "save_port", "save_reference"]
