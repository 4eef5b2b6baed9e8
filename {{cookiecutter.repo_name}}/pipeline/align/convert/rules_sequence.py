# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Rules of attention and recurrent layers, whose parameters are split and named differently."""

from __future__ import annotations

from pipeline.align.convert.rules import Link, Rule, Unfit, add_rule, by_name
from pipeline.align.convert.tree import Node, Ref

#: Children of paired containers that have different names.
CHILD_NAMES = {("torch.nn.TransformerDecoderLayer", "paddle.nn.TransformerDecoderLayer"): {"multihead_attn": "cross_attn"}}


def attention_parts(torch: Node) -> dict[str, Ref]:
    """torch's MultiheadAttention as {"q.weight": ..., "q.bias": ...}: rows of in_proj_weight, or the three separate weights."""
    parts: dict[str, Ref] = {}
    for ref, separate in ((torch.own.get("in_proj_weight"), "{}_proj_weight"), (torch.own.get("in_proj_bias"), None)):
        kind = "weight" if separate else "bias"
        size = torch.own["in_proj_bias"].shape[0] // 3 if ref is None and "in_proj_bias" in torch.own else None
        for i, letter in enumerate("qkv"):
            if ref is not None:
                size = ref.shape[0] // 3
                parts[f"{letter}.{kind}"] = ref.slice(i * size, (i + 1) * size)
            elif separate and separate.format(letter) in torch.own:
                parts[f"{letter}.{kind}"] = torch.own[separate.format(letter)]
    return parts


def check_attention(torch: Node) -> None:
    """Raise Unfit for what Paddle's attention cannot express."""
    for name in ("bias_k", "bias_v"):
        if name in torch.own:
            raise Unfit(
                f"torch's {torch.label} has {name} (add_bias_kv=True), which Paddle's MultiHeadAttention lacks: not convertible"
            )


def _attention(torch: Node, paddle: Node) -> list[Link]:
    check_attention(torch)
    heads = [torch.hyper.get("num_heads"), paddle.hyper.get("num_heads")]
    if heads[0] != heads[1]:
        raise Unfit(f"{torch.label} has {heads[0]} heads in torch and {heads[1]} in Paddle")
    paddle_refs, links = paddle.refs(), []
    for name, ref in attention_parts(torch).items():
        letter, kind = name.split(".")
        target = paddle_refs.get(f"{letter}_proj.{kind}")
        if target is None:
            raise Unfit(f"torch {ref.key!r} has no counterpart: Paddle's {paddle.label} has no {letter}_proj.{kind}")
        links.append(Link(ref, target, "T" if kind == "weight" else "id"))
    filled = {link.paddle.key for link in links if link.paddle}
    for name in ("q_proj", "k_proj", "v_proj"):
        for kind in ("weight", "bias"):
            left = paddle_refs.get(f"{name}.{kind}")
            if left is not None and left.key not in filled:
                raise Unfit(f"paddle {left.key!r} {left.shape} has no counterpart: torch's {torch.label} has no bias")
    return links + by_name(
        torch, paddle, (("out_proj.weight", "out_proj.weight", "T"), ("out_proj.bias", "out_proj.bias", "id"))
    )


def _compat_attention(torch: Node, paddle: Node) -> list[Link]:
    names = (
        "in_proj_weight",
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
        "in_proj_bias",
        "out_proj.weight",
        "out_proj.bias",
        "bias_k",
        "bias_v",
    )
    return by_name(torch, paddle, [(name, name, "id") for name in names])


add_rule("torch.nn.MultiheadAttention", "paddle.nn.MultiHeadAttention", Rule("MultiheadAttention", _attention))
add_rule("torch.nn.MultiheadAttention", "paddle.compat.nn.MultiheadAttention", Rule("MultiheadAttention", _compat_attention))

CELL_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _cell_links(torch: Node, paddle: Node, suffix: str, cell: str) -> list[Link]:
    """One direction of one layer: torch's flat names with `suffix`, Paddle's names below `cell`."""
    torch_refs, paddle_refs, links = torch.refs(), paddle.refs(), []
    for name in (*CELL_NAMES, "weight_hr"):
        t = torch_refs.get(name + suffix)
        p = paddle_refs.get(cell + ("weight_ho" if name == "weight_hr" else name))
        if t is not None and p is not None:
            links.append(Link(t, p, "T" if name == "weight_hr" else "id"))
        elif t is not None:
            raise Unfit(f"torch {t.key!r} {t.shape} has no counterpart: Paddle's {paddle.label} has no {cell}{name}")
        elif p is not None and name.startswith("bias"):
            # Without biases Paddle's RNNs crash: a port keeps them at zero.
            links.append(Link(None, p, "id", "torch's layer has no bias: zero, to be left out of the optimizer", 0.0))
        elif p is not None:
            raise Unfit(f"paddle {p.key!r} {p.shape} has no counterpart: torch's {torch.label} has no {name}{suffix}")
    return links


def _recurrent(torch: Node, paddle: Node) -> list[Link]:
    """Paddle's flat names are wrong with projections, so parameters are taken from the cells."""
    layers, both = torch.hyper["num_layers"], torch.hyper["bidirectional"]
    if (layers, both) != (paddle.hyper["num_layers"], paddle.hyper["num_directions"] == 2):
        raise Unfit(
            f"{torch.label} has {layers} layers, bidirectional={both} in torch; Paddle's has {paddle.hyper['num_layers']} layers,"
            f" {paddle.hyper['num_directions']} directions"
        )
    links = []
    for k in range(layers):
        links += _cell_links(torch, paddle, f"_l{k}", f"{k}.cell_fw." if both else f"{k}.cell.")
        if both:
            links += _cell_links(torch, paddle, f"_l{k}_reverse", f"{k}.cell_bw.")
    return links


def _wrapped_cell(torch: Node, paddle: Node) -> list[Link]:
    """torch's one-layer recurrence against paddle.nn.RNN or BiRNN around cells."""
    if torch.hyper["num_layers"] != 1 or torch.hyper["bidirectional"] != ("cell_bw" in paddle.children):
        raise Unfit(f"{torch.label} has several layers or other directions than Paddle's {paddle.label}")
    kind = {"torch.nn.LSTM": "LSTMCell", "torch.nn.GRU": "GRUCell", "torch.nn.RNN": "SimpleRNNCell"}
    wanted = next(f"paddle.nn.{cell}" for name, cell in kind.items() if torch.isa(name))
    if not all(child.isa(wanted) for child in paddle.children.values()):
        raise Unfit(f"Paddle's {paddle.label} holds another cell than torch's {torch.label} needs ({wanted})")
    if "cell_bw" in paddle.children:
        return _cell_links(torch, paddle, "_l0", "cell_fw.") + _cell_links(torch, paddle, "_l0_reverse", "cell_bw.")
    return _cell_links(torch, paddle, "_l0", "cell.")


for _torch, _paddle in (("LSTM", "LSTM"), ("GRU", "GRU"), ("RNN", "SimpleRNN")):
    add_rule(f"torch.nn.{_torch}", f"paddle.nn.{_paddle}", Rule("recurrent layer", _recurrent))
    for _wrapper in ("RNN", "BiRNN"):
        add_rule(f"torch.nn.{_torch}", f"paddle.nn.{_wrapper}", Rule("recurrent layer", _wrapped_cell, 1))
    add_rule(
        f"torch.nn.{_torch}Cell", f"paddle.nn.{_paddle}Cell", Rule("recurrent cell", lambda t, p: _cell_links(t, p, "", ""))
    )


def _adaptive_softmax(torch: Node, paddle: Node) -> list[Link]:
    """Paddle keeps the tail in a plain list outside of state_dict(); describe_paddle.py lists it nevertheless."""
    names = [("head.weight", "head_weight", "T"), ("head.bias", "head_bias", "id")]
    for i in range(len(torch.children["tail"].children)):
        names += [(f"tail.{i}.{j}.weight", f"tail_weights.{i}.{j}", "T") for j in (0, 1)]
    return by_name(torch, paddle, names)


add_rule(
    "torch.nn.AdaptiveLogSoftmaxWithLoss", "paddle.nn.AdaptiveLogSoftmaxWithLoss", Rule("adaptive softmax", _adaptive_softmax)
)
