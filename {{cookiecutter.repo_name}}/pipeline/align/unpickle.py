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

#: A state_dict of 10,000 tensors needs about 400,000 opcodes; more than this is no record.
MOST_OPCODES = 4_000_000
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


class _Source:
    """What pickletools reads from: a view of the file with read, readline and tell."""

    def __init__(self, view: memoryview):
        self._view, self._at = view, 0

    def read(self, count: int) -> bytes | memoryview:
        part = self._view[self._at : self._at + max(0, count)]
        self._at += len(part)
        return bytes(part) if len(part) < SLICE_FROM else part

    def readline(self) -> bytes:
        line, newline, _ = bytes(self._view[self._at : self._at + SLICE_FROM]).partition(b"\n")
        self._at += len(line) + len(newline)
        return line + newline

    def tell(self) -> int:
        return self._at


def read_pickle(view: memoryview) -> tuple[Any, int]:
    """The object pickled at the start of `view`, and the number of bytes it takes.

    The object is made of dicts, lists, tuples, text, numbers and read-only arrays. Raises Refused.
    """
    source, stack, memo = _Source(view), [], {}
    marks: list[int] = []
    try:
        for count, (opcode, arg, _) in enumerate(pickletools.genops(source)):
            if count > MOST_OPCODES:
                raise Refused("far more parts than a record has")
            if opcode.name == "STOP":
                (result,) = stack
                return _finished(result), source.tell()
            _step(opcode.name, arg, stack, memo, marks)
    except Refused:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, MemoryError, RecursionError, struct.error):
        raise Refused(f"damaged data at byte {source.tell()} of its pickle") from None
    raise Refused("a pickle without an end")


def _step(name: str, arg: Any, stack: list, memo: dict, marks: list[int]) -> None:
    def above_mark() -> list:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    if name in ("PROTO", "FRAME"):
        pass
    elif name in PUSHED:
        stack.append(PUSHED[name](arg))
    elif name == "MARK":
        marks.append(len(stack))
    elif name == "POP":
        stack.pop()
    elif name == "POP_MARK":
        above_mark()
    elif name in ("BINPUT", "LONG_BINPUT"):
        memo[arg] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET"):
        stack.append(memo[arg])
    elif name == "TUPLE":
        stack.append(tuple(above_mark()))
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        size = int(name[-1])
        if len(stack) < size:
            raise IndexError
        stack[-size:] = [tuple(stack[-size:])]
    elif name == "APPEND":
        item = stack.pop()
        _is(stack[-1], list).append(item)
    elif name == "APPENDS":
        items = above_mark()
        _is(stack[-1], list).extend(items)
    elif name in ("SETITEM", "SETITEMS"):
        items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else above_mark()
        _is(stack[-1], dict).update(zip(items[::2], items[1::2], strict=True))
    elif name == "GLOBAL":
        stack.append(_named(*arg.split(" ", 1)))
    elif name == "STACK_GLOBAL":
        function, module = stack.pop(), stack.pop()
        stack.append(_named(_is(module, str), _is(function, str)))
    elif name == "REDUCE":
        arguments, function = stack.pop(), stack.pop()
        stack.append(_call(_is(function, _Name), _is(arguments, tuple)))
    elif name == "BUILD":
        state = stack.pop()
        _build(_is(stack[-1], _Building), _is(state, tuple))
    else:
        raise Refused(f"the pickle instruction {name}, which no array needs")


PUSHED: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_LIST": lambda _: [],
    "EMPTY_DICT": lambda _: {},
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "BINFLOAT", "FLOAT"), lambda value: value),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"), lambda value: value),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), lambda value: value),
}


def _is(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _named(module: str, name: str) -> _Name:
    if module not in CALLS.get(name, ()):
        raise Refused(f"{module}.{name}".replace("\n", " ")[:80])
    return _Name(name)


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
    if not isinstance(raw, (bytes, bytearray, memoryview)) or order not in ("C", "F"):
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
