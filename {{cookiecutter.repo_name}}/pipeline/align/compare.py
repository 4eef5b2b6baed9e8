# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Compares two arrays: shape, dtype, finiteness, then every element. Nothing is broadcast, cast or left out.

Floating arrays take one pass (subtract, abs, sum, max) in blocks that stay in the cache. Where the sums leave it open
whether single elements are too far off, a second pass divides every difference by the size of its own element.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.align.results import KeyResult
from pipeline.align.thresholds import Limits, Threshold

#: Elements per block: two inputs and a buffer of float32 are 1.5 MB.
BLOCK = 1 << 17
#: The typical size is taken from RUNS x RUN elements, spread over the array.
RUNS, RUN = 32, 32
#: A gradient up to this part of the largest in its module may be zero by construction (thresholds.py).
ZERO_GRADIENT = 2e-5
PROVES_NOTHING = "which proves nothing"


@dataclass
class _Scan:
    """Sum, largest value and its flat position: of the differences, or of the relative ones."""

    total: float = 0.0
    largest: float = 0.0
    at: int = 0


def compare_arrays(
    key: str, a: np.ndarray, b: np.ndarray, threshold: Threshold, *, floor: float = 0.0, zeros: bool = False,
    dtypes: tuple[str, str] | None = None,
) -> KeyResult:
    """Compare the reference's array `a` with the port's `b`.

    floor: differences up to this are rounding; zeros: zeros everywhere are legitimate; dtypes: what the two were computed
    in, where that is not the dtype of the arrays (bfloat16 is recorded as float32).
    """
    result = KeyResult(key, False, shape=list(a.shape), worst=math.inf)
    arrays = ["text" if array.dtype.kind in "US" else array.dtype.name for array in (a, b)]
    names = dtypes or arrays
    result.dtype = names[0]
    if a.shape != b.shape:
        result.shape = [list(a.shape), list(b.shape)]
        result.reason = f"shape: reference {list(a.shape)}, port {list(b.shape)}"
    elif names[0] != names[1] or arrays[0] != arrays[1]:
        result.reason = "dtype: reference {}, port {}".format(*(names if names[0] != names[1] else arrays))
    elif a.size == 0:
        result.reason = f"empty: shape {list(a.shape)} holds no value, {PROVES_NOTHING}"
    elif a.dtype.kind in "biuUS":
        _compare_exactly(result, a, b)
    else:
        _compare_floats(result, a, b, threshold.limits(names[0]), floor)
    if result.passed and not zeros and a.dtype.kind not in "US" and not (_any(a) and _any(b)):
        result.passed, result.worst = False, math.inf
        result.reason = f"all zero on both sides, {PROVES_NOTHING}"
    return result


def module_floors(arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """{name: what may be rounding instead of a gradient}, from the largest gradient of the module that owns the parameter."""
    largest = {name: _largest(array) for name, array in arrays.items()}
    modules: dict[str, float] = {}
    for name, value in largest.items():
        module = name.rpartition(".")[0]
        modules[module] = max(modules.get(module, 0.0), value)
    return {name: ZERO_GRADIENT * modules[name.rpartition(".")[0]] for name in arrays}


def typical_size(a: np.ndarray) -> float:
    """Median of the magnitudes that are neither zero nor a repeated constant, from a sample; 0.0 where all are zero.

    A mean or a maximum would follow a single huge value, and masks fill arrays with -1e9: beside those, everything agrees.
    """
    values = _sizes(a.reshape(-1) if a.size <= RUNS * RUN else a.flat[_spread(a.size)])
    if values.size < RUNS * RUN // 8 and a.size > RUNS * RUN:
        most = max(16, BLOCK * BLOCK // a.size)  # from each block, so that all of them together are one block's worth
        found = (x[x != 0] for x, _ in _blocks(a, a, None))
        values = np.concatenate([_sizes(x[:: max(1, x.size // most)]) for x in found])
    if not values.size:
        return 0.0
    values.sort()
    if (values[1:] == values[:-1]).any():
        distinct, counts = np.unique(values, return_counts=True)
        constant = counts > max(3, values.size // 16)
        if constant.any() and not constant.all():
            values = np.repeat(distinct[~constant], counts[~constant])
    return float(values[(values.size - 1) // 2] + values[values.size // 2]) / 2


def _compare_floats(result: KeyResult, a: np.ndarray, b: np.ndarray, limits: Limits, floor: float) -> None:
    work = np.result_type(a.dtype, np.float32)
    with np.errstate(all="ignore"):
        scan = _scan(a, b, work)
        if not math.isfinite(scan.total):
            if _describe_non_finite(result, a, b):
                return
            work = np.result_type(work, np.float64)  # float32 sums of huge values overflow
            scan = _scan(a, b, work)
        _judge(result, a, b, limits, max(floor, limits.floor), scan, work)


def _judge(result: KeyResult, a: np.ndarray, b: np.ndarray, limits: Limits, floor: float, scan: _Scan, work: np.dtype) -> None:
    mean, at, mean_ratio, max_ratio = scan.total / a.size, scan.at, 0.0, 0.0
    result.mean, result.max = mean, scan.largest
    result.threshold = max(floor, limits.mean or limits.mean_relative or 0.0)
    result.scale = scale = typical_size(a) if scan.largest else None
    tiny = float(np.finfo(work).tiny)
    base = max(scale or 0.0, floor / limits.max_relative if limits.max_relative else 0.0, tiny)
    if scan.largest and limits.mean_relative is None:
        mean_ratio = _ratio(mean, result.threshold)
    elif scan.largest:
        means, largest = mean / base, scan.largest / base
        if means > limits.mean_relative or largest > limits.max_relative:
            relative = _scan(a, b, work, base)
            means, largest, at = relative.total / a.size, relative.largest, relative.at
        mean_ratio, max_ratio = _ratio(means, limits.mean_relative), _ratio(largest, limits.max_relative)
        if limits.mean is not None and scale <= 1:
            mean_ratio = max(mean_ratio, _ratio(mean, limits.mean))
        mean_ratio = min(mean_ratio, _ratio(mean, floor))
        result.threshold = mean / mean_ratio if mean_ratio and mean / mean_ratio > tiny else 0.0
    where, size = _locate(result, a, b, at)
    result.worst = max(mean_ratio, max_ratio)
    result.passed = result.worst <= 1
    if max_ratio > 1:
        limit = limits.max_relative * max(size, base)
        result.reason = f"difference {where}; limit {limit if limit > tiny else 0:.2g}"
    elif mean_ratio > 1:
        result.reason = f"mean difference {mean:.3g}, limit {result.threshold:.2g}; largest {where}"


def _locate(result: KeyResult, a: np.ndarray, b: np.ndarray, at: int) -> tuple[str, float]:
    """Set index, rel and ulp from the element at flat position `at`. Returns that difference in words, and the |reference|."""
    index = np.unravel_index(at, a.shape)
    result.index = [int(i) for i in index]
    x, y = a[index], b[index]
    difference = float(abs(np.subtract(x, y, dtype=np.result_type(x, np.float64))))
    unit = float(np.spacing(max(abs(x), abs(y)))) * (1 << 16 if result.dtype == "bfloat16" else 1)
    result.ulp = difference / unit
    result.rel = difference / size if (size := max(float(abs(x)), result.scale or 0.0)) else math.inf if difference else 0.0
    place = f" at {result.index}" if result.index else ""
    return f"{difference:.3g}{place}: reference {x:.8g}, port {y:.8g}", float(abs(x))


def _ratio(value: float, limit: float) -> float:
    return value / limit if limit else math.inf if value else 0.0


def _scan(a: np.ndarray, b: np.ndarray, work: np.dtype, base: float | None = None) -> _Scan:
    """One pass over |a - b|, or over |a - b| / max(|a|, base). Stops at a block whose sum is not finite."""
    found, start = _Scan(largest=-1.0), 0
    size = min(BLOCK, a.size)
    buffer, real = np.empty(size, work), np.empty(0, work).real.dtype
    sizes = buffer if work == real else np.empty(size, real)
    own = None if base is None else np.empty(size, real)
    for x, y in _blocks(a, b, work):
        d = np.abs(np.subtract(x, y, out=buffer[: x.size]), out=sizes[: x.size])
        if own is not None:
            np.maximum(np.abs(x, out=own[: x.size]), base, out=own[: x.size])
            np.divide(d, own[: x.size], out=d)
        found.total += float(np.add.reduce(d))
        largest = float(np.maximum.reduce(d))
        if largest > found.largest:
            found.largest, found.at = largest, start + int(d.argmax())
        if base is None and not math.isfinite(found.total):
            break
        start += x.size
    return found


def _compare_exactly(result: KeyResult, a: np.ndarray, b: np.ndarray) -> None:
    wrong, first, start, total, largest = 0, 0, 0, 0.0, 0.0
    for x, y in _blocks(a, b, None):
        differs = x != y
        count = int(np.count_nonzero(differs))
        if count:
            first = first if wrong else start + int(differs.argmax())
            wrong += count
            if a.dtype.kind in "biu":
                d = np.abs(x[differs].astype(np.float64) - y[differs].astype(np.float64))
                total, largest = total + float(d.sum()), max(largest, float(d.max()))
        start += x.size
    if a.dtype.kind in "biu":
        result.mean, result.max = total / a.size, largest
    result.threshold, result.passed, result.worst = 0.0, wrong == 0, math.inf if wrong else 0.0
    if wrong:
        index = np.unravel_index(first, a.shape)
        result.index = [int(i) for i in index]
        result.reason = f"{wrong} of {a.size} values differ, first at {result.index}: reference {a[index]}, port {b[index]}"


def _describe_non_finite(result: KeyResult, a: np.ndarray, b: np.ndarray) -> bool:
    """Say how many values of each side are NaN or infinite, and where the first is. False where all are finite."""
    counts = {"reference": [0, 0], "port": [0, 0]}
    first, start = None, 0
    for x, y in _blocks(a, b, a.dtype.newbyteorder("=")):
        for count, block in zip(counts.values(), (x, y)):
            nan, bad = np.isnan(block), ~np.isfinite(block)
            count[0] += int(np.count_nonzero(nan))
            count[1] += int(np.count_nonzero(bad & ~nan))
            if first is None and bad.any():
                first = start + int(bad.argmax())
        start += x.size
    if first is None:
        return False
    index = np.unravel_index(first, a.shape)
    result.index, result.mean, result.max = [int(i) for i in index], math.nan, math.nan
    said = "; ".join(f"{side} {nan} NaN and {infinite} infinite" for side, (nan, infinite) in counts.items())
    result.reason = f"not finite: {said} of {a.size}, first at {result.index}: reference {a[index]}, port {b[index]}"
    return True


def _blocks(a: np.ndarray, b: np.ndarray, work: np.dtype | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Both arrays in C order, block by block, flat, as `work`; copied only where layout, alignment or dtype ask for it."""
    return np.nditer(
        [a, b], flags=["external_loop", "buffered", "zerosize_ok"], op_flags=[["readonly"], ["readonly"]],
        op_dtypes=None if work is None else [work, work], casting="safe", order="C", buffersize=BLOCK,
    )  # fmt: skip


def _largest(a: np.ndarray) -> float:
    return max((float(np.abs(x).max()) for x, _ in _blocks(a, a, None)), default=0.0) if a.dtype.kind in "fc" else 0.0


def _any(a: np.ndarray) -> bool:
    return any(bool(x.any()) for x, _ in _blocks(a, a, None))


def _sizes(values: np.ndarray) -> np.ndarray:
    sizes = np.abs(values).astype(np.float64).reshape(-1)
    return sizes[(sizes > 0) & np.isfinite(sizes)]


def _spread(size: int) -> np.ndarray:
    """Positions of RUNS runs of RUN neighbours, spread by the golden ratio so that no stride of the array resonates."""
    starts = (np.arange(RUNS) * 0.6180339887498949 % 1 * (size - RUN)).astype(np.int64)
    return (starts[:, None] + np.arange(RUN)).reshape(-1)
