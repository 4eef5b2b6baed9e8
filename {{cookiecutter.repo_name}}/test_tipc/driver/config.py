# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The configuration of the basic chain: 51 lines for training and inference, or 17 for a quantised model alone.

Everything is checked before the first command runs.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from test_tipc.driver.errors import TipcError
from test_tipc.driver.grammar import BLANK, MODES, OFF, TRAIN_MODES, Entry, Lines, nearest

LENGTH, QUANT_LENGTH = 51, 17
TITLES, SEPARATORS = (1, 23, 27), (14, 22, 26)
KEYS = {
    2: ("model_name",), 3: ("python",), 4: ("gpu_list",), 11: ("train_model_name",), 15: ("trainer",), 24: ("eval",),
    37: ("infer_model", "train_model"), 38: ("infer_export",), 39: ("infer_quant",), 40: ("inference",),
}  # fmt: skip
QUANT_KEYS = {
    2: ("model_name",), 3: ("python",), 6: ("infer_model",), 7: ("infer_export",), 8: ("infer_quant",), 9: ("inference",),
}  # fmt: skip
BOOL, PRECISION = "true|false|0|1", r"true|false|\w*(fp|bf|int)\d+"


@dataclass(frozen=True)
class Devices:
    """One entry of gpu_list. `gpus`: ids, none for the CPU. `ips`: the nodes, where there are several."""

    gpus: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As folder names and `--gpus` have it."""
        return ",".join(self.gpus) or "-1"


@dataclass(frozen=True)
class Trainer:
    """One entry of the trainer list with its scripts; `export` may be off."""

    name: str
    train: str
    export: str
    quantised: bool


@dataclass(frozen=True)
class Training:
    """Lines 4 to 25 and 36."""

    devices: tuple[tuple[Devices, str], ...]  # with the use_gpu flag of each
    autocast: Entry
    epoch: str  # a flag as shell text, as every str from here on but the names
    batch_size: str
    pretrained: Entry
    extra: str
    save_model: Entry
    model_name: str
    image_dir: str
    trainers: tuple[Trainer, ...]
    evaluate: str
    eval_extra: str
    inference_dir: str


@dataclass(frozen=True)
class Inference:
    """Lines 40 to 51 but 49."""

    script: str
    use_gpu: Entry
    mkldnn: Entry
    threads: Entry
    batch_size: Entry
    tensorrt: Entry
    precision: Entry
    model_dir: Entry
    image_dir: Entry
    benchmark: str
    extra: str


@dataclass(frozen=True)
class Model:
    """A model of the modes that do not train; `export` may be off."""

    path: str
    export: str
    quantised: bool


@dataclass(frozen=True)
class Config:
    """What one mode of a configuration asks for. `training`: None in the modes that do not train."""

    mode: str
    python: str
    save_infer: Entry
    export_weights: Entry
    training: Training | None
    models: tuple[Model, ...]
    inference: Inference
    warnings: tuple[str, ...]


def read_config(path: Path, mode: str) -> Config:
    """Read and check a configuration for one mode. TipcError says what is wrong and where."""
    if mode not in MODES:
        raise TipcError(f"unknown mode {mode!r}{nearest(mode, MODES)}; the modes are {', '.join(MODES)}")
    lines = Lines(path)
    try:
        quantised_alone = mode == "klquant_whole_infer" and len(lines) >= 6 and lines[6].key in QUANT_KEYS[6]
        return _read_quant(lines, mode) if quantised_alone else _read(lines, mode)
    except TipcError as error:
        raise TipcError(f"{path}: {error}") from None


def _read(lines: Lines, mode: str) -> Config:
    lines.require(LENGTH, "a train_infer_python configuration")
    lines.require_layout(TITLES, SEPARATORS, KEYS)
    warnings: list[str] = []
    training, models = None, ()
    if mode in TRAIN_MODES:
        training = _read_training(lines, mode, warnings)
    else:
        models = _read_models(lines, 37, always_quantised=mode == "klquant_whole_infer")
    if lines[49].flag() != BLANK:
        warnings.append(f"line 49: {lines[49].key} keeps its place in the format, but no driver passes it on")
    if len(lines) > LENGTH and lines[LENGTH + 1].key not in OFF:
        warnings.append(f"line {LENGTH + 1} and what follows are not part of the {LENGTH} lines and are not used")
    return Config(mode, _required(lines[3]), lines[28], lines[29], training, models, _read_inference(lines, 40), tuple(warnings))


def _read_quant(lines: Lines, mode: str) -> Config:
    """The short form for one model to be quantised. Public drivers read no line after the image folder, nor does this."""
    lines.require(QUANT_LENGTH, "a configuration for klquant_whole_infer")
    lines.require_layout((1,), (), QUANT_KEYS)
    more = [lines[n].key for n in range(QUANT_LENGTH + 1, len(lines) + 1) if lines[n].flag() != BLANK]
    warnings = (f"lines after {QUANT_LENGTH} are not used in this mode: {', '.join(more)}",) if more else ()
    models = _read_models(lines, 6, always_quantised=True)
    return Config(mode, _required(lines[3]), lines[5], lines[4], None, models, _read_inference(lines, 9), warnings)


def _required(entry: Entry) -> str:
    if entry.value in OFF:
        raise TipcError(f"line {entry.number}: {entry.key} is empty")
    return entry.value


def _script(entry: Entry) -> str:
    return "" if entry.value in OFF else entry.value


def _read_training(lines: Lines, mode: str, warnings: list[str]) -> Training:
    flags = {}
    for number in (7, 9):
        value, warning = lines[number].by_mode(mode)
        flags[number] = lines[number].flag(value)
        if warning and lines[number].key not in OFF:
            warnings.append(warning)
    model_name, _ = lines[11].by_mode(mode)
    return Training(
        devices=_read_devices(lines[4], lines[5]),
        autocast=lines[6],
        epoch=flags[7],
        batch_size=flags[9],
        pretrained=lines[10],
        extra=lines[13].flag(),
        save_model=lines[8],
        model_name=model_name,
        image_dir=lines[12].value,
        trainers=_read_trainers(lines),
        evaluate=_script(lines[24]),
        eval_extra=lines[25].flag(),
        inference_dir=lines[36].value if lines[36].key == "inference_dir" else "",
    )


def _read_devices(gpu_list: Entry, use_gpu: Entry) -> tuple[tuple[Devices, str], ...]:
    entries = [_parse_devices(gpu_list, text) for text in _required(gpu_list).replace(" ", "").split("|")]
    values = use_gpu.alternatives()
    if len(values) == 1:
        values *= len(entries)
    if len(values) < len(entries):
        raise TipcError(f"line {use_gpu.number}: {use_gpu.key} has {len(values)} values for {len(entries)} entries of gpu_list")
    return tuple((entry, use_gpu.flag(values[index])) for index, entry in enumerate(entries))


def _parse_devices(gpu_list: Entry, text: str) -> Devices:
    ips, _, gpus = text.rpartition(";")
    nodes = tuple(ips.split(",")) if ips else ()
    ids = tuple(gpus.split(","))
    if text == "-1":
        return Devices()
    if not all(gpu.isdigit() for gpu in ids) or (";" in text and not all(nodes)) or len(set(ids)) < len(ids):
        known = "-1 (CPU), 0 (one GPU), 0,1 (several) or ip,ip;0,1 (several nodes)"
        raise TipcError(f"line {gpu_list.number}: {text!r} is none of {known}")
    return Devices(ids, nodes)


def _read_trainers(lines: Lines) -> tuple[Trainer, ...]:
    # In this order; the first is also called by its name without "_train", as in PaddleSeg's configurations.
    scripts = {lines[number].key: number for number in (21, 20, 19, 18, 17, 16) if lines[number].key not in OFF}
    norm = lines[16].key
    trainers = []
    for name in (part.strip() for part in _required(lines[15]).split("|")):
        number = 16 if name == norm[: -len("_train")] else scripts.get(name)
        if number is None:
            raise TipcError(f"line 15: {name!r} is no trainer of lines 16 to 21{nearest(name, scripts)}")
        train, export = _script(lines[number]), _script(lines[number + 14])
        if train:
            trainers.append(Trainer(name, train, export, quantised=number == 17))
    if not trainers:
        raise TipcError("line 15: none of the listed trainers has a script, so there is nothing to run")
    return tuple(trainers)


def _read_models(lines: Lines, first: int, always_quantised: bool) -> tuple[Model, ...]:
    paths = lines[first].alternatives()
    exports = _per_model(lines[first + 1], lines[first + 1].alternatives(), paths)
    flags = _per_model(lines[first + 2], lines[first + 2].alternatives("true|false", "True or False"), paths)
    return tuple(
        Model(path, "" if exports[index] == "null" else exports[index], always_quantised or flags[index].lower() == "true")
        for index, path in enumerate(paths)
    )


def _per_model(entry: Entry, values: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    """One value per model; a single one holds for all."""
    if len(values) not in (1, len(paths)):
        raise TipcError(f"line {entry.number}: {entry.key} has {len(values)} values for {len(paths)} models")
    return values if len(values) == len(paths) else values * len(paths)


def _read_inference(lines: Lines, first: int) -> Inference:
    use_gpu, mkldnn, threads, batch_size, tensorrt, precision, model_dir, image_dir = (lines[first + n] for n in range(1, 9))
    use_gpu.alternatives("true|false|cpu|gpu", "True, False, cpu or gpu: no other hardware is known")
    for switch in (mkldnn, tensorrt):
        switch.alternatives(BOOL, "True or False")
    for number in (threads, batch_size):
        number.alternatives(r"\d+", "a whole number")
    precision.alternatives(PRECISION, "a precision such as fp32, fp16 or int8")
    # The short form ends with the image folder.
    benchmark, extra = (lines[50].flag(), lines[51].flag()) if first == 40 else (BLANK, BLANK)
    return Inference(
        _script(lines[first]), use_gpu, mkldnn, threads, batch_size, tensorrt, precision, model_dir, image_dir, benchmark, extra
    )
