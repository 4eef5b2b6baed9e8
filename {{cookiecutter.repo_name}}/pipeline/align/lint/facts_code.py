# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Facts about how the port's code is written."""

from __future__ import annotations

from pipeline.align.lint.fact import Fact

CODE = (
    Fact(
        "torch-import",
        ("import", "torch"),
        "the port needs torch to run, and what torch computes is not ported",
        "Paddle only in paddle/, torch only in torch_ref/",
        "both together take 467 MB, Paddle alone 287 MB",
        None,
        0,
        "write it with Paddle or numpy",
    ),
    Fact(
        "package-init",
        ("import", "__init__", "paddle"),
        "an __init__.py makes the folder paddle/ a package that hides the framework: import paddle finds the folder",
        "no __init__.py in paddle/ itself; below it is fine",
        "import paddle then has no nn",
        None,
        0,
        "delete the file",
    ),
    Fact(
        "view",
        ("view", "reshape"),
        "Tensor.view() raises for tensors that are not contiguous, breaks export, and with a dtype it reinterprets bytes",
        "reshape([...])",
        "a transposed tensor: ValueError",
        None,
        0,
        "use .reshape([...])",
    ),
    Fact(
        "float-tensor",
        ("float", "item"),
        "float() and int() of a tensor with an axis raise with numpy 2.4, even for one element",
        "tensor.item()",
        "float(paddle.to_tensor([1.5])): TypeError",
        None,
        0,
        "use .item()",
    ),
    Fact(
        "median",
        ("median",),
        "of an even number of values Paddle's median is the mean of the middle two, torch's the lower one",
        'mode="min"',
        "1, 2, 3, 4: they differ by {n}",
        0.5,
        0,
        'pass mode="min"',
    ),
    Fact(
        "split",
        ("split", "chunk"),
        "a number given to split is the size of a part in torch and the number of parts in Paddle",
        "paddle.chunk, or a list of sizes",
        "6 values, split by 2: Paddle returns {n} parts, torch 3",
        2.0,
        0,
    ),
)
