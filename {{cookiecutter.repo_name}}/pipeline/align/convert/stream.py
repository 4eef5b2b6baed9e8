# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Weight files as streams: safetensors read from a memory map, safetensors and .pdparams written tensor by tensor.

Formats: https://github.com/huggingface/safetensors (8 bytes of header length, JSON header, data without gaps); .pdparams is
a pickle of {name: numpy array}, which paddle.load reads; only opcodes that build that are written.
"""
from __future__ import annotations

import json
import mmap
import os
import pickle
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from pipeline.align.convert.arrays import NUMPY, Array
from pipeline.align.errors import UserError

NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32", "U64": "uint64",
    "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip
CODES = {name: code for code, name in NAMES.items()}
LARGEST_HEADER = 100_000_000
#: (name, shape, dtype name) of a tensor to be written, in the order of writing.
Entry = tuple[str, tuple[int, ...], str]


def map_file(path: Path) -> mmap.mmap:
    """The file as a read-only memory map; raises UserError where it is empty or unreadable."""
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def view(data: mmap.mmap, start: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A tensor in a mapped file, read-only; its pages are loaded when touched."""
    kind = NUMPY[dtype]
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, kind, count, start).reshape(shape) if count else np.empty(shape, kind)


def read_safetensors(path: Path) -> dict[str, Array]:
    """Every tensor of a safetensors file by name; the values stay in the file. Raises UserError for a damaged file."""
    data = map_file(path)
    try:
        (length,) = struct.unpack("<Q", data[:8])
        if length > min(LARGEST_HEADER, len(data) - 8):
            raise ValueError("the header is longer than the file")
        header = json.loads(data[8 : 8 + length], object_pairs_hook=_unique)
        found, end = {}, 0
        for name, entry in sorted(header.items(), key=lambda item: item[1].get("data_offsets", [0])):
            if name == "__metadata__":
                continue
            code, shape, (start, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if code not in NAMES:
                raise UserError(f"{path}: {name!r} is {code}: a quantised or 8-bit file cannot be converted; use the unquantised weights")
            size = int(np.prod(shape, dtype=np.int64)) * NUMPY[NAMES[code]].itemsize
            if start != end or stop - start != size:
                raise ValueError(f"{name!r} of {shape} {code} lies at {start} to {stop}")
            end = stop
            found[name] = Array(shape, NAMES[code], _reader(data, 8 + length + start, shape, NAMES[code]))
        if 8 + length + end != len(data):
            raise ValueError(f"it has {len(data)} bytes, its header describes {8 + length + end}")
    except (ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise UserError(f"{path} is no complete safetensors file (cut off or damaged?): {error}") from None
    return found


def _reader(data: mmap.mmap, start: int, shape: tuple[int, ...], dtype: str) -> Callable[[], np.ndarray]:
    return lambda: view(data, start, shape, dtype)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands in the header twice")
    return dict(pairs)


def write(path: Path, entries: Iterable[Entry], make: Callable[[str], np.ndarray], metadata: Mapping[str, str] | None = None) -> None:
    """Write a weight file, .pdparams if named so and safetensors otherwise, all or nothing.

    `make(name)` gives the values (bits for bfloat16) of one entry; one is held in memory at a time.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    writer = _write_pdparams if path.suffix == ".pdparams" else _write_safetensors
    try:
        with open(temporary, "wb") as file:
            writer(file, list(entries), make, dict(metadata or {}))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_safetensors(file, entries: list[Entry], make: Callable[[str], np.ndarray], metadata: dict[str, str]) -> None:
    # larger items first keeps every tensor aligned
    entries = sorted(entries, key=lambda entry: -NUMPY[entry[2]].itemsize)
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    start = 0
    for name, shape, dtype in entries:
        if dtype not in CODES:
            raise UserError(f"{name!r} is {dtype}, which a safetensors file cannot hold; write a .pdparams file")
        stop = start + int(np.prod(shape, dtype=np.int64)) * NUMPY[dtype].itemsize
        header[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name, shape, dtype in entries:
        file.write(_bytes(make(name), name, shape, dtype))


def _write_pdparams(file, entries: list[Entry], make: Callable[[str], np.ndarray], metadata: dict[str, str]) -> None:
    # numpy.ndarray.__setstate__(version, shape, dtype, fortran order, bytes): the same under every numpy
    file.write(pickle.PROTO + b"\x04" + pickle.EMPTY_DICT)
    for name, shape, dtype in entries:
        encoded = name.encode()
        file.write(pickle.BINUNICODE + struct.pack("<I", len(encoded)) + encoded)
        file.write(b"cnumpy\nndarray\n" + _inner((0,)) + _inner("b") + pickle.TUPLE2 + pickle.REDUCE)
        file.write(pickle.MARK + _inner(1) + _inner(shape))
        file.write(b"cnumpy\ndtype\n" + _inner(NUMPY[dtype].str) + pickle.TUPLE1 + pickle.REDUCE + pickle.NEWFALSE)
        data = _bytes(make(name), name, shape, dtype)
        file.write(pickle.BINBYTES8 + struct.pack("<Q", data.nbytes))
        file.write(data)
        file.write(pickle.TUPLE + pickle.BUILD + pickle.SETITEM)
    file.write(pickle.STOP)


def _inner(value: object) -> bytes:
    """The opcodes that push a small value, without frame, header, memo and stop."""
    if isinstance(value, tuple):
        return pickle.MARK + b"".join(map(_inner, value)) + pickle.TUPLE
    if isinstance(value, int):
        return pickle.BININT + struct.pack("<i", value) if value < 1 << 31 else pickle.LONG1 + b"\x08" + struct.pack("<q", value)
    return pickle.SHORT_BINUNICODE + bytes([len(str(value))]) + str(value).encode()


def _bytes(array: np.ndarray, name: str, shape: tuple[int, ...], dtype: str) -> memoryview:
    if array.shape != shape or array.dtype != NUMPY[dtype]:
        raise AssertionError(f"{name!r}: {array.shape} {array.dtype} was made for {shape} {dtype}")
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
