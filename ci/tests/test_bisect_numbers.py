# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Distances, relations, captures on disk, and tensors inside structures; no framework needed."""
from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from pipeline.align.bisect.distance import distance
from pipeline.align.bisect.relations import relation
from pipeline.align.bisect.store import Capture, Meter, Writer, rms
from pipeline.align.bisect.tensors import change

RANDOM = np.random.default_rng(0)


def draw(*shape):
    return RANDOM.standard_normal(shape).astype("float32")


def test_ratio_is_in_units_of_noise_and_rounding():
    a = draw(100, 100)
    step = 1e-3 * draw(100, 100)
    found = distance(a, a + step, noise=1e-4)
    assert found.ratio == pytest.approx(np.sqrt(np.mean(np.square((a + step) - a, dtype=np.float64))) / 1e-4, rel=1e-3)
    assert found.bad and found.mean == pytest.approx(np.abs((a + step) - a).mean(), rel=1e-3)
    exact = distance(a, a, noise=0.0)
    assert (exact.ratio, exact.bad) == (0.0, False)
    nearby = np.nextafter(a, np.float32(np.inf))
    assert distance(a, nearby, noise=0.0).ratio < 2


def test_one_element_among_many_shows():
    a = draw(1000, 100)
    b = a.copy()
    b[700, 3] += 0.5
    found = distance(a, b, noise=1e-7)
    assert found.bad and found.index == (700, 3) and found.max == pytest.approx(0.5)


@pytest.mark.parametrize(
    "make, how",
    [
        (lambda a: a.transpose(1, 0, 2), "axes in the order 1, 0, 2"),
        (lambda a: a.transpose(2, 0, 1), "axes in the order 1, 2, 0"),
        (lambda a: a.reshape(4, 30, 1), "reshaped"),
        (lambda a: a.transpose(2, 1, 0)[:, None], "axes in the order 3, 2, 0"),
    ],
)
def test_other_layouts_are_the_same_tensor(make, how):
    a = draw(4, 5, 6)
    found = distance(a, make(a), noise=0.0)
    assert not found.bad and found.how.startswith(how)


def test_square_layouts_are_told_by_their_numbers():
    a = draw(5, 5)
    assert distance(a, a.T.copy(), noise=0.0).how == "axes in the order 1, 0"
    assert distance(a, draw(5, 5), noise=0.0).bad


def test_shapes_that_differ():
    found = distance(draw(2, 3), draw(3, 3), noise=0.0)
    assert found.bad and found.how == "shapes" and found.mean is None


def test_masks_of_both_senses():
    a = RANDOM.random((3, 4)) > 0.5
    assert not distance(a, a, 0.0).bad and not distance(a, ~a[:, None, None], 0.0).bad
    assert not distance(a, np.where(a, -np.inf, 0.0).astype("float32"), 0.0).bad
    assert distance(a, np.roll(a, 1), 0.0).bad


def test_masks_that_are_broadcast_and_additive_ones_of_other_sizes():
    """What transformers gives sdpa, [N, 1, L, L] booleans, against BERT's own [N, 1, 1, L] numbers."""
    kept = RANDOM.random((3, 1, 1, 4)) > 0.4
    whole = np.broadcast_to(kept, (3, 1, 4, 4))
    for lowest in (-1e4, -1e9, -np.inf, np.finfo(np.float32).min):
        additive = np.where(kept, 0.0, lowest).astype(np.float32)
        assert not distance(whole, additive, 0.0).bad and not distance(additive, whole, 0.0).bad
        assert not distance(additive, np.where(kept, 0.0, -1e5).astype(np.float32), 0.0).bad
        assert distance(whole, np.roll(additive, 1), 0.0).bad
        assert distance(additive, np.where(kept, lowest, 0.0).astype(np.float32), 0.0).bad
    assert distance(whole, np.where(kept, 0.0, -1.0).astype(np.float32), 0.0).bad  # hides nothing
    columns = np.ascontiguousarray(kept.transpose(0, 1, 3, 2))
    assert distance(whole, np.broadcast_to(columns, (3, 1, 4, 4)), 0.0).bad


def test_numbers_that_are_not_finite():
    a = draw(3, 3)
    a[0, 0] = np.inf
    b = a.copy()
    assert not distance(a, b, 0.0).bad
    b[1, 1] = np.nan
    found = distance(a, b, 0.0)
    assert found.bad and found.index == (1, 1)


def test_integers_are_exact():
    a = np.arange(5)
    assert not distance(a, a.astype("int32"), 0.0).bad
    assert distance(a, np.array([0, 1, 2, 3, 5]), 0.0).index == (4,)


X, Y, Z = draw(4, 6, 5), draw(4, 6, 5), draw(4, 7, 6, 5)
SOFT = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
RELATIONS = {
    "the port's is 0.125 times the reference's": (X, 0.125 * X),
    "the port's is the input, the reference's is the output plus the input": (X + Y, Y),
    "the port's is 0.5 times the output plus the input, the reference's is the output plus the input": (X + Y, X / 2 + Y),
    "the port lacks a ReLU": (np.maximum(X, 0), X),
    "the port has a ReLU more": (X, np.maximum(X, 0)),
    "the port adds a constant to the reference's": (X, X + 3),
    "the port's is zero everywhere": (X, 0 * X),
    "the port's is the maximum over axis 1 of the larger, the reference's is the mean over axis 1 of the larger": (
        Z.mean(1),
        Z.max(1),
    ),
    "the port's is position 6 of 7 along axis 1 of the larger, the reference's is position 0 of 7": (Z[:, 0], Z[:, 6]),
    "the port's has axis 1 the other way round": (SOFT[:, :, :4], SOFT[:, ::-1, :4]),
    "the port's is shifted by 1 along axis 2": (SOFT[..., :4], np.roll(SOFT[..., :4], 1, 2)),
    "the port's has the same numbers in another order along axis 1": (SOFT[..., :4], SOFT[:, [0, 2, 1, 5, 3, 4], :4]),
    "the port's sums to 1 along axis 1, the reference's along axis 2": (SOFT, np.exp(X) / np.exp(X).sum(1, keepdims=True)),
    "what goes into the port's softmax is 2 times the reference's": (SOFT, np.exp(2 * X) / np.exp(2 * X).sum(-1, keepdims=True)),
}


@pytest.mark.parametrize("text", RELATIONS)
def test_relations(text):
    assert text in relation(*RELATIONS[text], {"the output": X, "the input": Y, "the larger": Z})


def test_no_relation_between_unrelated_numbers():
    assert relation(X, draw(4, 6, 5), {"the input": Y, "the larger": Z}) is None


def test_a_capture_reads_what_was_written(tmp_path):
    arrays = {
        "a": draw(3, 4),
        "b": np.array(2.5),
        "c": np.empty((0, 3), "float32"),
        "d": np.array([True, False]),
        "e": draw(4, 3).T,
    }
    writer = Writer(tmp_path / "x")
    for key, array in arrays.items():
        writer.put(key, array)
    writer.close({"step": 1})
    capture = Capture(tmp_path / "x")
    assert capture.index["step"] == 1
    for key, array in arrays.items():
        np.testing.assert_array_equal(capture.get(key), array)
        assert capture.get(key).dtype == array.dtype


def test_noise_and_jumps(tmp_path):
    """Smooth tensors move in proportion to the disturbance; one where an element in a thousand flips moves by its root."""
    smooth, flips = draw(100, 100), draw(100, 100)
    writer = Writer(tmp_path / "x")
    writer.put("smooth", smooth)
    writer.put("flips", flips)
    writer.close({})
    moved = {scale: (smooth + np.float32(1e-5 * scale) * draw(100, 100), flips.copy()) for scale in (1, 100)}
    where = RANDOM.choice(flips.size, 10, replace=False)
    moved[100][1].flat[where] += 1
    for scale in (1, 100):
        meter = Meter(Capture(tmp_path / "x"), scale)
        meter.put("smooth", moved[scale][0])
        meter.put("flips", moved[scale][1])
        meter.put("unknown", moved[scale][1])
        meter.close({})
    capture = Capture(tmp_path / "x")
    assert capture.noise["smooth"] == pytest.approx(1e-5, rel=0.05) and capture.noise["flips"] == 0
    # Ten flips by 1 among 10,000 elements at scale 100 are expected to be 0.1 flips at scale 1.
    assert capture.jumps == {"flips": pytest.approx(np.sqrt(0.1 / flips.size), rel=1e-3)}


def test_rms_in_blocks():
    a = draw(300, 1000)
    assert rms(a) == pytest.approx(np.sqrt(np.square(a, dtype=np.float64).mean()), rel=1e-12)


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Output:
    logits: object
    hidden: tuple


class Plain:
    def __init__(self):
        self.value, self.count = np.ones(2), 3


def test_tensors_in_structures_get_names():
    seen = []
    value = (
        np.ones(1),
        [np.ones(2), {"k": np.ones(3)}],
        Point(np.ones(4), 5),
        Output(np.ones(5), (np.ones(6),)),
        OrderedDict(z=np.ones(7)),
        Plain(),
        "t",
    )
    change(value, lambda one: isinstance(one, np.ndarray), lambda name, one: seen.append((name, one.size)) or one)
    assert seen == [
        ("0", 1),
        ("1.0", 2),
        ("1.1.k", 3),
        ("2.x", 4),
        ("3.logits", 5),
        ("3.hidden.0", 6),
        ("4.z", 7),
        ("5.value", 2),
    ]


def test_structures_are_copied_only_where_something_changes():
    is_array = lambda one: isinstance(one, np.ndarray)  # noqa: E731
    same = ([np.ones(1)], Output(np.ones(2), ()))
    assert change(same, is_array, lambda name, one: one) is same
    kept = [np.ones(3)]
    made = change(
        (kept, Point(np.ones(1), 2), Output(np.ones(2), ()), {"a": np.ones(2)}),
        is_array,
        lambda name, one: one if one.size == 3 else one + 1,
    )
    assert made[0] is kept and made[1] == Point(np.array([2.0]), 2) and type(made[2]) is Output
    np.testing.assert_array_equal(made[2].logits, [2, 2])
    np.testing.assert_array_equal(made[3]["a"], [2, 2])
