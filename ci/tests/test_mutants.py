# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The measure of the judge: every wrong port is red at its step and named, every right one green (ci/mutants)."""
from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from conftest import REPO

sys.path.insert(0, str(REPO / "ci" / "mutants"))

import bases
import catalog
import run
import tracks


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """(folder, results) of all wrong and right ports."""
    folder = tmp_path_factory.mktemp("mutants")
    return folder, run.run(folder)


@pytest.mark.timeout(3600)
def test_the_score(measured):
    _, results = measured
    assert run.passed(results), run.report(results)


def test_there_are_enough_ports_of_either_kind():
    for track in tracks.TRACKS:
        assert sum(isinstance(case, catalog.Mutant) for case in track.cases) >= 20
    assert sum(isinstance(case, catalog.Right) for track in tracks.TRACKS for case in track.cases) >= 12


#: Seen by the user: the port, the step that is red, and what the output of `align` must say.
SEEN = {
    "image": ("avgpool-exclusive", "forward", "'stage2.shortcut.pool'", "include_pad"),
    "recommendation": ("schedule-added", "backward", "learning rate of iteration 1", "never changes"),
    "sequence": ("decay-inverted", "backward", "from equal gradients", "weight_decay"),
    "text": ("attention-dropout-forgotten", "backward", "the reference drops with p = 0.1", "[6, 4, 48, 48]"),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("track", SEEN)
def test_the_align_command_says_the_same(measured, tmp_path, track):
    """The whole command, with a process for each side, on one wrong port of each pair."""
    folder, _ = measured
    name, node, *words = SEEN[track]
    case = next(case for one in tracks.TRACKS for case in one.cases if one.name == track and case.name == name)
    repository = tmp_path / "repository"
    shutil.copytree(folder / track, repository)
    catalog.write_edits(repository / "paddle", case.edits)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "align", *map(str, range(1, case.step + 1))],
        cwd=repository, capture_output=True, text=True, timeout=540, env=bases.environment(repository),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    states = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if len(line.split()) >= 6}
    before = ("forward", "metric", "loss", "backward")[: case.step - 1]
    assert all(states[one] == "green" for one in before) and states[node] == "red", done.stdout
    assert all(word in done.stdout for word in words), done.stdout


def test_a_list_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "list.md"
    for body, complaint in (
        ("## a: b\nstep: 1\nwhat is this\n", "cannot read"),
        ("## a: b\nstep: 1\nport.py\n-x\n+y\n\n## a: c\nstep: 2\nport.py\n-x\n+z\n", "given twice"),
    ):
        path.write_text(body, encoding="utf-8")
        with pytest.raises(ValueError, match=complaint):
            catalog.read_cases(path)


def test_an_edit_must_fit_exactly_once(tmp_path):
    (tmp_path / "port.py").write_text("a = 1\nb = 1\n", encoding="utf-8")
    for old in ("c = 1", "= 1"):
        with pytest.raises(AssertionError, match="instead of once"):
            catalog.edited(tmp_path, (("port.py", old, "= 2"),))
    catalog.write_edits(tmp_path, (("port.py", "a = 1", "a = 2"), ("port.py", "a = 2\nb", "c")))
    assert (tmp_path / "port.py").read_text(encoding="utf-8") == "c = 1\n"


def test_lists_are_read_as_written(tmp_path):
    path = tmp_path / "list.md"
    path.write_text(
        "Text.\n# Heading\n## one: kind of error\nstep: 4\nat: the model\nsays: a | b\n"
        "port.py\n-x\n-  y\n+\nmodels/net.py\n-p\n+q\n-r\n+\n+s\n"
        "# Other\n## two\nmap: a = b, c.d = e + f\n",
        encoding="utf-8",
    )
    one, two = catalog.read_cases(path)
    edits = (("port.py", "x\n  y", ""), ("models/net.py", "p", "q"), ("models/net.py", "r", "\ns"))
    assert one == catalog.Mutant("one", "kind of error", 4, "", ("a", "b"), edits)
    assert two == catalog.Right("two", (), {"a": "b", "c.d": "e + f"})
