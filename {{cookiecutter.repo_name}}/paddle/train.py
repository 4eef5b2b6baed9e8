# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Train: python paddle/train.py [-c port.yaml] [-o key.sub=value ...] [--weights FILE | --resume [FILE]]

Knows only the contract (port.py). Leaves in train.output_dir: best.safetensors, the weights with the best metric, and
latest.safetensors, the last weights with all that --resume needs. On several devices: python -m paddle.distributed.launch.
"""
from __future__ import annotations

import hashlib
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT))  # pipeline/ lies beside this folder

import ranks
from run_folder import RunFolder
from step import Stepper
from training_state import (
    generator_states,
    left_gradients,
    optimizer_arrays,
    restore_generators,
    restore_gradients,
    restore_optimizer,
    restore_scaler,
    scaler_state,
)

import port
from checkpoint import load_weights, read_training, save_training, save_weights
from cli import make_parser, read_settings, run
from eval import evaluate
from loader import Seeded, epoch_order, make_loader, split_order
from pipeline.align.errors import PortError, UserError
from pipeline.align.optimizers import by_name
from pipeline.align.settings import flatten
from progress import Bar, Progress, stamp

LATEST, BEST = "latest.safetensors", "best.safetensors"


def train(
    cfg: Any,
    weights: str | Path | None = None,
    output_dir: str | Path | None = None,
    log: Callable[[str], None] = print,
    resume: str | Path | None = None,
) -> dict[str, list]:
    """Train for train.epochs from `weights`, or from a fresh model, and evaluate on "val" after every epoch.

    Returns the history: iter, loss, lr (one value per iteration, the LR being that of the step), epoch, eval_loss, every
    metric and order_sha256 (one per epoch). `output_dir`: by default train.output_dir. `resume`: a checkpoint to go on
    from, or "latest" for the one in the output folder. Raises PortError where the loss is not finite.
    """
    ranks.choose_device(cfg.train.device)
    ranks.join()
    _seed(cfg.train.seed, cfg.train.deterministic)
    training = Training(cfg, Path(output_dir or ROOT / cfg.train.output_dir))
    notes = []
    if resume is not None:
        notes = training.restore(training.output / LATEST if resume == "latest" else Path(resume))
    elif weights is not None:
        load_weights(training.model, weights)
    folder = RunFolder(training.output, cfg, log, _environment(), ranks.rank() == 0, resumed=resume is not None)
    try:
        for note in notes:
            folder.log(stamp(note))
        training.run(folder)
    finally:
        folder.close()
    return training.history


class Training:
    """A training between two of its iterations: `epoch` and `position`, the finished iterations of that epoch, from 0."""

    def __init__(self, cfg: Any, output: Path):
        self.cfg, self.output = cfg, output
        self.model = port.build_model(cfg)
        self.train_set, self.val_set = (port.build_dataset(cfg, split) for split in ("train", "val"))
        self.steps = math.ceil(len(self.train_set) / (cfg.data.batch_size * ranks.count()))
        pairs = by_name(port.build_optimizer(cfg, self.model, self.steps))
        self.optimizers = {name: optimizer for name, (optimizer, _) in pairs.items()}
        self.schedules = {name: schedule for name, (_, schedule) in pairs.items() if schedule is not None}
        self.stepper = Stepper(cfg, self.model, self.optimizers)
        self.bar = Bar()
        self.epoch = self.position = 0
        self.best = math.nan
        self.history: dict[str, list] = {name: [] for name in ("iter", "loss", "lr", "epoch", "eval_loss", "order_sha256")}
        self._generators: dict[str, Any] | None = None

    def run(self, folder: RunFolder) -> None:
        """Train from where it stands to the end."""
        if self.cfg.train.amp and not self.stepper.amp:
            folder.log(stamp(f"train.amp: {self.cfg.train.amp} has no effect on the CPU: Paddle computes in float32 there"))
        while self.epoch < self.cfg.train.epochs:
            order = epoch_order(len(self.train_set), self.cfg.train.seed, self.epoch)
            self._train_epoch(order, folder)
            loss, scores = evaluate(self.cfg, self.model, self.val_set)
            self._record_epoch(order, loss, scores)
            name, self.epoch = f"epoch: [{self.epoch + 1}/{self.cfg.train.epochs}]", self.epoch + 1
            better = self._is_better(scores[self.cfg.metric.name])
            self.best = scores[self.cfg.metric.name] if better else self.best
            if better and ranks.rank() == 0:
                save_weights(self.model, self.output / BEST)
            self._save()
            shown = " ".join(f"{name}: {value:.6f}" for name, value in scores.items())
            self.bar.clear()
            folder.log(stamp(f"{name} eval_loss: {loss:.6f} {shown} best: {self.best:.6f}"))
            folder.scalars({"eval_loss": loss, **scores}, len(self.history["iter"]))

    def _train_epoch(self, order: np.ndarray, folder: RunFolder) -> None:
        self.model.train()
        cfg, steps = self.cfg, self.steps
        shares = split_order(order, cfg.data.batch_size, ranks.count(), ranks.rank())[self.position :]
        samples = Seeded(self.train_set, cfg.train.seed, self.epoch)

        def log(line: str) -> None:
            folder.log(line, shown=not self.bar.active)

        name = f"{self.epoch + 1}/{cfg.train.epochs}"
        progress = Progress(name, steps, cfg, log, self.bar, self.position)
        for share, batch in zip(shares, make_loader(samples, shares, cfg.data.num_workers)):
            if self._generators is not None:  # only now, because starting a loader draws from them
                restore_generators(self._generators)
                self._generators = None
            progress.batch_read()
            rates = {name: optimizer.get_lr() for name, optimizer in self.optimizers.items()}
            lr = next(iter(rates.values()))
            iteration = len(self.history["iter"]) + 1
            try:
                losses = self.stepper(batch, share.weight)
            except PortError as error:
                raise PortError(f"the loss at iteration {iteration} is {error}") from None
            for schedule in self.schedules.values():
                schedule.step()
            loss = losses.get("loss", sum(losses.values()))
            self._record_step(iteration, loss, lr, losses, rates)
            self.position += 1
            progress.batch_done(share.total, loss, lr)
            folder.scalars({"loss": loss, "lr": lr, **losses}, iteration)
            if cfg.train.save_freq and iteration % cfg.train.save_freq == 0 and self.position < steps:
                self._save()
        self.position = 0

    def _is_better(self, score: float) -> bool:
        """Whether a metric is better than all before it; the first one is."""
        return not math.isfinite(self.best) or (score > self.best if self.cfg.metric.higher_is_better else score < self.best)

    def _record_step(
        self, iteration: int, loss: float, lr: float, losses: dict[str, float], rates: dict[str, float]
    ) -> None:
        """Of several losses and optimizers, also each by its name."""
        values = {"iter": iteration, "loss": loss, "lr": lr}
        if len(losses) > 1:
            values |= {f"loss:{name}": value for name, value in losses.items()}
        if len(rates) > 1:
            values |= {f"lr:{name}": value for name, value in rates.items()}
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)

    def _record_epoch(self, order: np.ndarray, loss: float, scores: dict[str, float]) -> None:
        digest = hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()
        for name, value in {"epoch": self.epoch + 1, "eval_loss": loss, "order_sha256": digest, **scores}.items():
            self.history.setdefault(name, []).append(value)

    def _save(self) -> None:
        """Write the checkpoint of this moment."""
        generators = ranks.gathered(generator_states())
        if self.stepper.own:  # what is left of each process's gradients becomes their mean, as in the next step
            ranks.average_gradients(list(self.model.parameters()))
        if ranks.rank() != 0:
            return
        numbers = {name: np.array(values) for name, values in self.history.items() if name != "order_sha256"}
        arrays = {f"history/{name}": values for name, values in numbers.items() if values.size}
        for name, optimizer in self.optimizers.items():
            arrays |= {f"optimizer/{name}/{key}": array for key, array in optimizer_arrays(self.model, optimizer).items()}
        arrays |= {f"gradient/{name}": array for name, array in left_gradients(self.model).items()}
        values = {
            "epoch": self.epoch,
            "position": self.position,
            "steps": self.steps,
            "best": self.best if math.isfinite(self.best) else None,
            "order_sha256": self.history["order_sha256"],
            "schedules": {name: one.state_dict() for name, one in self.schedules.items() if hasattr(one, "state_dict")},
            "scaler": scaler_state(self.stepper.scaler),
            "done": self.stepper.update.done,
            "generators": generators,
            "settings": flatten(self.cfg.to_dict()),
        }
        save_training(self.model, self.output / LATEST, arrays, values)

    def restore(self, path: Path) -> list[str]:
        """Take everything from a checkpoint. Returns lines for the log: where it goes on, and which settings have changed."""
        arrays, values = read_training(path)
        if values["position"] and values["steps"] != self.steps:
            raise UserError(
                f"{path} lies within an epoch of {values['steps']} iterations, but there are {self.steps} now: the data, "
                "data.batch_size or the number of processes has changed"
            )
        parts = {"history": {}, "gradient": {}, **{f"optimizer/{name}": {} for name in self.optimizers}}
        for name, array in arrays.items():
            part = next((part for part in parts if name.startswith(f"{part}/")), None)
            if part is None:
                raise UserError(f"{path} has {name}, which no optimizer of build_optimizer has; start with --weights instead")
            parts[part][name.removeprefix(f"{part}/")] = array
        for name, optimizer in self.optimizers.items():
            restore_optimizer(self.model, optimizer, parts[f"optimizer/{name}"])
        load_weights(self.model, path)
        restore_gradients(self.model, parts["gradient"])
        self.stepper.update.done.update(values["done"])
        self.history.update({name: array.tolist() for name, array in parts["history"].items()})
        self.history["order_sha256"] = values["order_sha256"]
        self.epoch, self.position = values["epoch"], values["position"]
        self.best = math.nan if values["best"] is None else values["best"]
        for name, state in values["schedules"].items():
            self.schedules[name].set_state_dict(state)
        restore_scaler(self.stepper.scaler, values["scaler"])
        if len(values["generators"]) == ranks.count():  # with other processes the random numbers cannot go on as they were
            self._generators = values["generators"][ranks.rank()]
        now = flatten(self.cfg.to_dict())
        changed = sorted(key for key in {*now, *values["settings"]} if now.get(key) != values["settings"].get(key))
        return [f"resumed from {path} after {len(self.history['iter'])} iterations"] + [
            f"changed since the checkpoint: {key} {values['settings'].get(key)} -> {now.get(key)}" for key in changed
        ]


def _seed(seed: int, deterministic: bool) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    paddle.seed(seed)
    if deterministic and paddle.is_compiled_with_cuda():
        paddle.set_flags({"FLAGS_cudnn_deterministic": True, "FLAGS_embedding_deterministic": 1})


def _environment() -> dict[str, Any]:
    return {"paddle": paddle.__version__, "device": paddle.get_device(), "processes": ranks.count()}


def main() -> None:
    parser = make_parser("Train.")
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--weights", help="safetensors file to start from (default: a fresh model)")
    start.add_argument("--resume", nargs="?", const="latest", metavar="FILE", help="go on from latest.safetensors, or from FILE")
    arguments = parser.parse_args()
    train(read_settings(arguments), arguments.weights, log=lambda line: print(line, flush=True), resume=arguments.resume)


if __name__ == "__main__":
    sys.exit(run(main))
