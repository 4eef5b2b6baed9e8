# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The archives of the samples' data, as their makers write them: nothing depends on the time, the user or the machine."""
from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "{{cookiecutter.repo_name}}" / "test_tipc" / "data"


def make_tar_of(top: str, files: Mapping[str, bytes]) -> bytes:
    """The bytes of a tar with the folder `top`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode = len(files[name]), 0o644
            tar.addfile(member, io.BytesIO(files[name]))
    return buffer.getvalue()


def write_archives(track: str, made: Mapping[str, bytes], folder: Path | None = None) -> None:
    """Write files of a track into `folder`, or with the names that they have in the template into its test_tipc/data."""
    for name, data in made.items():
        target = TARGET / ("{% if cookiecutter.__example == '" + track + "' %}" + name + "{% endif %}")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            target = folder / name
        target.write_bytes(data)
