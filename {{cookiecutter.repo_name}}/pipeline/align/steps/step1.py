# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Step 1, model structure: every named output in eval mode, from the same weights and the same batch."""

from __future__ import annotations

import numpy as np

from pipeline.align.context import Context
from pipeline.align.errors import PortError, UserError
from pipeline.align.fake_data import read_batch


def run(context: Context) -> None:
    """Record `forward`, and `forward_real` where a batch of the reference's data was saved."""
    model = context.model()
    _record(context, model, "forward", context.fake_batch())
    if context.paths.real_batch.is_file():
        _record(context, model, "forward_real", read_batch(context.paths.real_batch))


def _record(context: Context, model, part: str, batch: tuple[np.ndarray, ...]) -> None:
    context.backend.set_mode(model, training=False)
    before = context.backend.training_modules(model)
    outputs, dtypes = context.forward(model, context.tensors(batch))
    again, _ = context.forward(model, context.tensors(batch))
    left_on = sorted({*before, *context.backend.training_modules(model)})
    _check_sizes(batch, outputs)
    random = [name for name in outputs if not np.array_equal(outputs[name], again.get(name), equal_nan=True)]
    context.record(part, outputs, dtypes=dtypes, eval_mode={"training_modules": left_on, "random_outputs": random})


def _check_sizes(batch: tuple[np.ndarray, ...], outputs: dict[str, np.ndarray]) -> None:
    """A batch as long as another axis would let a wrong axis pass (CASES L1)."""
    size = len(batch[-1])
    for name, value in outputs.items():
        if value.ndim == 0 or value.shape[0] != size:
            raise PortError(f"output '{name}' has shape {list(value.shape)}; its first axis must be the batch of {size}")
        if size > 1 and size in value.shape[1:]:
            raise UserError(
                f"port.yaml: fake_data.batch_size {size} equals another axis of output '{name}' {list(value.shape)}, "
                "so that a wrong axis could pass; choose another batch_size"
            )
