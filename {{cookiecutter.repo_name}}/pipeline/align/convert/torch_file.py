# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Read what torch.save wrote, without torch and without running anything: values stay in the file until asked for.

New format: a zip of data.pkl and one uncompressed entry per storage. Old format: pickles in a row, then the storages.
Whatever a pickle names beyond tensors and plain containers is not built but written down, and the file is refused.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.align.convert.arrays import NUMPY, Array
from pipeline.align.convert.stream import DataFile
from pipeline.align.errors import UserError

#: The first bytes of the old format: the pickled magic number 0x1950a86a20f9469cfc6c.
OLD_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
TRUST = "--trust-pickle"
STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
}
DTYPE = re.compile(r"(b?float|complex|u?int|quint|qint|bool|bits)[0-9]*(_e\w+|x\w+)?")
#: What unpicklers and zipfile raise for damaged bytes.
UNREADABLE = (
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    OSError,
    struct.error,
)


class _Storage:
    """The bytes of one storage; `start` is known when the pickle has been read."""

    def __init__(self, dtype: str, start: int | None = None, size: int = 0):
        self.dtype, self.start, self.size = dtype, start, size


class _Dtype(str):
    """A dtype that the pickle names."""


class _Opaque:
    """Stands for an object that only code could build."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Opaque:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any):
        pass

    def _nothing(self, *args: Any) -> None:
        pass

    __setstate__ = __setitem__ = append = extend = add = update = _nothing


class _Reader(pickle._Unpickler):  # in Python: damaged files crash the one in C, or make it ask for all memory
    """`foreign`: the names in the pickle that are no tensors or containers."""

    def __init__(self, file: Any, data: DataFile, storage: Callable[[tuple], _Storage]):
        super().__init__(file, encoding="utf-8")
        self.data, self.storage, self.foreign = data, storage, []

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or pid[0] not in ("storage", "module"):
            raise ValueError("an unknown kind of reference")
        return self.storage(pid) if pid[0] == "storage" else pid[1]  # a class with its source code

    def find_class(self, module: str, name: str) -> Any:
        known = {
            "collections.OrderedDict": collections.OrderedDict,
            "collections.Counter": collections.Counter,
            "__builtin__.set": set,
            "builtins.set": set,
            "_codecs.encode": _encode,
            "torch.Size": tuple,
            "torch.device": _device,
            "torch._utils._rebuild_tensor": self._tensor,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_tensor_v3": self._tensor_of_dtype,
            "torch._utils._rebuild_parameter": lambda data, *_: data,
            "torch._utils._rebuild_parameter_with_state": lambda data, *_: data,
            "torch._tensor._rebuild_from_type_v2": lambda function, kind, args, state: function(*args),
            "torch.nn.parameter.Parameter": _Opaque,
            "torch.nn.parameter.Buffer": _Opaque,
            "torch.Tensor": _Opaque,
        }
        path = f"{module}.{name}"
        if path in known:
            return known[path]
        if module in ("torch", "torch.storage") and name in STORAGES:
            return _Dtype(STORAGES[name])
        if module == "torch" and DTYPE.fullmatch(name):
            return _Dtype(name)
        for word, what in (
            ("_rebuild_qtensor", "quantised"),
            ("_rebuild_sparse", "sparse"),
            ("_rebuild_meta", "without values (meta)"),
        ):
            if name.startswith(word):
                raise UserError(f"{self.data.path} holds tensors that are {what}; save the plain weights")
        self.foreign.append(path)
        return type("Opaque", (_Opaque,), {})

    def _tensor(self, storage: _Storage, offset: int, shape: tuple, strides: tuple, *rest: Any) -> Array:
        metadata = rest[2] if len(rest) > 2 else None
        if metadata and any(metadata.get(bit) for bit in ("conj", "neg")):
            raise UserError(f"{self.data.path} holds lazily conjugated tensors; call resolve_conj() before saving")
        return _strided(self.data, storage, storage.dtype, offset, tuple(shape), tuple(strides))

    def _tensor_of_dtype(
        self,
        storage: _Storage,
        offset: int,
        shape: tuple,
        strides: tuple,
        grad: bool,
        hooks: Any,
        dtype: str,
        metadata: Any = None,
    ) -> Array:
        if dtype not in NUMPY:
            raise UserError(
                f"{self.data.path} holds tensors of {dtype}: a quantised file cannot be converted; use the weights from before"
            )
        return _strided(self.data, storage, str(dtype), offset, tuple(shape), tuple(strides))


def _encode(text: str, encoding: str) -> bytes:
    return text.encode("latin1")


def _device(*args: Any) -> str:
    return ":".join(map(str, args))


def _strided(
    data: DataFile, storage: _Storage, dtype: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Array:
    """A tensor in a storage: contiguous ones are mapped as they are, others through the range they span."""
    if len(shape) != len(strides) or min((*shape, *strides, offset), default=0) < 0:
        raise ValueError("a tensor with impossible strides")
    item, contiguous = NUMPY[dtype].itemsize, _contiguous(shape)
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if math.prod(shape) else 0
    if (offset + span) * item > storage.size:
        raise ValueError("a tensor that is longer than its storage")

    def read() -> np.ndarray:
        start = storage.start + offset * item
        if all(size == 1 or a == b for size, a, b in zip(shape, strides, contiguous)):
            return data.array(start, shape, dtype)
        flat = data.array(start, (span,), dtype)
        return np.lib.stride_tricks.as_strided(flat, shape, [stride * item for stride in strides], writeable=False)

    return Array(shape, dtype, read)


def _contiguous(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def read_torch(data: DataFile) -> Any:
    """The saved object with Arrays for tensors. Raises UserError for files that are damaged or need code to be run."""
    old = data.read(0, len(OLD_START)) == OLD_START
    try:
        value, foreign = _read_old(data) if old else _read_zip(data)
    except UNREADABLE as error:
        raise UserError(f"{data.path} is no complete torch file (cut off or damaged?): {error}") from None
    if foreign:
        names = sorted(set(foreign))
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        raise UserError(
            f"{data.path} is more than weights: it holds {shown}, which only running code from the file can rebuild; save"
            f" model.state_dict() instead, or, if you trust where it comes from, use {TRUST}"
        )
    return value


def _read_zip(data: DataFile) -> tuple[Any, list[str]]:
    with zipfile.ZipFile(data.file) as archive:
        entries = {info.filename: info for info in archive.infolist()}
        pickles = [name for name in entries if name.endswith("/data.pkl") or name == "data.pkl"]
        root = pickles[0].removesuffix("data.pkl") if pickles else ""
        if not pickles or f"{root}constants.pkl" in entries:
            what = "a TorchScript program" if pickles else "a zip archive without data.pkl"
            raise UserError(f"{data.path} is {what}, not saved weights; save model.state_dict()")
        order = f"{root}byteorder"
        if order in entries and archive.read(order) != b"little":
            raise UserError(f"{data.path} was saved on a big-endian machine; save it again on a little-endian one")
        text = archive.read(pickles[0])

    def storage(pid: tuple) -> _Storage:
        info = entries[f"{root}data/{pid[2]}"]
        if info.compress_type != zipfile.ZIP_STORED:
            raise UserError(f"{data.path} is a compressed zip; unpack it, or save it again with torch.save")
        names = struct.unpack("<HH", data.read(info.header_offset + 26, 4))
        start = info.header_offset + 30 + sum(names)
        if start + info.file_size > data.size:
            raise ValueError("a storage beyond its end")
        return _Storage(str(pid[1]), start, info.file_size)

    reader = _Reader(io.BytesIO(text), data, storage)
    return reader.load(), reader.foreign


def _read_old(data: DataFile) -> tuple[Any, list[str]]:
    """https://github.com/pytorch/pytorch/blob/main/torch/serialization.py, _legacy_load: three headers, object, keys, data."""
    storages: dict[str, _Storage] = {}

    def storage(pid: tuple) -> _Storage:
        _, dtype, key, _, count, *view = pid
        size = count * NUMPY[dtype].itemsize
        if view and view[0] is not None:
            raise UserError(
                f"{data.path} is from a torch before 0.4 (views of storages); load and save it again with a newer torch"
            )
        return storages.setdefault(str(key), _Storage(str(dtype), None, size))

    data.file.seek(0)
    readers = [_Reader(data.file, data, storage) for _ in range(5)]
    values = [reader.load() for reader in readers]
    if values[2].get("little_endian") is False:
        raise UserError(f"{data.path} was saved on a big-endian machine; save it again on a little-endian one")
    position = data.file.tell()
    for key in values[4]:
        one = storages[str(key)]
        (count,) = struct.unpack("<q", data.read(position, 8))
        if count * NUMPY[one.dtype].itemsize != one.size or position + 8 + one.size > data.size:
            raise ValueError("a storage of another size than announced")
        one.start, position = position + 8, position + 8 + one.size
    if any(one.start is None for one in storages.values()):
        raise ValueError("a storage without data")
    return values[3], readers[3].foreign
