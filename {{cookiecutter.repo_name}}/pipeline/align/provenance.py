# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What made a record, and whether it still would: code, settings and inputs by content, never by time stamp.

Content hashes survive `git clone` and copying between machines, time stamps do not.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.align.atomic import replacing
from pipeline.align.paths import Paths
from pipeline.align.settings import Settings, recorded_settings, settings_hash


def file_hash(path: Path) -> str:
    """SHA-256 of a file; an unchanged file is read once per process."""
    stat = path.stat()
    return _file_hash(path, stat.st_size, stat.st_mtime_ns)


@functools.cache
def _file_hash(path: Path, size: int, modified: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def code_hash(path: Path) -> str:
    """SHA-256 of a source file with line endings as LF, so that a checkout on Windows is the same code."""
    return hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def loaded_code(paths: Paths, side: str) -> dict[str, str]:
    """{relative file: hash} of every module of this repository that the running process has imported."""
    root = f"{paths.root.resolve()}{os.sep}"
    other = paths.tree("paddle" if side == "torch" else "torch").name
    found = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if file.startswith((root, f"{paths.root}{os.sep}")) and file.endswith(".py"):
            relative = Path(file).resolve().relative_to(root)
            outside = relative.parts[0] == other or relative.parts[0].startswith(".") or "site-packages" in relative.parts
            if not outside:
                found[relative.as_posix()] = code_hash(paths.root / relative)
    return dict(sorted(found.items()))


def make(paths: Paths, cfg: Settings, backend: Any, part: str, inputs: Mapping[str, Path], **more: Any) -> dict[str, Any]:
    """The provenance of a record made now by `backend`'s side. `inputs`: files that the record depends on, by name."""
    recorded = recorded_settings(cfg)
    return {
        "part": part,
        "framework": backend.name,
        "framework_version": backend.version,
        "device": backend.device,
        "python": platform.python_version(),
        "numpy": sys.modules["numpy"].__version__,
        "platform": platform.platform(terse=True),
        "seed": cfg.align.seed,
        "settings": settings_hash(recorded),
        "settings_values": recorded,
        "code": loaded_code(paths, backend.name),
        "inputs": {name: file_hash(path) for name, path in inputs.items()},
        **more,
    }


def stale_reason(paths: Paths, cfg: Settings, provenance: Mapping[str, Any]) -> str | None:
    """Why a record with this provenance no longer speaks for the repository, or None where it is fresh."""
    recorded = recorded_settings(cfg)
    if provenance.get("settings") != settings_hash(recorded):
        return "the settings changed since: " + _settings_difference(provenance.get("settings_values", {}), recorded)
    for name, path in (("fake batch", paths.fake_batch), ("weights", paths.weight_file("torch", "probe"))):
        made_from = provenance.get("inputs", {}).get(name.replace(" ", "_"))
        if made_from and path.is_file() and file_hash(path) != made_from:
            return f"the {name} changed since it was made"
    code = provenance.get("code") or {}
    if not code:
        return "it does not say which code made it"
    for relative, digest in code.items():
        path = paths.root / relative
        if not path.is_file():
            return f"{relative} is gone since it was made"
        if code_hash(path) != digest:
            return f"{relative} changed since it was made"
    return None


def _settings_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    shown = [f"{key} {old.get(key, 'unset')!r} -> {new.get(key, 'unset')!r}" for key in changed[:3]]
    return ", ".join(shown) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")


def write_json(path: Path, content: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never a part."""
    with replacing(path) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")
