# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Reads the pickle inside a record without executing anything.

`pickle.load` calls whatever the file names. This interpreter knows the opcodes, but of all the functions a pickle can
call only those with which numpy describes an array, and those it carries out itself. Large byte strings are slices of
the file's memory map, so that an array of any size costs nothing until it is read.
"""
from __future__ import annotations

import math
import pickletools
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

#: 10,000 arrays take about 400,000 instructions; more than this is no record.
MOST_OPCODES = 2_000_000
#: Longer reads than this are slices of the map, shorter ones are copied (names, numbers).
SLICE_FROM = 1024
#: Booleans, integers, floats, complex numbers and text; no objects, no structures, no long doubles.
DTYPE = re.compile(r"(b1|[iu][1248]|f[248]|c8|c16|[US]\d{1,6})")
#: numpy 1 and 2 name their modules differently.
CALLS = {
    "_reconstruct": ("numpy.core.multiarray", "numpy._core.multiarray"),
    "scalar": ("numpy.core.multiarray", "numpy._core.multiarray"),
    "_frombuffer": ("numpy.core.numeric", "numpy._core.numeric"),
    "dtype": ("numpy",),
    "ndarray": ("numpy",),
    "encode": ("_codecs",),
    "bytes": ("__builtin__", "builtins"),
    "OrderedDict": ("collections",),
}


class Refused(Exception):
    """The pickle holds something that is no array; the text says what."""


class _Name(str):
    """A function that the pickle names, one of CALLS."""


class _Building:
    """An array or a dtype between the two opcodes that make it: the call and the state."""

    def __init__(self, value: Any = None):
        self.value = value


class _Machine:
    """The state of the interpreter: where it reads, the stack, the marks on it, and the memo."""

    def __init__(self, view: memoryview):
        self.view, self.at = view, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> bytes | memoryview:
        """The next `count` bytes; many are a slice of the map, few are copied."""
        part = self.view[self.at : self.at + count]
        if len(part) != count:
            raise ValueError
        self.at += count
        return bytes(part) if count < SLICE_FROM else part

    def number(self, layout: str) -> Any:
        """The next number, `layout` as in struct."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def integer(self, layout: str) -> int:
        """A signed integer behind its length."""
        return int.from_bytes(self.take(self.number(layout)), "little", signed=True)

    def text(self, layout: str) -> str:
        """Text behind its length in bytes."""
        return str(self.take(self.number(layout)), "utf-8", "surrogatepass")

    def line(self) -> str:
        """The text up to the next line feed."""
        line, newline, _ = bytes(self.view[self.at : self.at + SLICE_FROM]).partition(b"\n")
        if not newline:
            raise ValueError
        self.at += len(line) + 1
        return line.decode("ascii")

    def above_mark(self) -> list:
        """Take everything above the last mark off the stack."""
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def top(self, count: int) -> list:
        """Take `count` objects off the stack."""
        if len(self.stack) < count + (self.marks[-1] if self.marks else 0):
            raise IndexError
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def push(self, value: Any) -> None:
        """Put an object on the stack."""
        self.stack.append(value)

    def store(self, index: int) -> None:
        """Remember the topmost object."""
        self.memo[index] = self.stack[-1]

    def extend(self, items: list) -> None:
        """Append to the list on the stack."""
        _is(self.stack[-1], list).extend(items)

    def update(self, items: list) -> None:
        """Set alternating keys and values in the dict on the stack."""
        _is(self.stack[-1], dict).update(zip(items[::2], items[1::2], strict=True))

    def find(self, module: Any, name: Any) -> None:
        """Push the function of that name, if it is one of CALLS."""
        if _is(module, str) not in CALLS.get(_is(name, str), ()):
            raise Refused(f"{module}.{name}".replace("\n", " ")[:80])
        self.push(_Name(name))

    def reduce(self, name: Any, arguments: Any) -> None:
        """Push what calling the function gives."""
        self.push(_call(_is(name, _Name), _is(arguments, tuple)))

    def build(self, state: Any) -> None:
        """Finish the object on the stack."""
        _build(_is(self.stack[-1], _Building), _is(state, tuple))


#: What a byte of a pickle does (Python's pickletools documents all of them), where numpy's pickles use it.
OPCODES: dict[int, Callable[[_Machine], Any]] = {
    0x80: lambda m: m.number("<B"),  # PROTO
    0x95: lambda m: m.number("<Q"),  # FRAME
    ord("("): lambda m: m.marks.append(len(m.stack)),
    ord("0"): lambda m: m.top(1),
    ord("1"): lambda m: m.above_mark(),
    ord("N"): lambda m: m.push(None),
    0x88: lambda m: m.push(True),
    0x89: lambda m: m.push(False),
    ord("K"): lambda m: m.push(m.number("<B")),
    ord("M"): lambda m: m.push(m.number("<H")),
    ord("J"): lambda m: m.push(m.number("<i")),
    0x8A: lambda m: m.push(m.integer("<B")),
    0x8B: lambda m: m.push(m.integer("<I")),
    ord("G"): lambda m: m.push(m.number(">d")),
    0x8C: lambda m: m.push(m.text("<B")),
    ord("X"): lambda m: m.push(m.text("<I")),
    0x8D: lambda m: m.push(m.text("<Q")),
    ord("C"): lambda m: m.push(m.take(m.number("<B"))),
    ord("B"): lambda m: m.push(m.take(m.number("<I"))),
    0x8E: lambda m: m.push(m.take(m.number("<Q"))),
    0x96: lambda m: m.push(m.take(m.number("<Q"))),
    ord(")"): lambda m: m.push(()),
    0x85: lambda m: m.push(tuple(m.top(1))),
    0x86: lambda m: m.push(tuple(m.top(2))),
    0x87: lambda m: m.push(tuple(m.top(3))),
    ord("t"): lambda m: m.push(tuple(m.above_mark())),
    ord("]"): lambda m: m.push([]),
    ord("a"): lambda m: m.extend(m.top(1)),
    ord("e"): lambda m: m.extend(m.above_mark()),
    ord("}"): lambda m: m.push({}),
    ord("s"): lambda m: m.update(m.top(2)),
    ord("u"): lambda m: m.update(m.above_mark()),
    ord("q"): lambda m: m.store(m.number("<B")),
    ord("r"): lambda m: m.store(m.number("<I")),
    0x94: lambda m: m.store(len(m.memo)),
    ord("h"): lambda m: m.push(m.memo[m.number("<B")]),
    ord("j"): lambda m: m.push(m.memo[m.number("<I")]),
    ord("c"): lambda m: m.find(m.line(), m.line()),
    0x93: lambda m: m.find(*m.top(2)),
    ord("R"): lambda m: m.reduce(*m.top(2)),
    ord("b"): lambda m: m.build(*m.top(1)),
}
STOP = ord(".")


def read_pickle(view: memoryview) -> tuple[Any, int]:
    """The object pickled at the start of `view`, and the number of bytes it takes.

    The object is made of dicts, lists, tuples, text, numbers and read-only arrays. Raises Refused.
    """
    machine = _Machine(view)
    try:
        for _ in range(MOST_OPCODES):
            code = machine.number("<B")
            if code == STOP:
                (result,) = machine.stack
                return _finished(result), machine.at
            if code not in OPCODES:
                name = pickletools.code2op[chr(code)].name
                raise Refused(f"the pickle instruction {name}, which no array needs")
            OPCODES[code](machine)
    except Refused:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, RecursionError, struct.error):
        raise Refused(f"damaged data at byte {machine.at} of its pickle") from None
    raise Refused("far more parts than a record has")


def _is(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _call(name: _Name, arguments: tuple) -> Any:
    if name == "_reconstruct":
        return _Building()
    if name == "dtype":
        text = _is(arguments[0], str)
        if text in ("O8", "O4", "O"):
            return _Building("O")
        if not DTYPE.fullmatch(text):
            raise Refused(f"an array of dtype {text[:20]}")
        return _Building(np.dtype(text))
    if name == "encode":
        text, encoding = arguments
        if encoding != "latin1":
            raise ValueError
        return _is(text, str).encode("latin1")
    if name == "scalar":
        dtype, raw = arguments
        return _array(dtype, raw, (), "C")
    if name == "_frombuffer":
        raw, dtype, shape, order = arguments
        return _array(dtype, raw, shape, order)
    if name in ("OrderedDict", "bytes") and arguments == ():
        return {} if name == "OrderedDict" else b""
    raise TypeError


def _build(target: _Building, state: tuple) -> None:
    """Finish a dtype (its byte order) or an array (shape, dtype, order, content), as numpy's __setstate__ does."""
    if target.value is None:
        _, shape, dtype, fortran, content = state
        if _is(dtype, _Building).value == "O":
            if shape != () or len(_is(content, list)) != 1:
                raise Refused("an array of Python objects")
            target.value = content[0]
        else:
            target.value = _array(dtype, content, shape, "F" if fortran else "C")
    elif isinstance(target.value, np.dtype):
        if state[1] not in ("<", ">", "|", "="):
            raise ValueError
        target.value = target.value.newbyteorder(state[1])
    elif target.value != "O":
        raise TypeError


def _array(dtype: _Building, raw: Any, shape: Any, order: Any) -> np.ndarray:
    """A read-only array on `raw`, which must have exactly the bytes that the shape and the dtype say."""
    dtype = _is(dtype, _Building).value
    if not isinstance(dtype, np.dtype):
        raise Refused("an array of Python objects")
    if not isinstance(raw, (bytes, memoryview)) or order not in ("C", "F"):
        raise TypeError
    if not all(type(size) is int and size >= 0 for size in _is(shape, tuple)) or len(shape) > 32:
        raise ValueError
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError
    array = np.frombuffer(raw, dtype) if len(raw) else np.empty(0, dtype)
    array = array.reshape(shape, order=order)
    array.flags.writeable = False
    return array


def _finished(value: Any) -> Any:
    """`value` without the wrappers of arrays that are complete."""
    if isinstance(value, dict):
        return {key: _finished(item) if isinstance(item, _Building) else item for key, item in value.items()}
    return _finished(value.value) if isinstance(value, _Building) else value
