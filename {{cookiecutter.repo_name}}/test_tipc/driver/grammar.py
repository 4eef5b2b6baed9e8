# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""How a TIPC configuration is written: lines of `key:value`, each with its place.

A key is the program's own flag (shell text, so that `-o train.epochs` is two words), a value one word; `null` or nothing
switches a line off; `|` lists alternatives; `MODE=value|MODE=value` chooses by mode; `====` and `##` lines divide.
"""
from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from test_tipc.driver.errors import TipcError

TRAIN_MODES = ("lite_train_lite_infer", "lite_train_whole_infer", "whole_train_whole_infer")
MODES = (*TRAIN_MODES, "whole_infer", "klquant_whole_infer")
OFF = ("", "null", "##")
#: What a flag that is off leaves in a command: the public drivers' status lines have this blank, so ours have it.
BLANK = " "
#: Values that a shell reads as one word without help; no file is named like `key=*`, so patterns stay as they are.
ONE_WORD = re.compile(r"""[\w@%+=:,./*?[\]-]+|'[^']*'|"[^"$`\\]*\"""")
TITLE, SEPARATOR = re.compile(r"=+[^=]*=+"), re.compile(r"#+")


@dataclass(frozen=True)
class Entry:
    """One line: its number from 1, key and value; `:` in the value is kept."""

    number: int
    key: str
    value: str

    def flag(self, value: str | None = None) -> str:
        """`key=value` as shell text, or BLANK where key or value is off. `value`: instead of the line's own."""
        value = self.value if value is None else value
        return BLANK if self.key in OFF or value in OFF else f"{self.key}={shell_value(value)}"

    def alternatives(self, pattern: str = "", meaning: str = "") -> tuple[str, ...]:
        """The values between `|`, or ("null",). TipcError where one does not match `pattern` (any case)."""
        values = tuple(part.strip() for part in self.value.split("|") if part.strip()) or ("null",)
        for value in values:
            if pattern and value != "null" and not re.fullmatch(pattern, value, re.IGNORECASE):
                raise TipcError(f"line {self.number}: {self.key} is {value!r}, not {meaning}")
        return values

    def by_mode(self, mode: str) -> tuple[str, str]:
        """(value for `mode`, warning): a value without modes holds for all; a mode that is not listed has none."""
        pairs = [part.strip().partition("=") for part in self.value.split("|")]
        named = [name for name, equals, _ in pairs if equals and (name.endswith(("_train", "_infer")) or nearest(name, MODES))]
        if not named:
            return self.value, ""
        for name, _, value in pairs:
            if name == mode:
                return value.strip(), ""
        for name in named:
            if name not in MODES:
                hint = nearest(name, MODES)
                raise TipcError(f"line {self.number}: {self.key} has no value for {mode}, but one for {name!r}{hint}")
        return "", f"line {self.number}: {self.key} has no value for {mode}: the program's own default is used"


def shell_value(value: str) -> str:
    """A value as shell text: one word, whatever is in it.

    Quotes around it are the shell's; a value that goes on with further options (`'a' -o b='c'`) is shell text.
    """
    try:
        words = shlex.split(value)
    except ValueError:
        words = []
    more_options = any(word.startswith("-") or "=" in word for word in words[1:])
    return value if more_options or ONE_WORD.fullmatch(value) else shlex.quote(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, or nothing where no known name is near."""
    found = difflib.get_close_matches(name, list(known), 1, cutoff=0.7)
    return f"; did you mean {found[0]!r}?" if found else ""


class Lines:
    """The lines of a configuration file. Accepts CRLF, a byte order mark and blank lines at the end."""

    def __init__(self, path: Path):
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise TipcError(f"cannot read the configuration {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise TipcError(f"{path} is not UTF-8 text: {error}") from None
        self._lines = [line.strip() for line in text.rstrip().split("\n")]

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, number: int) -> Entry:
        """The entry at `number`, from 1. A line without a colon is a key alone; titles and `##` have no key."""
        text = self._lines[number - 1]
        if TITLE.fullmatch(text) or SEPARATOR.fullmatch(text):
            return Entry(number, "##", "")
        key, _, value = text.partition(":")
        return Entry(number, key.strip(), value.strip())

    def require(self, count: int, form: str) -> None:
        """TipcError for a blank line among the first `count`, or fewer lines than that."""
        for number, text in enumerate(self._lines[:count], 1):
            if not text:
                raise TipcError(f"line {number} is blank: remove it, the place of a line is its meaning")
        if len(self) < count:
            raise TipcError(f"{len(self)} lines, but {form} has {count}: the end is cut off, or lines are missing")

    def require_layout(self, titles: Iterable[int], separators: Iterable[int], keys: dict[int, tuple[str, ...]]) -> None:
        """TipcError at the first line that is not the title, the `##` or one of the keys of its place."""
        wanted: dict[int, str] = {number: "a title in ====" for number in titles}
        wanted.update({number: "##" for number in separators})
        wanted.update({number: f"'{names[0]}:'" for number, names in keys.items()})
        for number, description in sorted(wanted.items()):
            text = self._lines[number - 1]
            if number in keys:
                right = ":" in text and self[number].key in keys[number]
            else:
                right = (TITLE if number in titles else SEPARATOR).fullmatch(text)
            if not right:
                hint = "is something misspelt, or a line above missing or too many?"
                hint = "the colon must be an ASCII one" if "：" in text else hint
                raise TipcError(f"line {number}: expected {description}, found {text!r}; {hint}")
