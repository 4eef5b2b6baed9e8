# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The six nodes and the parts that each is judged by. Neutral: nothing here runs a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One pair of records.

    `threshold`: its name in thresholds.py and port.yaml's align.thresholds. `zeros`: zeros on both sides are legitimate, for
    all arrays or for patterns of their names.
    `eval_mode`: the record must say that no module was in train mode. `judge`: the kind of comparison, see judges.py.
    `record`: the part whose records it reads, where they are not its own.
    """

    name: str
    title: str
    threshold: str
    zeros: bool | tuple[str, ...] = False
    eval_mode: bool = False
    judge: str = "numbers"
    record: str = ""


@dataclass(frozen=True)
class Node:
    """One line of the result table. `main`: the part whose records and log acceptance names."""

    name: str
    step: int
    title: str
    main: str
    parts: tuple[Part, ...]


NODES = (
    Node("forward", 1, "model structure", "forward", (
        Part("forward", "outputs for the fake batch", "forward", eval_mode=True),
        Part("forward_real", "outputs for the reference's own batch", "forward", eval_mode=True),
    )),
    Node("metric", 2, "data and metric", "metric", (
        # Only the first input must hold something: BERT's sentence parts, for one, are zero where there is one sentence.
        Part("data_train", "training samples", "data", zeros=("label*", "index", "input_[1-9]*")),
        Part("data_val", "validation samples", "data", zeros=("label*", "index", "input_[1-9]*")),
        Part("metric_same", "metric of the same predictions", "metric", zeros=True),
        Part("metric", "metric from data to number", "metric", zeros=True),
    )),
    Node("loss", 3, "loss", "loss", (
        Part("loss", "loss of the fake batch", "loss", eval_mode=True),
        Part("loss_same", "loss and gradient of the same outputs", "loss"),
    )),
    Node("backward", 4, "optimizer, schedule and backward", "bp_align", (
        Part("lr", "learning rate over the whole training", "lr", judge="lr"),
        Part("steps", "order of the updates, and gradients left from earlier ones", "lr", zeros=True, judge="steps"),
        Part("gradients", "gradients of the first step", "gradients", judge="gradients"),
        Part("updates", "what the optimizer changed, eval mode", "updates", judge="updates"),
        Part("optimizer", "what the optimizer makes of given gradients", "optimizer", judge="updates"),
        Part("bp_align", "losses of training steps, eval mode", "backward", eval_mode=True),
        Part("bp_train", "losses of training steps, train mode", "train_mode"),
        Part("dropout", "dropout in train mode", "lr", zeros=True, judge="dropout"),
        Part("buffers", "running statistics after train mode", "buffers", judge="buffers"),
    )),
    Node("training", 5, "training", "train_align", (
        Part("init", "initialisation statistics", "updates", judge="init"),
        Part("init_constants", "what every initialisation has in common", "updates", judge="constants"),
        Part("order", "order of the training data and LR curve", "lr", zeros=True),
        Part("first_losses", "losses of the first iterations", "train_mode", judge="first_losses"),
        Part("evaluation", "evaluation of the same weights", "train_mode", zeros=True),
        Part("train_align", "final metric", "training", zeros=True),
        Part("benchmark", "final metric against the paper", "training", judge="benchmark", record="train_align"),
    )),
)  # fmt: skip
OPTIONAL_PARTS = ("forward_real",)


def node_of(step: int) -> Node:
    """The node of step 1 to 5."""
    return next(node for node in NODES if node.step == step)
