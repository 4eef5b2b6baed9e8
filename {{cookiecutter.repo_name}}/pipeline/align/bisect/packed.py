# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""torch's PackedSequence beside Paddle's padded sequences with lengths: the same steps, kept in another order.

A PackedSequence is seen as its fields: data [steps, ...], batch_sizes [T], sorted_indices and unsorted_indices [N] or none.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.align.bisect.store import Capture

FIELDS = ("batch_sizes", "sorted_indices", "unsorted_indices")


@dataclass(frozen=True)
class Packing:
    """How the rows of a packed tensor lie: `sizes[t]` sequences have a step t; `order`: of the sequences."""

    sizes: np.ndarray
    order: np.ndarray

    def pack(self, padded: np.ndarray) -> list[np.ndarray]:
        """`padded`, read as [N, T, ...] and as [T, N, ...], packed in this way; where the sizes fit."""
        found = []
        for batch, time in ((0, 1), (1, 0)):
            if padded.ndim > 1 and padded.shape[batch] == len(self.order) and padded.shape[time] >= len(self.sizes):
                by_time = padded if time == 0 else padded.swapaxes(0, 1)
                found.append(np.concatenate([by_time[step, self.order[:size]] for step, size in enumerate(self.sizes)]))
        return found


def packings(capture: Capture) -> dict[int, Packing]:
    """{number of a value's data: its packing} of the data of every PackedSequence that a call took or returned."""
    found = {}
    for call in capture.index["calls"]:
        for tensors in (call["inputs"], call["outputs"]):
            values = {name: value for name, value, *_ in tensors}
            for name, value in values.items():
                sizes = values.get(_sibling(name, "batch_sizes")) if name.rpartition(".")[2] == "data" else None
                if sizes is not None:
                    steps, order = capture.value(sizes), values.get(_sibling(name, "sorted_indices"))
                    rows = np.arange(steps[0]) if order is None else capture.value(order)
                    found[capture.index["values"][value]["data"]] = Packing(steps, rows)
    return found


def without_fields(tensors: Sequence[Sequence]) -> list[Sequence]:
    """The [name, value, ...] lists of a call without what only describes a PackedSequence."""
    names = {one[0] for one in tensors}
    return [one for one in tensors if not (one[0].rpartition(".")[2] in FIELDS and _sibling(one[0], "data") in names)]


def _sibling(name: str, field: str) -> str:
    return f"{name.rpartition('.')[0]}.{field}".lstrip(".")
