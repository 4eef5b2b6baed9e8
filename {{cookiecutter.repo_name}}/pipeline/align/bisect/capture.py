# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The capture loop: training steps of one side with everything that its modules take and return, on disk.

An index (see store.py) describes one step:
    side, mode, step
    calls     in order of their start: {"path", "kind": class, "training", "graph": whether one is built, "parent": call or
              -1, "start", "end": times, null where it failed, "inputs": [[name, value, share or null]...], "outputs":
              [[name, value]...]}; the paths "@forward" and "@loss" are the contract's
    values    {"data": number of the value that holds the numbers, "needs_grad"}
    tensors   "v<value>" and its gradient "g<value>", "s<call>.<share>" a module's share of an input's gradient,
              "p.<name>" gradient, "b.<name>" and "a.<name>" state before (first step) and after the optimizer step
    noise     {key: root mean square}: how far rounding errors in weights and inputs carry (see distance.py)
    jumps     {key: root mean square}: the same for what moves by jumps (see store.Meter)
    trainable {parameter: bool}, buffers [name...], aliases {module path: first path}, learning_rates, optimizer, loss,
    random    null or the call whose code first draws random numbers: {path, kind, before: inner call or null}; `held`: whether
              that is over once both sides draw the same random tensors, as in the captures of train mode
    silenced  [function...], guards [note...], failed null or text
"""
from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.align import provenance
from pipeline.align.bisect.store import Capture, Meter, Writer, stem
from pipeline.align.bisect.tap import Breadcrumb, Tap
from pipeline.align.context import Context
from pipeline.align.contract import describe_error
from pipeline.align.convert.tree import hyperparameters
from pipeline.align.optimizers import Optimizers
from pipeline.align.steps.step4 import steps_per_epoch

#: Iterations of the learning rate that are looked at, and the length of an epoch where the data set cannot be opened.
MOST_RATES, ASSUMED_STEPS = 20000, 100
#: Disturbances, in units of rounding.
SCALES = (1, 512)
#: Two runs with other random numbers differ by more than this part of their size.
RANDOM = 1e-4
#: How many closures inside each other are looked into for the settings of a loss.
CLOSURES = 4


def run(context: Context, mode: str, steps: int) -> None:
    """Capture `steps` training steps in "eval" or "train" mode, dropout at 0 in the latter.

    With "eval" also steps of the optimizer alone ("given"), whose gradients are drawn and not the model's: large enough for
    clipping, and never zero.
    """
    _Run(context, mode).all(steps)
    if mode == "eval":
        _Run(context, "given").all(steps)


class _Run:
    def __init__(self, context: Context, mode: str):
        self.context, self.backend, self.mode = context, context.backend, mode
        self.hooks = importlib.import_module(f"pipeline.align.bisect.capture_{context.side}")
        self.optimizers = importlib.import_module(f"pipeline.align.bisect.optimizer_{context.side}")
        self.crumb = Breadcrumb(context.paths.work / context.side / "bisect" / f"{mode}_breadcrumb")
        self.batch = context.fake_batch()
        self.fixed: dict[str, Any] = {"side": context.side, "mode": mode, "random": None}

    def all(self, steps: int) -> None:
        self.crumb.drop(f"{self.mode} mode, preparation")
        stems = [stem(self.context.paths, self.context.side, self.mode, step) for step in range(steps)]
        self._steps([Writer(path) for path in stems], 0)
        if self.mode != "given":
            first = Capture(stems[0])
            first.index["random"] = self._first_random()
            provenance.write_json(first.path.with_suffix(".json"), first.index)
        for scale in SCALES:
            self._steps([Meter(Capture(path), scale) for path in stems], scale)

    def _steps(self, sinks: Sequence[Writer | Meter], scale: float) -> None:
        """`scale`: disturb weights and inputs by so many rounding errors, to see how far these carry in this network."""
        model, batch = self.context.model(self.mode == "train"), self.batch
        if scale:
            random = np.random.default_rng(self.context.cfg.align.seed)
            self.hooks.disturb(model, scale, random)
            batch = (*(_disturbed(array, scale, random) for array in batch[:-1]), batch[-1])
        tensors, loss = self.context.tensors(batch), self.context.contract.build_loss(self.context.cfg)
        optimizers, rates = self._at_peak(model)
        for step, sink in enumerate(sinks):
            described = self._described(optimizers, model)
            index = {**self.fixed, "step": step, "learning_rates": rates, "optimizer": described}
            self.backend.seed(self.context.cfg.align.seed + step)
            self._step(model, tensors, loss, optimizers, sink, index)

    def _step(
        self, model: Any, tensors: tuple, loss: Any, optimizers: Optimizers, sink: Writer | Meter, index: dict[str, Any]
    ) -> None:
        where = f"{self.mode} mode, step {index['step'] + 1}"
        tap = Tap(self.hooks, model, sink.put, self.backend.numpy, self.crumb, where)
        index.update(calls=tap.calls, values=tap.values, failed=None, aliases=self.hooks.aliases(model))
        try:
            if index["step"] == 0:
                _put(sink, "b", self.context.state(model))
            if self.mode == "given":
                self.backend.set_gradients(model, self.context.given_gradients(model, index["step"]))
            else:
                self._pass(model, tensors, loss, tap)
            _put(sink, "p", self.context.gradients(model))
            self.crumb.drop(f"{where}, optimizer step")
            optimizers.step()
            _put(sink, "a", self.context.state(model))
        except Exception as error:
            index["failed"] = describe_error(error, self.context.paths)
            raise
        finally:
            index.update(
                trainable=self.hooks.trainable(model), buffers=sorted(self.backend.buffer_names(model)),
                silenced=sorted(self.backend.random.silenced), guards=sorted(self.backend.guards),
                loss=_settings_of(loss, self.backend.is_model),
            )  # fmt: skip
            sink.close(index)

    def _pass(self, model: Any, tensors: tuple, loss: Any, tap: Tap) -> None:
        """One forward and one backward pass that `tap` listens to."""
        with self._quiet(model):
            with tap:
                batch, _ = tap.outer("@forward", *tensors)
                outputs = self.context.contract.forward(model, batch)
                tap.outer_end(outputs)
                _, given = tap.outer("@loss", outputs=outputs, labels=tensors[-1])
                value = loss(given["outputs"], given["labels"])
                tap.outer_end(value)
            value.backward()

    def _quiet(self, model: Any, draws: bool = True) -> contextlib.AbstractContextManager:
        return self.backend.without_randomness(model, draws) if self.mode == "train" else contextlib.nullcontext()

    def _described(self, optimizers: Optimizers, model: Any) -> dict[str, Any]:
        """All optimizers as one: their kinds, the first clipping, and the settings of every parameter."""
        found = [self.optimizers.describe(optimizer, model) for optimizer, _ in optimizers.pairs.values()]
        parameters: dict[str, dict[str, Any]] = {}
        for which, one in zip(optimizers.pairs, found):
            for name, settings in one["parameters"].items():
                owners = [parameters[name]["optimizers"]] if name in parameters else []
                parameters[name] = {**settings, "optimizers": " and ".join([*owners, which])}
        clips = [one["clip"] for one in found if one["clip"]]
        kind = " and ".join(dict.fromkeys(one["kind"] for one in found))
        return {"kind": kind, "clip": clips[0] if clips else None, "parameters": parameters, "names": list(optimizers.pairs)}

    def _at_peak(self, model: Any) -> tuple[Optimizers, list[float]]:
        """Optimizers at the highest learning rate, where a fault shows, and the rates of every iteration, one after the other."""
        context = self.context
        try:
            steps = steps_per_epoch(context)
        except Exception:  # the data set is another step's business
            steps = ASSUMED_STEPS
        optimizers = context.contract.build_optimizer(context.cfg, model, steps)
        rates = [list(optimizers.rates().values())]
        while optimizers.moves and len(rates) < min(MOST_RATES, steps * context.cfg.train.epochs):
            optimizers.advance()
            rates.append(list(optimizers.rates().values()))
        curves = np.array(rates).T
        optimizers = context.contract.build_optimizer(context.cfg, model, steps)
        for _ in range(int(sum(curve / max(curve.max(), 1e-30) for curve in curves).argmax())):
            optimizers.advance()
        return optimizers, curves.ravel().tolist()

    def _first_random(self) -> dict[str, Any] | None:
        """The first call that gives other outputs for the same inputs when the random numbers change."""
        if not _differ(*(self._outputs(seed) for seed in (1, 2))):
            return None
        held = self.mode == "train" and not _differ(*(self._outputs(seed, draws=True) for seed in (1, 2)))
        path = stem(self.context.paths, self.context.side, self.mode, 0).with_name(f"{self.mode}_random")
        index: dict[str, Any] = {}
        for seed in (1, 2):
            sink = Writer(path) if seed == 1 else Meter(Capture(path), 1)
            tap = Tap(
                self.hooks, self.context.model(self.mode == "train"), sink.put, self.backend.numpy, self.crumb, "random numbers"
            )
            self._outputs(seed, tap)
            index = {"calls": tap.calls, "values": tap.values}
            sink.close(index)
        noise = Capture(path).noise
        for file in (path.with_suffix(".bin"), path.with_suffix(".json")):
            file.unlink()

        def moves(tensors: list) -> bool:
            return any(noise.get(f"v{index['values'][value]['data']}", 0.0) for _, value, *_ in tensors)

        events = [(call["start"], call, "inputs") for call in index["calls"]]
        events += [(call["end"], call, "outputs") for call in index["calls"] if call["end"]]
        for _, call, what in sorted(events, key=lambda event: event[0]):
            if moves(call[what]):
                parent = index["calls"][call["parent"]] if what == "inputs" else call
                before = call["path"] if what == "inputs" else None
                return {"path": parent["path"], "kind": parent["kind"], "before": before, "held": held}
        return None

    def _outputs(self, seed: int, tap: Tap | None = None, draws: bool = False) -> dict[str, np.ndarray]:
        model = tap.model if tap else self.context.model(self.mode == "train")
        self.backend.seed(self.context.cfg.align.seed + seed)
        with self._quiet(model, draws), self.backend.no_grad(), tap or contextlib.nullcontext():
            tensors = self.context.tensors(self.batch)
            if tap:
                tensors, _ = tap.outer("@forward", *tensors)
            outputs = self.context.contract.forward(model, tensors)
            if tap:
                tap.outer_end(outputs)
        return {name: self.backend.numpy(value) for name, value in outputs.items()}


def _put(sink: Writer | Meter, prefix: str, arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        sink.put(f"{prefix}.{name}", array)


def _disturbed(array: np.ndarray, scale: float, random: np.random.Generator) -> np.ndarray:
    """A float array moved by up to 2 `scale` units in the last place."""
    if array.dtype.kind != "f":
        return array
    return (array * (1 + 2 * scale * np.finfo(array.dtype).eps * random.uniform(-1, 1, array.shape))).astype(array.dtype)


def _differ(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    def far(a: np.ndarray, b: np.ndarray) -> bool:
        if a.shape != b.shape or a.dtype.kind not in "fc":
            return a.shape != b.shape or bool((a != b).any())
        return bool(np.linalg.norm((a - b).ravel()) > RANDOM * np.linalg.norm(a.ravel()))

    return any(far(first[name], second[name]) for name in first.keys() & second.keys())


def _settings_of(value: Any, is_model: Callable[[Any], bool], depth: int = 0) -> dict[str, Any]:
    """Simple settings of a loss: attributes of the loss modules, and plain values, that its closures hold."""
    if is_model(value):
        return {name.lstrip("_"): setting for name, setting in hyperparameters(vars(value)).items()}
    found: dict[str, Any] = {}
    code, cells = getattr(value, "__code__", None), getattr(value, "__closure__", None)
    for name, cell in zip(code.co_freevars if code else (), cells or ()) if depth < CLOSURES else ():
        inside = cell.cell_contents
        if isinstance(inside, (bool, int, float, str)):
            found[name] = inside
        else:
            found.update(_settings_of(inside, is_model, depth + 1))
    return found
