# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the probe saves, from inside the reference's Python: the bytes of arrays, and what is where. Copied beside injected.py."""

import ctypes
import json
import os

FOLDER = os.environ.get("REPROD_PROBE", "")
#: Types of torch that numpy has; all others are stored as float32.
PLAIN_DTYPES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
SCALARS = (type(None), bool, int, float, complex, str, bytes)
#: Loss functions of torch that record their target, by name.
WATCHED = {}
CONTAINERS = (list, tuple, dict)
DEEPEST = 12


class Store:
    """Raw bytes of arrays, one behind the other in a file, and what is where."""

    def __init__(self, name):
        self.file = open(os.path.join(FOLDER, name), "wb")

    def leaves(self, name, value, depth=0):
        """A list of {name, kind, …}: one entry per tensor and per value inside `value`."""
        import torch

        if isinstance(value, torch.Tensor):
            return [self.tensor(name, value)]
        if has(value, "tobytes", "dtype", "shape"):
            return [self.array(name, value)]
        found = []
        if not isinstance(value, SCALARS + (torch.nn.Module,)) and depth < DEEPEST:
            found = [leaf for key, part in parts(name, value) for leaf in self.leaves(key, part, depth + 1)]
        if not found or not (isinstance(value, CONTAINERS) or any("place" in leaf for leaf in found)):
            return [shown(name, value)]
        return found

    def tensor(self, name, value):
        """Store a tensor of any device and layout."""
        import torch

        shape, dtype = list(value.shape), str(value.dtype).replace("torch.", "")
        try:
            with torch.no_grad():
                plain = value.detach().as_subclass(torch.Tensor) if hasattr(value, "as_subclass") else value.detach()
                if plain.is_quantized:
                    plain = plain.dequantize()
                if plain.layout != torch.strided:
                    plain = plain.to_dense()
                if str(plain.dtype).replace("torch.", "") not in PLAIN_DTYPES:
                    plain = plain.float()
                for resolve in ("resolve_conj", "resolve_neg"):
                    plain = getattr(plain, resolve)() if hasattr(plain, resolve) else plain
                plain = plain.cpu().contiguous()
                size = plain.numel() * plain.element_size()
                if size and not plain.data_ptr():
                    raise ValueError("it has no data")
                data = ctypes.string_at(plain.data_ptr(), size) if size else b""
        except Exception as error:  # a kind of tensor that does not exist yet must not hide the others
            return {"name": name, "kind": "object", "text": f"tensor {shape} {dtype}: {error}"[:200]}
        stored = str(plain.dtype).replace("torch.", "")
        return self.write(name, "tensor", shape, dtype, stored, data, str(value.device))

    def array(self, name, value):
        """Store a numpy array or number."""
        dtype = str(value.dtype)
        if dtype not in PLAIN_DTYPES:
            return {"name": name, "kind": "object", "text": f"array {list(value.shape)} {dtype}"}
        return self.write(name, "array", list(value.shape), dtype, dtype, value.tobytes(), "numpy")

    def write(self, name, kind, shape, dtype, stored, data, device):
        """Append the bytes; the entry that describes them."""
        place = self.file.tell()
        self.file.write(data)
        return {"name": name, "kind": kind, "shape": shape, "dtype": dtype, "stored": stored, "device": device, "place": place}


def has(value, *names):
    """hasattr() for objects whose own __getattr__ may raise anything."""
    try:
        return all(hasattr(value, name) for name in names)
    except Exception:
        return False


def parts(name, value):
    """[(name, part)] of a container or of an object; none for what is shown as a whole, such as a list of numbers."""
    if has(value, "keys", "__getitem__"):
        pairs = [(key, value[key]) for key in value.keys()]
    elif has(value, "_fields"):
        pairs = list(zip(value._fields, value))
    elif isinstance(value, (list, tuple)):
        if all(isinstance(part, SCALARS) for part in value):
            return []
        pairs = list(enumerate(value))
    else:
        pairs = [(key, part) for key, part in getattr(value, "__dict__", {}).items() if not key.startswith("_")]
    dotted = [isinstance(key, str) and key.isidentifier() for key, _ in pairs]
    return [(("{}.{}" if dot else "{}[{!r}]").format(name, key), part) for dot, (key, part) in zip(dotted, pairs)]


def shown(name, value):
    """The entry of what holds no array: plain values with their text, all else with its type."""
    plain = isinstance(value, SCALARS + CONTAINERS + (set,))
    text = repr(value) if plain else f"{type(value).__module__}.{type(value).__qualname__}"
    text = text if len(text) <= 200 else text[:197] + "..."
    return {"name": name, "kind": "value" if plain else "object", "text": text}


def save(name, content):
    """Write JSON, whole or not at all."""
    path = os.path.join(FOLDER, name)
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(path + ".tmp", path)
