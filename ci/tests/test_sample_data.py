# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The image sample's data: what the archives hold, and how archives are unpacked."""
from __future__ import annotations

import gzip
import io
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import REPO, sample
from pipeline.align.archive import ensure_unpacked
from pipeline.align.errors import UserError

SHIPPED = sample() / "test_tipc" / "data"


def unpacked(archive: Path, folder: Path) -> Path:
    ensure_unpacked(archive, folder)
    return folder


def read_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [N, 8, 8] and int64 [N] of a list file."""
    pairs = [line.split() for line in (folder / f"{split}_list.txt").read_text().splitlines()]
    images = [Image.open(folder / name) for name, _ in pairs]
    assert all(image.mode == "L" for image in images)
    return np.stack([np.asarray(image) for image in images]), np.array([int(label) for _, label in pairs])


def test_archives_hold_scikit_learns_digits(tmp_path):
    from sklearn.datasets import load_digits

    digits = load_digits()
    wanted = sorted((image.astype(int).tobytes(), label) for image, label in zip(digits.images, digits.target))
    folder = unpacked(SHIPPED / "digits.tar.gz", tmp_path / "digits")
    splits = {split: read_split(folder, split) for split in ("train", "val")}
    assert [len(labels) for _, labels in splits.values()] == [1000, 797]
    found = [pair for images, labels in splits.values() for pair in zip(np.rint(images / 255 * 16).astype(int), labels)]
    assert sorted((image.tobytes(), label) for image, label in found) == wanted
    for _, labels in splits.values():
        share = np.bincount(labels, minlength=10) / len(labels)
        assert np.abs(share - np.bincount(digits.target) / 1797).max() < 1 / len(labels)


def test_lite_data_is_a_small_part_of_it_with_every_class(tmp_path):
    full, lite = (unpacked(SHIPPED / name, tmp_path / name[:4]) for name in ("digits.tar.gz", "lite_data.tar"))
    for split in ("train", "val"):
        images, labels = read_split(lite, split)
        assert len(labels) == 16 and set(labels) == set(range(10))
        known = {image.tobytes() for image in read_split(full, split)[0]}
        assert all(image.tobytes() in known for image in images)


def test_archives_are_small_and_say_where_the_images_come_from(tmp_path):
    assert sum(path.stat().st_size for path in SHIPPED.iterdir() if path.is_file()) < 500_000
    for name in ("digits.tar.gz", "lite_data.tar"):
        folder = unpacked(SHIPPED / name, tmp_path / name[:4])
        assert "BSD 3-Clause" in (folder / "LICENSE").read_text() and "load_digits" in (folder / "README").read_text()


def test_archives_are_made_again_bit_by_bit(tmp_path):
    for name in ("a", "b"):
        subprocess.run([sys.executable, REPO / "ci" / "make_digits.py", tmp_path / name], check=True)
    assert (tmp_path / "a/digits.tar.gz").read_bytes() == (tmp_path / "b/digits.tar.gz").read_bytes()
    assert (tmp_path / "a/lite_data.tar").read_bytes() == (SHIPPED / "lite_data.tar").read_bytes()
    # zlib and its replacements compress differently; what they compress must not differ.
    made, shipped = (gzip.decompress((folder / "digits.tar.gz").read_bytes()) for folder in (tmp_path / "a", SHIPPED))
    assert made == shipped


def tar_of(path: Path, *members: tuple[str, bytes, str]) -> Path:
    """A tar of (name, type, link target); a plain file holds b"1"."""
    with tarfile.open(path, "w") as tar:
        for name, kind, target in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, target, 1 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"1"))
    return path


@pytest.mark.parametrize(
    "member",
    [
        ("d/../../evil", tarfile.REGTYPE, ""),
        ("/tmp/evil", tarfile.REGTYPE, ""),
        ("d/link", tarfile.SYMTYPE, "a"),
        ("d/link", tarfile.SYMTYPE, "../../secret"),
        ("d/link", tarfile.LNKTYPE, "d/a"),
        ("d/device", tarfile.CHRTYPE, ""),
        ("d/pipe", tarfile.FIFOTYPE, ""),
        ("other/b", tarfile.REGTYPE, ""),
    ],
)
def test_an_unsafe_archive_is_refused_and_leaves_nothing(tmp_path, member):
    archive = tar_of(tmp_path / "data.tar", ("d/a", tarfile.REGTYPE, ""), member)
    with pytest.raises(UserError, match="data.tar"):
        ensure_unpacked(archive, tmp_path / "in" / "data")
    assert [path.name for path in tmp_path.rglob("*")] in (["data.tar", "in"], ["in", "data.tar"])


def test_a_cut_archive_is_refused_and_leaves_nothing(tmp_path):
    for name, kept in (("digits.tar.gz", 50_000), ("lite_data.tar", 20_000), ("lite_data.tar", 0)):
        (tmp_path / name).write_bytes((SHIPPED / name).read_bytes()[:kept])
        with pytest.raises(UserError, match=name):
            ensure_unpacked(tmp_path / name, tmp_path / "in" / "data")
        assert list((tmp_path / "in").iterdir()) == []


def test_a_missing_archive_is_named(tmp_path):
    with pytest.raises(UserError, match=r"data\.root or data\.archive"):
        ensure_unpacked(tmp_path / "no.tar", tmp_path / "data")


def test_many_may_unpack_at_once(tmp_path):
    errors = []

    def work():
        try:
            ensure_unpacked(SHIPPED / "lite_data.tar", tmp_path / "data")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and [path.name for path in tmp_path.iterdir()] == ["data"]
    assert len(list((tmp_path / "data" / "images").iterdir())) == 32


def test_a_folder_that_is_there_stays(tmp_path):
    (tmp_path / "data").mkdir()
    ensure_unpacked(SHIPPED / "lite_data.tar", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []
