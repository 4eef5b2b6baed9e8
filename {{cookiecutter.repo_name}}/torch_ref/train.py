# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Train on one device: python torch_ref/train.py [-c port.yaml] [-o key.sub=value ...] [--weights FILE]

Knows only the contract (reference.py). Writes latest.safetensors and best.safetensors after every epoch.
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
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT))  # pipeline/ lies beside this folder

import reference
from checkpoint import load_weights, save_weights
from cli import make_parser, read_settings, run
from eval import evaluate, pick_device
from loader import epoch_order, make_loader
from pipeline.align.errors import PortError
from progress import Progress, stamp


def train(
    cfg: Any, weights: str | Path | None = None, output_dir: str | Path | None = None, log: Callable[[str], None] = print
) -> dict[str, list]:
    """Train for train.epochs from `weights`, or from a fresh model, and evaluate on "val" after every epoch.

    Returns the history: iter, loss, lr (one value per iteration, the LR being that of the step), epoch, eval_loss, every
    metric and order_sha256 (one per epoch). `output_dir`: by default the folder torch in train.output_dir, where the port
    writes. Raises PortError where the loss is not finite.
    """
    _seed(cfg.train.seed)
    model = reference.build_model(cfg).to(pick_device())
    if weights is not None:
        load_weights(model, weights)
    train_set, val_set = (reference.build_dataset(cfg, split) for split in ("train", "val"))
    steps = math.ceil(len(train_set) / cfg.data.batch_size)
    optimizer, schedule = reference.build_optimizer(cfg, model, steps)
    output = Path(output_dir or ROOT / cfg.train.output_dir / "torch")
    output.mkdir(parents=True, exist_ok=True)
    history: dict[str, list] = {name: [] for name in ("iter", "loss", "lr", "epoch", "eval_loss", "order_sha256")}
    best = -math.inf
    for epoch in range(cfg.train.epochs):
        order = epoch_order(len(train_set), cfg.train.seed, epoch)
        loader = make_loader(train_set, order, cfg.data.batch_size, cfg.data.num_workers)
        progress = Progress(f"{epoch + 1}/{cfg.train.epochs}", steps, cfg.train.print_freq, log)
        _train_epoch(cfg, model, loader, optimizer, schedule, history, progress)
        loss, scores = evaluate(cfg, model, val_set)
        _record_epoch(history, epoch + 1, order, loss, scores)
        save_weights(model, output / "latest.safetensors")
        if scores[cfg.metric.name] > best:
            best = scores[cfg.metric.name]
            save_weights(model, output / "best.safetensors")
        shown = " ".join(f"{name}: {value:.6f}" for name, value in scores.items())
        log(stamp(f"epoch: [{epoch + 1}/{cfg.train.epochs}] eval_loss: {loss:.6f} {shown} best: {best:.6f}"))
    return history


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _train_epoch(cfg: Any, model: Any, loader: Any, optimizer: Any, schedule: Any, history: dict, progress: Progress) -> None:
    model.train()
    device = next(model.parameters()).device
    loss_function = reference.build_loss(cfg)
    for batch in loader:
        progress.batch_read()
        batch = tuple(tensor.to(device) for tensor in batch)
        lr = optimizer.param_groups[0]["lr"]
        loss = loss_function(reference.forward(model, batch), batch[-1])
        value = loss.item()
        iteration = len(history["iter"]) + 1
        if not math.isfinite(value):
            raise PortError(f"the loss is {value} at iteration {iteration} with LR {lr:g}: lower the LR or find what overflows")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        for name, entry in (("iter", iteration), ("loss", value), ("lr", lr)):
            history[name].append(entry)
        progress.batch_done(len(batch[-1]), value, lr)


def _record_epoch(history: dict, epoch: int, order: np.ndarray, loss: float, scores: dict[str, float]) -> None:
    digest = hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()
    for name, value in {"epoch": epoch, "eval_loss": loss, "order_sha256": digest, **scores}.items():
        history.setdefault(name, []).append(value)


def main() -> None:
    parser = make_parser("Train on one device.")
    parser.add_argument("--weights", help="safetensors file to start from (default: a fresh model)")
    arguments = parser.parse_args()
    train(read_settings(arguments), arguments.weights, log=lambda line: print(line, flush=True))


if __name__ == "__main__":
    sys.exit(run(main))
