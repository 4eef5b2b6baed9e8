# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Differences between the frameworks that are no fault of the port: each a rule with its formula and its source.

A rule never waives. It states what the port must have where the reference has something else, and the judge compares
with that. What a rule needs to know stands in the records, as provenance["known_context"][array name]: a dict whose
"kind" names the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.align.compare import ZERO_GRADIENT, compare_arrays
from pipeline.align.thresholds import Threshold


@dataclass(frozen=True)
class KnownDifference:
    """`verify(torch array, paddle array, context, threshold)`: whether the two differ exactly as `formula` says."""

    id: str
    title: str
    formula: str
    source: str
    verify: Callable[[np.ndarray, np.ndarray, Mapping[str, Any], Threshold], bool]

    def applies(self, context: Mapping[str, Any]) -> bool:
        """Whether `context`, from the records, is about this difference."""
        return context.get("kind") == self.id

    def describe(self, key: str) -> dict[str, str]:
        """What the report shows."""
        return {"id": self.id, "title": self.title, "formula": self.formula, "source": self.source, "key": key}


def _running_variance(torch: np.ndarray, paddle: np.ndarray, context: Mapping[str, Any], threshold: Threshold) -> bool:
    """Context: momentum (weight of the new batch, as torch means it), n (values per channel at every step), initial (the
    running variance before the first step).

    With one n the ratio is exact. With several, each batch's share grows by its own ratio, so that every element lies
    between those of the smallest and the largest ratio.
    """
    momentum, counts = float(context["momentum"]), [int(n) for n in context["n"]]
    initial = np.asarray(context["initial"], np.float64)
    if initial.shape != paddle.shape or not counts or min(counts) < 2:
        return False
    kept = (1 - momentum) ** len(counts) * initial
    most, least = (n / (n - 1) for n in (min(counts), max(counts)))
    low, high = (kept + ratio * (paddle.astype(np.float64) - kept) for ratio in (least, most))
    expected = np.clip(torch.astype(np.float64), low, high)
    return compare_arrays("", torch, expected.astype(torch.dtype), threshold).passed


def adam_bound(learning_rates: list[float], betas: tuple[float, float]) -> float:
    """The farthest that Adam can move one element, whatever its gradients: sum of lr_t * sqrt(sum_i w_i^2 / u_i).

    w, u: the weights of the gradients of steps 1 to t in the bias-corrected first and second moment (Cauchy-Schwarz).
    """
    total = 0.0
    for step, rate in enumerate(learning_rates, 1):
        ages = np.arange(step)
        first, second = ((1 - beta) * beta**ages / (1 - beta**step) for beta in betas)
        total += rate * math.sqrt(float((first**2 / second).sum()))
    return total


def _adam_zero_gradient(torch: np.ndarray, paddle: np.ndarray, context: Mapping[str, Any], threshold: Threshold) -> bool:
    """Context: gradients ([reference, port], the largest |gradient| over all steps, of the parameter or of each element),
    module_gradient (the largest of the module that owns it), learning_rates (one per step, the group's factor included),
    betas.

    The arrays are the parameter, or its change, after the last step. Elements may be zero by construction beside others
    that are not, as in the bias of fused query, key and value; those others must agree as any parameter.
    """
    reference, port = (np.broadcast_to(np.asarray(one, np.float64), torch.shape) for one in context["gradients"])
    quiet = np.maximum(reference, port) <= ZERO_GRADIENT * float(context["module_gradient"])
    if not quiet.any():
        return False
    bound = 2 * adam_bound([float(rate) for rate in context["learning_rates"]], tuple(map(float, context["betas"])))
    difference = np.abs(torch.astype(np.float64) - paddle.astype(np.float64))
    if not (difference <= bound * (1 + 1e-6) + 1e-6 * np.abs(torch))[quiet].all():
        return False
    floor = ZERO_GRADIENT * float(np.abs(torch).max())
    return bool(quiet.all()) or compare_arrays("", torch[~quiet], paddle[~quiet], threshold, floor=floor, zeros=True).passed


REGISTRY = (
    KnownDifference(
        id="running_variance",
        title="Paddle keeps the biased running variance of batch normalisation, PyTorch the unbiased one",
        formula="v_torch - (1 - m)^k v_0 = n / (n - 1) * (v_paddle - (1 - m)^k v_0) after k steps of n values per channel",
        source="paddle.nn.BatchNorm2D and torch.nn.BatchNorm2d, API reference: running variance; PaddlePaddle/Paddle#68159",
        verify=_running_variance,
    ),
    KnownDifference(
        id="adam_zero_gradient",
        title="Adam moves a parameter whose gradient is zero by the sign of rounding errors",
        formula="|g| <= 2e-5 max |g of its module| on both sides; |p_torch - p_paddle| <= 2 sum_t lr_t sqrt(sum_i w_i^2 / u_i)",
        source="Kingma and Ba 2015, arXiv:1412.6980, algorithm 1: m / sqrt(v) does not depend on the size of the gradient",
        verify=_adam_zero_gradient,
    ),
)


def explain(
    torch: np.ndarray, paddle: np.ndarray, context: Mapping[str, Any] | None, threshold: Threshold
) -> KnownDifference | None:
    """The rule whose formula the two arrays satisfy, or None."""
    if not isinstance(context, Mapping) or torch.shape != paddle.shape or torch.dtype != paddle.dtype or torch.dtype.kind != "f":
        return None
    if not (np.isfinite(torch).all() and np.isfinite(paddle).all()):
        return None
    for rule in REGISTRY:
        try:
            if rule.applies(context) and rule.verify(torch, paddle, context, threshold):
                return rule
        except (KeyError, TypeError, ValueError, OverflowError):  # the context is not what the rule needs
            return None
    return None
