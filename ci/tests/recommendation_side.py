# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One side's process of test_recommendation.py: python recommendation_side.py torch|paddle REPO OUT

Calls that side's own code and saves what came out: arrays.npz and facts.json, as sample_side.py does.
"""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sample_side import LITE, Side, message

RANDOM = np.random.default_rng(0)
#: Rounded, so that many are equal.
LOGITS = (RANDOM.normal(size=203) * 3).round(1).astype(np.float32)
LABELS = (RANDOM.random(203) < 1 / (1 + np.exp(-LOGITS / 2))).astype(np.int64)
BATCHES = (slice(0, 64), slice(64, 128), slice(128, 203))
RATE, EPSILON, L2, STEPS = 0.5, 1e-10, 0.25, 3
SETTINGS = (f"optimizer.learning_rate={RATE}", f"optimizer.epsilon={EPSILON}", f"optimizer.embedding_l2={L2}")
HEADER = "age,workclass,education,educational-num,marital-status,occupation,relationship,race,gender,capital-gain,capital-loss,hours-per-week,native-country,income"  # noqa: E501
ROW = "39,State-gov,Bachelors,13,Never-married,Adm-clerical,Not-in-family,White,Male,2174,0,40,United-States,<=50K"
BAD_FILES = {
    "word": f"{HEADER}\n{ROW}\n{ROW.replace('2174', 'much')}\n",
    "infinite": f"{HEADER}\n{ROW.replace('2174', 'inf')}\n",
    "fields": f"{HEADER}\n{ROW},1\n",
    "column": f"{HEADER.replace('race,', '')}\n",
    "answer": f"{HEADER}\n{ROW.replace('<=50K', '>50K.')}\n",
    "empty": "",
    "header": f"{HEADER}\n",
    "latin": f"{HEADER}\n{ROW}\n".encode("utf-16"),
}
#: A value that no training row has, quotes, columns in another order, one that the schema does not name.
ODD = 'income,extra,native-country,hours-per-week,capital-loss,capital-gain,gender,race,relationship,occupation,marital-status,educational-num,education,workclass,age\r\n>50K,1,Atlantis,40,0,2174,Male,"White",Not-in-family,Adm-clerical,Never-married,13,Bachelors,State-gov,39\r\n'  # noqa: E501


class RecommendationSide(Side):
    """A side of the recommendation sample."""

    def samples(self) -> None:
        for split in ("train", "val"):
            dataset = self.contract.build_dataset(self.settings(*LITE), split)
            for name, column in zip(("categorical", "continuous", "label"), zip(*(dataset[n] for n in range(len(dataset))))):
                self.arrays[f"{name}_{split}"] = np.stack(column)
        odd = self.out / "odd"
        odd.mkdir()
        (odd / "val.csv").write_text(ODD, newline="")
        self.arrays["odd_categorical"], self.arrays["odd_continuous"], label = self.build(odd)[0]
        self.arrays["odd_label"] = np.array(label)

    def build(self, folder: Path, *overrides: str):
        return self.contract.build_dataset(self.settings(f"data.root={folder}", *overrides), "val")

    def scores(self) -> None:
        metric = self.contract.build_metric(self.settings())
        for part in BATCHES:
            metric.update({"logits": self.tensor(LOGITS[part])}, self.tensor(LABELS[part]))
        self.facts["metric"] = metric.compute()
        self.facts["refused"] = {}
        for name, logits, labels in (
            ("one label", LOGITS[:4], np.ones(4)), ("not finite", np.array([np.nan, 1]), np.array([0, 1])),
            ("nothing", None, None),
        ):  # fmt: skip
            metric = self.contract.build_metric(self.settings())
            if logits is not None:
                metric.update({"logits": self.tensor(logits)}, self.tensor(labels))
            try:
                metric.compute()
            except Exception as error:
                self.facts["refused"][name] = f"{type(error).__name__}: {error}"

    def loss(self) -> None:
        logits = self.tensor(LOGITS)
        logits.stop_gradient, logits.requires_grad = False, True  # each framework knows one of them
        loss = self.contract.build_loss(self.settings())({"logits": logits}, self.tensor(LABELS))
        loss.backward()
        self.arrays["loss"], self.arrays["loss_gradient"] = loss.detach().numpy(), logits.grad.numpy()

    def updates(self) -> None:
        """Every parameter before and after steps with the gradient 1."""
        cfg = self.settings(*SETTINGS)
        model = self.contract.build_model(cfg)
        optimizer, schedule = self.contract.build_optimizer(cfg, model, 10)
        assert schedule is None
        named = dict(model.named_parameters())
        for name, parameter in named.items():
            self.arrays[f"before.{name}"] = parameter.detach().numpy().copy()
        for _ in range(STEPS):
            for parameter in named.values():
                parameter.grad = self.tensor(np.ones(parameter.shape, np.float32))
            optimizer.step()
        for name, parameter in named.items():
            self.arrays[f"after.{name}"] = parameter.detach().numpy()

    def bad_files(self) -> None:
        for name, text in BAD_FILES.items():
            folder = self.out / name
            folder.mkdir()
            (folder / "val.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
            self.facts[name] = message(self.build, folder)
        for name, text in (("no JSON", "{"), ("no columns", "{}"), ("std", '{"columns": [{"kind": "continuous", "name": "a", "mean": 0, "std": 0}]}')):  # noqa: E501
            path = self.out / "schema.json"
            path.write_text(text)
            self.facts[name] = message(self.build, self.out / "odd", f"data.schema={path}")
        self.facts["sizes"] = message(self.build, self.out / "odd", "model.cat_dims=[10, 17]")
        self.facts["missing"] = message(self.build, self.out)


if __name__ == "__main__":
    one = RecommendationSide(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    one.samples()
    one.scores()
    one.loss()
    one.updates()
    one.bad_files()
    one.save()
