# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Optimizer settings that differ, parameter by parameter, and what an update says about the cause."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.align.bisect.static import equal

#: What a setting is where an optimizer does not have it.
DEFAULTS = {
    "momentum": 0.0, "nesterov": False, "dampening": 0.0, "amsgrad": False, "centered": False,
    "weight_decay": 0.0, "lr_decay": 0.0, "optimizers": None,
}  # fmt: skip
#: torch's class -> Paddle's classes that are the same algorithm.
SAME = {"sgd": ("sgd", "momentum"), "rmsprop": ("rmsprop",)}
#: What Paddle computes differently whatever the settings.
TRAPS = {
    "RMSProp": "Paddle's RMSProp adds epsilon inside of the square root, torch outside: write the step yourself",
    "Adamax": "Paddle's Adamax adds epsilon in another place, which shows where gradients are near zero",
}
#: Two updates are in proportion, or apart by a multiple of the weights, when less than this part is left.
LEFT = 0.02


def differences(torch: Mapping[str, Any], paddle: Mapping[str, Any], names: Iterable[tuple[str, str]]) -> list[str]:
    """Differing settings of two described optimizers, for the parameters (torch name, Paddle name)."""
    texts = []
    kinds = torch["kind"], paddle["kind"]
    if " and " in kinds[0] or " and " in kinds[1]:  # several, of which each parameter has its own
        pass
    elif kinds[1].lower() not in SAME.get(kinds[0].lower(), (kinds[0].lower(),)):
        texts.append(f"the port uses {kinds[1]} and the reference {kinds[0]}")
    groups: dict[tuple, list[str]] = defaultdict(list)
    total = 0
    for ours, theirs in names:
        mine, other = torch["parameters"].get(ours), paddle["parameters"].get(theirs)
        total += mine is not None
        if (mine is None) != (other is None):
            groups["optimised", mine is not None, other is not None].append(theirs)
        elif mine is not None:
            for name in sorted({*mine, *other} - {"decay"}):
                values = [side.get(name, DEFAULTS.get(name)) for side in (mine, other)]
                if None not in values and not equal(*values):
                    groups[(name, *values)].append(theirs)
            if mine["weight_decay"] and other["weight_decay"] and mine["decay"] != other["decay"]:
                groups["kind of weight decay", mine["decay"], other["decay"]].append(theirs)
    texts += [trap for kind, trap in TRAPS.items() if kind == kinds[1]]
    for (name, right, wrong), members in groups.items():
        which = "all parameters" if len(members) == total else f"{len(members)} of {total} parameters ({_few(members)})"
        if name == "optimised":
            texts.append(f"{'the port' if right else 'the reference'}'s optimizer does not have {which}")
            continue
        texts.append(f"{name} is {wrong!r} in the port and must be {right!r} for {which}")
    if paddle["clip"]:
        clip = f"{paddle['clip']['kind']} {paddle['clip']['value']}"
        texts.append(f"the port's optimizer clips gradients ({clip}); the reference has to do so too, outside of its optimizer")
    return texts


def explain(torch: np.ndarray, paddle: np.ndarray, weights: np.ndarray, rate: float) -> str | None:
    """What two updates of one parameter (after - before) say: a factor between them, or weight decay. `rate`: learning rate."""
    mine, other, values = (array.astype(np.float64).ravel() for array in (torch, paddle, weights))
    if not np.any(other):
        return "the port does not change it"
    if not np.any(mine):
        return "the reference does not change it"
    factor = float(mine @ other / (mine @ mine))
    if abs(factor - 1) > LEFT and np.linalg.norm(other - factor * mine) < LEFT * np.linalg.norm(other):
        return f"the port's update is {factor:.4g} times the reference's, as another learning rate or clipping would make it"
    gap = mine - other
    share = float(gap @ values / (values @ values)) if np.any(values) else 0.0
    if np.linalg.norm(gap - share * values) < LEFT * np.linalg.norm(gap):
        return (f"the updates differ by {abs(share) / rate:.3g} times learning rate and weight, as weight decay"
                f" {'missing' if share < 0 else 'added'} in the port would make it")  # fmt: skip
    return None


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
