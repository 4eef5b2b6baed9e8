# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What a Paddle optimizer will do to each parameter, in the terms of optimizers.py.

Paddle spreads this: the rate of a group multiplies the base rate (optimize_attr), weight decay is a number in AdamW, a
fused coefficient in Momentum and a regularizer of the parameter or the optimizer elsewhere, and AdamW asks a function by
Paddle's own parameter names.
"""
from __future__ import annotations

from typing import Any

import paddle

#: Paddle's name, in a group or on the optimizer, there mostly with an underscore -> common name.
NAMES = {
    "momentum": "momentum", "use_nesterov": "nesterov", "beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon",
    "amsgrad": "amsgrad", "rho": "rho", "centered": "centered", "initial_accumulator_value": "initial_accumulator_value",
}  # fmt: skip


def describe(optimizer: Any, model: paddle.nn.Layer) -> dict[str, Any]:
    """{"kind": class name, "clip": {"kind", "value"} or null, "parameters": {name: {common setting: value}}}."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: dict[str, dict[str, Any]] = {}
    for group in getattr(optimizer, "_param_groups", ()) or ():
        options = group if isinstance(group, dict) else {"params": [group]}
        settings = {common: _number(options.get(name, _attribute(optimizer, name))) for name, common in NAMES.items()}
        for parameter in options["params"]:
            if not parameter.stop_gradient and id(parameter) in names:
                factor = (getattr(parameter, "optimize_attr", None) or {}).get("learning_rate", 1.0)
                kind, decay = _decay(optimizer, options, parameter)
                found[names[id(parameter)]] = {
                    **{name: value for name, value in settings.items() if value is not None},
                    "learning_rate": float(optimizer.get_lr()) * float(factor), "weight_decay": decay, "decay": kind,
                }  # fmt: skip
    return {"kind": type(optimizer).__name__, "clip": _clip(getattr(optimizer, "_grad_clip", None)), "parameters": found}


def _attribute(optimizer: Any, name: str) -> Any:
    return getattr(optimizer, f"_{name}", getattr(optimizer, name, None))


def _decay(optimizer: Any, options: dict[str, Any], parameter: paddle.Tensor) -> tuple[str, float]:
    """(kind, coefficient) of the weight decay of one parameter."""
    if isinstance(optimizer, paddle.optimizer.AdamW):
        wanted = optimizer._apply_decay_param_fun
        decays = wanted is None or wanted(parameter.name)
        return "decoupled", float(options.get("weight_decay", optimizer._weight_decay)) if decays else 0.0
    own = getattr(parameter, "regularizer", None)
    if own is not None:
        return _regularizer(own)
    if isinstance(optimizer, paddle.optimizer.Momentum):
        method = options.get("regularization_method", optimizer._regularization_method)
        return "L2", float(options.get("regularization_coeff", optimizer._regularization_coeff)) if method == "l2_decay" else 0.0
    return _regularizer(options.get("weight_decay", optimizer.regularization))


def _regularizer(value: Any) -> tuple[str, float]:
    if value is None or isinstance(value, (int, float)):
        return "L2", float(value or 0.0)
    coefficient = getattr(value, "_coeff", getattr(value, "_regularization_coeff", 0.0))
    return "L1" if "L1" in type(value).__name__ else "L2", float(coefficient)


def _clip(clip: Any) -> dict[str, Any] | None:
    if clip is None:
        return None
    value = getattr(clip, "clip_norm", getattr(clip, "max", None))
    return {"kind": type(clip).__name__, "value": None if value is None else float(value)}


def _number(value: Any) -> Any:
    return value if isinstance(value, bool) or value is None else float(value)
