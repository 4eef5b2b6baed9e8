# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One side's process of test_train.py: python train_side.py torch|paddle REPO OUT [processes SETTING...]

Trains with that side's own train.py under many settings and writes what came out to facts.json; with "processes" once, as
one of several processes or alone.
"""
from __future__ import annotations

import os
import random
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from sample_side import LITE, Side, message

#: 16 images in batches of 6: three iterations per epoch, the last one smaller.
SHORT = [*LITE, "data.batch_size=6", "train.epochs=3", "train.print_freq=1", "model.width=4"]
STOPS = (1, 3, 4, 5, 9)
PARTS = (1, 2, 4)
KILLS = 50
EXPERIMENTS = (
    "resume", "wrong_checkpoints", "parts", "mixed_precision", "not_finite", "kills", "loader", "scalars", "options", "best",
)  # fmt: skip
SEEDED_EPOCHS, SEEDED_LENGTH = 3, 5


class Stop(BaseException):
    """Ends a training in the middle, as a killed process would."""


class Noise:
    """A data set with augmentation from Python's and numpy's generators."""

    def __init__(self, dataset: Any):
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        image, label = self.dataset[index]
        return (image + np.random.normal(0, 0.1, image.shape) * random.random()).astype(np.float32), label


class TrainSide(Side):
    """The experiments of one side."""

    def __init__(self, side: str, repo: Path, out: Path):
        super().__init__(side, repo, out)
        replaced = ("build_model", "build_dataset", "build_optimizer", "build_loss", "forward")
        self.kept = {name: getattr(self.contract, name) for name in replaced}

    def run(self, name: str, *overrides: str, stop: int = 0, **more: Any) -> dict[str, Any]:
        """{"history", "log", "weights": values of the checkpoint's weights by name}. `stop`: end after so many iterations."""
        lines: list[str] = []

        def log(line: str) -> None:
            lines.append(line)
            if stop and sum(" iter: " in text for text in lines) == stop:
                raise Stop

        folder, history = self.out / name, None
        try:
            history = self.train.train(self.settings(*SHORT, *overrides), output_dir=folder, log=log, **more)
        except Stop:
            pass
        weights = load_file(folder / "latest.safetensors") if (folder / "latest.safetensors").is_file() else {}
        kept = {key: value.tolist() for key, value in weights.items() if not key.startswith("training/")}
        return {"history": history, "log": lines, "weights": kept}

    def restore_contract(self) -> None:
        for name, function in self.kept.items():
            setattr(self.contract, name, function)

    # What the experiments put in place of the sample.

    def dropout_and_noise(self) -> None:
        functional = self.framework.nn.functional

        def forward(model: Any, batch: tuple) -> dict[str, Any]:
            images = functional.dropout(batch[0], 0.3, training=model.training)
            return self.kept["forward"](model, (images, *batch[1:]))

        self.contract.forward = forward
        self.contract.build_dataset = lambda cfg, split: Noise(self.kept["build_dataset"](cfg, split))

    def adam(self) -> None:
        def build_optimizer(cfg: Any, model: Any, steps: int) -> tuple[Any, Any]:
            if self.name == "torch":
                optimizer = self.framework.optim.AdamW(model.parameters(), 0.01)
                return optimizer, self.framework.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
            schedule = self.framework.optimizer.lr.CosineAnnealingDecay(0.01, 20)
            return self.framework.optimizer.AdamW(schedule, parameters=model.parameters()), schedule

        self.contract.build_optimizer = build_optimizer

    def perceptron(self, *layers: Any) -> None:
        """A network without batch normalisation, the same on both sides."""
        nn = self.framework.nn

        def build_model(cfg: Any) -> Any:
            model = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), *layers, nn.Linear(12, 10))
            values = np.random.default_rng(5)
            for name, value in sorted(model.state_dict().items()):
                array = values.normal(0, 0.3, (12, 64) if name == "1.weight" else sorted(value.shape)).astype(np.float32)
                array = np.ascontiguousarray(array.T) if self.name == "paddle" and array.ndim == 2 else array
                if self.name == "torch":
                    value.copy_(self.tensor(array))
                else:
                    value.set_value(array)
            return model

        self.contract.build_model = build_model

    # The experiments.

    def resume(self) -> None:
        """facts["resume"] = {kind: {"whole": run, stop: the run that was stopped there and resumed}}."""
        self.dropout_and_noise()
        found = {}
        for kind in ("sample", "adam"):
            if kind == "adam":
                self.adam()
            found[kind] = {"whole": self.run(f"whole_{kind}", "train.save_freq=2")}
            for stop in STOPS:
                name = f"stopped_{kind}_{stop}"
                self.run(name, "train.save_freq=1" if stop % 2 else "train.save_freq=2", stop=stop)
                if (self.out / name / "latest.safetensors").is_file():
                    random.seed(99)
                    np.random.seed(99)
                    found[kind][stop] = self.run(name, "train.save_freq=2", resume="latest")
        self.facts["resume"] = found
        changed = self.run("whole_adam", "train.epochs=4", resume="latest")
        self.facts["longer"] = {"log": changed["log"], "iterations": len(changed["history"]["iter"])}
        self.restore_contract()

    def wrong_checkpoints(self) -> None:
        """facts["wrong"] = {case: message}."""
        self.run("plain", "train.epochs=1", "train.save_freq=1", stop=2)
        path, cases = self.out / "plain" / "latest.safetensors", {}
        self.run("other", "train.epochs=1")

        def restore(path: Path, *overrides: str) -> str:
            return message(lambda: self.run("other", "train.epochs=1", *overrides, resume=path))

        (self.out / "cut.safetensors").write_bytes(path.read_bytes()[:-50])
        before = (self.out / "other" / "latest.safetensors").read_bytes()
        cases["cut"] = restore(self.out / "cut.safetensors")
        cases["absent"] = restore(self.out / "absent.safetensors")
        cases["weights alone"] = restore(self.out / "other" / "best.safetensors")
        cases["within an epoch"] = restore(path, "data.batch_size=5")
        self.adam()
        cases["other optimizer"] = restore(path)
        self.restore_contract()
        cases["other model"] = restore(path, "model.width=5")
        cases["kept"] = before == (self.out / "other" / "latest.safetensors").read_bytes()
        self.facts["wrong"] = cases

    def parts(self) -> None:
        """facts["parts"] = {number of parts: run} without batch normalisation; facts["clip"] = {largest norm: run}."""
        self.perceptron()
        self.facts["parts"] = {parts: self.run("parts", f"train.accumulate={parts}") for parts in PARTS}
        self.facts["clip"] = {norm: self.run("clip", f"train.clip_grad_norm={norm}") for norm in ("0.05", "1000.0")}
        self.restore_contract()

    def mixed_precision(self) -> None:
        """facts["amp"] = {type: run}."""
        self.perceptron()
        self.facts["amp"] = {kind: self.run(f"amp_{kind}", f"train.amp={kind}") for kind in ("null", "bf16", "fp16")}
        self.restore_contract()

    def not_finite(self) -> None:
        """facts["not finite"] = {case: message of the training}."""
        from pipeline.align.errors import PortError

        def said(*overrides: str, **more: Any) -> str:
            try:
                self.run("not_finite", *overrides, **more)
            except PortError as error:
                return str(error)
            return "trained"

        from checkpoint import save_weights

        cases, path = {}, self.out / "start.safetensors"
        save_weights(self.contract.build_model(self.settings(*SHORT)), path)
        state = load_file(path)
        state["stage2.conv2.weight"][0, 0, 0, 0] = np.nan
        save_file(state, path)
        cases["weight"] = said(weights=path)

        class Data(Noise):
            def __getitem__(self, index: int) -> Any:
                image, label = self.dataset[index]
                return image * np.float32(np.inf), label

        self.contract.build_dataset = lambda cfg, split: Data(self.kept["build_dataset"](cfg, split))
        cases["input"] = said()
        self.restore_contract()

        class Bad(self.framework.nn.Layer if self.name == "paddle" else self.framework.nn.Module):
            def forward(self, values: Any) -> Any:
                return (values - 1e9).log()

        self.perceptron(Bad())
        cases["layer"] = said()
        self.perceptron()
        self.contract.build_loss = lambda cfg: lambda outputs, labels: outputs["logits"].sum() * float("inf")
        cases["loss"] = said()
        self.restore_contract()
        cases["later"] = said("optimizer.learning_rate=1e30")
        self.facts["not finite"] = cases

    def kills(self) -> None:
        """facts["kills"] = [whether the file that a killed process left is one of those that it wrote, and which]."""
        from checkpoint import load_weights, read_training, save_training

        model, path = self.contract.build_model(self.settings("model.width=24")), self.out / "killed.safetensors"
        moments, results = random.Random(0), []

        def write(number: int) -> None:
            for value in model.state_dict().values():
                if self.name == "torch":
                    value.fill_(number)
                else:
                    value.set_value(np.full(value.shape, number, str(value.dtype).removeprefix("paddle.")))
            array = np.full(200_000, number, np.float64)
            save_training(model, path, {"array": self.tensor(array) if self.name == "torch" else array}, {"number": number})

        write(0)
        for _ in range(KILLS):
            child = os.fork()
            if not child:
                try:
                    number = read_training(path)[1]["number"]
                    while True:
                        number += 1
                        write(number)
                finally:
                    os._exit(1)
            time.sleep(moments.uniform(0.01, 0.06))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            arrays, values = read_training(path)
            load_weights(model, path)
            weights = {float(np.asarray(value.numpy()).mean()) for value in model.state_dict().values()}
            results.append([weights == {float(values["number"])} == set(np.asarray(arrays["array"]).tolist()), values["number"]])
        self.facts["kills"] = results

    def loader(self) -> None:
        """facts["shares"], facts["seeded"]."""
        from loader import Seeded, make_loader, split_order

        shares = {}
        for length, size, processes in ((10, 1, 4), (10, 4, 1), (11, 2, 2), (3, 1, 4), (16, 4, 3)):
            order = np.random.default_rng(1).permutation(length)
            every = [split_order(order, size, processes, process) for process in range(processes)]
            shares[f"{length} {size} {processes}"] = [order.tolist(), [[list(share) for share in own] for own in every]]
        self.facts["shares"] = shares
        state = after = np.random.get_state()[1].tolist()
        drawn = []
        dataset = Noise([(np.zeros((1, 2, 2), np.float32), 0)] * SEEDED_LENGTH)
        for workers in (0, 2):
            for epoch in range(SEEDED_EPOCHS):
                batches = split_order(np.arange(SEEDED_LENGTH), 2)
                batches = batches[1:] if workers else batches
                images = [batch[0].numpy() for batch in make_loader(Seeded(dataset, 3, epoch), batches, workers)]
                drawn.append(np.concatenate(images).reshape(-1).tolist())
            after = after if workers else np.random.get_state()[1].tolist()  # starting workers draws
        self.facts["seeded"] = drawn
        self.facts["generator untouched"] = state == after
        folder = self.out / "list"
        (folder / "images").mkdir(parents=True)
        (folder / "train_list.txt").write_text("images/none.png 1\n")
        (folder / "val_list.txt").write_text("images/none.png 1\n")
        for workers in (0, 1):
            said = message(self.run, "bad", f"data.root={folder}", f"data.num_workers={workers}")
            self.facts[f"bad data, {workers} workers"] = said

    def scalars(self) -> None:
        """facts["scalars"]: what a stand-in for the writer was given; facts["no writer"]: the message without one."""
        points: list[list[Any]] = []

        class Writer:
            def __init__(self, folder: str):
                points.append([Path(folder).name])

            def add_scalar(self, *values: Any) -> None:
                points.append(list(values))

            def close(self) -> None:
                points.append(["closed"])

        sys.modules["visualdl"] = None
        self.facts["no writer"] = message(lambda: self.run("scalars", "train.scalars=visualdl"))
        sys.modules["visualdl"] = types.SimpleNamespace(LogWriter=Writer)
        self.run("scalars", "train.scalars=visualdl", "train.epochs=1")
        self.facts["scalars"] = points

    def options(self) -> None:
        """facts["options"] = {words: message}."""
        from cli import make_parser

        parser = make_parser("x")
        parser.add_argument("--weights")
        cases = ("--wieghts a", "--weight a", "--weights", "--what", "-o a=1 -o b=2 --weights=x")
        self.facts["options"] = {words: message(parser.parse_args, words.split()) for words in cases}
        self.facts["overrides"] = parser.parse_args("-o a=1 b=2 -o c=3".split()).override
        self.facts["gpu"] = message(self.run, "gpu", "train.device=gpu")
        wrong = ("train.amp=O1", "train.device=tpu", "train.accumulate=0", "train.save_freq=0", "train.clip_grad_norm=0")
        self.facts["settings"] = {setting: message(self.settings, setting) for setting in wrong}


    def processes(self, *settings: str) -> None:
        """facts["processes"]: a run without batch normalisation, with a clipped gradient."""
        self.perceptron()
        self.facts["processes"] = self.run("processes", "train.device=cpu", "train.clip_grad_norm=0.5", *settings)

    def resume_processes(self, resume: str = "") -> None:
        """facts["resume_processes"]: a run with dropout, whole, or going on from what the whole one had saved in the middle."""
        self.perceptron(self.framework.nn.Dropout(0.4))
        folder, kept = self.out / "run", self.out / "middle.safetensors"

        def log(line: str) -> None:
            if " iter: " in line and not kept.exists() and (folder / "latest.safetensors").is_file():
                kept.write_bytes((folder / "latest.safetensors").read_bytes())  # that of an earlier iteration

        more = {"resume": resume} if resume else {}
        settings = self.settings(*SHORT, "train.device=cpu", "data.batch_size=3", "train.save_freq=1")
        history = self.train.train(settings, output_dir=folder, log=log, **more)
        self.facts["resume_processes"] = history

    def best(self) -> None:
        """facts["best"]: how often weights became the best ones, where higher and where lower is better."""
        scores = iter([0.5, 0.7, 0.6, 0.8] * 2)
        self.facts["best"] = {}
        for higher in (True, False):
            saved: list[Path] = []
            kept, self.train.save_weights = self.train.save_weights, lambda model, path, saved=saved: saved.append(path)
            evaluate, self.train.evaluate = self.train.evaluate, lambda *_: (0.0, {"accuracy": next(scores)})
            self.run(f"best {higher}", "train.epochs=4", f"metric.higher_is_better={str(higher).lower()}")
            self.train.save_weights, self.train.evaluate = kept, evaluate
            self.facts["best"][str(higher)] = len(saved)


if __name__ == "__main__":
    one = TrainSide(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    if sys.argv[4:]:
        getattr(one, sys.argv[4])(*sys.argv[5:])
    else:
        for experiment in EXPERIMENTS:
            getattr(one, experiment)()
    if not {os.environ.get("RANK", "0"), os.environ.get("PADDLE_TRAINER_ID", "0")} - {"0"}:
        one.save()
