# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Matching two module trees: by path, by the user's map, by type and order, and never by guessing."""

import json
import subprocess
import sys
from collections import OrderedDict

import numpy as np
import paddle
import pytest
import torch

from conftest import TEMPLATE
from convert_models import TOLERANCE, assert_converts, difference, make_plan, outputs, scramble, to_paddle
from pipeline.align.convert import convert_file, describe_paddle, describe_torch, plan, register, save_reference, table
from pipeline.align.convert.files import Conversion
from pipeline.align.convert.load_paddle import load_into_paddle
from pipeline.align.errors import UserError

T, P = torch.nn, paddle.nn
X = np.random.default_rng(3).normal(size=(2, 8)).astype(np.float32)


def ours(forward=None, **children):
    """A torch module with these children, parameters and buffers, in this order."""
    module = T.Module()
    for name, child in children.items():
        setattr(module, name, child)
    if forward:
        module.forward = lambda x: forward(module, x)
    return module


def theirs(forward=None, **children):
    layer = P.Layer()
    for name, child in children.items():
        setattr(layer, name, child)
    if forward:
        layer.forward = lambda x: forward(layer, x)
    return layer


def param(*shape):
    return paddle.create_parameter(shape, "float32")


def pairs(made):
    return {row.torch: row.paddle for row in made.rows}


def chain(module, x):
    for child in module.children():
        x = child(x)
    return x


# -- names ------------------------------------------------------------------------------------------------------------


def test_equal_names_win_over_definition_order(tmp_path):
    one = ours(lambda m, x: m.b(m.a(x)), a=T.Linear(8, 8), b=T.Linear(8, 8))
    other = theirs(lambda m, x: m.b(m.a(x)), b=P.Linear(8, 8), a=P.Linear(8, 8))
    assert pairs(assert_converts(one, other, (X,), tmp_path))["a.weight"] == "a.weight"


def test_renamed_modules_are_matched_in_order(tmp_path):
    one = ours(chain, first=T.Linear(8, 8), act=T.Tanh(), second=T.Linear(8, 8), norm=T.LayerNorm(8))
    other = theirs(chain, fc_in=P.Linear(8, 8), tanh=P.Tanh(), fc_out=P.Linear(8, 8), ln=P.LayerNorm(8))
    assert_converts(one, other, (X,), tmp_path)


def test_numbers_that_count_different_things(tmp_path):
    """0, 2, 4 of a Sequential against 0, 1, 2 of a list: 2 is not 2."""
    one = ours(lambda m, x: m.net(x), net=T.Sequential(T.Linear(8, 8), T.Tanh(), T.Linear(8, 8), T.Tanh(), T.Linear(8, 8)))
    tanh = paddle.tanh
    other = theirs(
        lambda m, x: m.net[2](tanh(m.net[1](tanh(m.net[0](x))))), net=P.LayerList([P.Linear(8, 8) for _ in range(3)])
    )
    made = assert_converts(one, other, (X,), tmp_path)
    assert [pairs(made)[f"net.{i}.weight"] for i in (0, 2, 4)] == [f"net.{i}.weight" for i in range(3)]


def test_other_nesting(tmp_path):
    """conv-bn pairs in one flat Sequential against a list of blocks."""
    image = np.random.default_rng(0).normal(size=(2, 4, 6, 6)).astype(np.float32)
    one = ours(
        lambda m, x: m.features(x),
        features=T.Sequential(
            T.Conv2d(4, 4, 3, padding=1), T.BatchNorm2d(4), T.ReLU(), T.Conv2d(4, 4, 3, padding=1), T.BatchNorm2d(4)
        ),
    )

    def run(model, x):
        x = paddle.nn.functional.relu(model.blocks[0].norm(model.blocks[0].conv(x)))
        return model.blocks[1].norm(model.blocks[1].conv(x))

    blocks = P.LayerList([theirs(conv=P.Conv2D(4, 4, 3, padding=1), norm=P.BatchNorm2D(4)) for _ in range(2)])
    assert_converts(one, theirs(run, blocks=blocks), (image,), tmp_path)


def test_head_moved_out_of_its_container(tmp_path):
    one = ours(lambda m, x: m.net.head(m.net.body(x)), net=ours(body=T.Linear(8, 6), head=T.Linear(6, 3)))
    other = theirs(lambda m, x: m.classifier(m.net.body(x)), net=theirs(body=P.Linear(8, 6)), classifier=P.Linear(6, 3))
    assert pairs(assert_converts(one, other, (X,), tmp_path))["net.head.weight"] == "classifier.weight"


def test_renamed_lists_of_equal_blocks_with_equal_names_inside(tmp_path):
    """The blocks go in order, the names inside them count: q, k, v are defined in another order."""

    def block(make, names):
        return {name: make(8, 8) for name in names}

    one = ours(layer=T.ModuleList([ours(**block(T.Linear, "qkv")) for _ in range(3)]))
    other = theirs(blocks=P.LayerList([theirs(**block(P.Linear, "vkq")) for _ in range(3)]))
    made = pairs(make_plan(one, other))
    assert {made[f"layer.{i}.{n}.weight"] for i in range(3) for n in "qkv"} == {
        f"blocks.{i}.{n}.weight" for i in range(3) for n in "qkv"
    }
    assert all(name.split(".")[1:] == other.split(".")[1:] for name, other in made.items())


def test_an_encoder_of_other_names_and_order_of_norms(tmp_path):
    """The names of a well-known BERT against Paddle's own Transformer layer, where norms are defined last."""

    def layer():
        return ours(
            attention=ours(
                self=ours(query=T.Linear(8, 8), key=T.Linear(8, 8), value=T.Linear(8, 8)),
                output=ours(dense=T.Linear(8, 8), LayerNorm=T.LayerNorm(8)),
            ),
            intermediate=ours(dense=T.Linear(8, 16)),
            output=ours(dense=T.Linear(16, 8), LayerNorm=T.LayerNorm(8)),
        )

    one = ours(encoder=ours(layer=T.ModuleList([layer() for _ in range(2)])))
    other = theirs(encoder=P.TransformerEncoder(P.TransformerEncoderLayer(8, 2, 16), 2))
    made = pairs(make_plan(one, other))
    expected = {
        "attention.self.query": "self_attn.q_proj",
        "attention.self.key": "self_attn.k_proj",
        "attention.self.value": "self_attn.v_proj",
        "attention.output.dense": "self_attn.out_proj",
        "attention.output.LayerNorm": "norm1",
        "intermediate.dense": "linear1",
        "output.dense": "linear2",
        "output.LayerNorm": "norm2",
    }
    assert made == {
        f"encoder.layer.{i}.{a}.{kind}": f"encoder.layers.{i}.{b}.{kind}"
        for i in range(2)
        for a, b in expected.items()
        for kind in ("weight", "bias")
    }


def test_keys_that_begin_with_other_keys():
    names = ("fc", "fc1", "fc10", "f")
    made = make_plan(ours(**{n: T.Linear(4, 4) for n in names}), theirs(**{n: P.Linear(4, 4) for n in reversed(names)}))
    assert all(name == other for name, other in pairs(made).items())


def test_names_with_dots_and_text_names_in_sequential(tmp_path):
    one = T.Sequential(OrderedDict(conv_in=T.Linear(8, 8), conv_out=T.Linear(8, 4)))
    other = P.Sequential(("conv_in", P.Linear(8, 8)), ("conv_out", P.Linear(8, 4)))
    assert_converts(one, other, (X,), tmp_path)
    dotted = P.Layer()
    dotted.add_sublayer("block.0", P.Linear(8, 8))
    made = make_plan(ours(block=ours(**{"0": T.Linear(8, 8)})), dotted)
    assert pairs(made) == {"block.0.weight": "block.0.weight", "block.0.bias": "block.0.bias"}


def test_empty_and_missing_modules():
    one = ours(a=T.Identity(), b=T.Sequential(), c=T.Linear(4, 4), d=None)
    made = make_plan(one, theirs(c=P.Linear(4, 4), a=P.Identity(), z=P.Sequential()))
    assert len(made.rows) == 2


def test_pairs_of_modules_are_kept_for_the_comparison_of_hyperparameters():
    one = ours(fc=T.Linear(4, 4), act=T.GELU(), drop=T.Dropout(0.1), net=T.Sequential(T.Linear(4, 4), T.ReLU(), T.MaxPool1d(2)))
    other = theirs(
        fc=P.Linear(4, 4), act=P.GELU(), dropout=P.Dropout(0.1), net=P.Sequential(P.Linear(4, 4), P.MaxPool1D(2), P.ReLU())
    )
    assert set(make_plan(one, other).modules) == {
        ("", ""),
        ("fc", "fc"),
        ("act", "act"),
        ("drop", "dropout"),
        ("net", "net"),
        ("net.0", "net.0"),
        ("net.1", "net.2"),
        ("net.2", "net.1"),
    }


KINDS = {
    "Linear": ("Linear", [[4, 4], [4, 6], [6, 4]]),
    "BatchNorm1d": ("BatchNorm1D", [[4], [6]]),
    "Embedding": ("Embedding", [[4, 4]]),
}


def grow(random, depth):
    """A random nest of few layer types and shapes: (type, shape), or a list of (name, content); equal blocks repeat."""
    if depth == 0 or (depth < 4 and random.random() < 0.3):
        kind = str(random.choice(list(KINDS)))
        return kind, KINDS[kind][1][random.integers(len(KINDS[kind][1]))]
    children = [grow(random, depth - 1)] * int(random.integers(1, 4)) + [grow(random, depth - 1)]
    listed = random.random() < 0.4
    return [(str(i) if listed else word(random), child) for i, child in enumerate(children)]


def word(random):
    return "".join(random.choice(list("bdfglmnprst")) + random.choice(list("aeiou")) for _ in range(4))


def port_of(random, content, renamed):
    """(the same nest as a port: some children renamed, those that keep their names in another order; {path: new path}).

    The order of renamed children is all there is to know about them, so they stay where they are.
    """
    if isinstance(content, tuple):
        return content, {"": ""}
    names = {name: name if name.isdigit() or random.random() >= renamed else word(random) for name, _ in content}
    made, paths = [], {}
    for name, child in content:
        inner, below = port_of(random, child, renamed)
        made.append((names[name], inner))
        paths.update({f"{name}.{old}": f"{names[name]}.{new}" for old, new in below.items()})
    kept = [i for i, (name, _) in enumerate(content) if names[name] == name and not name.isdigit()]
    order = dict(zip(kept, random.permutation(kept)))
    return [made[order.get(i, i)] for i in range(len(made))], paths


def described(framework, content):
    """The tree of a nest as describe() writes it."""
    modules = []

    def place(content, path, name, parent):
        leaf = isinstance(content, tuple)
        kind = content[0] if leaf else "Net"
        bases = [f"torch.nn.{kind}" if framework == "torch" else f"paddle.nn.{KINDS[kind][0]}"] if leaf else [kind]
        index = len(modules)
        modules.append(
            {
                "path": path,
                "name": name,
                "parent": parent,
                "bases": bases,
                "hyper": {},
                "norms": {},
                "params": [],
                "buffers": [],
            }
        )
        if leaf:
            shape = content[1][::-1] if kind == "Linear" and framework == "paddle" else content[1]
            modules[-1]["params"] = [
                {"name": "weight", "key": f"{path}.weight", "shape": shape, "dtype": "float32", "trainable": True}
            ]
        else:
            for child, inner in content:
                place(inner, f"{path}.{child}".lstrip("."), child, index)

    place(content, "", "", None)
    return {"framework": framework, "modules": modules, "aliases": {}}


@pytest.mark.parametrize("renamed", [0.0, 0.3, 1.0])
def test_random_ports_are_matched_right_or_not_at_all(renamed):
    """Whatever part of the names is new and however the others are ordered: a plan is right, or there is none."""
    right = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        nest = grow(random, 4)
        port, paths = port_of(random, nest, renamed)
        try:
            made = plan(described("torch", nest), described("paddle", port))
        except UserError:
            continue
        assert pairs(made) == {f"{old}weight": f"{new}weight" for old, new in paths.items()}, seed
        right += 1
    assert right >= 55


def test_random_ports_that_lack_a_layer_have_no_plan():
    for seed in range(30):
        random = np.random.default_rng(seed)
        nest = grow(random, 3)
        port = described("paddle", nest if isinstance(nest, list) else [("a", nest)])
        layers = [module for module in port["modules"] if module["params"]]
        layers[random.integers(len(layers))]["params"] = []
        with pytest.raises(UserError):
            plan(described("torch", nest if isinstance(nest, list) else [("a", nest)]), port)


# -- no guessing ------------------------------------------------------------------------------------------------------


def message(one, other, user_map=None):
    with pytest.raises(UserError) as caught:
        make_plan(one, other, user_map)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_names_that_contradict_the_order_are_not_guessed(tmp_path):
    """query, key, value against key, query, value: by order query would become key."""
    one = ours(attn=ours(query=T.Linear(8, 8), key=T.Linear(8, 8), value=T.Linear(8, 8)))
    other = theirs(attn=theirs(key_proj=P.Linear(8, 8), query_proj=P.Linear(8, 8), value_proj=P.Linear(8, 8)))
    text = message(one, other)
    assert "'attn.query'" in text and "'attn.query_proj'" in text and "weights.map" in text
    made = make_plan(one, other, {"attn.query": "attn.query_proj", "attn.key": "attn.key_proj"})
    assert pairs(made)["attn.value.weight"] == "attn.value_proj.weight"


def test_numbers_that_run_backwards_are_not_guessed():
    text = message(ours(conv1=T.Linear(8, 8), conv2=T.Linear(8, 8)), theirs(fc_2=P.Linear(8, 8), fc_1=P.Linear(8, 8)))
    assert "different orders" in text


def test_numbers_from_another_start_are_order(tmp_path):
    one = ours(chain, conv0=T.Linear(8, 8), conv1=T.Linear(8, 8), conv2=T.Linear(8, 8))
    assert_converts(one, theirs(chain, l1=P.Linear(8, 8), l2=P.Linear(8, 8), l3=P.Linear(8, 8)), (X,), tmp_path)


def test_left_over_in_torch_names_it_and_the_line():
    text = message(ours(fc=T.Linear(8, 8), aux=T.Linear(8, 3)), theirs(fc=P.Linear(8, 8)))
    assert "'aux'" in text and '"aux": null' in text
    made = make_plan(ours(fc=T.Linear(8, 8), aux=T.Linear(8, 3)), theirs(fc=P.Linear(8, 8)), {"aux": None})
    assert {row.torch: row.reason for row in made.dropped} == dict.fromkeys(
        ["aux.weight", "aux.bias"], "weights.map in port.yaml says null"
    )


def test_left_over_in_paddle_names_it_and_the_line(tmp_path):
    one, other = ours(fc=T.Linear(8, 8)), theirs(fc=P.Linear(8, 8), shift=P.Linear(8, 3))
    assert '"paddle:shift.weight": 0' in message(one, other)
    made = to_paddle(one, other, tmp_path, {"paddle:shift.*": 0.5})
    assert [row.fill for row in made.rows if row.torch is None] == [0.5, 0.5]
    assert np.all(other.shift.weight.numpy() == 0.5)


def test_another_number_of_equal_layers_is_not_guessed():
    one = ours(a=T.Linear(8, 8), b=T.Linear(8, 8), c=T.Linear(8, 8))
    text = message(one, theirs(x=P.Linear(8, 8), y=P.Linear(8, 8)))
    assert "3 of torch and 2 of paddle" in text and "'x'" in text and "'y'" in text and '"a": "x"' in text


def test_same_name_other_type_is_not_converted():
    assert "left over" in message(ours(a=T.Conv2d(8, 8, 3)), theirs(a=P.BatchNorm2D(8)))


def test_two_bare_vectors_of_one_shape_in_contradicting_order():
    one = ours(gamma=T.Parameter(torch.rand(4)), beta=T.Parameter(torch.rand(4)))
    text = message(one, theirs(beta_2=param(4), gamma_2=param(4)))
    assert "'gamma'" in text and "'gamma_2'" in text


def test_all_problems_are_listed():
    with pytest.raises(UserError) as caught:
        make_plan(ours(a=T.Linear(4, 3), b=T.Linear(5, 2)), theirs(a=P.Linear(3, 4), b=P.Linear(2, 5)))
    assert len(caught.value.problems) == 2 and "1 more problem" in str(caught.value)


# -- attention written in other ways ----------------------------------------------------------------------------------

SEQUENCE = np.random.default_rng(5).normal(size=(2, 5, 8)).astype(np.float32)


def attend(q, k, v):
    split = [x.reshape([2, 5, 2, 4]).transpose([0, 2, 1, 3]) for x in (q, k, v)]
    weights = paddle.nn.functional.softmax(split[0] @ split[1].transpose([0, 1, 3, 2]) / 2, -1)
    return (weights @ split[2]).transpose([0, 2, 1, 3]).reshape([2, 5, 8])


def test_attention_against_own_separate_layers(tmp_path):
    one = ours(lambda m, x: m.attn(x, x, x)[0], attn=T.MultiheadAttention(8, 2, batch_first=True))
    other = theirs(
        lambda m, x: m.attn.proj(attend(m.attn.q(x), m.attn.k(x), m.attn.v(x))),
        attn=theirs(q=P.Linear(8, 8), k=P.Linear(8, 8), v=P.Linear(8, 8), proj=P.Linear(8, 8)),
    )
    assert_converts(one, other, (SEQUENCE,), tmp_path)


@pytest.mark.parametrize("out", ["proj", "out_proj"])
def test_attention_against_an_own_fused_layer(out, tmp_path):
    one = ours(lambda m, x: m.attn(x, x, x)[0], attn=T.MultiheadAttention(8, 2, batch_first=True))
    other = theirs(
        lambda m, x: getattr(m.attn, out)(attend(*paddle.split(m.attn.qkv(x), 3, -1))),
        attn=theirs(**{"qkv": P.Linear(8, 24), out: P.Linear(8, 8)}),
    )
    assert_converts(one, other, (SEQUENCE,), tmp_path)


def test_fused_layer_against_paddles_attention_by_the_map(tmp_path):
    def run(model, x):
        q, k, v = (y.reshape(2, 5, 2, 4).transpose(1, 2) for y in model.qkv(x).chunk(3, -1))
        return model.proj(T.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 5, 8))

    one = ours(lambda m, x: run(m.attn, x), attn=ours(qkv=T.Linear(8, 24), proj=T.Linear(8, 8)))
    other = theirs(lambda m, x: m.attn(x), attn=P.MultiHeadAttention(8, 2))
    assert "left over" in message(one, other)
    lines = {"*.qkv": "*.q_proj + *.k_proj + *.v_proj"}
    made = assert_converts(one, other, (SEQUENCE,), tmp_path, lines)
    assert [row.torch_part for row in made.rows if row.torch == "attn.qkv.bias"] == [(0, 0, 8), (0, 8, 16), (0, 16, 24)]


def test_separate_layers_against_an_own_fused_layer_by_the_map(tmp_path):
    """Unequal parts: two heads share keys and values."""
    one = ours(lambda m, x: torch.cat([m.q(x), m.k(x), m.v(x)], -1), q=T.Linear(8, 8), k=T.Linear(8, 4), v=T.Linear(8, 4))
    other = theirs(lambda m, x: m.qkv(x), qkv=P.Linear(8, 16))
    made = assert_converts(one, other, (X,), tmp_path, {"q + k + v": "qkv"})
    assert [row.paddle_part for row in made.rows if row.torch == "k.weight"] == [(1, 8, 12)]


def test_parts_must_cover_the_tensor():
    one = ours(q=T.Linear(8, 8), k=T.Linear(8, 4))
    assert "cover it exactly once" in message(one, theirs(qk=P.Linear(8, 16)), {"q + k": "qk"})


# -- bare parameters and buffers --------------------------------------------------------------------------------------


def test_bare_square_matrix_is_not_transposed(tmp_path):
    one = ours(lambda m, x: x @ m.matrix, matrix=T.Parameter(torch.rand(8, 8)))
    made = assert_converts(one, theirs(lambda m, x: x @ m.matrix, matrix=param(8, 8)), (X,), tmp_path)
    assert [row.op for row in made.rows] == ["id"]


def test_bare_matrix_with_an_op_from_the_user(tmp_path):
    one = ours(lambda m, x: T.functional.linear(x, m.matrix), matrix=T.Parameter(torch.rand(8, 8)))
    other = theirs(lambda m, x: x @ m.table, table=param(8, 8))
    made = assert_converts(one, other, (X,), tmp_path, {"matrix": "table T"})
    assert [row.op for row in made.rows] == ["T"]


def test_bare_matrix_against_a_linear_layer_needs_an_op(tmp_path):
    one = ours(lambda m, x: T.functional.linear(x, m.proj.weight), proj=ours(weight=T.Parameter(torch.rand(8, 8))))
    other = theirs(lambda m, x: m.proj(x), proj=P.Linear(8, 8, bias_attr=False))
    text = message(one, other)
    assert '"proj.weight": "proj.weight T"' in text
    assert "cannot be told" in message(one, other, {"proj.weight": "proj.weight"})
    assert_converts(one, other, (X,), tmp_path, {"proj.weight": "proj.weight T"})


def test_reshape_and_permutation_by_the_user(tmp_path):
    one = ours(pos=T.Parameter(torch.rand(1, 4, 8)), table=T.Parameter(torch.rand(2, 3, 4)))
    other = theirs(emb=P.Embedding(4, 8), table=param(3, 4, 2))
    scramble(one)
    made = to_paddle(one, other, tmp_path, {"pos": "emb.weight reshape", "table": "table perm 1,2,0"})
    assert np.array_equal(other.emb.weight.numpy(), one.pos.detach().numpy()[0])
    assert np.array_equal(other.table.numpy(), one.table.detach().numpy().transpose(1, 2, 0))
    back = made.apply_back({"table": other.table.numpy()})
    assert np.array_equal(back["table"], one.table.detach().numpy())


def test_lists_and_dictionaries_of_parameters():
    one = ours(a=T.ParameterList([torch.rand(3), torch.rand(4)]), b=T.ParameterDict({"x": torch.rand(5), "y": torch.rand(6)}))
    made = make_plan(one, theirs(a=P.ParameterList([param(3), param(4)]), b=P.ParameterDict({"x": param(5), "y": param(6)})))
    assert pairs(made) == {"a.0": "a.0", "a.1": "a.1", "b.x": "b.x", "b.y": "b.y"}
    one = ours(a=T.ParameterList([torch.rand(3), torch.rand(3)]))
    assert pairs(make_plan(one, theirs(first=param(3), second=param(3)))) == {"a.0": "first", "a.1": "second"}


def test_buffers_of_all_kinds(tmp_path):
    one, other = T.Module(), P.Layer()
    values = {
        "ids": np.arange(6).reshape(2, 3),
        "scalar": np.float32(2.5),
        "mask": np.array([True, False]),
        "wave": np.array([1 + 2j, 3 - 1j], np.complex64),
        "small": np.int32(7),
        "low": np.float16([1, 2]),
    }
    for name, value in values.items():
        one.register_buffer(name, torch.from_numpy(np.asarray(value)))
        other.register_buffer(name, paddle.zeros(np.shape(value), str(np.asarray(value).dtype)))
    one.register_buffer("cache", torch.rand(3), persistent=False)
    other.register_buffer("table", paddle.rand([3]), persistable=False)
    made = to_paddle(one, other, tmp_path)
    for name, value in values.items():
        assert np.array_equal(other.state_dict()[name].numpy(), value), name
    assert {row.torch or row.paddle for row in made.dropped} == {"cache", "table"}
    assert {row.kind for row in made.rows} == {"buffer"}


def test_buffer_that_only_one_side_stores():
    one, other = T.Module(), P.Layer()
    one.fc, other.fc = T.Linear(2, 2), P.Linear(2, 2)
    one.register_buffer("cache", torch.rand(3))
    other.register_buffer("cache", paddle.rand([3]), persistable=False)
    made = make_plan(one, other)
    assert {(row.torch, row.paddle): "persistable=False" in row.reason for row in made.dropped} == {
        ("cache", None): True,
        (None, "cache"): False,
    }
    one, other = T.Module(), P.Layer()
    one.register_buffer("cache", torch.rand(3), persistent=False)
    other.register_buffer("cache", paddle.rand([3]))
    assert "persistent=False" in message(one, other)


def test_statistics_of_a_ports_own_batch_norm(tmp_path):
    """A module without a rule on both sides: names, and running_mean for _mean."""
    one, other = ours(norm=T.BatchNorm1d(4)), theirs(norm=theirs(weight=param(4), bias=param(4)))
    for name in ("_mean", "_variance"):
        other.norm.register_buffer(name, paddle.zeros([4]))
    scramble(one)
    to_paddle(one, other, tmp_path)
    assert np.array_equal(other.norm._variance.numpy(), one.norm.running_var.numpy())


def test_own_norm_with_other_names_against_a_layer():
    """beta is defined first, and still is the bias."""
    one = ours(ln=ours(beta=T.Parameter(torch.rand(8)), gamma=T.Parameter(torch.rand(8))))
    assert pairs(make_plan(one, theirs(ln=P.LayerNorm(8)))) == {"ln.gamma": "ln.weight", "ln.beta": "ln.bias"}


def test_layer_against_a_container_of_it_and_more(tmp_path):
    """The bias must not become the container's own vector of the same size."""
    one = ours(lambda m, x: m.fc.linear(x) * m.fc.scale, fc=ours(linear=T.Linear(8, 8), scale=T.Parameter(torch.rand(8))))
    other = theirs(lambda m, x: m.fc(x) * m.factor, fc=P.Linear(8, 8), factor=param(8))
    made = assert_converts(one, other, (X,), tmp_path)
    assert pairs(made)["fc.scale"] == "factor" and pairs(made)["fc.linear.bias"] == "fc.bias"


# -- tied and shared --------------------------------------------------------------------------------------------------


def test_module_used_twice_on_both_sides(tmp_path):
    shared_ours, shared_theirs = T.Linear(8, 8), P.Linear(8, 8)
    one = ours(lambda m, x: m.b(torch.tanh(m.a(x))), a=shared_ours, b=shared_ours)
    other = theirs(lambda m, x: m.b(paddle.tanh(m.a(x))), a=shared_theirs, b=shared_theirs)
    made = assert_converts(one, other, (X,), tmp_path)
    assert len(made.rows) == 2 and made.aliases["torch"] == {"b.weight": "a.weight", "b.bias": "a.bias"}
    assert other.a.weight is other.b.weight


def test_module_shared_in_torch_only(tmp_path):
    shared = T.Linear(8, 8)
    one = ours(lambda m, x: m.b(torch.tanh(m.a(x))), a=shared, b=shared)
    other = theirs(lambda m, x: m.b(paddle.tanh(m.a(x))), a=P.Linear(8, 8), b=P.Linear(8, 8))
    scramble(one)
    made = to_paddle(one, other, tmp_path)
    assert difference(*outputs(one, other, (X,))) <= TOLERANCE
    assert sorted(row.torch for row in made.rows) == ["a.bias", "a.bias", "a.weight", "a.weight"]
    # back: the two copies must still agree
    from convert_models import to_torch

    to_torch(one, other, tmp_path)
    other.b.bias.set_value(other.b.bias.numpy() + 1)
    with pytest.raises(UserError, match="tied"):
        to_torch(one, other, tmp_path)


def test_module_shared_in_paddle_only(tmp_path):
    shared = P.Linear(8, 8)
    one, other = ours(a=T.Linear(8, 8), b=T.Linear(8, 8)), theirs(a=shared, b=shared)
    with pytest.raises(UserError, match="tied.*'a.weight' and 'b.weight'"):
        to_paddle(one, other, tmp_path)
    one.b.load_state_dict(one.a.state_dict())
    to_paddle(one, other, tmp_path)
    assert np.array_equal(other.a.weight.numpy(), one.a.weight.detach().numpy().T)


def test_tied_head_that_the_port_computes_by_hand(tmp_path):
    def ours_run(model, x):
        return model.head(model.emb(x))

    one = ours(ours_run, emb=T.Embedding(8, 8), head=T.Linear(8, 8, bias=False))
    one.head.weight = one.emb.weight
    other = theirs(lambda m, x: paddle.matmul(m.emb(x), m.emb.weight, transpose_y=True), emb=P.Embedding(8, 8))
    assert len(assert_converts(one, other, (np.arange(6),), tmp_path).rows) == 1


def test_tied_head_beside_an_equal_layer_under_other_names():
    """The tied head must not count among the Linear layers that are matched by order."""
    one = ours(emb=T.Embedding(8, 8), fc=T.Linear(8, 8, bias=False), head=T.Linear(8, 8, bias=False))
    one.head.weight = one.emb.weight
    assert pairs(make_plan(one, theirs(table=P.Embedding(8, 8), proj=P.Linear(8, 8, bias_attr=False)))) == {
        "emb.weight": "table.weight",
        "fc.weight": "proj.weight",
    }


def test_tied_head_that_the_port_keeps_apart(tmp_path):
    one = ours(lambda m, x: m.head(m.emb(x)), emb=T.Embedding(8, 8), head=T.Linear(8, 8, bias=False))
    one.head.weight = one.emb.weight
    other = theirs(lambda m, x: m.head(m.emb(x)), emb=P.Embedding(8, 8), head=P.Linear(8, 8, bias_attr=False))
    scramble(one)
    made = to_paddle(one, other, tmp_path)
    assert {(row.paddle, row.op) for row in made.rows} == {("emb.weight", "id"), ("head.weight", "T")}
    assert difference(*outputs(one, other, (np.arange(6),))) <= TOLERANCE


def test_square_head_tied_without_a_transpose_in_paddle():
    """Square, so Paddle accepts it, and computes x @ E instead of x @ E.T."""
    one = ours(emb=T.Embedding(8, 8), head=T.Linear(8, 8, bias=False))
    one.head.weight = one.emb.weight
    other = theirs(emb=P.Embedding(8, 8), head=P.Linear(8, 8, bias_attr=False))
    other.head.weight = other.emb.weight
    assert "transpose_y=True" in message(one, other)


def test_one_tensor_for_two_by_the_map(tmp_path):
    one = ours(emb=T.Embedding(8, 4))
    other = theirs(emb=P.Embedding(8, 4), head=P.Linear(4, 8, bias_attr=False))
    made = to_paddle(one, other, tmp_path, {"emb.weight": ["emb.weight", "head.weight"]})
    assert {row.paddle: row.op for row in made.rows} == {"emb.weight": "id", "head.weight": "T"}
    assert np.array_equal(other.head.weight.numpy(), one.emb.weight.detach().numpy().T)


def test_parameters_that_share_storage_are_one():
    one = ours(a=T.Linear(4, 4), b=T.Linear(4, 4))
    one.b.weight = T.Parameter(one.a.weight.data)
    assert describe_torch.describe(one)["aliases"] == {"b.weight": "a.weight"}


# -- the user's map ---------------------------------------------------------------------------------------------------


def test_patterns(tmp_path):
    def stack(make, kind):
        return [make(up=kind(8, 8), down=kind(8, 8)) for _ in range(2)]

    one = ours(layers=T.ModuleList(stack(ours, T.Linear)))
    other = theirs(blocks=P.LayerList(stack(theirs, P.Linear)))
    # down and up are swapped on purpose, to see that the map wins over names
    for lines in (
        {"layers.*.up": "blocks.*.down", "layers.*.down": "blocks.*.up"},
        {"layers.{i}.up": "blocks.{i}.down", "layers.{i}.down": "blocks.{i}.up"},
        {"layers.0.up": "blocks.0.down", "layers.0.down": "blocks.0.up", "layers.1.*": "blocks.1.*"},
    ):
        made = pairs(make_plan(one, other, lines))
        assert made["layers.0.up.weight"] == "blocks.0.down.weight" and made["layers.0.down.bias"] == "blocks.0.up.bias"
    assert made["layers.1.up.weight"] == "blocks.1.up.weight"
    assert pairs(make_plan(one, other, {"layers.{i}.{part}": "blocks.{i}.{part}"}))["layers.1.up.bias"] == "blocks.1.up.bias"


def test_container_by_the_map():
    one, other = (
        ours(enc=ours(a=T.Linear(4, 4)), dec=ours(a=T.Linear(4, 4))),
        theirs(dec=theirs(a=P.Linear(4, 4)), enc=theirs(a=P.Linear(4, 4))),
    )
    assert pairs(make_plan(one, other, {"enc": "dec", "dec": "enc"}))["enc.a.weight"] == "dec.a.weight"


MISTAKES = {
    "unknown in torch": ({"fcc": "fc"}, "'fcc' is no module or tensor in the torch model; close names: 'fc'"),
    "unknown in paddle": ({"fc": "fd"}, "'fd' is no module or tensor in the paddle model"),
    "pattern without a match": ({"layers.*": "fc"}, "matches nothing"),
    "twice the same target": ({"fc": "fc", "other": "fc"}, "'fc' and 'other' are both mapped to 'fc'"),
    "a pattern with one target": ({"*": "fc"}, "are both mapped to 'fc'"),
    "twice the same source": ({"fc": "fc", "fc*": "other"}, "matches nothing"),
    "two patterns for one source": ({"f*": "fc", "*c": "other"}, "'f\\*' and '\\*c' both name 'fc'"),
    "a tensor that its module fills too": ({"other.bias": "other.bias", "paddle:other.bias": 1}, "filled twice"),
    "op on a module": ({"fc": "fc T"}, "is a module"),
    "unknown op": ({"fc.weight": "fc.weight U"}, "unknown op"),
    "wrong op": ({"fc.weight": "fc.weight id"}, "does not fit"),
    "no name": ({"fc": 3}, "must be a Paddle name"),
    "more stars": ({"f*": "*.*"}, r"more \* than"),
    "unknown constant": ({"paddle:nothing": 0}, "matches no Paddle tensor"),
    "constant that is no number": ({"paddle:fc.bias": "zero"}, "must be a number"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_the_map(name):
    lines, reason = MISTAKES[name]
    with pytest.raises(UserError, match=reason):
        make_plan(ours(fc=T.Linear(4, 3), other=T.Linear(2, 2)), theirs(fc=P.Linear(4, 3), other=P.Linear(2, 2)), lines)


# -- own types --------------------------------------------------------------------------------------------------------


class Projection(T.Module):
    def __init__(self):
        super().__init__()
        self.matrix, self.shift = T.Parameter(torch.rand(8, 8)), T.Parameter(torch.rand(8))

    def forward(self, x):
        return T.functional.linear(x, self.matrix, self.shift)


class ProjectionLayer(P.Layer):
    def __init__(self):
        super().__init__()
        self.table, self.offset = param(8, 8), param(8)

    def forward(self, x):
        return x @ self.table + self.offset


def test_registered_type(tmp_path):
    register("Projection", f"{__name__}.ProjectionLayer", params=[("matrix", "table", "T"), ("shift", "offset", "id")])
    one, other = ours(chain, a=Projection(), b=Projection()), theirs(chain, u=ProjectionLayer(), v=ProjectionLayer())
    made = assert_converts(one, other, (X,), tmp_path)
    assert {row.rule for row in made.rows} == {"Projection (registered)"}
    with pytest.raises(UserError, match="unknown op"):
        register("A", "B", params=[("a", "b", "transpose")])


class Scaled(T.Linear):
    """A subclass with one more parameter and a child."""

    def __init__(self):
        super().__init__(8, 8)
        self.scale, self.extra = T.Parameter(torch.rand(8)), T.Linear(8, 8)

    def forward(self, x):
        return super().forward(x) * self.scale + self.extra(x)


class ScaledLayer(P.Linear):
    def __init__(self):
        super().__init__(8, 8)
        self.scale, self.extra = param(8), P.Linear(8, 8)

    def forward(self, x):
        return super().forward(x) * self.scale + self.extra(x)


def test_subclasses_follow_their_base(tmp_path):
    made = assert_converts(ours(chain, a=Scaled()), theirs(chain, b=ScaledLayer()), (X,), tmp_path)
    assert {row.torch: row.op for row in made.rows} == {
        "a.weight": "T",
        "a.bias": "id",
        "a.scale": "id",
        "a.extra.weight": "T",
        "a.extra.bias": "id",
    }


def test_transformers_conv1d_has_paddles_layout(tmp_path):
    """GPT-2's layer computes x @ weight: not transposed, square or not."""

    class Conv1D(T.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = T.Parameter(torch.rand(8, 8)), T.Parameter(torch.rand(8))

        def forward(self, x):
            return x @ self.weight + self.bias

    Conv1D.__module__, Conv1D.__qualname__ = "transformers.pytorch_utils", "Conv1D"
    made = assert_converts(ours(chain, c_attn=Conv1D()), theirs(chain, c_attn=P.Linear(8, 8)), (X,), tmp_path)
    assert {row.op for row in made.rows} == {"id"}


# -- what cannot be described -----------------------------------------------------------------------------------------


def refused(model):
    with pytest.raises(UserError) as caught:
        describe_torch.describe(model)
    return str(caught.value)


def test_models_without_values_are_refused():
    assert "not initialised" in refused(ours(a=T.LazyLinear(3)))
    assert "meta" in refused(ours(a=T.Linear(3, 3, device="meta")))
    with paddle.LazyGuard():
        lazy = P.Linear(3, 3)
    with pytest.raises(UserError, match="no values yet"):
        describe_paddle.describe(lazy)


def test_pruned_sparse_and_quantised_models_are_refused():
    import torch.nn.utils.prune as prune

    pruned = ours(a=T.Linear(4, 4))
    prune.l1_unstructured(pruned.a, "weight", 0.5)
    assert "prune.remove" in refused(pruned)
    prune.remove(pruned.a, "weight")
    assert describe_torch.describe(pruned)["aliases"] == {}
    sparse = T.Module()
    sparse.register_buffer("table", torch.eye(3).to_sparse())
    assert "to_dense" in refused(sparse)
    quantised = T.Module()
    quantised.register_buffer("table", torch.quantize_per_tensor(torch.rand(3), 0.1, 0, torch.qint8))
    assert "quantised" in refused(quantised)


def test_extra_state_is_refused():
    class Extra(T.Linear):
        def get_extra_state(self):
            return {"scale": 1}

    assert "_extra_state" in refused(ours(a=Extra(2, 2)))


def test_wrappers_are_looked_through():
    one = T.Sequential(T.Linear(4, 4))
    names = {
        tensor["key"]
        for module in describe_torch.describe(torch.compile(T.DataParallel(one)))["modules"]
        for tensor in module["params"]
    }
    assert names == {"0.weight", "0.bias"}
    inner = ours(a=torch.compile(T.Linear(4, 4)))
    assert pairs(make_plan(inner, theirs(a=P.Linear(4, 4))))["a._orig_mod.weight"] == "a.weight"


def test_non_contiguous_parameters(tmp_path):
    one, other = ours(a=T.Linear(8, 8)), theirs(a=P.Linear(8, 8))
    one.a.weight = T.Parameter(torch.rand(8, 16).t()[::2])
    assert not one.a.weight.is_contiguous()
    to_paddle(one, other, tmp_path)
    assert np.array_equal(other.a.weight.numpy(), one.a.weight.detach().numpy().T)


# -- the plan as a linear map -----------------------------------------------------------------------------------------


def test_gradients_are_converted_by_the_same_maps(tmp_path):
    """A tied, an attention, a recurrent and a normed layer: every gradient of the port equals the converted one."""

    def build(base, lib, attention, rnn, linear):
        class Net(base):
            def __init__(self):
                super().__init__()
                self.emb, self.attn, self.rnn = lib.Embedding(8, 8), attention, rnn
                self.norm, self.head = lib.LayerNorm(8), linear

        return Net()

    one = build(T.Module, T, T.MultiheadAttention(8, 2, batch_first=True), T.GRU(8, 8, batch_first=True), T.Linear(8, 5))
    other = build(P.Layer, P, P.MultiHeadAttention(8, 2), P.GRU(8, 8), P.Linear(8, 5))
    scramble(one)
    made = to_paddle(one, other, tmp_path)
    ids = np.random.default_rng(0).integers(0, 8, (3, 4))
    h = one.emb(torch.from_numpy(ids))
    loss = (one.head(one.norm(one.rnn(one.attn(h, h, h)[0])[0] @ one.emb.weight.T)) ** 2).mean()
    loss.backward()
    h = other.emb(paddle.to_tensor(ids))
    loss = (
        other.head(other.norm(paddle.matmul(other.rnn(other.attn(h, h, h))[0], other.emb.weight, transpose_y=True))) ** 2
    ).mean()
    loss.backward()
    ours_grad = {name: p.grad.numpy() for name, p in one.named_parameters()}
    theirs_grad = {name: p.grad.numpy() for name, p in other.named_parameters()}
    converted = made.apply(ours_grad)
    for name, grad in theirs_grad.items():
        assert np.abs(converted[name] - grad).max() <= 1e-5 * max(1, np.abs(grad).max()), name
    back = made.apply_back(theirs_grad)
    for name, grad in ours_grad.items():
        assert np.abs(back[name] - grad).max() <= 1e-5 * max(1, np.abs(grad).max()), name
    # every name of the state is there, also the second names of recurrent weights
    assert set(converted) == set(other.state_dict())
    assert set(made.apply({"head.weight": ours_grad["head.weight"]})) == {"head.weight"}
    assert made.torch_parameters() == {name: tuple(p.shape) for name, p in one.named_parameters()}


def test_arrays_of_other_names_or_shapes_are_refused():
    made = make_plan(ours(a=T.Linear(3, 4)), theirs(a=P.Linear(3, 4)))
    with pytest.raises(UserError, match="'b.weight' is no parameter"):
        made.apply({"b.weight": np.zeros((4, 3))})
    with pytest.raises(UserError, match=r"shape \(3, 4\)"):
        made.apply({"a.weight": np.zeros((3, 4))})


def test_rows_settle_every_tensor_once():
    one = ours(a=T.Linear(3, 4), b=T.BatchNorm1d(4), c=T.LSTM(4, 4), d=T.MultiheadAttention(4, 2))
    other = theirs(a=P.Linear(3, 4), b=P.BatchNorm1D(4), c=P.LSTM(4, 4), d=P.MultiHeadAttention(4, 2))
    made = make_plan(one, other)
    elements = {}
    for row in made.rows:
        part = row.torch_part
        size = (
            int(np.prod(row.torch_shape))
            if part is None
            else int(np.prod(row.torch_shape)) * (part[2] - part[1]) // row.torch_shape[0]
        )
        elements[row.torch] = elements.get(row.torch, 0) + size
    for row in (row for row in made.dropped if row.torch):
        elements[row.torch] = int(np.prod(row.torch_shape))
    assert elements == {name: tensor.numel() for name, tensor in one.state_dict().items()}
    assert sorted(row.paddle for row in made.rows) == sorted(set(other.state_dict()) - set(made.aliases["paddle"]))


def test_matching_needs_neither_framework(tmp_path):
    one, other = ours(a=T.Linear(3, 4), b=T.BatchNorm1d(4)), theirs(x=P.Linear(3, 4), y=P.BatchNorm1D(4))
    for model, name in ((describe_torch.describe(one), "torch"), (describe_paddle.describe(other), "paddle")):
        (tmp_path / f"{name}.json").write_text(json.dumps(model))
    save_reference(one, None, tmp_path / "weights.safetensors")
    script = """
import json, sys
sys.path.insert(0, sys.argv[1])
sys.modules["torch"] = sys.modules["paddle"] = None
from pipeline.align.convert import convert_file, plan, table
made = plan(json.load(open("torch.json")), json.load(open("paddle.json")), {})
print(table.text(made, convert_file(made, "weights.safetensors", "port.pdparams")))
"""
    done = subprocess.run([sys.executable, "-c", script, str(TEMPLATE)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "b.num_batches_tracked" in done.stdout and "a.weight" in done.stdout
    load_into_paddle(other, tmp_path / "port.pdparams")
    assert np.array_equal(other.x.weight.numpy(), one.a.weight.detach().numpy().T)
    assert paddle.load(str(tmp_path / "port.pdparams"))["y._mean"].shape == [4]


def test_plans_of_thousands_of_layers_are_quick():
    """Ten thousand tensors under other names in a few seconds."""
    import time

    blocks = 1250
    one = ours(
        layers=T.ModuleList(
            [ours(a=T.Linear(2, 2), b=T.Linear(2, 2), c=T.LayerNorm(2), d=T.LayerNorm(2)) for _ in range(blocks)]
        )
    )
    other = theirs(
        blocks=P.LayerList(
            [theirs(u=P.Linear(2, 2), v=P.Linear(2, 2), w=P.LayerNorm(2), x=P.LayerNorm(2)) for _ in range(blocks)]
        )
    )
    trees = describe_torch.describe(one), describe_paddle.describe(other)
    start = time.perf_counter()
    made = plan(*trees, {})
    assert len(made.rows) == 8 * blocks
    assert time.perf_counter() - start < 10


def test_conversion_reports_through_json(tmp_path):
    one, other = ours(a=T.Linear(3, 4)), theirs(a=P.Linear(3, 4))
    made = make_plan(one, other)
    row = made.to_json()["rows"][0]
    assert (
        row["torch"],
        row["torch_shape"],
        row["paddle"],
        row["paddle_shape"],
        row["rule"],
        row["op"],
        row["transposed"],
    ) == ("a.weight", (4, 3), "a.weight", (3, 4), "Linear", "T", True)
    assert convert_file(made, {n: t.numpy() for n, t in one.state_dict().items()}, tmp_path / "x.safetensors").casts == {}


def test_the_table():
    one = ours(
        fc=T.Linear(3, 4),
        emb=T.Embedding(8, 4),
        head=T.Linear(4, 8, bias=False),
        norm=T.BatchNorm1d(4),
        attn=T.MultiheadAttention(4, 2),
    )
    one.head.weight = one.emb.weight
    other = theirs(fc=P.Linear(3, 4), emb=P.Embedding(8, 4), norm=P.BatchNorm1D(4), attn=P.MultiHeadAttention(4, 2))
    lines = [
        line.split("  ")
        for line in table.text(make_plan(one, other), Conversion(["a note"], {"fc.weight": "how"})).splitlines()
    ]
    lines = [[cell.strip() for cell in line if cell] for line in lines]
    assert lines[0] == ["torch", "shape", "paddle", "shape", "rule", "transposed"]
    assert ["fc.weight", "(4, 3)", "fc.weight", "(3, 4)", "Linear (T)", "yes"] in lines
    assert ["emb.weight = head.weight", "(8, 4)", "emb.weight", "(8, 4)", "Embedding (id)", "no"] in lines
    assert ["norm.running_var", "(4)", "norm._variance", "(4)", "BatchNorm (id)", "no"] in lines
    assert ["attn.in_proj_bias", "(4:8 of 12)", "attn.k_proj.bias", "(4)", "MultiheadAttention (id)", "no"] in lines
    assert ["torch norm.num_batches_tracked", "()", "a counter that only momentum=None reads; Paddle has none"] in lines
    assert lines[-3:] == [["13 parameter rows, 2 buffer rows, 1 not converted"], ["note: a note"], ["cast: fc.weight: how"]]


def test_a_norm_outside_the_layers_is_not_taken_for_one_of_theirs():
    """The reference registers its final norm first, the port last and under other names: order alone would shift them all."""
    blocks = [ours(attention=ours(norm=T.LayerNorm(8)), net=ours(norm=T.LayerNorm(8))) for _ in range(2)]
    one = ours(transformer=ours(norm=T.LayerNorm(8), layers=T.ModuleList(blocks)))
    cells = [theirs(first=P.LayerNorm(8), second=P.LayerNorm(8)) for _ in range(2)]
    two = theirs(cells=P.LayerList(cells), last=P.LayerNorm(8))
    with pytest.raises(UserError, match="which stands in a numbered layer, would be .*weights.map"):
        make_plan(one, two)
    made = make_plan(one, two, {"transformer.norm": "last"})
    assert pairs(made)["transformer.layers.1.net.norm.weight"] == "cells.1.second.weight"
