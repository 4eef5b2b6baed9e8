# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 3, loss: of the own forward pass, and of the reference's outputs together with its gradient."""

from __future__ import annotations

import numpy as np

from pipeline.align.context import Context
from pipeline.align.errors import PortError


def run(context: Context) -> None:
    """Record `loss` and `loss_same` (the loss and its gradient with respect to every output)."""
    batch, backend = context.fake_batch(), context.backend
    tensors = context.tensors(batch)
    loss_function = context.contract.build_loss(context.cfg)
    model = context.model()
    with backend.no_grad():
        loss = loss_function(context.contract.forward(model, tensors), tensors[-1])
    left_on = backend.training_modules(model)
    context.record("loss", {"loss": backend.numpy(loss)}, eval_mode={"training_modules": left_on})

    leaves = {name: backend.leaf(np.array(value)) for name, value in context.other("forward").items()}
    loss = loss_function(leaves, tensors[-1])
    arrays = {"loss": backend.numpy(loss)}
    loss.backward()
    for name, leaf in leaves.items():
        gradient = backend.gradient(leaf)
        if gradient is not None:
            arrays[f"gradient.{name}"] = backend.numpy(gradient)
    if len(arrays) == 1:
        raise PortError(f"the loss of {context.contract.file} has no gradient with respect to any output")
    context.record("loss_same", arrays)
