# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One side's process of test_sample.py: python sample_side.py torch|paddle REPO OUT

Calls that side's own code and saves what came out: arrays.npz (what the twins must agree on) and facts.json (messages and
the training history). Imports nothing of the repository before REPO is on sys.path.
"""
from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

SIDES = {"torch": ("torch_ref", "reference"), "paddle": ("paddle", "port")}
LITE = ["data.root=test_tipc/data/lite_data", "data.archive=test_tipc/data/lite_data.tar"]
#: Uneven batches, and settings under which a wrongly decayed parameter shows within a few steps.
QUICK = [*LITE, "data.batch_size=6", "train.epochs=4", "train.print_freq=2", "optimizer.weight_decay=0.1"]
SMOOTHINGS, IGNORED = (0.0, 0.1), (False, True)
NETWORKS, STEPS_PER_EPOCH = 12, 8
RANDOM = np.random.default_rng(0)
LOGITS = (RANDOM.normal(size=(7, 10)) * 2).astype(np.float32)
LABELS = RANDOM.integers(0, 10, 7)
IGNORING = np.where(np.arange(7) % 3 == 0, 255, LABELS)
FAR = np.array([[0.0, 200.0]], np.float32)
BAD_LINES = ("images/cut.png 3", "images/none.png 3", "images/cut.png", "images/cut.png 10", "x.png -1", "")


class Side:
    """One side's framework, contract and train module, and what its tests found."""

    def __init__(self, side: str, repo: Path, out: Path):
        tree, contract = SIDES[side]
        sys.path[:0] = [str(repo / tree), str(repo)]
        self.name, self.repo, self.out = side, repo, out
        self.framework, self.contract, self.train = __import__(side), __import__(contract), __import__("train")
        self.arrays: dict[str, np.ndarray] = {}
        self.facts: dict[str, Any] = {}

    def settings(self, *overrides: str) -> Any:
        from pipeline.align.settings import load_settings

        return load_settings(self.repo / "port.yaml", overrides)

    def tensor(self, array: np.ndarray) -> Any:
        return self.framework.from_numpy(array.copy()) if self.name == "torch" else self.framework.to_tensor(array)

    def data(self) -> None:
        for split in ("train", "val"):
            dataset = self.contract.build_dataset(self.settings(*LITE), split)
            images, labels = zip(*(dataset[index] for index in range(len(dataset))))
            self.arrays[f"images_{split}"], self.arrays[f"labels_{split}"] = np.stack(images), np.array(labels)

    def losses(self) -> None:
        for smoothing in SMOOTHINGS:
            loss_function = self.contract.build_loss(self.settings(f"loss.label_smoothing={smoothing}"))
            for ignored in IGNORED:
                logits = self.tensor(LOGITS)
                logits.stop_gradient, logits.requires_grad = False, True  # each framework knows one of them
                loss = loss_function({"logits": logits}, self.tensor(IGNORING if ignored else LABELS))
                loss.backward()
                self.arrays[f"loss_{smoothing}_{ignored}"] = loss.detach().numpy()
                self.arrays[f"gradient_{smoothing}_{ignored}"] = logits.grad.numpy()
        loss_function = self.contract.build_loss(self.settings("loss.label_smoothing=0.0"))
        self.arrays["loss_far"] = loss_function({"logits": self.tensor(FAR)}, self.tensor(np.array([0]))).numpy()

    def metric(self) -> None:
        metric = self.contract.build_metric(self.settings())
        for part in (slice(0, 4), slice(4, 7)):
            metric.update({"logits": self.tensor(LOGITS[part])}, self.tensor(IGNORING[part]))
        self.arrays["accuracy"] = np.array(metric.compute()["accuracy"])

    def learning_rates(self) -> None:
        cfg = self.settings()
        optimizer, schedule = self.contract.build_optimizer(cfg, self.contract.build_model(cfg), STEPS_PER_EPOCH)
        rates = []
        for _ in range(STEPS_PER_EPOCH * cfg.train.epochs):
            rates.append(optimizer.get_lr() if self.name == "paddle" else optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        self.arrays["lr"] = np.array(rates)

    def fresh_networks(self) -> None:
        states = [self.contract.build_model(self.settings()).state_dict() for _ in range(NETWORKS)]
        for name in states[0]:
            self.arrays[f"init.{name}"] = np.stack([state[name].numpy() for state in states])

    def weight_files(self) -> None:
        """facts["load"] = {kind of file: [message, whether the model kept its values]}."""
        from checkpoint import load_weights, save_weights

        model, path = self.contract.build_model(self.settings()), self.out / "weights.safetensors"
        save_weights(model, path)
        right, name = load_file(path), "stage2.shortcut.conv.weight"
        moved = {key: np.asarray(value + 1, value.dtype) for key, value in right.items()}
        files = {
            "missing": {key: value for key, value in moved.items() if key != name},
            "unknown": {**moved, "module.fc.weight": right["fc.weight"]},
            "shape": {**moved, name: right[name].reshape(-1)},
            "dtype": {**moved, name: right[name].astype(np.float16)},
        }
        answers = {}
        for kind, state in files.items():
            save_file(state, path)
            said = message(load_weights, model, path)
            answers[kind] = [said, all(np.array_equal(value.numpy(), right[key]) for key, value in model.state_dict().items())]
        save_file(moved, path)
        path.with_name("cut.safetensors").write_bytes(path.read_bytes()[:-100])
        answers["cut"] = [message(load_weights, model, path.with_name("cut.safetensors")), True]
        answers["absent"] = [message(load_weights, model, path.with_name("absent.safetensors")), True]
        said = message(load_weights, model, path)
        answers["right"] = [said, all(np.array_equal(value.numpy(), moved[key]) for key, value in model.state_dict().items())]
        self.facts["load"] = answers

    def training(self) -> None:
        from checkpoint import save_weights

        start = self.out.parent / f"start_{self.name}.safetensors"
        if self.name == "torch":
            self.framework.manual_seed(1)
            save_weights(self.contract.build_model(self.settings()), start)
            save_file(convert(load_file(start)), self.out.parent / "start_paddle.safetensors")
        self.facts["log"] = []
        self.facts["weights"] = str(self.out / "trained" / "latest.safetensors")
        self.facts["history"] = self.train.train(self.settings(*QUICK), start, self.out / "trained", self.facts["log"].append)

    def overflow(self) -> None:
        """facts["overflow"] = [message, exit status of a program that fails so]."""
        from cli import run
        from pipeline.align.errors import PortError

        cfg, said = self.settings(*QUICK, "optimizer.learning_rate=1e30"), []

        def command() -> None:
            try:
                self.train.train(cfg, None, self.out / "overflow", lambda line: None)
            except PortError as error:
                said.append(str(error))
                raise

        status = run(command)
        self.facts["overflow"] = [*said, status]

    def bad_data(self) -> None:
        build = self.contract.build_dataset
        self.facts["missing"] = message(build, self.settings("data.root=nowhere", "data.archive=no.tar"), "train")
        self.facts["test split"] = message(build, self.settings(*LITE), "test")
        for number, line in enumerate(BAD_LINES):
            folder = self.out / f"list_{number}"
            (folder / "images").mkdir(parents=True)
            (folder / "images" / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n123")
            (folder / "train_list.txt").write_text(line + "\n")
            cfg = self.settings(f"data.root={folder}")
            self.facts[f"line {line}"] = message(lambda cfg=cfg: build(cfg, "train")[0])

    def save(self) -> None:
        self.facts["frameworks"] = sorted({"torch", "paddle"} & set(sys.modules))
        np.savez(self.out / "arrays.npz", **self.arrays)
        (self.out / "facts.json").write_text(json.dumps(self.facts))


def message(call: Callable, *arguments: Any) -> str:
    """What the UserError of a call says; any other exception ends the process."""
    from pipeline.align.errors import UserError

    try:
        call(*arguments)
    except UserError as error:
        return str(error)
    return "accepted"


def convert(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The reference's weights for the port, by hand: one Linear, renamed running statistics."""
    renamed = {}
    for name, value in state.items():
        if not name.endswith("num_batches_tracked"):
            name = name.replace("running_mean", "_mean").replace("running_var", "_variance")
            renamed[name] = np.ascontiguousarray(value.T) if name == "fc.weight" else value
    return renamed


if __name__ == "__main__":
    one = Side(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    one.data()
    one.losses()
    one.metric()
    one.learning_rates()
    one.fresh_networks()
    one.weight_files()
    one.training()
    one.overflow()
    one.bad_data()
    one.save()
