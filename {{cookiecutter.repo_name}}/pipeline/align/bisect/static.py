# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Settings of paired modules that differ: kernel sizes, eps, momentum, slopes, modes, and attributes of the user's own modules.

Both sides' attributes are brought to common names and values first; what only one side has is not compared. A difference
is a hint, never a verdict: it may be without effect.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.align.convert.tree import class_key

#: Attribute, without leading underscores -> common name.
NAMES = {
    "eps": "epsilon", "layer_norm_eps": "epsilon", "ksize": "kernel_size", "kernel_sizes": "kernel_size", "strides": "stride",
    "paddings": "padding", "dilations": "dilation", "output_sizes": "output_size", "dim": "axis", "start_dim": "start_axis",
    "end_dim": "stop_axis", "lambd": "threshold", "min_val": "min", "max_val": "max",
    "return_indices": "return_mask", "divisor_override": "divisor", "norm_first": "normalize_before",
    "nonlinearity": "activation",
}  # fmt: skip
#: Attributes that say nothing about what is computed, or that weights already agree in.
IGNORED = {
    "inplace", "in_place", "fuse_with_relu", "weight_attr", "bias_attr", "param_attr", "data_format", "channel_dim", "use_cudnn",
    "op_type", "updated_padding", "padding_algorithm", "reversed_padding_repeated_twice", "could_use_cudnn", "state_components",
    "is_distributed", "remote_prefetch", "all_weights", "activation_relu_or_gelu", "init", "dtype", "device",
    "training", "name", "qkv_same_embed_dim", "need_weights", "return_mask", "config", "norm_type",
}  # fmt: skip
#: torch class -> the Paddle class of another name that is the same.
SAME_CLASS = {
    "silu": ("swish",), "threshold": ("thresholdedrelu",), "rnn": ("simplernn",), "rnncell": ("simplernncell",),
    "modulelist": ("layerlist",), "moduledict": ("layerdict",),
}  # fmt: skip
FROZEN = " frozen"
#: What padding must be where "SAME" would drop the dilation.
NO_DILATION = "dilation * (kernel_size - 1) / 2"
#: The mode of torch's dropout; Paddle's other one scales the output in eval mode.
UPSCALE = "upscale_in_train"
#: Common name -> Paddle's argument of the opposite sense.
OPPOSITE = {"include_pad": "exclusive", "batch_first": "time_major"}
MEANINGS = {
    "momentum": "Paddle's weighs the old value, torch's the new one: 1 - torch's",
    "include_pad": "the opposite of torch's count_include_pad, also by default",
    "batch_first": "the opposite of torch's batch_first, also by default",
    "approximate": "torch's 'none' is False, 'tanh' is True",
}


@dataclass(frozen=True)
class Difference:
    """A setting of a paired module that differs, with Paddle's argument and what it should be where that is known."""

    torch: str
    paddle: str
    setting: str
    torch_value: Any
    paddle_value: Any

    @property
    def text(self) -> str:
        """For people."""
        meaning = f" ({MEANINGS[self.setting]})" if self.setting in MEANINGS else ""
        where = f"'{self.paddle or 'the model'}'" if self.torch == self.paddle else f"'{self.paddle}' (torch: '{self.torch}')"
        if self.setting.endswith(FROZEN):
            states = [("trained", "frozen (stop_gradient)")[bool(value)] for value in (self.paddle_value, self.torch_value)]
            return f"{self.setting.removesuffix(FROZEN)} of {where} is {states[0]} in the port and must be {states[1]}"
        name, values = self.setting, [self.paddle_value, self.torch_value]
        if name in OPPOSITE:
            name, values = OPPOSITE[name], [not value for value in values]
        return f"{name} of {where} is {values[0]!r} in the port and must be {values[1]!r}{meaning}"


def differences(
    torch_tree: Mapping[str, Any], paddle_tree: Mapping[str, Any], pairs: Iterable[tuple[str, str]]
) -> list[Difference]:
    """All settings that differ in `pairs` of module paths, in their order. The trees are those of convert.describe_*."""
    sides = [{module["path"]: module for module in tree["modules"]} for tree in (torch_tree, paddle_tree)]
    found = []
    for torch, paddle in pairs:
        if torch in sides[0] and paddle in sides[1]:
            found += _compare(sides[0][torch], sides[1][paddle])
    return found


def other_layouts(torch_tree: Mapping[str, Any], paddle_tree: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> set[str]:
    """torch paths of layers whose two sides take their axes in another order: channels last, time or batch first."""
    sides = [{module["path"]: module for module in tree["modules"]} for tree in (torch_tree, paddle_tree)]
    found = set()
    for torch, paddle in pairs:
        if torch in sides[0] and paddle in sides[1]:
            ours, theirs = sides[0][torch]["hyper"], sides[1][paddle]["hyper"]
            last = str(theirs.get("_data_format", theirs.get("data_format"))).endswith("C")
            if last or ("batch_first" in ours and ours["batch_first"] is theirs.get("time_major", False)):
                found.add(torch)
    return found


def _compare(torch: Mapping[str, Any], paddle: Mapping[str, Any]) -> list[Difference]:
    where = torch["path"], paddle["path"]
    classes = [class_key(module["class"]) for module in (torch, paddle)]
    mine, other = common(torch["hyper"], torch["bases"], "torch"), common(paddle["hyper"], paddle["bases"], "paddle")
    found = []
    if all(path.startswith(("torch.nn.", "paddle.nn.")) for path in classes):
        names = [path.rpartition(".")[2] for path in classes]
        if not _same_class(*names) and not torch["params"] and not paddle["params"]:
            return [Difference(*where, "type", *names)]
    frozen = [{tensor["name"]: not tensor["trainable"] for tensor in module["params"]} for module in (torch, paddle)]
    for name in frozen[0].keys() & frozen[1].keys():
        if frozen[0][name] != frozen[1][name]:
            found.append(Difference(*where, name + FROZEN, frozen[0][name], frozen[1][name]))
    for name in mine:
        if name in other and not equal(mine[name], other[name]) and not _same_padding(name, mine, other):
            found.append(Difference(*where, name, mine[name], other[name]))
    if "Dropout" in classes[1] and other.get("mode", UPSCALE) != UPSCALE:
        found.append(Difference(*where, "mode", UPSCALE, other["mode"]))
    if other.get("use_global_stats") is not None:
        found.append(Difference(*where, "use_global_stats", None, other["use_global_stats"]))
    if other.get("align_mode", 0) != 0:
        found.append(Difference(*where, "align_mode", 0, other["align_mode"]))
    if mine.get("padding") == other.get("padding") == "same" and other.get("dilation", 1) != 1:
        found.append(Difference(*where, "padding", NO_DILATION, "same"))
    return found


def common(hyper: Mapping[str, Any], bases: Iterable[str], side: str) -> dict[str, Any]:
    """Attributes under common names, with common values."""
    kinds = {class_key(base).rpartition(".")[2] for base in bases}
    found: dict[str, Any] = {}
    for attribute, value in hyper.items():
        name = attribute.lstrip("_")
        name = NAMES.get(name, name)
        if name not in IGNORED:
            found[name] = _value(value)
    if side == "torch" and any(kind.startswith(("BatchNorm", "SyncBatchNorm")) or kind == "_BatchNorm" for kind in kinds):
        found["momentum"] = None if found.get("momentum") is None else 1 - found["momentum"]
    if any("InstanceNorm" in kind for kind in kinds):  # neither framework's keeps running statistics after conversion
        found.pop("momentum", None)
    if "time_major" in found:
        found["batch_first"] = not found.pop("time_major")
    if "num_directions" in found:
        found["bidirectional"] = found.pop("num_directions") == 2
    if "exclusive" in found:
        found["include_pad"] = not found.pop("exclusive")
    if "count_include_pad" in found:
        found["include_pad"] = found.pop("count_include_pad")
    if "stride" in found and found["stride"] is None:
        found["stride"] = found.get("kernel_size")
    if found.get("approximate") in ("none", "tanh"):
        found["approximate"] = found["approximate"] == "tanh"
    if "align_corners" in found and found["align_corners"] is None:
        found["align_corners"] = False
    if any(kind.startswith("MultiheadAttention") for kind in kinds):  # Paddle's is always batch-first
        found.pop("batch_first", None)
    return found


def equal(torch: Any, paddle: Any) -> bool:
    """Whether two common values mean the same."""
    if isinstance(torch, (int, float)) and isinstance(paddle, (int, float)):
        return abs(torch - paddle) <= 1e-6 * max(abs(torch), abs(paddle))
    return torch == paddle


def _value(value: Any) -> Any:
    """Lists of one repeated value as that value, text in lower case."""
    if isinstance(value, str):
        return value.lower().lstrip("_")
    if isinstance(value, (list, tuple)):
        items = [_value(item) for item in value]
        return items[0] if items and all(item == items[0] for item in items) else items
    return value


def _same_class(torch: str, paddle: str) -> bool:
    torch, paddle = torch.lower(), paddle.lower()
    pads = re.fullmatch(r".*pad\dd", torch) and re.fullmatch(r".*pad\dd", paddle)  # kinds of padding are an attribute in Paddle
    return torch == paddle or paddle in SAME_CLASS.get(torch, ()) or bool(pads)


def _same_padding(name: str, torch: Mapping[str, Any], paddle: Mapping[str, Any]) -> bool:
    """Whether Paddle's "SAME" is torch's number: stride 1, no dilation, odd kernel."""
    if name != "padding" or "same" not in (torch["padding"], paddle["padding"]):
        return False
    number = torch["padding"] if paddle["padding"] == "same" else paddle["padding"]
    kernel, plain = torch.get("kernel_size"), torch.get("stride") == 1 and torch.get("dilation", 1) == 1
    return plain and isinstance(kernel, int) and kernel % 2 == 1 and number == kernel // 2
