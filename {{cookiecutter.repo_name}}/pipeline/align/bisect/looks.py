# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The same two captures looked at more or less closely, so that a small fault is found where it begins.

At first a tensor differs from LIMIT on, and what a flipping ReLU could do counts as noise (`both`). Where that is not sharp,
flips do not count (`plain`), and then differences from CLOSE on do (`close`).
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from pipeline.align.bisect import search
from pipeline.align.bisect.distance import CLOSE, LIMIT
from pipeline.align.bisect.pairing import Both
from pipeline.align.bisect.search import Place


class Looks:
    """`suspects`: torch paths of modules whose settings differ."""

    def __init__(self, both: Both, suspects: set[str]):
        self.both, self._suspects = both, suspects
        self._near = CLOSE * both.limit / LIMIT

    @cached_property
    def plain(self) -> Both:
        """The captures, where nothing is put down to a flipping ReLU."""
        return Both(self.both.torch, self.both.paddle, self.both.modules, self.both.limit, jumps=False)

    @cached_property
    def close(self) -> Both:
        """The captures with the lower limit."""
        return Both(self.both.torch, self.both.paddle, self.both.modules, self._near, jumps=False)

    def find(self, search_in: Callable[[Both], Place | None]) -> Place | None:
        """The place that the search gives, or an earlier one that only a closer look shows.

        Looked closer is where the tensors before the place are worse than usual, and, where all seems well, whether a suspect
        shows it.
        """
        place = search_in(self.both)
        if place is None and self._suspects and not self.both.torch.index["step"]:
            near = search_in(self.close)
            return near if near is not None and near.inside and near.pair.t["path"] in self._suspects else None
        return place if place is None or self._sharp(place) else search_in(self.close) or place

    def before(self, place: Place) -> Place | None:
        """Where the forward pass went wrong by a little, if that is why gradients differ at `place`.

        What differs grossly and yet leaves the outputs right is not the same tensor: the two sides are written differently.
        """
        entered = self.plain.by_torch.get(place.pair.torch)
        seen = [] if entered is None else [one.distance for one in (*entered.inputs, *entered.outputs)]
        if max((one.ratio for one in seen if not one.gross), default=0.0) <= self._near:
            return None
        found = None
        for both in (self.plain, self.close):
            call = both.by_torch.get(place.pair.torch)
            earlier = None if call is None else search.forward(both, call)
            if earlier is not None and earlier.distance is not None and earlier.distance.how != "shapes":
                if found is None or earlier.pair.t["start"] <= found.pair.t["start"]:
                    found = earlier
                if self._sharp(earlier):
                    break
        return found

    def _sharp(self, place: Place) -> bool:
        return place.agreeing is None or place.agreeing.ratio <= self._near
