# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a torch optimizer will do to each parameter, in the terms of optimizers.py."""
from __future__ import annotations

from typing import Any

import torch

#: torch's name in a parameter group -> common name.
NAMES = {
    "lr": "learning_rate", "weight_decay": "weight_decay", "momentum": "momentum", "nesterov": "nesterov",
    "dampening": "dampening", "eps": "epsilon", "amsgrad": "amsgrad", "alpha": "rho", "rho": "rho", "centered": "centered",
    "lr_decay": "lr_decay", "initial_accumulator_value": "initial_accumulator_value",
}  # fmt: skip


def describe(optimizer: Any, model: torch.nn.Module) -> dict[str, Any]:
    """{"kind": class name, "clip": null, "parameters": {name: {common setting: value}}} of what is trained."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: dict[str, dict[str, Any]] = {}
    for group in getattr(optimizer, "param_groups", ()):
        settings = {common: _number(group[name]) for name, common in NAMES.items() if name in group}
        if "betas" in group:
            settings["beta1"], settings["beta2"] = map(float, group["betas"])
        decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay")
        settings["decay"] = "decoupled" if decoupled else "L2"
        for parameter in group["params"]:
            if parameter.requires_grad and id(parameter) in names:
                found[names[id(parameter)]] = settings
    return {"kind": type(optimizer).__name__, "clip": None, "parameters": found}


def _number(value: Any) -> Any:
    return value if isinstance(value, bool) or value is None else float(value)
