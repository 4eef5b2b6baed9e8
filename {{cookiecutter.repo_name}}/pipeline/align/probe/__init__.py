# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m pipeline probe`: what an untouched PyTorch program feeds its model.

    probe.run(paths, cfg, ["python", "their_train.py"], Path("their/folder"), module="models.Net")

The program runs in its own interpreter and folder, with a file before it on PYTHONPATH that waits for torch (injected.py). At
the first call of the module everything is recorded and the program is ended. The kit never imports torch for this.
"""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pipeline.align.atomic import replacing
from pipeline.align.errors import UserError
from pipeline.align.fake_data import write_batch
from pipeline.align.paths import Paths
from pipeline.align.probe import call as recorded
from pipeline.align.probe import launch, show
from pipeline.align.provenance import write_json
from pipeline.align.settings import Settings


def run(paths: Paths, cfg: Settings, command: Sequence[str], cwd: Path, module: str = "", out: Path | None = None) -> None:
    """Run the reference up to the call, write what it got, and print it.

    Without `out`: the batch where step 1 looks for the reference's own data, the rest in pipeline/work/probe/. With `out`:
    everything there. Raises UserError where the reference makes no such call.
    """
    if not command:
        raise UserError("name the command that runs the reference: python -m pipeline probe -- python their_train.py ARGS")
    folder = out or paths.work / "probe"
    batch_file = out / paths.real_batch.name if out else paths.real_batch
    log = folder / "reference.log"
    print(f"running {' '.join(command)} (its output: {_shown(log, paths)})", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="probe-") as temporary:
        launch.run(command, cwd, module, Path(temporary).resolve(), log)
        call = recorded.read(Path(temporary))
    print(show.table(call))
    arrays = {leaf.name: leaf.array for leaf in call.arguments if leaf.array is not None}
    label = {} if call.label is None else {"label": call.label.leaf.array}
    _write_arrays(folder / "arguments.npz", {**label, **arrays})
    write_json(folder / "arguments.json", {"command": list(command), **call.to_json()})
    written = [folder / "arguments.npz", folder / "arguments.json"]
    misfit = call.misfit()
    if misfit is None:
        size = call.batch_size(cfg.fake_data.batch_size)
        write_batch(batch_file, call.batch(size))
        written.append(batch_file)
        print(f"\nfor port.yaml:\n\n{show.section(call, cfg.fake_data.seed, size)}")
    elif batch_file.exists():
        batch_file.unlink()
        print(f"\nremoved: {_shown(batch_file, paths)}, the batch of an earlier call")
    print(f"\nwritten: {', '.join(_shown(path, paths) for path in written)}")
    if misfit is not None:
        print(f"no batch for step 1 and no fake_data section: {misfit}; batches have the samples along every first axis")
    elif call.label is None:
        print("no label was seen: zeros stand for it in the batch, which step 1 does not look at")


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """numpy.savez for any names: those of arguments may be the ones of its own parameters."""
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())


def _shown(path: Path, paths: Paths) -> str:
    return str(path.relative_to(paths.root) if path.is_relative_to(paths.root) else path)
