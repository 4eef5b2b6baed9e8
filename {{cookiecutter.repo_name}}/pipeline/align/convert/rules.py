# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""One rule per pair of module types: which parameter becomes which, and how its axes are ordered.

By type, never by shape: a square Linear weight is transposed because it is a Linear. The key is the full class path,
subclasses follow their base. Measured on torch 2.13.0 and paddle 3.3.1: every rule has a test that compares outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.align.convert import ops
from pipeline.align.convert.tree import Node, Ref


@dataclass(frozen=True)
class Link:
    """`torch` becomes `paddle` by `op`. One of them is None where the other side has no counterpart:

    torch only: dropped, for `reason`; written back as `fill`. Paddle only: filled with `fill`, for `reason`.
    """

    torch: Ref | None
    paddle: Ref | None
    op: str = "id"
    reason: str = ""
    fill: float | None = None


class Unfit(Exception):
    """Why two modules of matching types cannot be converted."""


@dataclass(frozen=True)
class Rule:
    """`links(torch module, paddle module)` -> links, raises Unfit. `near`: 0 for the same layer, 1 for an equivalent one."""

    name: str
    links: Callable[[Node, Node], list[Link]]
    near: int = 0


_RULES: dict[tuple[str, str], Rule] = {}
_TORCH_KINDS: set[str] = set()
_PADDLE_KINDS: set[str] = set()


def add_rule(torch_kind: str, paddle_kind: str, rule: Rule) -> None:
    """Make `rule` the rule for this pair of classes and their subclasses."""
    _RULES[torch_kind, paddle_kind] = rule
    _TORCH_KINDS.add(torch_kind)
    _PADDLE_KINDS.add(paddle_kind)


def register(torch_class_name: str, paddle_class_name: str, params: Sequence[tuple[str, str, str]]) -> None:
    """Teach the converter a pair of your own module types.

    `params`: (torch name, paddle name, op) per parameter or buffer, names relative to the module, op one of "id", "T",
    "reshape", "perm 1,0,2" (see ops.py). Class names are full paths (torch.nn.Linear), or for your own classes just the
    name. A parameter that both modules lack is skipped; one that only one of them has is an error. In
    pipeline/own_layers.py, which is imported where it exists:

        from pipeline.align.convert import register
        register("models.layers.Projection", "models.layers.Projection",
                 params=[("matrix", "matrix", "T"), ("shift", "shift", "id")])
    """
    for _, _, op in params:
        ops.parse(op)
    name = f"{torch_class_name.rpartition('.')[2]} (registered)"
    add_rule(torch_class_name, paddle_class_name, Rule(name, lambda t, p: by_name(t, p, params)))


def find_rule(torch: Node, paddle: Node) -> Rule | None:
    """The rule of the most derived pair of classes, or None."""
    for torch_kind in _names(torch):
        for paddle_kind in _names(paddle):
            rule = _RULES.get((torch_kind, paddle_kind))
            if rule is not None:
                return rule
    return None


def type_of(node: Node, framework: str) -> str | None:
    """The class key, among those that have rules, that `node` is or derives from; None for other modules."""
    known = _TORCH_KINDS if framework == "torch" else _PADDLE_KINDS
    return next((kind for kind in _names(node) if kind in known), None)


def _names(node: Node) -> list[str]:
    """Class keys, and for classes outside of the frameworks also their bare names."""
    names = []
    for kind in node.kinds:
        names.append(kind)
        if not kind.startswith(("torch.", "paddle.")):
            names.append(kind.rpartition(".")[2])
    return names


def by_name(
    torch: Node,
    paddle: Node,
    params: Sequence[tuple[str, str, str]],
    fills: dict[str, float] | None = None,
    frozen: bool = True,
) -> list[Link]:
    """Links for a table of (torch name, paddle name, op). `fills`: constants for Paddle parameters that torch lacks,
    which make the same layer as long as they do not train (not asked for unless `frozen`).
    """
    torch_refs, paddle_refs = torch.refs(), paddle.refs()
    links = []
    for torch_name, paddle_name, op in params:
        pairs = _normed(torch, paddle, torch_name, paddle_name, op)
        for torch_key, paddle_key, one_op in pairs:
            t, p = torch_refs.get(torch_key), paddle_refs.get(paddle_key)
            if t is not None and p is not None:
                links.append(Link(t, p, one_op))
            elif t is not None:
                raise Unfit(f"torch {t.key!r} {t.shape} has no counterpart: Paddle's {paddle.label} has no {paddle_key!r}")
            elif p is not None:
                if fills is None or paddle_name not in fills or (frozen and p.trainable):
                    raise Unfit(f"paddle {p.key!r} {p.shape} has no counterpart: torch's {torch.label} has no {torch_key!r}")
                links.append(Link(None, p, "id", "torch's layer has none: the constant without effect", fills[paddle_name]))
    return links


def _normed(torch: Node, paddle: Node, torch_name: str, paddle_name: str, op: str) -> list[tuple[str, str, str]]:
    """The (torch name, paddle name, op) that stand for one parameter, which weight or spectral norm may have split."""
    t_norm, p_norm = torch.norms.get(torch_name), paddle.norms.get(paddle_name)
    if t_norm is None and p_norm is None:
        return [(torch_name, paddle_name, op)]
    kinds = [norm["kind"] if norm else "none" for norm in (t_norm, p_norm)]
    if kinds[0] not in ("none", "weight_norm", "spectral_norm"):
        raise Unfit(
            f"{torch.label}: parametrisation {kinds[0]} has no rule; remove it (remove_parametrizations) before converting"
        )
    if kinds[0] != kinds[1] or t_norm is None or p_norm is None:
        raise Unfit(
            f"{torch.label} has {kinds[0]} on {torch_name!r} in torch, {paddle.label} has {kinds[1]} in Paddle;"
            " use the same on both sides, or remove it"
        )
    dims = [norm["dim"] for norm in (t_norm, p_norm)]
    if op == "T" and dims[0] in (0, 1):
        dims[0] = 1 - dims[0]
    if dims[0] != dims[1]:
        raise Unfit(
            f"{torch.label}: {kinds[0]} has dim {t_norm['dim']} in torch and {p_norm['dim']} in Paddle, which is another"
            f" norm; Paddle's must be {dims[0]}"
        )
    new = (
        f"parametrizations.{torch_name}.original" in torch.refs() or f"parametrizations.{torch_name}.original0" in torch.refs()
    )
    inner = f"parametrizations.{torch_name}."
    if kinds[0] == "weight_norm":
        g, v = (f"{inner}original0", f"{inner}original1") if new else (f"{torch_name}_g", f"{torch_name}_v")
        return [(g, f"{paddle_name}_g", "flat" if t_norm["dim"] is not None else "id"), (v, f"{paddle_name}_v", op)]
    names = (
        (f"{inner}original", f"{inner}0._u", f"{inner}0._v")
        if new
        else tuple(torch_name + end for end in ("_orig", "_u", "_v"))
    )
    return [(t, paddle_name + end, one) for t, end, one in zip(names, ("_orig", "_u", "_v"), (op, "id", "id"), strict=True)]


def _plain(
    name: str,
    torch_kinds: Sequence[str],
    paddle_kinds: Sequence[str],
    params: Sequence[tuple[str, str, str]],
    fills: dict[str, float] | None = None,
    check: Callable[[Node, Node], None] | None = None,
) -> None:
    """Add the rule for every pair of the kinds; the pairs beside the diagonal are equivalents."""

    def links(torch: Node, paddle: Node) -> list[Link]:
        if check is not None:
            check(torch, paddle)
        return by_name(torch, paddle, params, fills)

    for i, torch_kind in enumerate(torch_kinds):
        for j, paddle_kind in enumerate(paddle_kinds):
            add_rule(torch_kind, paddle_kind, Rule(name, links, 0 if i == j else 1))


WEIGHT_BIAS = (("weight", "weight", "id"), ("bias", "bias", "id"))
LINEAR = (("weight", "weight", "T"), ("bias", "bias", "id"))
NEUTRAL = {"weight": 1.0, "scale": 1.0, "bias": 0.0}


def _check_groups(torch: Node, paddle: Node) -> None:
    groups = [torch.hyper.get("groups", 1), paddle.hyper.get("_groups", 1)]
    if groups[0] != groups[1]:
        raise Unfit(f"{torch.label} has {groups[0]} groups in torch, {paddle.label} has {groups[1]} in Paddle")


_plain("Linear", ["torch.nn.Linear"], ["paddle.nn.Linear"], LINEAR)
_plain("Linear", ["torch.nn.Linear"], ["paddle.compat.nn.Linear"], WEIGHT_BIAS)
# Hugging Face's GPT-2 layer: x @ weight, as Paddle does.
_plain("Conv1D of transformers", ["transformers.pytorch_utils.Conv1D"], ["paddle.nn.Linear"], WEIGHT_BIAS)
_plain("Conv1D of transformers", ["transformers.pytorch_utils.Conv1D"], ["paddle.compat.nn.Linear"], LINEAR)
for _n in "123":
    _plain("Conv", [f"torch.nn.Conv{_n}d"], [f"paddle.nn.Conv{_n}D"], WEIGHT_BIAS, check=_check_groups)
    _plain(
        "transposed Conv", [f"torch.nn.ConvTranspose{_n}d"], [f"paddle.nn.Conv{_n}DTranspose"], WEIGHT_BIAS, check=_check_groups
    )
_plain("deformable Conv", ["torchvision.ops.deform_conv.DeformConv2d"], ["paddle.vision.ops.DeformConv2D"], WEIGHT_BIAS)
_plain("GroupNorm", ["torch.nn.GroupNorm"], ["paddle.nn.GroupNorm"], WEIGHT_BIAS, NEUTRAL)
_plain("Embedding", ["torch.nn.Embedding", "torch.nn.EmbeddingBag"], ["paddle.nn.Embedding"], [("weight", "weight", "id")])
_plain("PReLU", ["torch.nn.PReLU"], ["paddle.nn.PReLU"], [("weight", "_weight", "id")])
_plain("Bilinear", ["torch.nn.Bilinear"], ["paddle.nn.Bilinear"], [("weight", "weight", "id"), ("bias", "bias", "row")])


def _layer_norm(torch: Node, paddle: Node) -> list[Link]:
    """torch's Transformer layers without bias have LayerNorms without bias, Paddle's keep those biases."""
    layers = [
        node.parent is not None
        and node.parent.isa(*(f"{framework}.nn.Transformer{kind}Layer" for kind in ("Encoder", "Decoder")))
        for node, framework in ((torch, "torch"), (paddle, "paddle"))
    ]
    return by_name(torch, paddle, (("weight", "weight", "flat"), ("bias", "bias", "flat")), NEUTRAL, frozen=not all(layers))


add_rule("torch.nn.LayerNorm", "paddle.nn.LayerNorm", Rule("LayerNorm", _layer_norm))


def _batch_norm(torch: Node, paddle: Node) -> list[Link]:
    if torch.hyper.get("track_running_stats") is False:
        raise Unfit(
            f"torch's {torch.label} has track_running_stats=False; Paddle's BatchNorm always uses running statistics in eval"
            " mode (and its use_global_stats=False has wrong gradients there): not convertible"
        )
    if "momentum" in torch.hyper and torch.hyper["momentum"] is None:
        raise Unfit(
            f"torch's {torch.label} has momentum=None (a cumulative average), which Paddle's BatchNorm lacks: not convertible"
        )
    statistics = (("running_mean", "_mean", "id"), ("running_var", "_variance", "id"))
    return by_name(torch, paddle, (*WEIGHT_BIAS, *statistics), NEUTRAL) + dropped_counter(torch)


def dropped_counter(torch: Node) -> list[Link]:
    """torch's num_batches_tracked as a dropped row."""
    ref = torch.own.get("num_batches_tracked")
    return [] if ref is None else [Link(ref, None, reason="a counter that only momentum=None reads; Paddle has none", fill=0)]


def _instance_norm(torch: Node, paddle: Node) -> list[Link]:
    if "running_mean" in torch.own:
        raise Unfit(
            f"torch's {torch.label} has track_running_stats=True; Paddle's InstanceNorm has no running statistics:"
            " not convertible (write the layer with batch_norm of reshaped inputs)"
        )
    return by_name(torch, paddle, (("weight", "scale", "id"), ("bias", "bias", "id")), NEUTRAL)


_BATCH_NORMS = [f"torch.nn.BatchNorm{n}d" for n in "123"] + ["torch.nn.SyncBatchNorm"]
for _i, _kind in enumerate(_BATCH_NORMS):
    for _j, _other in enumerate(
        [*(f"paddle.nn.BatchNorm{n}D" for n in "123"), "paddle.nn.SyncBatchNorm", "paddle.nn.BatchNorm"]
    ):
        add_rule(_kind, _other, Rule("BatchNorm", _batch_norm, 0 if _i == _j else 1))
for _other in (*(f"paddle.nn.BatchNorm{n}D" for n in "123"), "paddle.nn.BatchNorm"):
    add_rule("torchvision.ops.misc.FrozenBatchNorm2d", _other, Rule("frozen BatchNorm", _batch_norm))
for _n in "123":
    add_rule(f"torch.nn.InstanceNorm{_n}d", f"paddle.nn.InstanceNorm{_n}D", Rule("InstanceNorm", _instance_norm))


def _pointwise(torch: Node, paddle: Node) -> list[Link]:
    """Linear and 1x1 convolution are the same map; torch's Linear weight is (out, in), Paddle's (in, out)."""
    for node in (torch, paddle):
        if "weight" in node.own and any(size != 1 for size in node.own["weight"].shape[2:]):
            raise Unfit(f"{node.label} is not a 1x1 convolution, so it is not a Linear layer")
        if node.hyper.get("groups", node.hyper.get("_groups", 1)) != 1:
            raise Unfit(f"{node.label} has groups, so it is not a Linear layer")
    if torch.norms or paddle.norms:
        raise Unfit(f"{torch.label} and {paddle.label}: normalised weights of different layer types have no rule")
    op = "reshape|T" if paddle.isa("paddle.nn.Linear") and not paddle.isa("paddle.compat.nn.Linear") else "reshape"
    return by_name(torch, paddle, (("weight", "weight", op), ("bias", "bias", "id")))


for _n in "123":
    for _linear in ("paddle.nn.Linear", "paddle.compat.nn.Linear"):
        add_rule(f"torch.nn.Conv{_n}d", _linear, Rule("1x1 Conv to Linear", _pointwise, 1))
    add_rule("torch.nn.Linear", f"paddle.nn.Conv{_n}D", Rule("Linear to 1x1 Conv", _pointwise, 1))
    for _m in "123":
        if _n != _m:
            add_rule(f"torch.nn.Conv{_n}d", f"paddle.nn.Conv{_m}D", Rule("1x1 Conv to 1x1 Conv", _pointwise, 1))

# An output head that shares the table of an Embedding: a Linear from the vector to the vocabulary.
_plain(
    "Embedding to output head",
    ["torch.nn.Embedding"],
    ["paddle.nn.Linear"],
    [("weight", "weight", "T"), ("bias", "bias", "id")],
)
_plain("Embedding to output head", ["torch.nn.Embedding"], ["paddle.compat.nn.Linear"], WEIGHT_BIAS)
_plain("output head to Embedding", ["torch.nn.Linear"], ["paddle.nn.Embedding"], WEIGHT_BIAS)


def layout(ref: Ref) -> str | None:
    """ "out,in" or "in,out" for the matrix of a Linear layer, None where the frameworks agree on the order of axes."""
    if len(ref.shape) != 2:
        return None
    if ref.node.isa("paddle.compat.nn.Linear"):
        return "out,in"
    if ref.node.isa("paddle.nn.Linear", "transformers.pytorch_utils.Conv1D"):
        return "in,out"
    return "out,in" if ref.node.isa("torch.nn.Linear", "torch.nn.MultiheadAttention") else None
