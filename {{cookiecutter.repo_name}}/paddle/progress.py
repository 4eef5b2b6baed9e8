# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Lines of the training log, in the form that TIPC and log readers expect."""
from __future__ import annotations

import time
from collections.abc import Callable


def stamp(text: str) -> str:
    """`text` behind the time of day."""
    return f"[{time.strftime('%Y/%m/%d %H:%M:%S')}] {text}"


class Progress:
    """Times the batches of one epoch; logs every `print_freq` iterations and after the last one.

    Costs are means over the iterations since the last line, in seconds; avg_samples is samples per batch.
    """

    def __init__(self, epoch: str, steps: int, print_freq: int, log: Callable[[str], None]):
        self._epoch, self._steps, self._print_freq, self._log = epoch, steps, print_freq, log
        self._step = 0
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
        if self._step % self._print_freq == 0 or self._step == self._steps:
            seconds = self._last - self._started
            self._log(stamp(
                f"epoch: [{self._epoch}] iter: [{self._step}/{self._steps}] loss: {loss:.6f} lr: {lr:.8f} "
                f"avg_reader_cost: {self._reader / self._batches:.5f} sec avg_batch_cost: {seconds / self._batches:.5f} sec "
                f"avg_samples: {self._samples / self._batches:.1f} avg_ips: {self._samples / seconds:.2f} images/sec"
            ))  # fmt: skip
            self._restart()
