# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Pairs of records that reprod_log's rule passes although they prove nothing, and what `python -m pipeline compare` says.

    python pipeline/reprod_log_demo/what_stock_passes.py
"""
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pipeline.align.verdict import compare_files  # noqa: E402

LOGITS = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
OUTLIER = np.zeros(1_000_000, np.float32)
OUTLIER[7] = 0.9
NAN = LOGITS.copy()
NAN[0, 0] = np.nan
PAIRS = {
    "NaN on both sides": ({"logits": NAN}, {"logits": NAN}),
    "nothing on both sides": ({}, {}),
    "transposed": ({"logits": np.ones((6, 10), np.float32)}, {"logits": np.ones((10, 6), np.float32)}),
    "broadcastable": ({"logits": np.ones((6, 10), np.float32)}, {"logits": np.ones((1, 10), np.float32)}),
    "one element in a million off by 0.9": ({"logits": np.zeros_like(OUTLIER)}, {"logits": OUTLIER}),
    "small values off by a tenth": ({"logits": LOGITS * 1e-6}, {"logits": LOGITS * 1.1e-6}),
}


def stock_passes(a: dict, b: dict, threshold: float = 1e-6) -> bool:
    """The rule of reprod_log 1.0.1 (compute_diff and check_print_diff): a mean above the threshold fails."""
    for key in a:
        x, y = a[key], b[key]
        if x.shape != y.shape and x.T.shape == y.shape:
            x = x.T
        if np.abs(x - y).mean() > threshold:
            return False
    return True


def main() -> None:
    """Print one line per pair."""
    with tempfile.TemporaryDirectory() as folder:
        for title, pair in PAIRS.items():
            files = [Path(folder) / f"{side}.npy" for side in ("reference", "port")]
            for file, arrays in zip(files, pair):
                np.save(file, arrays)  # what ReprodLogger.save does
            stock, ours = "passed" if stock_passes(*pair) else "failed", compare_files(*files)
            print(f"{title}: reprod_log says {stock}; here {ours.state}: {ours.reason}")


if __name__ == "__main__":
    main()
