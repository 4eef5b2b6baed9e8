# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What one side's process has at hand while it runs the steps: settings, contract, weights, batches, records."""

from __future__ import annotations

import json
import math
import sys
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align import provenance, records
from pipeline.align.contract import Contract
from pipeline.align.convert import Plan
from pipeline.align.convert.tree import Tree
from pipeline.align.errors import PortError, UserError
from pipeline.align.fake_data import read_batch
from pipeline.align.paths import Paths
from pipeline.align.settings import Settings

OTHER = {"torch": "paddle", "paddle": "torch"}
#: Standard deviation of the gradients that the optimizer alone is tried with, in a large network, and their norm in a small
#: one, above what is usually clipped.
GIVEN_SCALE, GIVEN_NORM = 0.01, 20.0


class Context:
    """One side. `backend`: backend_torch.Backend or backend_paddle.Backend."""

    def __init__(self, paths: Paths, cfg: Settings, backend: Any, side: str):
        self.paths, self.cfg, self.backend, self.side = paths, cfg, backend, side
        self.contract = Contract(paths, side, backend)
        self.started = time.perf_counter()
        self._aliases: Mapping[str, str] | None = None

    def build_model(self) -> Any:
        """A fresh model from the seed of the settings."""
        self.backend.seed(self.cfg.align.seed)
        return self.contract.build_model(self.cfg)

    def model(self, training: bool = False) -> Any:
        """The model with the probe weights, in the mode asked for."""
        weights = self.weights
        model = self.build_model()
        self.backend.load(model, weights)
        self.backend.set_mode(model, training)
        return model

    @property
    def weights(self) -> Path:
        """This side's probe weights."""
        path = self.paths.weight_file(self.side, "probe")
        if not path.is_file():
            raise UserError(f"{path.relative_to(self.paths.root)} is missing; run: python -m pipeline convert")
        return path

    def fake_batch(self) -> tuple[np.ndarray, ...]:
        """The fake batch as numpy arrays, label last."""
        return read_batch(self.paths.fake_batch)

    def tensors(self, batch: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        """A batch as tensors of this side."""
        return tuple(self.backend.tensor(array) for array in batch)

    def forward(self, model: Any, batch: tuple[Any, ...]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """The named outputs as numpy, without a graph, and {name: "bfloat16"} of those that numpy cannot hold as they are."""
        with self.backend.no_grad():
            outputs = self.contract.forward(model, batch)
        arrays = {name: self.backend.numpy(value) for name, value in outputs.items()}
        return arrays, {name: "bfloat16" for name, value in outputs.items() if str(value.dtype).endswith("bfloat16")}

    def state(self, model: Any) -> dict[str, np.ndarray]:
        """Every parameter and buffer once, by its first state_dict name."""
        return self._once(model, self.backend.state(model))

    def gradients(self, model: Any) -> dict[str, np.ndarray]:
        """The gradients that exist, by first name."""
        return self._once(model, {name: value for name, value in self.backend.gradients(model).items() if value is not None})

    def _once(self, model: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self._aliases is None:
            self._aliases = Tree(self.backend.describe(model)).aliases
        return {self._aliases.get(name, name): value for name, value in arrays.items()}

    def source_weights(self) -> Path:
        """The reference's probe weights, from which both sides' are made."""
        return self.paths.weight_file("torch", "probe")

    def record(self, part: str, arrays: Mapping[str, np.ndarray], weights: bool = True, **more: Any) -> None:
        """Write the record of a part with its provenance; `more` is added to the provenance.

        `weights`: the record depends on the probe weights, named by the reference's file on both sides.
        """
        if OTHER[self.side] in sys.modules:
            raise PortError(
                f"{self.contract.file} or what it imports has imported {OTHER[self.side]}; the two sides meet only in files"
            )
        inputs = {"fake_batch": self.paths.fake_batch}
        if weights:
            inputs["weights"] = self.source_weights()
        if self.backend.guards:
            more["guards"] = sorted(self.backend.guards)
        made = provenance.make(self.paths, self.cfg, self.backend, part, inputs, **more)
        made["seconds"] = round(time.perf_counter() - self.started, 3)
        path = self.paths.part(self.side, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        records.write_record(path, dict(arrays), made)

    def given_gradients(self, model: Any, step: int) -> dict[str, np.ndarray]:
        """Seeded gradients by this side's names: drawn in the reference's layout, converted for the port."""
        plan = None
        if self.side == "paddle":
            plan = Plan.from_json(json.loads(self.paths.conversion.read_text(encoding="utf-8")))
        shapes = plan.torch_parameters() if plan else self.backend.parameter_shapes(model)
        total = sum(math.prod(shape) for shape in shapes.values())
        scale = max(GIVEN_SCALE, GIVEN_NORM / math.sqrt(max(1, total)))
        drawn = {}
        for name, shape in shapes.items():
            random = np.random.default_rng([self.cfg.align.seed, step, zlib.crc32(name.encode())])
            drawn[name] = (scale * random.standard_normal(shape)).astype(np.float32)
        return plan.apply(drawn) if plan else drawn

    def other(self, part: str) -> dict[str, np.ndarray]:
        """The arrays that the reference recorded for `part`, for what both sides must start from."""
        path = self.paths.part("torch", part)
        if not path.is_file():
            raise UserError(f"{path.relative_to(self.paths.root)} is missing; run the torch side of this step first")
        return records.read_record(path).arrays


def dataset_items(dataset: Any, indices: Any, name: str) -> list[tuple]:
    """The items at `indices`, checked to be (inputs…, label) tuples."""
    items = []
    for index in indices:
        item = dataset[int(index)]
        if not isinstance(item, tuple) or len(item) < 2:
            raise PortError(f"item {index} of the {name} dataset is a {type(item).__name__}; it must be a tuple (inputs…, label)")
        items.append(item)
    return items


def collate(items: list[tuple], name: str) -> tuple[np.ndarray, ...]:
    """Items stacked along a new first axis, field by field."""
    try:
        return tuple(np.stack([np.asarray(field) for field in column]) for column in zip(*items, strict=True))
    except ValueError as error:
        raise PortError(f"items of the {name} dataset do not stack into a batch: {error}") from None
