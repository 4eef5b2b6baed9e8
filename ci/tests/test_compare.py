# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The comparison of two arrays: every false green of reprod_log is red, rounding of right ports is green (CASES R1 to R4)."""
from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest

from pipeline.align import compare
from pipeline.align.compare import compare_arrays, module_floors, typical_size
from pipeline.align.errors import UserError
from pipeline.align.results import KeyResult
from pipeline.align.thresholds import FLOAT32, threshold

FORWARD = threshold("forward")
NORMAL = np.random.default_rng(5).standard_normal((100, 1000)).astype(np.float32)


def judge(a, b, name="forward", **options) -> KeyResult:
    return compare_arrays("k", np.asarray(a), np.asarray(b), threshold(name), **options)


def red(result: KeyResult, *words: str) -> bool:
    return not result.passed and result.worst > 1 and "\n" not in result.reason and all(word in result.reason for word in words)


def green(result: KeyResult) -> bool:
    return result.passed and result.reason == "" and result.worst <= 1


# What reprod_log passes though it is wrong.


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sides", ["both", "reference", "port"])
def test_not_finite_is_red_with_count_and_place(value, sides):
    a, b = NORMAL.copy(), NORMAL.copy()
    for side, array in (("reference", a), ("port", b)):
        if sides in (side, "both"):
            array[7, 33] = array[8, 0] = value
    count = "2 NaN and 0 infinite" if np.isnan(value) else "0 NaN and 2 infinite"
    result = judge(a, b)
    assert red(result, "not finite", "of 100000", "[7, 33]") and result.index == [7, 33]
    assert result.reason.count(count) == (2 if sides == "both" else 1)


def test_infinities_of_one_sign_on_both_sides_are_red():
    assert red(judge([1.0, np.inf], [1.0, np.inf]), "1 infinite")


@pytest.mark.parametrize("a, b", [((2, 3, 4), (4, 3, 2)), ((3, 1), (3,)), ((1, 3), (2, 3)), ((1,), ()), ((2, 3), (3, 2))])
def test_other_shapes_are_red_never_transposed_or_broadcast(a, b):
    result = judge(np.ones(a), np.ones(b))
    assert red(result, "shape", str(list(a)), str(list(b))) and result.shape == [list(a), list(b)]


def test_one_outlier_in_a_million_is_red():
    a = np.zeros(10**6, np.float32)
    b = a.copy()
    b[123_456] = 0.9
    result = judge(a, b)
    assert np.abs(a - b).mean() < 1e-6 and red(result, "0.9", "[123456]") and result.max == pytest.approx(0.9)
    a[:] = b[:] = NORMAL.reshape(-1)[0]
    b[-1] += 0.9
    assert red(judge(a, b), "[999999]")
    full = np.tile(NORMAL.reshape(-1), 10)
    moved = full.copy()
    moved[500_000] += 1e-3
    assert np.abs(full - moved).mean() < 1e-8 and red(judge(full, moved), "[500000]")


def test_other_dtypes_are_red_but_byte_order_is_none():
    assert red(judge(NORMAL, NORMAL.astype(np.float64)), "dtype: reference float32, port float64")
    assert red(judge(np.arange(3), np.arange(3, dtype=np.int32)), "dtype: reference int64, port int32")
    assert green(judge(NORMAL.astype(">f4"), NORMAL))
    assert red(judge(NORMAL, NORMAL, dtypes=("float32", "bfloat16")), "dtype")


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_arrays_without_values_are_red(shape):
    assert red(judge(np.zeros(shape), np.zeros(shape)), "empty", "proves nothing")


def test_zeros_are_red_unless_they_are_legitimate():
    for zeros in (np.zeros(5, np.float32), np.zeros(5, np.int64), np.zeros(5, bool), np.float32(0)):
        assert red(judge(zeros, zeros), "all zero") and green(judge(zeros, zeros, zeros=True))
    assert red(judge(np.float32(0), np.float32(1e-8), "loss"), "all zero")


def test_unsigned_integers_do_not_wrap():
    result = judge(np.array([1, 0], np.uint8), np.array([1, 255], np.uint8))
    assert red(result, "1 of 2 values differ", "[1]", "reference 0, port 255") and result.max == 255


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_and_booleans_are_exact(dtype):
    a = np.arange(300_000).astype(dtype)
    b = a.copy()
    assert green(judge(a, b))
    b[[200_000, 299_999]] = ~b[[200_000, 299_999]]
    assert red(judge(a, b), "2 of 300000 values differ, first at [200000]")


def test_large_integers_are_not_rounded():
    assert red(judge(np.array([2**63 - 1]), np.array([2**63 - 2])), "1 of 1 values differ")


def test_text_is_exact():
    assert green(judge(["a", "bc"], ["a", "bc"])) and red(judge(["a", "b"], ["a", "bc"]), "[1]", "port bc")


# What reprod_log fails though it is right, and what the mean limit alone cannot see.


@pytest.mark.parametrize("size", [1e-30, 1e-8, 1e-3, 1, 1e3, 1e8, 1e30])
def test_rounding_passes_and_faults_fail_at_any_size(size):
    a = (NORMAL * np.float32(size)).astype(np.float32)
    noise = np.random.default_rng(6).standard_normal(a.shape)
    assert green(judge(a, (a * (1 + 4e-7 * noise)).astype(np.float32)))
    assert red(judge(a, a * np.float32(1.1)))
    assert red(judge(a, a * np.float32(1 + 1e-5)))


def test_a_tenth_of_something_small_is_red():
    a = NORMAL * np.float32(1e-5)
    assert np.abs(a - a * 1.1).mean() < 1e-6 and red(judge(a, a * np.float32(1.1)))


def test_a_wrong_epsilon_is_red():
    """1e-6 for 1e-5 at variance 1 changes every output by the factor sqrt((1 + 1e-5) / (1 + 1e-6))."""
    factor = np.float32(math.sqrt((1 + 1e-5) / (1 + 1e-6)))
    for size in (0.05, 0.5, 5.0):
        a = NORMAL * np.float32(size)
        assert red(judge(a, a * factor))


def test_masked_values_do_not_hide_the_others():
    for fill in (-1e9, -1e4, np.finfo(np.float32).min):
        a = NORMAL.copy()
        a[:, 200:] = fill
        b = a.copy()
        b[:, :200] *= np.float32(1.001)
        assert red(judge(a, b)) and green(judge(a, a.copy()))
        b = a.copy()
        b[:, :200] *= np.float32(1 + 2e-7)
        assert green(judge(a, b))


def test_rare_rows_are_judged_by_their_own_size():
    """The gradient of an embedding: zeros, and a few rows of values."""
    a = np.zeros((50_000, 64), np.float32)
    a[[3, 41_000]] = NORMAL.reshape(-1)[:128].reshape(2, 64)
    assert typical_size(a) == pytest.approx(np.median(np.abs(a[a != 0])), rel=0.05)
    assert green(judge(a, a * np.float32(1 + 1e-7)))
    b = a.copy()
    b[3] *= np.float32(1.2)
    assert red(judge(a, b, "gradients"))
    b = a.copy()
    b[100, 5] = 1e-3
    assert red(judge(a, b))


def test_probabilities_are_judged_by_their_own_size():
    logits = NORMAL * 5
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert green(judge(p, p * np.float32(1 + 3e-7))) and red(judge(p, p * np.float32(1.01)))


def test_a_loss_near_zero_is_known_to_half_a_unit_of_one():
    assert green(judge(np.float32(1e-4), np.float32(1e-4 + 2**-23), "loss"))
    assert red(judge(np.float32(1e-5), np.float32(1.1e-5), "loss"))
    assert red(judge(np.float32(2.3), np.float32(2.30001), "loss"), "2.3")
    assert green(judge(np.float32(2.3), np.float32(2.3000002), "loss"))


def test_huge_values_do_not_overflow_into_a_verdict():
    a = np.full(1000, 3e38, np.float32)
    assert green(judge(a, a)) and red(judge(a, -a)) and green(judge(a, np.nextafter(a, np.float32(0))))


# Numbers against formulas.


def test_the_numbers_are_those_of_numpy():
    b = NORMAL + np.float32(1e-7) * np.random.default_rng(7).standard_normal(NORMAL.shape).astype(np.float32)
    result = judge(NORMAL, b)
    d = np.abs(NORMAL.astype(np.float64) - b)
    assert green(result) and result.dtype == "float32" and result.shape == [100, 1000]
    assert result.mean == pytest.approx(d.mean(), rel=1e-6) and result.max == d.max()
    assert result.index == list(map(int, np.unravel_index(np.abs(NORMAL - b).argmax(), d.shape)))
    at = tuple(result.index)
    assert result.ulp == pytest.approx(d[at] / np.spacing(max(abs(NORMAL[at]), abs(b[at]))), rel=1e-6)
    assert result.scale == pytest.approx(np.median(np.abs(NORMAL)), rel=0.1)
    assert result.rel == pytest.approx(d[at] / max(abs(NORMAL[at]), result.scale), rel=1e-6)
    assert result.worst == pytest.approx(result.mean / result.threshold)


def test_one_unit_in_the_last_place_is_one_ulp():
    for dtype in (np.float16, np.float32, np.float64):
        x = dtype(1.7)
        assert judge(x, np.nextafter(x, dtype(2))).ulp == 1
    assert judge(np.float32(1), np.float32(1 + 2**-7), dtypes=("bfloat16", "bfloat16")).ulp == 1


def test_the_mean_has_the_digits_of_numpys_float32_mean():
    a, b = NORMAL, NORMAL + np.float32(3e-8) * NORMAL[::-1]
    assert np.float32(judge(a, b).mean) == np.abs(a - b).mean()


def layouts(array):
    """The same values in other layouts."""
    shifted = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    wide = np.empty((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return {"c": array, "fortran": np.asfortranarray(array), "unaligned": shifted, "strided": wide[..., 0],
            "big endian": array.astype(array.dtype.newbyteorder(">")), "reversed": array[::-1].copy()[::-1]}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "int32"])
def test_layout_does_not_matter(dtype):
    a = (NORMAL.reshape(10, 50, 200) * 100).astype(dtype)
    b = a.copy()
    b[6, 40, 111] += 50
    for x in layouts(a).values():
        for y in layouts(b).values():
            assert not judge(x, y).passed and judge(x, y).index == [6, 40, 111] and judge(x, y).max == pytest.approx(50, rel=1e-3)
            assert green(judge(x, layouts(a)["strided"]))


def test_complex_numbers_are_compared_by_magnitude():
    a = NORMAL + 1j * NORMAL[::-1]
    b = a.copy()
    b[5, 6] += 3 + 4j
    assert judge(a, b).max == pytest.approx(5, rel=1e-6) and red(judge(a, b), "[5, 6]") and green(judge(a, a))


def test_scalars_have_no_index():
    result = judge(np.float64(1), np.float64(2))
    assert result.index == [] and red(result, "difference 1: reference 1, port 2")


def test_memory_stays_in_blocks():
    a = np.tile(NORMAL.reshape(-1), 160)
    b = a * np.float32(1.001)
    tracemalloc.start()
    assert not judge(a, b).passed
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert a.nbytes > 60 << 20 and peak < 8 << 20


@pytest.mark.parametrize("size", [1, 2, compare.BLOCK - 1, compare.BLOCK, compare.BLOCK + 1, 3 * compare.BLOCK])
def test_the_last_element_of_any_length_is_looked_at(size):
    a = np.ones(size, np.float32)
    b = a.copy()
    b[-1] = 2
    assert red(judge(a, b)) and judge(a, b).index == [size - 1] and judge(a, b).mean == pytest.approx(1 / size)


# Gradients that are zero by construction.


def test_gradients_that_are_only_rounding_pass_beside_their_module():
    gradients = {"conv.weight": NORMAL, "conv.bias": 1e-7 * NORMAL[0], "fc.bias": 1e-7 * NORMAL[1], "scale": NORMAL[2]}
    floors = module_floors(gradients)
    largest = float(np.abs(NORMAL).max())
    assert floors["conv.bias"] == floors["conv.weight"] == pytest.approx(compare.ZERO_GRADIENT * largest)
    assert floors["fc.bias"] < 1e-11 and floors["scale"] == pytest.approx(compare.ZERO_GRADIENT * np.abs(NORMAL[2]).max())
    other = (1e-7 * NORMAL[3]).astype(np.float32)
    for key, expected in (("conv.bias", True), ("fc.bias", False)):
        a = gradients[key].astype(np.float32)
        assert judge(a, other, "gradients", floor=floors[key]).passed is expected
    assert red(judge(NORMAL, NORMAL * np.float32(1.01), "gradients", floor=floors["conv.weight"]))


# Thresholds.


def test_low_precision_has_wider_limits():
    rounding = {"float16": 5e-4, "bfloat16": 4e-3}
    for dtype, relative in rounding.items():
        noise = np.random.default_rng(8).uniform(-relative, relative, NORMAL.shape)
        for a in (NORMAL.astype(np.float16 if dtype == "float16" else np.float32),):
            b = (a * (1 + noise)).astype(a.dtype)
            assert green(judge(a, b, dtypes=(dtype, dtype)))
            assert red(judge(a, (a * 1.2).astype(a.dtype), dtypes=(dtype, dtype)))
    assert red(judge(NORMAL, (NORMAL * (1 + noise)).astype(np.float32)))


def test_float64_is_judged_like_float32():
    for name in FLOAT32:
        assert threshold(name).limits("float64") == threshold(name).limits("float32") == FLOAT32[name]


def test_the_guides_values_are_the_defaults():
    for name in ("forward", "metric", "loss", "backward"):
        assert threshold(name).number == 1e-6
    assert threshold("training").number == 0.0015
    assert green(judge(0.9755, 0.977, "training")) and red(judge(0.9755, 0.9772, "training"), "0.0017", "0.0015")


def test_port_yaml_moves_a_threshold():
    b = NORMAL * np.float32(1 + 4.5e-6)
    assert not compare_arrays("k", NORMAL, b, threshold("forward", 1e-6)).passed
    assert compare_arrays("k", NORMAL, b, threshold("forward", 1e-5)).passed
    assert not compare_arrays("k", NORMAL, NORMAL * np.float32(1 + 2e-6), threshold("forward", 1e-7)).passed
    by_dtype = threshold("forward", {"float16": 1e-2})
    assert by_dtype.limits("float16").mean == pytest.approx(1e-2) and by_dtype.limits("float32") == FLOAT32["forward"]
    assert threshold("gradients", 1e-4).limits("float32").max_relative == pytest.approx(1e-2)


def test_a_threshold_of_zero_asks_for_equality():
    zero = threshold("forward", 0)
    assert compare_arrays("k", NORMAL, NORMAL, zero).passed
    assert not compare_arrays("k", NORMAL, np.nextafter(NORMAL, np.float32(9)), zero).passed


@pytest.mark.parametrize("value", ["1e-6", -1, True, math.nan, {"float8": 1}, {"float16": "x"}])
def test_wrong_thresholds_are_refused(value):
    with pytest.raises(UserError, match="align.thresholds.forward"):
        threshold("forward", value)


def test_unknown_thresholds_are_refused():
    with pytest.raises(UserError, match="align.thresholds"):
        threshold("forwards")


def test_results_go_to_json_and_back():
    result = judge(NORMAL, NORMAL * np.float32(1.1))
    assert KeyResult.from_json(json.loads(json.dumps(result.to_json()))) == result
