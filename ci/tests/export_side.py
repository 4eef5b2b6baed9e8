# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The process of test_export.py: python export_side.py paddle REPO OUT

Exports the sample with the port's own functions, damages what came out, and writes facts.json.
"""
from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sample_side import Side, message

SIZES = (1, 2, 7)
DAMAGES = ("cut params", "empty params", "longer params", "no params", "cut json", "other json", "no json", "old name")


class ExportSide(Side):
    """What export_model.py, export_onnx.py and engine.py do."""

    def __init__(self, side: str, repo: Path, out: Path):
        super().__init__(side, repo, out)
        from checkpoint import save_weights

        self.cfg, self.weights, self.folder = self.settings(), out / "weights.safetensors", out / "exported"
        model = self.contract.build_model(self.cfg)
        for name, value in model.state_dict().items():  # as after a training: no statistic is 0 or 1
            if name.endswith(("_mean", "_variance")):
                value.set_value(np.random.default_rng(len(name)).uniform(0.3, 0.9, value.shape).astype(np.float32))
        save_weights(model, self.weights)

    def engines(self) -> None:
        """facts["difference"] = {engine: {batch size: largest difference to the network's output}}."""
        from export_onnx import export_onnx

        from engine import OnnxEngine, PaddleEngine
        from export_model import export_model, load_network

        export_model(self.cfg, self.weights, self.folder)
        onnx_file = self.out / "onnx" / "model.onnx"
        params, model = self.folder / "inference.pdiparams", self.folder / "inference.json"
        export_onnx(self.cfg, self.weights, model, params, onnx_file, 17, True)
        network = load_network(self.cfg, self.weights)
        engines = {
            "plain": PaddleEngine(self.folder), "onednn": PaddleEngine(self.folder, mkldnn=True, threads=2),
            "onnx": OnnxEngine(onnx_file),
        }  # fmt: skip
        self.facts["difference"] = {name: {} for name in engines}
        for size in SIZES:
            images = np.random.default_rng(size).normal(size=(size, 1, 8, 8)).astype(np.float32)
            wanted = network([self.tensor(images)])[0].numpy()
            for name, engine in engines.items():
                (found,) = engine([images])
                self.facts["difference"][name][size] = [list(found.shape), float(np.abs(found - wanted).max())]
        self.facts["files"] = sorted(path.name for path in [*self.folder.iterdir(), *onnx_file.parent.iterdir()])

    def damages(self) -> None:
        """facts["damage"] = {damage: {"paddle" | "onnx": message}}."""
        from export_onnx import export_onnx

        from engine import PaddleEngine

        params, model = (self.folder / name for name in ("inference.pdiparams", "inference.json"))
        weights, program, target = params.read_bytes(), model.read_bytes(), self.out / "damaged.onnx"
        found = {}
        for damage in DAMAGES:
            shutil.rmtree(self.folder)
            self.folder.mkdir()
            files = {
                params: {"cut params": weights[:-64], "empty params": b"", "longer params": weights + b"1234", "no params": None},
                model: {"cut json": program[:-90], "other json": b"[1]", "no json": None, "old name": None},
            }
            for path, kinds in files.items():
                content = kinds.get(damage, weights if path == params else program)
                if content is not None:
                    path.write_bytes(content)
            if damage == "old name":
                (self.folder / "inference.pdmodel").write_bytes(b"old")
            found[damage] = {
                "paddle": message(PaddleEngine, self.folder),
                "onnx": message(export_onnx, self.cfg, self.weights, model, params, target, 17, True),
                "written": target.exists(),
            }
        self.facts["damage"] = found

    def networks_that_cannot_be_exported(self) -> None:
        """facts["refused"] = {fault: [message, what is in the folder]}."""
        import export_model
        from pipeline.align.errors import PortError

        paddle, kept, folder = self.framework, self.contract.forward, self.out / "refused"

        def two_unknowns(model: Any, batch: tuple) -> dict[str, Any]:
            size = batch[0].shape[0]  # a number while it trains, -1 while it is traced
            return {"logits": kept(model, (batch[0].reshape([size, 1, -1, 8]), None))["logits"]}

        def fixed_batch(model: Any, batch: tuple) -> dict[str, Any]:
            size = batch[0].shape[0] if paddle.in_dynamic_mode() else 1
            return {"logits": kept(model, (batch[0].reshape([size, 1, 8, 8]), None))["logits"]}

        def other_numbers(model: Any, batch: tuple) -> dict[str, Any]:
            added = 0.0 if paddle.in_dynamic_mode() else 0.01
            return {"logits": kept(model, batch)["logits"] + added}

        def fails(model: Any, batch: tuple) -> dict[str, Any]:
            return {"logits": kept(model, batch)["logits"] @ paddle.zeros([3, 3])}

        found = {}
        for fault in (two_unknowns, fixed_batch, other_numbers, fails):
            self.contract.forward = fault
            try:
                export_model.export_model(self.cfg, self.weights, folder)
                said = "exported"
            except PortError as error:
                said = str(error)
            found[fault.__name__] = [said, sorted(path.name for path in folder.iterdir())]
        self.contract.forward = kept
        self.facts["refused"] = found

    def converter_faults(self) -> None:
        """facts["converter"] = {what the converter did: message}; a stand-in runs in its place."""
        import export_onnx

        from export_model import export_model
        from pipeline.align.errors import PortError

        export_model(self.cfg, self.weights, self.folder)
        params, model = (self.folder / name for name in ("inference.pdiparams", "inference.json"))
        target, real = self.out / "faulty.onnx", subprocess.run
        self.facts["converter"] = {}

        def faulty(kind: str) -> Any:
            def run(command: list[str], **options: Any) -> Any:
                import onnx

                done = real(command, **options)
                path = Path(command[command.index("--save_file") + 1])
                if kind == "aborts":
                    done.returncode, done.stdout, done.stderr = -6, "", "C++ Traceback\nUnsupported operator x\n"
                    return done
                network = onnx.load(str(path))
                if kind == "no weights":
                    kept = [node for node in network.graph.node if node.op_type != "Constant"]
                    del network.graph.node[:]
                    network.graph.node.extend(kept)
                    del network.graph.initializer[:]
                elif kind == "other numbers":
                    last = network.graph.output[0].name
                    for node in network.graph.node:
                        node.output[:] = ["before" if name == last else name for name in node.output]
                    network.graph.node.append(onnx.helper.make_node("Exp", ["before"], [last]))
                onnx.save(network, str(path))
                return done

            return run

        for kind in ("aborts", "no weights", "other numbers"):
            for checker in (True, False):
                export_onnx.subprocess.run = faulty(kind)
                try:
                    export_onnx.export_onnx(self.cfg, self.weights, model, params, target, 17, checker)
                    said = "converted"
                except PortError as error:
                    said = str(error)
                self.facts["converter"][f"{kind} {checker}"] = [said, target.exists()]
        export_onnx.subprocess.run = real


if __name__ == "__main__":
    one = ExportSide(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    one.engines()
    one.damages()
    one.networks_that_cannot_be_exported()
    one.converter_faults()
    (one.out / "facts.json").write_text(json.dumps(one.facts))
