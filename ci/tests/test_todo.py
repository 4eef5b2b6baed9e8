# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""An unwritten contract: which function is next, found without a framework, in the order in which the steps need them."""

import pytest

from pipeline.align.paths import Paths
from pipeline.align.todo import FUNCTIONS, RECEIVES, unwritten

STUB = '    """Text."""\n    raise NotImplementedError\n'
BODIES = {
    "a docstring and the error": (STUB, True),
    "the error with a message": ("    raise NotImplementedError('write me')\n", True),
    "something before the error": ("    x = 1\n    raise NotImplementedError\n", False),
    "another error": ("    raise ValueError\n", False),
    "nothing": ("    pass\n", False),
}


def repository(folder, torch: str, paddle: str) -> Paths:
    for name, text in (("torch_ref/reference.py", torch), ("paddle/port.py", paddle)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    return Paths(folder)


@pytest.mark.parametrize("name", BODIES)
def test_what_counts_as_unwritten(tmp_path, name):
    body, counts = BODIES[name]
    paths = repository(tmp_path, "", f"import os\n\n\ndef build_loss(cfg):\n{body}")
    assert [(one.file, one.line, one.function, one.step) for one in unwritten(paths)] == (
        [("paddle/port.py", 4, "build_loss", 3)] if counts else []
    )


def test_the_order_is_that_of_the_steps_and_the_reference_comes_first(tmp_path):
    text = "".join(f"def {name}(*args):\n{STUB}\n\n" for name in sorted(RECEIVES))
    found = unwritten(repository(tmp_path, text, text))
    assert [one.step for one in found] == sorted(one.step for one in found) and len(found) == 2 * len(RECEIVES)
    assert {one.file for one in found if one.function != "read_samples"} == {"torch_ref/reference.py", "paddle/port.py"}
    assert [(one.file, one.function) for one in found[:4]] == [
        ("torch_ref/reference.py", "build_model"), ("torch_ref/reference.py", "forward"),
        ("paddle/port.py", "build_model"), ("paddle/port.py", "forward"),
    ]  # fmt: skip
    assert {name for names in FUNCTIONS.values() for name in names} == set(RECEIVES)
    assert "write build_model(cfg); it receives cfg" in found[0].text and "must return the network" in found[0].text


def test_files_that_cannot_be_read_leave_the_message_to_the_steps(tmp_path):
    assert unwritten(repository(tmp_path, "def build_model(:", "\0")) == []
    assert unwritten(Paths(tmp_path / "nowhere")) == []
