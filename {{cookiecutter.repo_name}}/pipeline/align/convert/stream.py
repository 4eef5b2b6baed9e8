# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Weight files as streams: tensors read from maps of their own bytes, files written tensor by tensor.

Formats: https://github.com/huggingface/safetensors (8 bytes of header length, JSON header, data without gaps); .pdparams is
a pickle of {name: numpy array}, which paddle.load reads.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import pickle
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pipeline.align.atomic import replacing
from pipeline.align.convert.arrays import NUMPY, Array
from pipeline.align.errors import UserError

NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
CODES = {name: code for code, name in NAMES.items()}
LARGEST_HEADER = 100_000_000
#: Smaller tensors are read, larger ones mapped.
MAPPED_FROM = 1 << 16
#: (name, shape, dtype name) of a tensor to be written, in the order of writing.
Entry = tuple[str, tuple[int, ...], str]


class DataFile:
    """An open file from which ranges are mapped on demand, so that nothing but the tensor in use takes up memory."""

    def __init__(self, path: Path):
        try:
            self.file = open(path, "rb")  # noqa: SIM115  (lives as long as the arrays that read from it)
            self.size = os.fstat(self.file.fileno()).st_size
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
        self.path = path

    def read(self, start: int, size: int) -> bytes:
        """A range as bytes."""
        self.file.seek(start)
        return self.file.read(size)

    def array(self, start: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """A tensor in the file, read-only; its pages are loaded when touched and freed with it."""
        kind, count = NUMPY[dtype], math.prod(shape)
        size = count * kind.itemsize
        if size < MAPPED_FROM:
            return np.frombuffer(self.read(start, size), kind).reshape(shape)
        skip = start % mmap.ALLOCATIONGRANULARITY
        mapped = mmap.mmap(self.file.fileno(), size + skip, access=mmap.ACCESS_READ, offset=start - skip)
        return np.frombuffer(mapped, kind, count, skip).reshape(shape)

    def lazy(self, start: int, shape: tuple[int, ...], dtype: str) -> Array:
        """The same, read when asked for."""
        return Array(shape, dtype, lambda: self.array(start, shape, dtype))


def read_safetensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Every tensor of a safetensors file by name, its values staying in the file, and the file's metadata.

    Raises UserError for a damaged file.
    """
    data = DataFile(path)
    try:
        (length,) = struct.unpack("<Q", data.read(0, 8))
        if length > min(LARGEST_HEADER, data.size - 8):
            raise ValueError("the header is longer than the file")
        header = json.loads(data.read(8, length), object_pairs_hook=_unique)
        metadata = dict(header.pop("__metadata__", None) or {})
        found, end = {}, 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            code, shape, (start, stop) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            if code not in NAMES:
                raise UserError(
                    f"{path}: {name!r} is {code}: a quantised file cannot be converted; use the weights from before"
                )
            if (
                start != end
                or stop - start != math.prod(shape) * NUMPY[NAMES[code]].itemsize
                or any(size < 0 for size in shape)
            ):
                raise ValueError(f"{name!r} of {shape} {code} lies at {start} to {stop}")
            end = stop
            found[name] = data.lazy(8 + length + start, shape, NAMES[code])
        if 8 + length + end != data.size:
            raise ValueError(f"it has {data.size} bytes, its header describes {8 + length + end}")
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise UserError(f"{path} is no complete safetensors file (cut off or damaged?): {error}") from None
    return {name: found[name] for name in header}, metadata


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name stands in the header twice")
    return dict(pairs)


def write(path: Path, entries: Iterable[Entry], make: Callable[[str], np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write a weight file, .pdparams if named so and safetensors otherwise, all or nothing.

    `make(name)` gives the values (bits for bfloat16) of one entry; one is held in memory at a time.
    """
    with replacing(path) as file:
        if Path(path).suffix == ".pdparams":
            _write_pdparams(file, entries, make)
        else:
            _write_safetensors(file, list(entries), make, dict(metadata))


def _write_safetensors(
    file: BinaryIO, entries: list[Entry], make: Callable[[str], np.ndarray], metadata: dict[str, str]
) -> None:
    # larger items first keeps every tensor aligned
    entries = sorted(entries, key=lambda entry: -NUMPY[entry[2]].itemsize)
    header: dict[str, object] = {"__metadata__": metadata}
    start = 0
    for name, shape, dtype in entries:
        if dtype not in CODES:
            raise UserError(f"{name!r} is {dtype}, which a safetensors file cannot hold; write a .pdparams file")
        stop = start + math.prod(shape) * NUMPY[dtype].itemsize
        header[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [start, stop]}
        start = stop
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name, shape, dtype in entries:
        file.write(_content(make(name), name, shape, dtype))


def _write_pdparams(file: BinaryIO, entries: Iterable[Entry], make: Callable[[str], np.ndarray]) -> None:
    """The opcodes that build {name: array} as numpy's own pickles do; numpy 1 and 2 know the old module name."""
    file.write(pickle.PROTO + b"\x04" + pickle.EMPTY_DICT)
    for name, shape, dtype in entries:
        kind = NUMPY[dtype]
        file.write(_pushed(name) + b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + _pushed((0,)) + _pushed("b"))
        file.write(pickle.TUPLE3 + pickle.REDUCE + pickle.MARK + _pushed(1) + _pushed(shape))
        file.write(
            b"cnumpy\ndtype\n" + _pushed(kind.str[1:]) + pickle.NEWFALSE + pickle.NEWTRUE + pickle.TUPLE3 + pickle.REDUCE
        )
        state = _pushed(3) + _pushed(kind.str[0]) + 3 * pickle.NONE + 2 * _pushed(-1) + _pushed(0)
        file.write(pickle.MARK + state + pickle.TUPLE + pickle.BUILD + pickle.NEWFALSE)
        content = _content(make(name), name, shape, dtype)
        file.write(pickle.BINBYTES8 + struct.pack("<Q", content.nbytes))
        file.write(content)
        file.write(pickle.TUPLE + pickle.BUILD + pickle.SETITEM)
    file.write(pickle.STOP)


def _pushed(value: tuple | int | str) -> bytes:
    """The opcodes that push a small value."""
    if isinstance(value, tuple):
        return pickle.MARK + b"".join(map(_pushed, value)) + pickle.TUPLE
    if isinstance(value, int):
        return pickle.LONG1 + b"\x08" + struct.pack("<q", value)
    encoded = value.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(encoded)) + encoded


def _content(array: np.ndarray, name: str, shape: tuple[int, ...], dtype: str) -> memoryview:
    if array.shape != shape or array.dtype != NUMPY[dtype]:
        raise AssertionError(f"{name!r}: {array.shape} {array.dtype} was made for {shape} {dtype}")
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
