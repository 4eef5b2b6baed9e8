# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Records: the .npy files in which a side keeps its numbers, and where those came from.

A record is what reprod_log 1.0.1 writes, `numpy.save` of a pickled dict[str, ndarray], so that stock reprod_log and
`numpy.load(path, allow_pickle=True).tolist()` read it. Behind the pickle, where they stop reading, stands a trailer:

    provenance as JSON | SHA-256 of that JSON (32 bytes) | its length (uint64, little endian) | TRAILER (16 bytes)

Arrays begin at multiples of ALIGNMENT in the file, so that a memory map of it is as good as memory.
"""
from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError
from pipeline.align.unpickle import Refused, read_pickle

TRAILER = b"\x93REPROD-TRAILER\n"
FOOTER = struct.Struct("<32sQ16s")
ALIGNMENT = 64
#: What numpy.save writes before the pickle of a dict.
HEADER_TEXT = "{'descr': '|O', 'fortran_order': False, 'shape': (), }"
HEADER = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + HEADER_TEXT.encode().ljust(117) + b"\n"
#: The digest folds blocks of this many 64-bit words in rows of FOLD words.
ROWS, FOLD = 128, 1024


@dataclass(frozen=True)
class Record:
    """arrays: read-only, on a memory map of the file; provenance: None for a file that states none."""

    arrays: dict[str, np.ndarray]
    provenance: dict[str, Any] | None
    path: Path
    payload: memoryview
    digest: str | None
    untouched: bool = False

    def verify(self) -> None:
        """UserError where the content is not what was written.

        Reads all of it, unless the file still has the time stamp it was given when it was written, to the nanosecond.
        """
        if self.digest is not None and not self.untouched and payload_digest(self.payload) != self.digest:
            raise UserError(f"{self.path}: its content changed after it was recorded; record it again")

    def dtype(self, key: str) -> str:
        """Name of the dtype the model computed in; bfloat16, which numpy lacks, is recorded as float32."""
        named = (self.provenance or {}).get("dtypes")
        named = named.get(key) if isinstance(named, dict) else None
        return named if isinstance(named, str) else self.arrays[key].dtype.name


def write_record(path: str | Path, arrays: Mapping[str, Any], provenance: Mapping[str, Any]) -> None:
    """Write `arrays` (numpy arrays or numbers by name) with their provenance (JSON-able). Replaces `path` in one step.

    Memory beyond the arrays: one copy of an array that is not contiguous. Raises UserError for what is no number.
    """
    checked = {name: _checked(path, name, value) for name, value in arrays.items()}
    with replacing(path) as file:
        file.write(HEADER)
        for piece in _pickle(checked, len(HEADER)):
            file.write(piece)
        size = file.tell()
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
            digest = payload_digest(view[:size])
        moment = time.time_ns()
        said = {"payload_bytes": size, "payload_digest": digest, "written_ns": moment, "provenance": dict(provenance)}
        text = json.dumps(said).encode()
        file.seek(size)
        file.write(text + FOOTER.pack(hashlib.sha256(text).digest(), len(text), TRAILER))
    os.utime(path, ns=(moment, moment))


def read_record(path: str | Path) -> Record:
    """Open a record, written here or by stock reprod_log (pickle protocols 2 to 5). Nothing in it is executed.

    Raises UserError for a file that is missing, no record, damaged, or holds anything but arrays and numbers.
    """
    path = Path(path)
    view, modified = _map(path)
    start = _after_header(path, view)
    said, rest = _trailer(path, view)
    try:
        content, size = read_pickle(view[start : len(view) - rest])
    except Refused as refused:
        raise UserError(f"{path}: no record of arrays, it holds {refused}; record it again") from None
    if said is None and start + size != len(view) or said is not None and said["payload_bytes"] != start + size:
        raise UserError(f"{path}: damaged, {len(view) - start - size} bytes at its end belong to nothing; record it again")
    if not isinstance(content, dict):
        raise UserError(f"{path}: holds a {type(content).__name__}, not a dict of arrays; save it with reprod_log or this kit")
    arrays = {_key(path, key): _value(path, key, value) for key, value in content.items()}
    if said is None:
        return Record(arrays, None, path, view, None)
    untouched = said["written_ns"] == modified
    return Record(arrays, said["provenance"], path, view[: start + size], said["payload_digest"], untouched)


def read_provenance(path: str | Path) -> dict[str, Any] | None:
    """What the record at `path` says about its origin, None where it says nothing. Raises UserError."""
    path = Path(path)
    view, _ = _map(path)
    _after_header(path, view)
    said, _ = _trailer(path, view)
    return said["provenance"] if said else None


def payload_digest(payload: memoryview) -> str:
    """A checksum at the speed of memory: SHA-256 over 1 MiB blocks, each first folded by adding its rows of 64-bit words.

    Any change of one word and almost any other accident changes it. It is no signature: who edits the file can also
    write a new trailer.
    """
    digest, folded = hashlib.sha256(str(len(payload)).encode()), np.empty(FOLD, np.uint64)
    size = 8 * ROWS * FOLD
    for start in range(0, len(payload), size):
        block = payload[start : start + size]
        if len(block) < size:
            block = bytes(block).ljust(size, b"\0")
        words = np.frombuffer(block, "<u8").reshape(ROWS, FOLD)
        digest.update(np.add.reduce(words, axis=0, out=folded).astype("<u8", copy=False))
    return digest.hexdigest()


def _checked(path: str | Path, name: Any, value: Any) -> np.ndarray:
    """`value` as a little-endian array in C order."""
    array = np.asarray(value)
    _key(Path(path), name)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype.name in ("longdouble", "float128", "float96"):
        raise UserError(f"{path}: '{name}' has dtype {array.dtype}; record arrays of numbers")
    shape = array.shape  # ascontiguousarray makes a 0-d array 1-d
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(shape)


def _pickle(arrays: dict[str, np.ndarray], position: int) -> Iterator[bytes | memoryview]:
    """The pickle (protocol 4) of a 0-d object array around a dict, in pieces; `position`: where it starts in the file.

    The old module name numpy.core is known to numpy 1 and 2. Memo 0, 1, 2: _reconstruct, ndarray, dtype; then the dtypes.
    """
    empty = b"h\x00h\x01K\x00\x85C\x01b\x87R"
    piece = b"\x80\x04cnumpy.core.multiarray\n_reconstruct\nq\x00cnumpy\nndarray\nq\x01cnumpy\ndtype\nq\x02000"
    piece += empty + b"(K\x01)" + _dtype("O8", "|", 63) + b"\x89]}"
    yield piece
    position += len(piece)
    memo: dict[str, bytes] = {}
    for name, array in arrays.items():
        raw = array.reshape(-1).view(np.uint8).data if array.size else b""
        piece = _text(name) + empty + b"(K\x01" + b"(" + b"".join(_integer(size) for size in array.shape) + b"t"
        dtype = array.dtype.str[1:]
        if dtype not in memo:
            memo[dtype] = bytes([len(memo) + 3])
            piece += _dtype(dtype, "|" if array.dtype.itemsize == 1 else "<", 0) + b"q" + memo[dtype]
        else:
            piece += b"h" + memo[dtype]
        piece += b"\x89"
        piece += _padding(position + len(piece) + 9) + b"\x8e" + struct.pack("<Q", len(raw))
        yield piece
        yield raw
        yield b"tbs"
        position += len(piece) + len(raw) + 3
    yield b"atb."


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def _integer(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def _dtype(text: str, order: str, flags: int) -> bytes:
    state = b"(K\x03" + _text(order) + b"NNN" + 2 * b"J\xff\xff\xff\xff" + b"K" + bytes([flags]) + b"tb"
    return b"h\x02" + _text(text) + b"\x89\x88\x87R" + state


def _padding(position: int) -> bytes:
    """Instructions without effect, up to the next multiple of ALIGNMENT: push bytes, drop them."""
    missing = (-position - 3) % ALIGNMENT
    return b"C" + bytes([missing]) + bytes(missing) + b"0"


def _map(path: Path) -> tuple[memoryview, int]:
    """The content of a file without reading it, and its time of modification in ns. Raises UserError."""
    try:
        with open(path, "rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        raise UserError(f"{path} is missing") from None
    except ValueError:  # mmap refuses an empty file
        raise UserError(f"{path} is empty; record it again") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None


def _after_header(path: Path, view: memoryview) -> int:
    """Position of the pickle. Raises UserError where the file is not numpy.save's of a dict."""
    start = bytes(view[:12])
    if start[:6] != b"\x93NUMPY" or len(start) < 12:
        raise UserError(f"{path}: no .npy file; records are made by this kit or reprod_log")
    before, length = (10, struct.unpack("<H", start[8:10])[0]) if start[6] == 1 else (12, struct.unpack("<I", start[8:12])[0])
    text = bytes(view[before : min(before + length, 4096)]).decode("latin1").strip()
    if text != HEADER_TEXT or len(view) < before + length:
        kind = "a single array" if text.startswith("{'descr'") and text != HEADER_TEXT else "a damaged header"
        raise UserError(f"{path}: holds {kind}, not a dict of arrays; save it with reprod_log or this kit")
    return before + length


def _trailer(path: Path, view: memoryview) -> tuple[dict[str, Any] | None, int]:
    """(what the trailer says or None, its size in bytes). Raises UserError where it is damaged."""
    if len(view) < FOOTER.size or bytes(view[-len(TRAILER) :]) != TRAILER:
        return None, 0
    checksum, length, _ = FOOTER.unpack(view[-FOOTER.size :])
    text = bytes(view[max(0, len(view) - FOOTER.size - length) : -FOOTER.size])
    if len(text) != length or hashlib.sha256(text).digest() != checksum:
        raise UserError(f"{path}: the statement of its origin is damaged; record it again")
    try:
        said = json.loads(text)
        sound = {"payload_bytes": int, "payload_digest": str, "written_ns": int, "provenance": dict}
        if all(type(said[name]) is kind for name, kind in sound.items()):
            return said, FOOTER.size + length
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise UserError(f"{path}: the statement of its origin is not readable; record it again")


def _key(path: Path, key: Any) -> str:
    if not isinstance(key, str) or not key.isprintable() or not key:
        raise UserError(f"{path}: the name of an array must be printable text, not {key!r:.80}")
    return key


def _value(path: Path, key: str, value: Any) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if type(value) in (bool, int, float) and not (type(value) is int and abs(value) >= 1 << 63):
        array = np.array(value)
        array.flags.writeable = False
        return array
    raise UserError(f"{path}: '{key[:80]}' is a {type(value).__name__}; only arrays and numbers can be compared")
