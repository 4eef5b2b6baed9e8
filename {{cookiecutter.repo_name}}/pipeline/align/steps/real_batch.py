# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One batch of the reference's own data, saved for step 1."""

from __future__ import annotations

from pipeline.align.context import Context, collate, dataset_items
from pipeline.align.fake_data import write_batch


def save(context: Context) -> None:
    """Write the first `fake_data.batch_size` validation samples of the reference."""
    dataset = context.contract.build_dataset(context.cfg, "val")
    count = min(context.cfg.fake_data.batch_size, len(dataset))
    *inputs, label = collate(dataset_items(dataset, range(count), "val"), "val")
    batch = {f"input_{index}": value for index, value in enumerate(inputs)}
    write_batch(context.paths.real_batch, {**batch, "label": label})
