# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""`python -m pipeline draft`: PyTorch code translated by PaConvert, made readable as Python, and looked at by lint.

PaConvert lives in an environment of its own, because it needs an old black; it reads syntax only and imports no framework.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.align.draft_mend import mend
from pipeline.align.errors import UserError
from pipeline.align.paths import Paths
from pipeline.align.settings import Settings

PACONVERT = "3.3.0"
REQUIREMENTS = Path(__file__).with_name("draft_requirements.txt")
#: PaConvert puts this before lines that it could not convert, which are then no Python.
MARK = ">>>>>>"
NOTE = f"  # {MARK} not converted"
#: How PaConvert lets a converted folder find the helpers that it has written.
HELPERS = re.compile(r"^( *)sys\.path\.append\(\s*r?([\"']).+\2\s*\)$", re.M)


@dataclass
class Draft:
    """What became of the code. `lines`: (file, line, text) of what was not converted; `imports`: the same, imports of torch;
    `mended`: what draft_mend.py has changed."""

    files: int = 0
    calls: int = 0
    converted: int = 0
    lines: list[tuple[Path, int, str]] = field(default_factory=list)
    imports: list[tuple[Path, int, str]] = field(default_factory=list)
    mended: list[tuple[Path, int, str]] = field(default_factory=list)


def run(paths: Paths, cfg: Settings, source: Path, out: Path) -> int:
    """Translate `source`, a .py file or a folder, into the folder `out`, and print what is left to do. Returns 0.

    Raises UserError where there is nothing to translate, `out` is in use or PaConvert fails; `out` is then as before.
    """
    files = _sources(source)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty; remove it, or choose another folder with --out")
    python = _interpreter(paths)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        made = Path(temporary).resolve() / "draft"
        draft = _convert(python, source, files, Path(temporary).resolve() / "source", made)
        for path in sorted(made.rglob("*.py")):
            _finish(path, made, draft)
        draft.mended = mend(made, {file: source / file if source.is_dir() else source for file in files})
        if out.is_dir():
            out.rmdir()
        os.replace(made, out)
    _print(paths, draft, out)
    _lint(paths, cfg, out)
    return 0


def _sources(source: Path) -> list[Path]:
    """The .py files, relative to `source`; of a folder without hidden ones and those of environments."""
    if source.is_file() and source.suffix == ".py":
        return [Path(source.name)]
    if not source.is_dir():
        raise UserError(f"{source} is no .py file" if source.exists() else f"{source} does not exist; name the reference's code")
    found = []
    for folder, names, files in os.walk(source):
        hidden = {name for name in names if name.startswith(".") or Path(folder, name, "pyvenv.cfg").exists()}
        names[:] = sorted(set(names) - hidden - {"__pycache__"})
        found += [Path(folder, name).relative_to(source) for name in sorted(files) if name.endswith(".py") and name[0] != "."]
    if not found:
        raise UserError(f"{source} holds no .py file; name the folder of the reference's code")
    return found


def _interpreter(paths: Paths) -> str:
    """A Python with PaConvert: the one that DRAFT_PYTHON names, or of an environment made once."""
    python = os.environ.get("DRAFT_PYTHON")
    if not python:
        return _environment(paths.work / "draft_venv")
    program = "import importlib.metadata as m; print(m.version('paconvert'))"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError as error:
        raise UserError(f"DRAFT_PYTHON: cannot run {python}: {error.strerror}") from None
    if done.stdout.strip() != PACONVERT:
        found = f"has PaConvert {done.stdout.strip()}" if done.returncode == 0 else "has no PaConvert"
        raise UserError(f"DRAFT_PYTHON: {python} {found}; run: {python} -m pip install paconvert=={PACONVERT}")
    return python


def _environment(folder: Path) -> str:
    """The Python of the environment in `folder`; it is made again unless it was finished with these requirements."""
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    wanted = REQUIREMENTS.read_bytes()
    if python.exists() and installed.is_file() and installed.read_bytes() == wanted:
        return str(python)
    print(f"making an environment with PaConvert {PACONVERT} in {folder}", file=sys.stderr)
    _checked([sys.executable, "-m", "venv", "--clear", str(folder)], "an environment cannot be made")
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    _checked(install, "PaConvert cannot be installed")
    installed.write_bytes(wanted)
    return str(python)


def _checked(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise UserError(f"{problem}: {lines[-1].strip()}; or name a Python that has paconvert=={PACONVERT} in DRAFT_PYTHON")


def _convert(python: str, source: Path, files: Sequence[Path], staged: Path, made: Path) -> Draft:
    """Run PaConvert on a copy of the Python files alone, because it would copy data and weights too."""
    for file in files:
        (staged / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file if source.is_dir() else source, staged / file)
    made.mkdir()
    single = source.is_file()
    given, wanted = (staged / files[0], made / files[0]) if single else (staged, made)
    log = staged.with_suffix(".log")
    command = [python, "-m", "paconvert.main", "-i", str(given), "-o", str(wanted), "--log_dir", str(log)]
    done = subprocess.run(command, cwd=staged.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    if done.returncode:
        begun = re.findall(r"^Start convert file: (.+) -->", text, re.M)
        file = Path(begun[-1]).relative_to(staged) if begun else source
        message = (done.stderr.strip() or "no message").splitlines()[-1]
        line = re.findall(r'^ *File "<unknown>", line (\d+)$', done.stderr, re.M)
        where = f"{file}:{line[-1]}" if line else str(file)
        raise UserError(f"PaConvert {PACONVERT} failed on {where}: {message}; mend that file, or name only the files you need")
    calls = re.search(r"There are (\d+) Pytorch APIs", text)
    converted = re.search(r"(\d+) +Pytorch APIs have been converted", text)
    return Draft(len(files), *(int(match[1]) if match else 0 for match in (calls, converted)))


def _finish(path: Path, made: Path, draft: Draft) -> None:
    """Make a file of the draft Python again, independent of where it was made, and note what is left in it."""
    text, relative = path.read_text(encoding="utf-8"), path.relative_to(made)
    up = f'str(pathlib.Path(__file__).resolve().parents[{len(relative.parts) - 1}])'
    text = HELPERS.sub(lambda found: f"{found[1]}import pathlib\n\n{found[1]}sys.path.append({up})"
                       if str(made) in found[0] else found[0], text)  # fmt: skip
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith(MARK):
            plain = line.replace(MARK, "")
            draft.lines.append((relative, number, plain.strip()))
            lines[number - 1] = plain + NOTE
    readable = "\n".join(lines)
    try:
        tree = ast.parse(readable)
    except SyntaxError:  # a mark inside of a text that runs over several lines: left as PaConvert wrote it
        path.write_text(text, encoding="utf-8")
        return
    path.write_text(readable, encoding="utf-8")
    for node in ast.walk(tree):
        modules = [name.name for name in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        if any(re.match(r"torch", module) for module in modules):
            draft.imports.append((relative, node.lineno, lines[node.lineno - 1].strip()))


def _print(paths: Paths, draft: Draft, out: Path) -> None:
    shown = out.relative_to(paths.root) if out.is_relative_to(paths.root) else out
    for what, found in (("not converted", draft.lines), ("still imports torch", draft.imports), ("mended", draft.mended)):
        for file, line, text in found:
            print(f"{shown / file}:{line}: {what}: {text}")
    left = f"{len(draft.lines)} lines not converted, {len(draft.imports)} imports of torch left"
    left += f", {len(draft.mended)} places mended" if draft.mended else ""
    print(f"{shown}: {draft.files} files, {draft.converted} of {draft.calls} uses of torch converted, {left}")


def _lint(paths: Paths, cfg: Settings, out: Path) -> None:
    """What lint says about the draft."""
    from pipeline.align.lint import lint, summary

    try:
        findings = lint([out], cfg.to_dict(), paths.root)
    except UserError as error:
        print(f"lint: {error}")
        return
    print(*findings, f"lint: {summary(findings)}", sep="\n")
