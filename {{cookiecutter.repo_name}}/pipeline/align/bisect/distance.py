# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How far two tensors are apart, measured in the rounding errors that are to be expected at that place of the network.

A fixed tolerance either hides a small fault near the input or blames rounding errors deep inside: they grow from layer to
layer, by amounts that depend on the network and its weights. So each side is run a second time with weights and inputs
disturbed by about a unit in the last place; how far a tensor moves is its noise, and

    ratio = rms(torch - paddle) / max(noise, unit roundoff * rms(torch))

is of order 1 everywhere in a right port, whatever its depth, and jumps where it goes wrong. The noise is torch's, or Paddle's
where that is somewhat larger: Paddle's sums are less exact, but a port that rounds more than the reference is no right port.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pipeline.align.bisect.store import BLOCK, ROUNDOFF, rms

#: Two tensors differ when they are farther apart than this many times the noise. In right ports, of 100 layers too, it
#: stays below 2, and below 4 where one framework's kernel is less exact.
LIMIT = 8.0
#: The same where a setting that differs says to look closer.
CLOSE = 3.0
#: What an additive mask holds at most where it hides something.
HIDDEN = -1e4
#: Other layouts are tried where tensors are farther apart than this part of their size.
GROSS = 0.02
#: The most axes of which all orders are tried.
AXES = 5


@dataclass(frozen=True)
class Distance:
    """`ratio`: as above, infinite where shapes differ or one side has no number. `how`: how the two were made comparable,
    "" where they are as they stand, "shapes" where nothing was comparable. `mean`, `max`: of |torch - paddle|; `size`:
    rms of torch's; `index`: where the maximum is; `bad`: whether they differ.
    """

    ratio: float
    mean: float | None = None
    max: float | None = None
    size: float = 0.0
    index: tuple[int, ...] = ()
    how: str = ""
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    limit: float = LIMIT

    @property
    def bad(self) -> bool:
        """Whether the two differ by more than rounding errors."""
        return not self.ratio <= self.limit

    @property
    def gross(self) -> bool:
        """Whether they are so far apart that they may not be the same tensor at all."""
        return self.mean is None or not self.mean < GROSS * self.size

    @property
    def relative(self) -> float | None:
        """Mean difference as part of the size."""
        return None if self.mean is None else self.mean / self.size if self.size else math.inf if self.mean else 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {**asdict(self), "bad": self.bad, "relative": self.relative}


def distance(torch: np.ndarray, paddle: np.ndarray, noise: float, limit: float = LIMIT) -> Distance:
    """The distance of two tensors, in the layout in which they agree best.

    Shapes or numbers that agree after a permutation of axes or a reshape are the same tensor in another layout; so are two
    masks that hide the same, boolean of either sense or additive, whatever they are broadcast over.
    """
    plain = _plain(torch, paddle, noise, limit) if torch.shape == paddle.shape else None
    if plain is not None and not (plain.bad and plain.gross):
        return plain
    if _same_mask(torch, paddle):
        return Distance(0.0, 0.0, 0.0, 1.0, how="a mask in another form", shapes=(torch.shape, paddle.shape))
    for how, other in _layouts(torch, paddle):
        found = _plain(torch, other, noise, limit)
        if not found.bad:
            return Distance(**{**_fields(found), "how": how, "shapes": (torch.shape, paddle.shape)})
    return plain or Distance(
        math.inf, size=rms(torch) if torch.dtype.kind == "f" else 1.0, how="shapes", shapes=(torch.shape, paddle.shape)
    )


def _same_mask(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether both are masks, at least one of them boolean or both additive, that hide the same elements.

    True means kept in one layer of torch and hidden in another, so either sense will do; 0 of an additive mask is kept.
    """
    kept = [_kept(a), _kept(b)]
    if kept[0] is None or kept[1] is None:
        return False
    if a.size == b.size:
        kept[1] = kept[1].reshape(a.shape)
    try:
        one, other = np.broadcast_arrays(*kept)
    except ValueError:
        return False
    return np.array_equal(one, other) or (bool in (a.dtype, b.dtype) and np.array_equal(one, ~other))


def _kept(mask: np.ndarray) -> np.ndarray | None:
    """Where a boolean mask is true, or an additive one is zero; None for what is no mask."""
    if mask.dtype == bool:
        return mask
    if mask.dtype.kind != "f" or not mask.size:
        return None
    kept = mask == 0
    return kept if np.all(kept | (mask <= HIDDEN)) else None


def _fields(found: Distance) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Distance.__dataclass_fields__}


def _plain(a: np.ndarray, b: np.ndarray, noise: float, limit: float) -> Distance:
    """The distance of two tensors of one shape, element by element."""
    shapes = (a.shape, b.shape)
    if a.dtype.kind not in "fc" or b.dtype.kind not in "fc":
        differ = np.asarray(a != b)
        if not differ.any():
            return Distance(0.0, 0.0, 0.0, 1.0, shapes=shapes)
        where = tuple(int(i) for i in np.unravel_index(int(differ.argmax()), differ.shape))
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
        return Distance(math.inf, float(gap.mean()), float(gap.max()), 1.0, where, shapes=shapes)
    squares = size = total = most = 0.0
    worst, broken = 0, -1
    flat_a, flat_b = a.reshape(-1), b.reshape(-1)
    for start in range(0, flat_a.size, BLOCK):
        x, y = flat_a[start : start + BLOCK], flat_b[start : start + BLOCK]
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(x.astype(np.promote_types(x.dtype, np.float64)) - y)
        finite = np.isfinite(gap)
        if not finite.all():
            same = finite | (x == y) | (np.isnan(x) & np.isnan(y))
            if broken < 0 and not same.all():
                broken = start + int((~same).argmax())
            gap[~finite] = 0
            x = np.where(np.isfinite(x), x, 0)
        if not gap.size:
            continue
        squares += float(gap @ gap)
        total += float(gap.sum())
        size += float(np.real(np.vdot(x, x))) if x.dtype.itemsize > 4 else float(np.square(x, dtype=np.float64).sum())
        at = int(gap.argmax())
        if gap[at] > most:
            most, worst = float(gap[at]), start + at
    count = max(1, flat_a.size)
    if broken >= 0:
        return Distance(math.inf, total / count, math.inf, math.sqrt(size / count), _index(broken, a.shape), shapes=shapes)
    rms, scale = math.sqrt(squares / count), math.sqrt(size / count)
    unit = max(ROUNDOFF.get(a.dtype.name, 2.0**-24), ROUNDOFF.get(b.dtype.name, 2.0**-24))
    # A few numbers may be disturbed less than usual by chance; the fewer, the more room.
    floor = max(noise, unit * scale) * (1 + 4 / count)
    ratio = rms / floor if floor else math.inf if rms else 0.0
    return Distance(ratio, total / count, most, scale, _index(worst, a.shape), shapes=shapes, limit=limit)


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()


def _layouts(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """(description, b in a's shape) for the layouts in which `b` may be the same tensor."""
    if a.size != b.size or not a.size:
        return
    if a.shape != b.shape:
        yield f"reshaped from {list(b.shape)}", b.reshape(a.shape)
    if not _same_numbers(a, b) if a.dtype.kind == "f" else a.shape == b.shape:  # masks of queries and keys are no layouts
        return
    kept = [axis for axis, length in enumerate(b.shape) if length != 1]
    target = tuple(length for length in a.shape if length != 1)
    if 1 < len(kept) <= AXES:
        core = b.reshape([b.shape[axis] for axis in kept])
        for order in itertools.permutations(range(len(kept))):
            if order != tuple(range(len(kept))) and tuple(core.shape[axis] for axis in order) == target:
                yield f"axes in the order {', '.join(str(kept[axis]) for axis in order)}", core.transpose(order).reshape(a.shape)


def _same_numbers(a: np.ndarray, b: np.ndarray) -> bool:
    """A quick test whether two arrays can hold the same numbers in another order: equal sum and root mean square."""
    with np.errstate(all="ignore"):
        sums, sizes = [float(v.sum(dtype=np.float64)) for v in (a, b)], [rms(v) for v in (a, b)]
    return abs(sums[0] - sums[1]) <= 1e-3 * sizes[0] * a.size and abs(sizes[0] - sizes[1]) <= 1e-2 * sizes[0]
