# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Data sets that are shipped as one archive: unpacked where the settings want the folder, once, whole or not at all."""
from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
import zlib
from pathlib import Path, PurePosixPath

from pipeline.align.errors import UserError


def ensure_sample(archive: Path, folder: Path) -> None:
    """ensure_unpacked for data that come with the repository: only beside the archive, so that a wrong data.root is an error."""
    if not folder.is_dir() and folder.resolve().parent != archive.resolve().parent:
        raise UserError(f"the data folder {folder} does not exist; check data.root in port.yaml")
    ensure_unpacked(archive, folder)


def ensure_unpacked(archive: Path, folder: Path) -> None:
    """Make `folder` from `archive` unless it is there. The archive holds one top folder, whose name does not matter.

    Safe for several processes at once: each unpacks beside `folder` and renames, and whoever comes second drops its own.
    Raises UserError where both are missing or the archive is damaged, unsafe or not one folder.
    """
    if folder.is_dir():
        return
    if not archive.is_file():
        raise UserError(f"no data: neither the folder {folder} nor the archive {archive} exists; set data.root or data.archive")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UserError(f"cannot unpack {archive} into {folder.parent}: {error}; unpack it by hand and set data.root") from None
    try:
        top = _extract(archive, temporary)
        _rename(temporary / top, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _extract(archive: Path, target: Path) -> str:
    """Unpack plain files and folders only. Returns the name of the top folder."""
    try:
        with tarfile.open(archive) as file:
            members = file.getmembers()
            top = _checked_top(archive, members)
            # The attribute, unlike the argument, is accepted by every 3.10 and 3.11, and None means the old behaviour,
            # which _checked_top has made safe.
            file.extraction_filter = getattr(tarfile, "data_filter", None)
            file.extractall(target, members)
            return top
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise UserError(f"cannot unpack {archive}: {error}; fetch it again") from None


def _checked_top(archive: Path, members: list[tarfile.TarInfo]) -> str:
    """The one top folder of all members; UserError for a name that leaves it, a link or a device."""
    tops = set()
    for member in members:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or "\\" in member.name or not (member.isreg() or member.isdir()):
            raise UserError(f"{archive}: {member.name!r} is a link, a device or leads outside; nothing was unpacked")
        if path.parts:
            tops.add(path.parts[0])
    if len(tops) != 1:
        raise UserError(f"{archive} must hold exactly one top folder, not {sorted(tops) or 'nothing'}")
    return tops.pop()


def _rename(source: Path, folder: Path) -> None:
    try:
        os.replace(source, folder)
    except OSError as error:
        if not folder.is_dir():  # otherwise another process was first
            raise UserError(f"cannot create {folder}: {error}") from None
