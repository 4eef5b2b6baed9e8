# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The weights that both sides start from: made by the reference, converted for the port."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from pipeline.align import provenance
from pipeline.align.context import Context
from pipeline.align.convert import convert_file, plan, read_source, save_reference
from pipeline.align.errors import UserError
from pipeline.align.paths import Paths

KINDS = ("init", "probe")
#: Optional module in which a user registers the conversion of own layers (pipeline.align.convert.register).
OWN_LAYERS = "pipeline.own_layers"


def make(context: Context) -> None:
    """Torch side: write the weights as initialised ("init") and with every constant moved ("probe")."""
    paths = context.paths
    made = _provenance(context)
    if _up_to_date(paths.weights / "torch.json", made, [paths.modules("torch"), *_files(paths, "torch")]):
        return
    model, settings = context.build_model(), context.cfg.weights
    if settings.checkpoint:
        source = read_source(paths.root / settings.checkpoint, settings.entry)
        save_reference(model, source, paths.weight_file("torch", "init"), _user_map(context), settings.fresh or ())
        context.backend.load(model, paths.weight_file("torch", "init"))
    else:
        save_reference(model, None, paths.weight_file("torch", "init"))
        context.backend.scramble(model, context.cfg.align.seed)
    save_reference(model, None, paths.weight_file("torch", "probe"))
    provenance.write_json(paths.modules("torch"), context.backend.describe(model))
    provenance.write_json(paths.weights / "torch.json", made)


def convert(context: Context) -> None:
    """Paddle side: match the two module trees and convert both weight files."""
    paths = context.paths
    sources = _files(paths, "torch")
    for source in sources:
        if not source.is_file():
            raise UserError(f"{source.relative_to(paths.root)} is missing; run the torch side first")
    made = {**_provenance(context), "sources": {path.name: provenance.file_hash(path) for path in sources}}
    targets = _files(paths, "paddle")
    if _up_to_date(paths.weights / "paddle.json", made, [*targets, paths.conversion, paths.modules("paddle")]):
        return
    if importlib.util.find_spec(OWN_LAYERS):
        importlib.import_module(OWN_LAYERS)
    tree = context.backend.describe(context.build_model())
    provenance.write_json(paths.modules("paddle"), tree)
    plans = plan(json.loads(paths.modules("torch").read_text(encoding="utf-8")), tree, _user_map(context))
    for source, target in zip(sources, targets):
        convert_file(plans, source, target)
    provenance.write_json(paths.conversion, plans.to_json())
    provenance.write_json(paths.weights / "paddle.json", made)


def _files(paths: Paths, side: str) -> list[Path]:
    return [paths.weight_file(side, kind) for kind in KINDS]


def _user_map(context: Context) -> dict:
    return context.cfg.weights.to_dict()["map"] or {}


def _provenance(context: Context) -> dict:
    made = provenance.make(context.paths, context.cfg, context.backend, "weights", {})
    checkpoint = context.cfg.weights.checkpoint
    if checkpoint:
        path = context.paths.root / checkpoint
        if not path.exists():
            raise UserError(f"weights.checkpoint in port.yaml: {checkpoint} does not exist")
        made["checkpoint"] = [str(checkpoint), path.stat().st_size, path.stat().st_mtime_ns]
    return made


def _up_to_date(description: Path, made: dict, files: list[Path]) -> bool:
    try:
        return json.loads(description.read_text(encoding="utf-8")) == made and all(file.is_file() for file in files)
    except (OSError, ValueError):
        return False
