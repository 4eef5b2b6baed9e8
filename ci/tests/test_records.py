# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Records: stock reprod_log and numpy read ours, we read theirs, and no file makes the reader run code, hang or swell."""
from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import time
import tracemalloc
import warnings

import numpy as np
import pytest

from conftest import TEMPLATE
from pipeline.align.errors import UserError
from pipeline.align.records import HEADER, TRAILER, read_provenance, read_record, write_record

SEED = np.random.default_rng(3)
ARRAYS = {
    "logits": SEED.standard_normal((6, 10)).astype(np.float32),
    "fortran": np.asfortranarray(SEED.standard_normal((3, 4))),
    "fortran 3d": np.asfortranarray(SEED.standard_normal((2, 3, 4)).astype(np.float32)),
    "zero-d": np.array(2.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "bool": np.array([[True, False, True]]),
    "strided": np.arange(40, dtype=np.float16).reshape(5, 8)[::2, 1::3],
    "reversed": np.arange(7, dtype=np.int64)[::-1],
    "big endian": np.arange(5, dtype=">f8"),
    "complex": np.array([1 + 2j, 3 - 1j], np.complex64),
    "large": SEED.standard_normal((70, 90)).astype(np.float32),
    **{f"int{bits}": np.array([-1, 0, 1, 127]).astype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": np.array([0, 1, 2**bits - 1], dtype=f"u{bits // 8}") for bits in (8, 16, 32, 64)},
}
ORIGIN = {"framework": "torch", "seed": 7, "inputs": {"批": "ab"}, "rate": 1e-3}


def same(found: dict, wanted: dict) -> bool:
    return list(found) == list(wanted) and all(
        found[key].shape == np.shape(wanted[key])
        and found[key].dtype == np.asarray(wanted[key]).dtype.newbyteorder("=")
        and found[key].tobytes() == np.ascontiguousarray(wanted[key], found[key].dtype).tobytes()
        for key in wanted
    )


def pickled(path, content, protocol: int):
    """A file as numpy.save writes it, with another pickle protocol."""
    path.write_bytes(HEADER + pickle.dumps(np.array(content, dtype=object), protocol=protocol))
    return path


@pytest.fixture
def record(tmp_path):
    write_record(tmp_path / "r.npy", ARRAYS, ORIGIN)
    return tmp_path / "r.npy"


def test_round_trip(record):
    found = read_record(record)
    found.verify()
    assert same(found.arrays, ARRAYS) and found.provenance == ORIGIN == read_provenance(record)
    assert not any(array.flags.writeable for array in found.arrays.values())


def test_arrays_lie_aligned_in_the_map(record):
    found = read_record(record).arrays["large"]
    assert found.ctypes.data % 64 == 0


def test_numpy_reads_it_without_a_warning(record):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(np.load(record, allow_pickle=True).tolist(), ARRAYS)


def test_stock_reprod_log_reads_ours_and_ours_reads_stock(record, tmp_path):
    program = f"""
import sys, numpy as np
from reprod_log import ReprodDiffHelper, ReprodLogger
data = ReprodDiffHelper().load_info({str(record)!r})
log = ReprodLogger()
for key, value in data.items():
    log.add(key, value)
log.save({str(tmp_path / "stock.npy")!r})
print(sorted(data) == {sorted(ARRAYS)!r}, float(data["logits"].sum(dtype="f8")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["True", repr(float(ARRAYS["logits"].sum(dtype="f8")))]
    found = read_record(tmp_path / "stock.npy")
    assert same(found.arrays, ARRAYS) and found.provenance is None


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("module", [b"numpy._core", b"numpy.core"])
def test_pickles_of_any_protocol_and_numpy(tmp_path, protocol, module):
    path = pickled(tmp_path / "p.npy", {**ARRAYS, "text": np.array(["a", "bcd"])}, protocol)
    if protocol < 4:  # module names are plain lines, so that numpy 1's can be put in their place
        path.write_bytes(path.read_bytes().replace(b"numpy._core", module))
    found = read_record(path)
    assert found.provenance is None and found.arrays["text"].tolist() == ["a", "bcd"]
    assert all(np.array_equal(found.arrays[key], ARRAYS[key]) and found.arrays[key].dtype == ARRAYS[key].dtype for key in ARRAYS)


def test_numbers_become_arrays(tmp_path):
    found = read_record(pickled(tmp_path / "n.npy", {"i": 3, "f": 2.5, "b": True, "s": np.float32(1.5)}, 4)).arrays
    assert [(value.item(), value.dtype.name, value.shape) for value in found.values()] == [
        (3, "int64", ()), (2.5, "float64", ()), (True, "bool", ()), (1.5, "float32", ())]  # fmt: skip
    write_record(tmp_path / "m.npy", {"i": 3, "f": np.float32(0.1)}, {})
    assert np.load(tmp_path / "m.npy", allow_pickle=True).tolist()["f"] == np.float32(0.1)


def test_an_ordered_dict_is_a_record(tmp_path):
    from collections import OrderedDict

    assert list(read_record(pickled(tmp_path / "o.npy", OrderedDict(a=np.ones(2)), 4)).arrays) == ["a"]


class Runs:
    """Unpickling it writes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


REFUSED = {
    "code": (lambda mark: {"a": Runs(mark)}, "posix.mkdir"),
    "code in an object array": (lambda mark: {"a": np.array([Runs(mark)], dtype=object)}, "posix.mkdir"),
    "objects": (lambda _: {"a": np.array([{}, []], dtype=object)}, "Python objects"),
    "a list": (lambda _: [np.ones(2)], "Python objects"),
    "an array": (lambda _: np.array(1.0), "not a dict"),
    "text": (lambda _: {"a": "words"}, "'a' is a str"),
    "a nested dict": (lambda _: {"a": {"b": np.ones(2)}}, "'a' is a dict"),
    "numbers as names": (lambda _: {1: np.ones(2)}, "printable text"),
    "line breaks in names": (lambda _: {"a\nb": np.ones(2)}, "printable text"),
    "a huge integer": (lambda _: {"a": 1 << 80}, "'a' is a int"),
    "long doubles": (lambda _: {"a": np.ones(2, np.longdouble)}, "dtype"),
    "structures": (lambda _: {"a": np.zeros(2, [("x", "f4")])}, "dtype"),
    "dates": (lambda _: {"a": np.zeros(2, "M8[s]")}, "dtype"),
    "a class": (lambda _: {"a": random.Random(1)}, "random.Random"),
    "a set": (lambda _: {"a": {1, 2}}, "EMPTY_SET"),
}


#: Protocol 2 pickles these by a call.
SHOWN_OTHERWISE = ("a set", "a class")


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("name", REFUSED)
def test_anything_else_is_refused_and_nothing_is_executed(tmp_path, name, protocol):
    content, words = REFUSED[name]
    path = pickled(tmp_path / "x.npy", content(tmp_path / "mark"), protocol)
    with pytest.raises(UserError) as error:
        read_record(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    assert words in str(error.value) or protocol == 2 and name in SHOWN_OTHERWISE
    assert not (tmp_path / "mark").exists()


HAND_MADE = {
    "inst": b"(Vmark\nios\nmkdir\n.",
    "eval": b"cbuiltins\neval\n(Vprint(1)\ntR.",
    "a persistent id": b"Pabc\n.",
    "an extension": b"\x82\x01.",
    "reduce of a number": b"K\x01K\x02R.",
    "build of a dict": b"}}b.",
    "no stop": b"}",
    "nothing": b"",
    "an empty stack": b".",
    "two objects": b"}}.",
    "memo of nothing": b"h\x07.",
    "mark of nothing": b"t.",
    "odd items": b"}(K\x01u.",
    "unhashable": b"}]]s.",
    "4 GB promised": b"B\xff\xff\xff\xff.",
    "2^63 bytes promised": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a list in itself": b"]q\x00h\x00a.",
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made_pickles_are_refused(tmp_path, name):
    path = tmp_path / "h.npy"
    path.write_bytes(HEADER + HAND_MADE[name])
    with pytest.raises(UserError):
        read_record(path)


def test_an_array_that_holds_itself_is_refused(tmp_path):
    inner = np.empty((), dtype=object)
    inner[()] = inner
    path = tmp_path / "self.npy"
    path.write_bytes(HEADER + pickle.dumps(inner, protocol=4))
    with pytest.raises(UserError):
        read_record(path)


def test_shapes_larger_than_the_content_are_refused_without_allocating(tmp_path):
    content = pickle.dumps(np.array({"a": np.zeros((3, 5), np.float32)}, dtype=object), protocol=4)
    for shape in (b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f", b"K\x00J\xff\xff\xff\x7f", b"J\xff\xff\xff\xffK\x05"):
        changed = content.replace(b"K\x03K\x05", shape)
        assert changed != content
        path = tmp_path / "shape.npy"
        path.write_bytes(HEADER + changed.replace(changed[2:11], b"", 1))  # without the frame, whose length is wrong now
        tracemalloc.start()
        with pytest.raises(UserError):
            read_record(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()


def test_millions_of_instructions_do_not_hang(tmp_path):
    path = tmp_path / "long.npy"
    path.write_bytes(HEADER + b"N0" * 6_000_000 + b"}.")
    started = time.perf_counter()
    with pytest.raises(UserError, match="far more parts"):
        read_record(path)
    assert time.perf_counter() - started < 30


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"hello, this is text\n" * 9, b"PK\x03\x04" + bytes(300), HEADER[:100]])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "f.npy").write_bytes(content)
    for read in (read_record, read_provenance):
        with pytest.raises(UserError, match="f.npy"):
            read(tmp_path / "f.npy")


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(UserError, match="missing"):
        read_record(tmp_path / "none.npy")
    with pytest.raises(UserError, match="cannot read"):
        read_record(tmp_path)


def test_a_plain_array_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    with pytest.raises(UserError, match="single array"):
        read_record(tmp_path / "a.npy")


def outcome(path, wanted) -> bool:
    """Whether the file was refused in one line; False where it was read, and then it must hold what was written."""
    try:
        found = read_record(path)
        found.verify()
    except UserError as error:
        assert "\n" not in str(error)
        return True
    assert same(found.arrays, wanted)
    return False


def test_500_truncations(record, tmp_path):
    content, path = record.read_bytes(), tmp_path / "cut.npy"
    chance = random.Random(1)
    refused = 0
    for _ in range(500):
        path.write_bytes(content[: chance.randrange(len(content))])
        refused += outcome(path, ARRAYS)
    assert refused >= 499  # cut exactly behind the pickle it is a stock file without provenance


def test_500_bit_flips(record, tmp_path):
    content, path = record.read_bytes(), tmp_path / "flip.npy"
    chance = random.Random(2)
    for _ in range(500):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        assert outcome(path, ARRAYS)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_bit_flips_of_stock_files_are_read_or_refused(tmp_path, protocol):
    path = pickled(tmp_path / "s.npy", {key: ARRAYS[key] for key in ("logits", "fortran", "bool")}, protocol)
    content, chance = path.read_bytes(), random.Random(protocol)
    for _ in range(500):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            found = read_record(path).arrays
        except UserError:
            continue
        assert all(isinstance(array, np.ndarray) and array.nbytes < 1 << 16 for array in found.values())


def test_an_edited_record_is_noticed(record):
    content = record.read_bytes()
    at = content.index(ARRAYS["large"].tobytes())
    with open(record, "r+b") as file:
        file.seek(at)
        file.write(np.float32(9).tobytes())
    found = read_record(record)
    assert found.arrays["large"][0, 0] == 9
    with pytest.raises(UserError, match="changed after it was recorded"):
        found.verify()


def test_only_a_file_with_its_own_time_stamp_is_not_read_again(record, tmp_path, monkeypatch):
    """What git clone or a copy writes has another time stamp, and is read; so is what any program has written to."""
    assert read_record(record).untouched
    copied = tmp_path / "copy.npy"
    copied.write_bytes(record.read_bytes())
    found = read_record(copied)
    assert not found.untouched and found.verify() is None
    with open(record, "r+b") as file:
        file.write(b"\x93")
    assert not read_record(record).untouched
    monkeypatch.setattr("pipeline.align.records.payload_digest", lambda payload: "other")
    with pytest.raises(UserError):
        read_record(record).verify()


def test_rows_that_changed_places_are_noticed(tmp_path):
    path, rows = tmp_path / "rows.npy", np.arange(1 << 18, dtype=np.float32).reshape(2, -1)
    write_record(path, {"a": rows}, {})
    content = path.read_bytes()
    path.write_bytes(content.replace(rows.tobytes(), rows[::-1].tobytes()))
    assert path.read_bytes() != content
    with pytest.raises(UserError):
        read_record(path).verify()


def test_saved_again_by_others_it_has_no_provenance(record):
    np.save(record, np.load(record, allow_pickle=True).tolist())
    assert read_record(record).provenance is None


def test_a_trailer_must_be_whole(record):
    content = record.read_bytes()
    edited = content.replace(b'"seed": 7', b'"seed": 8')
    for damaged in (content[:-1], content + b"x", content[:-16] + b"?" * 16, edited, content + TRAILER):
        record.write_bytes(damaged)
        with pytest.raises(UserError):
            read_record(record)


def test_large_records_cost_no_memory_until_they_are_read(tmp_path):
    write_record(tmp_path / "big.npy", {"a": np.ones(1 << 24, np.float32)}, {})
    tracemalloc.start()
    found = read_record(tmp_path / "big.npy")
    found.verify()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20 and found.arrays["a"].nbytes == 1 << 26


def test_a_failed_write_leaves_the_old_file(record):
    before = record.read_bytes()
    with pytest.raises(TypeError):
        write_record(record, ARRAYS, {"bad": object()})
    for value in (np.array([None]), np.array(["text"]), np.ones(2, np.longdouble), "text"):
        with pytest.raises(UserError, match="bad"):
            write_record(record, {"bad": value}, {})
    assert record.read_bytes() == before and [path.name for path in record.parent.iterdir()] == ["r.npy"]


def test_the_reader_imports_no_framework():
    program = "import sys; import pipeline.align.records; print(sorted({'torch', 'paddle', 'yaml'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=TEMPLATE, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []
