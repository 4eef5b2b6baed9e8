# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Lines of the training log, in the form that TIPC and log readers expect, and a bar on a terminal."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO


def stamp(text: str) -> str:
    """`text` behind the time of day."""
    return f"[{time.strftime('%Y/%m/%d %H:%M:%S')}] {text}"


class Bar:
    """One line at the bottom of a terminal, redrawn in place at most ten times a second; nothing elsewhere."""

    WIDTH = 24

    def __init__(self, stream: TextIO = sys.stderr):
        self.active = stream.isatty()
        self._stream, self._drawn = stream, 0.0

    def draw(self, text: str, step: int, steps: int) -> None:
        """Show `step` of `steps` with `text` behind it."""
        now = time.monotonic()
        if self.active and (now - self._drawn >= 0.1 or step == steps):
            done = self.WIDTH * step // steps
            self._stream.write(f"\r\x1b[K[{'#' * done}{'.' * (self.WIDTH - done)}] {step}/{steps} {text}")
            self._stream.flush()
            self._drawn = now

    def clear(self) -> None:
        """Make room for a line of the log."""
        if self.active:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class Progress:
    """Times the batches of one epoch; logs every train.print_freq iterations and after the last one.

    `done`: iterations of the epoch that an earlier process made. Costs are means over the iterations since the last line,
    in seconds; avg_samples is samples per batch.
    """

    def __init__(self, epoch: str, steps: int, settings: Any, log: Callable[[str], None], bar: Bar, done: int = 0):
        self._epoch, self._steps, self._log, self._bar = epoch, steps, log, bar
        self._print_freq, self._unit = settings.train.print_freq, settings.data.unit
        self._step = done
        self._restart()

    def _restart(self) -> None:
        self._batches = self._samples = 0
        self._reader = 0.0
        self._started = self._last = time.perf_counter()

    def batch_read(self) -> None:
        """To be called as soon as a batch has arrived."""
        self._reader += time.perf_counter() - self._last

    def batch_done(self, samples: int, loss: float, lr: float) -> None:
        """To be called at the end of an iteration."""
        self._step += 1
        self._batches += 1
        self._samples += samples
        self._last = time.perf_counter()
        seconds = self._last - self._started
        speed = f"{self._samples / seconds:.2f} {self._unit}/sec"
        if self._step % self._print_freq == 0 or self._step == self._steps:
            self._log(stamp(
                f"epoch: [{self._epoch}] iter: [{self._step}/{self._steps}] loss: {loss:.6f} lr: {lr:.8f} "
                f"avg_reader_cost: {self._reader / self._batches:.5f} sec avg_batch_cost: {seconds / self._batches:.5f} sec "
                f"avg_samples: {self._samples / self._batches:.1f} avg_ips: {speed}"
            ))  # fmt: skip
            self._restart()
        self._bar.draw(f"epoch {self._epoch} loss {loss:.4f} lr {lr:.2g} {speed}", self._step, self._steps)
