# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The call as text: a table, and the section for port.yaml."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pipeline.align.probe.call import Call, Label, Leaf

#: Longer rows of whole numbers are no table.
MOST_COLUMNS = 64
HEADER = ("", "name", "shape", "dtype", "device", "range")


def table(call: Call) -> str:
    """Which module was called where, then one row per argument, output and label."""
    about = call.about
    wrapped = f" in {', '.join(about['wrappers'])}" if about["wrappers"] else ""
    mode = f"{'train' if about['training'] else 'eval'} mode, gradients {'on' if about['gradients'] else 'off'}"
    title = f"{about['module']}{wrapped}, called at {about['place']}, {mode}, torch {about['torch']}"
    rows = [HEADER, *_rows("argument", call.arguments), *_rows("output", call.outputs)]
    if call.label and call.label.leaf not in call.arguments:
        rows += _rows("label", [call.label.leaf])
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
    if about["error"]:
        lines.append(f"the call failed: {about['error']}")
    return "\n".join([title, *lines])


def _rows(part: str, leaves: list[Leaf]) -> Iterator[tuple[str, ...]]:
    for leaf in leaves:
        if leaf.array is None:
            yield part, leaf.name, "", "", "", leaf.text
        else:
            yield part, leaf.name, str(list(leaf.array.shape)), leaf.dtype, leaf.device, span(leaf.array)


def span(array: np.ndarray) -> str:
    """Least and greatest value, and how many are not finite."""
    if array.size == 0:
        return "empty"
    if array.dtype.kind == "c":
        return f"absolute value up to {np.abs(array).max():.4g}"
    finite = array[np.isfinite(array)]
    bad = array.size - finite.size
    text = f"{finite.min():.4g} to {finite.max():.4g}" if finite.size and array.dtype.kind == "f" else ""
    if array.dtype.kind in "iub":
        text = f"{finite.min()} to {finite.max()}"
    return ", ".join(filter(None, [text, f"{bad} not finite" if bad else ""]))


def section(call: Call, seed: int, batch_size: int) -> str:
    """`fake_data:` for port.yaml; floats as widely spread as the data, integers from the least to the greatest value."""
    lines = ["fake_data:", f"  seed: {seed}", f"  batch_size: {batch_size:<24d}# the call had {call.samples()}", "  inputs:"]
    lines += [f"    - {_spec(leaf.array)}   # {leaf.name}{_note(leaf)}" for leaf in call.inputs()]
    if call.label is None:
        guess = "{shape: [], dtype: int64, low: 0, high: 10}"
        return "\n".join([*lines, f"  label: {guess}   # no label was seen: write what the loss gets"])
    return "\n".join([*lines, f"  label: {_label(call.label)}   # {call.label.source}"])


def _spec(array: np.ndarray, more: str = "") -> str:
    low, high = _limits(array)
    return f"{{shape: {list(array.shape[1:])}, dtype: {array.dtype}, low: {low}, high: {high}{more}}}"


def _note(leaf: Leaf) -> str:
    return "" if leaf.dtype == str(leaf.array.dtype) else f", {leaf.dtype} in the reference"


def _limits(array: np.ndarray) -> tuple[float | int, float | int | list[int]]:
    """What fake_data.py makes similar numbers of: 2 standard deviations around the mean, or [least, greatest + 1)."""
    if array.dtype.kind == "b":
        return 0, 2
    if array.dtype.kind in "iu":
        return int(array.min()), _above(array)
    finite = array[np.isfinite(array)].astype(np.float64)
    middle, spread = (float(finite.mean()), 2 * float(finite.std())) if finite.size else (0.0, 0.0)
    return _short(middle - (spread or 1.0)), _short(middle + (spread or 1.0))


def _above(array: np.ndarray) -> int | list[int]:
    """Greatest value + 1, for each column of a table whose columns plainly count different things."""
    greatest = array.max(axis=0)
    if array.ndim == 2 and 1 < len(greatest) <= MOST_COLUMNS and 2 * np.median(greatest) < greatest.max():
        return [int(one) + 1 for one in np.maximum(greatest, array.min())]
    return int(array.max()) + 1


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _label(label: Label) -> str:
    array, more = label.leaf.array, ""
    if label.ignored is not None and (array == label.ignored).any():
        more, array = f", ignored: {label.ignored}", np.where(array == label.ignored, array.max(), array)
    if label.classes and array.dtype.kind in "iu":
        return f"{{shape: {list(array.shape[1:])}, dtype: {array.dtype}, low: 0, high: {label.classes}{more}}}"
    return _spec(array, more)
