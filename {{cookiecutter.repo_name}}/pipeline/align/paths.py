# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Where everything lies, relative to the root of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIDES = ("torch", "paddle")
#: Folder and contract module of each side.
TREES = {"torch": ("torch_ref", "reference"), "paddle": ("paddle", "port")}


class Paths:
    """Files of one repository. `root`: its top folder."""

    def __init__(self, root: Path = ROOT):
        self.root = Path(root)
        self.settings = self.root / "port.yaml"
        self.log_reprod = self.root / "log_reprod"
        self.pipeline = self.root / "pipeline"
        self.work = self.pipeline / "work"
        self.fake_batch = self.pipeline / "fake_data" / "fake_batch.npz"
        self.real_batch = self.pipeline / "fake_data" / "reference_batch.npz"
        self.weights = self.pipeline / "weights"
        self.conversion = self.work / "conversion.json"
        self.verdicts = self.work / "verdicts.json"
        self.tipc_results = self.root / "test_tipc" / "output" / "results_python.log"

    def tree(self, side: str) -> Path:
        """Folder of one side's code: torch_ref/ or paddle/."""
        return self.root / TREES[side][0]

    def contract_file(self, side: str) -> Path:
        """The file that defines the contract on one side."""
        return self.tree(side) / f"{TREES[side][1]}.py"

    def weight_file(self, side: str, kind: str) -> Path:
        """Weights of one side under its own names; kind is "probe" (steps 1 to 4) or "init" (training)."""
        return self.weights / f"{side}_{kind}.safetensors"

    def modules(self, side: str) -> Path:
        """Description of one side's module tree."""
        return self.work / side / "modules.json"

    def part(self, side: str, part: str) -> Path:
        """Record of one part: those that acceptance names in log_reprod/, all others in pipeline/work/."""
        if part in ACCEPTANCE_PARTS:
            return self.log_reprod / f"{part}_{side}.npy"
        return self.work / side / f"{part}.npy"

    def failure(self, side: str, job: str) -> Path:
        """Written when a job of one side failed, removed when it runs again."""
        return self.work / side / f"{job}.failed.json"

    def history(self, side: str) -> Path:
        """Training curves of one side (JSON)."""
        return self.work / f"train_{side}.json"

    def environment(self, side: str) -> Path:
        """Versions and device of one side (JSON)."""
        return self.work / f"environment_{side}.json"


#: Parts whose records acceptance asks for by name (log_reprod/<part>_<side>.npy).
ACCEPTANCE_PARTS = ("forward", "metric", "loss", "bp_align", "train_align")
