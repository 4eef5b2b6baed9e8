# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Settings: port.yaml, read by both sides, and `-o key.sub=value` overrides.

Sections that the kit reads are checked against SCHEMA. Sections that belong to the port (model, data, loss, optimizer,
schedule, metric) may hold any key, but an override must name a key that the file has, with a value of its type.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipeline.align.errors import UserError
from pipeline.align.thresholds import FLOAT32

NUMBER = (int, float)
#: Kit-owned keys and their types; None in a tuple allows null. "*" allows any further key.
SCHEMA: dict[str, Any] = {
    "template": str,
    "track": str,
    "language": str,
    "paper": {"title": str, "url": str, "reference_url": str},
    "model": {"name": str, "*": object},
    "data": {"batch_size": int, "num_workers": int, "unit": str, "*": object},
    "loss": {"*": object},
    "optimizer": {"*": object},
    "schedule": {"*": object},
    "metric": {"*": object},
    "train": {
        "epochs": int, "seed": int, "print_freq": int, "output_dir": str, "device": (str, None), "amp": (str, None),
        "accumulate": int, "clip_grad_norm": (int, float, None), "clear_grad": str, "deterministic": bool,
        "save_freq": (int, None), "scalars": (str, None),
    },
    "fake_data": {"seed": int, "batch_size": int, "inputs": list, "label": dict},
    "weights": {"checkpoint": (str, None), "entry": (str, None), "fresh": (list, None), "map": (dict, None)},
    "align": {"seed": int, "train_steps": int, "data_samples": int, "thresholds": {"*": (*NUMBER, dict)}},
    "benchmark": {"*": dict},
}
TRACKS = ("image", "text", "recommendation")
#: What settings of text may say.
CHOICES = {
    "train.device": ("cpu", "gpu", None), "train.amp": ("bf16", "fp16", None), "train.scalars": ("visualdl", "tensorboard", None),
    "train.clear_grad": ("model", "optimizer"),
}  # fmt: skip
#: Sections that do not change what a run computes, so a record stays fresh when they change.
NOT_IN_RECORDS = (
    "template", "language", "paper", "benchmark", "align.thresholds", "data.unit", "train.print_freq", "train.output_dir",
    "train.save_freq", "train.scalars",
)  # fmt: skip


class Settings(Mapping):
    """Read-only settings with attribute access: `cfg.optimizer.learning_rate`."""

    def __init__(self, values: dict[str, Any], where: str = ""):
        self._values = values
        self._where = where

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            key = f"{self._where}.{name}" if self._where else name
            raise UserError(f"port.yaml has no setting '{key}'{_nearest(name, self._values)}: add it there")
        value = self._values[name]
        if isinstance(value, dict):
            return Settings(value, f"{self._where}.{name}" if self._where else name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """The value of `name`, or `default` where it is not set."""
        return self[name] if name in self._values else default

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Settings({self._values!r})"

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain dictionaries."""
        return json.loads(json.dumps(self._values))


class _Loader(yaml.SafeLoader):
    """Safe YAML with two differences: `1e-3` is a number (YAML 1.2), and a key given twice is an error."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?([eE][-+]?\d+)$|^[-+]?\.\d+([eE][-+]?\d+)?$|^[-+]?\d+\.\d*$|^[-+]?\.(inf|nan)$"),
    list("-+0123456789."),
)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' is given twice", node.start_mark)
    loader.flatten_mapping(node)
    return {loader.construct_object(k, deep=True): loader.construct_object(v, deep=True) for k, v in node.value}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_settings(path: str | Path, overrides: Iterable[str] = ()) -> Settings:
    """Read `path`, apply `overrides` ("key.sub=value", the value in YAML), check and return the settings.

    Raises UserError for a file that is missing or not YAML, an unknown key or a value of the wrong type.
    """
    path = Path(path)
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the settings {path}: {error}") from None
    if not isinstance(values, dict):
        raise UserError(f"{path.name}: expected sections such as 'model:' at the top level, found {type(values).__name__}")
    _check(values, SCHEMA, "", path.name)
    for text in overrides:
        _override(values, text)
    _check(values, SCHEMA, "", path.name)
    _check_values(values, path.name)
    return Settings(values)


def parse_yaml(text: str, where: str) -> Any:
    """YAML text as plain Python objects; UserError naming `where` and the line on bad YAML."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader subclass)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        raise UserError(f"{where}:{line} {getattr(error, 'problem', None) or error}") from None


def _check(values: Mapping, schema: Mapping, prefix: str, where: str) -> None:
    for key in schema:
        if key != "*" and key not in values:
            raise UserError(f"{where}: the setting '{prefix}{key}' is missing; add it")
    for key, value in values.items():
        if not isinstance(key, str):
            raise UserError(f"{where}: the key {key!r} under '{prefix or 'the top level'}' must be text")
        if key not in schema and "*" not in schema:
            raise UserError(f"{where}: unknown setting '{prefix}{key}'{_nearest(key, schema)}")
        wanted = schema.get(key, schema.get("*"))
        if isinstance(wanted, dict):
            if not isinstance(value, dict):
                raise UserError(f"{where}: '{prefix}{key}' must be a section of settings, not {value!r}")
            _check(value, wanted, f"{prefix}{key}.", where)
        elif not _fits(value, wanted):
            raise UserError(f"{where}: '{prefix}{key}' must be {_type_name(wanted)}, not {value!r}")


def _check_values(values: dict, where: str) -> None:
    positive = (
        "data.batch_size", "train.epochs", "train.print_freq", "train.accumulate", "train.save_freq", "fake_data.batch_size",
        "align.train_steps",
    )  # fmt: skip
    for name in positive:
        section, key = name.split(".")
        if values[section][key] is not None and values[section][key] < 1:
            raise UserError(f"{where}: '{name}' must be at least 1, not {values[section][key]}")
    largest = values["train"]["clip_grad_norm"]
    if largest is not None and not largest > 0:
        raise UserError(f"{where}: 'train.clip_grad_norm' must be above 0, or null for no clipping, not {largest}")
    for name, choices in CHOICES.items():
        section, key = name.split(".")
        if values[section][key] not in choices:
            known = ", ".join("null" if choice is None else choice for choice in choices)
            raise UserError(f"{where}: '{name}' must be one of {known}, not {values[section][key]!r}")
    if values["align"]["train_steps"] < 2:
        raise UserError(f"{where}: 'align.train_steps' must be at least 2: one step cannot show what the optimizer keeps")
    unknown = [name for name in values["align"]["thresholds"] if name not in FLOAT32]
    if unknown:
        raise UserError(f"{where}: unknown setting 'align.thresholds.{unknown[0]}'{_nearest(unknown[0], FLOAT32)}")
    if values["track"] not in TRACKS:
        raise UserError(f"{where}: there is no track '{values['track']}'; use one of {', '.join(TRACKS)}")


def _fits(value: Any, wanted: Any) -> bool:
    options = wanted if isinstance(wanted, tuple) else (wanted,)
    if value is None:
        return None in options or object in options
    if isinstance(value, bool):
        return bool in options or object in options
    if isinstance(value, int) and float in options:
        return True
    return isinstance(value, tuple(option for option in options if option is not None))


def _type_name(wanted: Any) -> str:
    options = wanted if isinstance(wanted, tuple) else (wanted,)
    names = {int: "a whole number", float: "a number", str: "text", dict: "a section", list: "a list", bool: "true or false"}
    return " or ".join("null" if option is None else names.get(option, option.__name__) for option in options)


def _override(values: dict, text: str) -> None:
    name, equals, raw = text.partition("=")
    if not equals:
        raise UserError(f"-o {text}: expected key.sub=value")
    target, keys = values, name.strip().split(".")
    for depth, key in enumerate(keys):
        if not isinstance(target, dict) or key not in target:
            known = target if isinstance(target, dict) else {}
            raise UserError(f"-o {text}: unknown setting '{'.'.join(keys[: depth + 1])}'{_nearest(key, known)}")
        if depth < len(keys) - 1:
            target = target[key]
    old, new = target[keys[-1]], parse_yaml(raw, f"-o {text}") if raw != "" else ""
    if isinstance(old, dict) and old and not isinstance(new, dict):
        raise UserError(f"-o {text}: '{name}' is a section; name one of its keys: {', '.join(old)}")
    if old is not None and new is not None and not _fits(new, float if isinstance(old, float) else type(old)):
        raise UserError(f"-o {text}: '{name}' must be {_type_name(type(old))}, not {new!r}")
    if old is not None and new is None and not _may_be_null(keys):
        raise UserError(f"-o {text}: '{name}' must be {_type_name(type(old))}, not null")
    target[keys[-1]] = new


def _may_be_null(keys: list[str]) -> bool:
    schema: Any = SCHEMA
    for key in keys:
        schema = schema.get(key, schema.get("*")) if isinstance(schema, dict) else None
    return isinstance(schema, tuple) and None in schema


def _nearest(name: str, known: Iterable[str]) -> str:
    match = difflib.get_close_matches(str(name), [str(key) for key in known if key != "*"], n=1)
    return f" (did you mean '{match[0]}'?)" if match else ""


def flatten(values: Mapping, prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level: {"optimizer.learning_rate": 0.1, …}."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def recorded_settings(cfg: Settings) -> dict[str, Any]:
    """The flat settings that a record depends on (thresholds, texts and the benchmark are not among them)."""
    return {key: value for key, value in flatten(cfg.to_dict()).items() if not key.startswith(NOT_IN_RECORDS)}


def settings_hash(recorded: Mapping[str, Any]) -> str:
    """SHA-256 of `recorded_settings`."""
    return hashlib.sha256(json.dumps(recorded, sort_keys=True).encode()).hexdigest()
