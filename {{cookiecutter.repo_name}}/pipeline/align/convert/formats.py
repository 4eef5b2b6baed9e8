# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Tell weight files apart by their content, and open files and directories of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.align.convert.arrays import Array
from pipeline.align.convert.paddle_file import read_paddle
from pipeline.align.convert.stream import DataFile, read_safetensors
from pipeline.align.convert.torch_file import OLD_START, read_torch
from pipeline.align.errors import UserError

Entries = dict[str, dict[str, Array]]
#: Names that weight files have in a directory.
WEIGHTS = ("*.safetensors", "*.bin", "*.pth", "*.pt", "*.ckpt", "*.pdparams")
#: Names under which libraries put a model's weights, beside files of the training.
NAMED = ("model.safetensors", "pytorch_model.bin", "model_state.pdparams")
#: What libraries write into the metadata of a safetensors file.
ORIGINS = {"pt": "torch", "pd": "paddle", "paddle": "paddle"}


def open_path(path: Path, trust_pickle: bool) -> tuple[Entries, list[str], str | None]:
    """The dictionaries of tensors in a file or directory, by where they stand in it; notes; and whose weights these are."""
    if path.is_dir():
        return _open_directory(path, trust_pickle)
    if path.name.endswith(".index.json"):
        return _open_shards(path, trust_pickle)
    if not path.is_file():
        raise UserError(f"{path} does not exist")
    entries: Entries = {}
    top, origin = _open_file(path, trust_pickle)
    for place, name, array in _walk(top, ()):
        entries.setdefault(".".join(place), {})[name] = array
    tops = {entry.split(".")[0] for entry in entries}
    others = [str(key) for key, value in top.items() if not isinstance(value, Array) and str(key) not in tops]
    return entries, [f"not weights: {', '.join(others)}"] if others else [], origin


def _open_file(path: Path, trust_pickle: bool) -> tuple[dict[Any, Any], str | None]:
    """The content of a file of any kind as nested dicts with Arrays, and its origin."""
    data = DataFile(path)
    start = data.read(0, 16)
    if len(start) < 16:
        raise UserError(f"{path} is no weight file: it has {data.size} bytes")
    if start[8:9] == b"{":
        tensors, metadata = read_safetensors(path)
        return dict(tensors), ORIGINS.get(metadata.get("format", ""))
    if start[:4] == b"PK\x03\x04" or start.startswith(OLD_START):
        value, origin = _trusted(path) if trust_pickle else read_torch(data), "torch"
    elif start[:1] == b"\x80":
        value, origin = read_paddle(path), "paddle" if path.suffix == ".pdparams" else None
    else:
        text = " (a Git LFS pointer: fetch the file itself)" if start.startswith(b"version https://") else ""
        raise UserError(
            f"{path} is no weight file that is known here{text}: safetensors, torch's .pth/.pt/.bin, Paddle's .pdparams"
        )
    if not isinstance(value, dict):
        kind = "tensor" if isinstance(value, Array) else type(value).__name__
        raise UserError(f"{path} holds a {kind}, not a dictionary of tensors; save model.state_dict()")
    return value, origin


def _trusted(path: Path) -> dict[Any, Any]:
    from pipeline.align.convert.trusted_torch import load_trusted

    return load_trusted(path)


def _walk(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, Array]]:
    """(where its dictionary stands, name, tensor) of every tensor in nested dicts and lists."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, Array):
            yield place, str(key), one
        elif isinstance(one, (dict, list, tuple)):
            yield from _walk(one, (*place, str(key)))


def _open_directory(path: Path, trust_pickle: bool) -> tuple[Entries, list[str], str | None]:
    """A sharded checkpoint by its index, or the one weight file in it; safetensors is preferred to pickles."""
    indices = sorted(path.glob("*.index.json"), key=lambda one: ("safetensors" not in one.name, one.name))
    kinds = {"safetensors" in index.name for index in indices}
    if len(indices) > len(kinds):
        raise UserError(f"{path} has several indices ({', '.join(one.name for one in indices)}); name one")
    if indices:
        return _open_shards(indices[0], trust_pickle)
    named = [path / name for name in NAMED if (path / name).is_file()]
    files = named[:1] or [file for pattern in WEIGHTS for file in sorted(path.glob(pattern))]
    best = [file for file in files if file.suffix == files[0].suffix]
    if len(best) != 1:
        raise UserError(
            f"{path} has {'no' if not best else 'several'} weight files{''.join(f', {one.name}' for one in best[:4])}"
            " and no index; name one file"
        )
    entries, notes, origin = open_path(best[0], trust_pickle)
    return entries, [f"{best[0].name} read", *notes], origin


def _open_shards(index: Path, trust_pickle: bool) -> tuple[Entries, list[str], str | None]:
    """All shards that an index lists, as one dictionary. Raises UserError where the index and the shards disagree."""
    try:
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        shards = sorted(set(listed.values()))
        outside = [shard for shard in shards if Path(shard).name != shard]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{index} is no index of a sharded checkpoint: {error!r}") from None
    missing = [shard for shard in shards if not (index.parent / shard).is_file()]
    if outside or missing:
        raise UserError(
            f"{index}: the shard {(outside or missing)[0]!r} is not in the directory ({len(outside or missing)} such)"
        )
    found: dict[str, Array] = {}
    origin = None
    for shard in shards:
        tensors, origin = _open_file(index.parent / shard, trust_pickle)
        for name, array in tensors.items():
            if not isinstance(array, Array) or listed.get(name) != shard:
                raise UserError(f"{index}: {shard} holds {name!r}, which the index places in {listed.get(name)!r}")
            found[name] = array
    lost = [name for name in listed if name not in found]
    if lost:
        raise UserError(f"{index}: {lost[0]!r} is not in {listed[lost[0]]!r} ({len(lost)} such): the shard is of another save")
    return {"": found}, [f"{index.name}: shards as it lists them"], origin
