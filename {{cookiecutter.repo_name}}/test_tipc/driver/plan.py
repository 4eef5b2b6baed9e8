# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The commands of a chain, in the order and with the words of the public TIPC drivers."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from test_tipc.driver.config import Config, Devices, Inference, Trainer
from test_tipc.driver.errors import TipcError
from test_tipc.driver.grammar import BLANK

OUTPUT = "./test_tipc/output"
#: What PaddleOCR's driver adds for `amp`: settings of its own programs, whose keys all begin with "Global.".
OCR_AMP = "Global.use_amp=True Global.scale_loss=1024.0 Global.use_dynamic_loss_scaling=True"


@dataclass(frozen=True)
class Command:
    """One command.

    `text`: shell text. `shown_log`: the log that the public drivers name behind it, or "". `gpus`: ids of the GPUs it
    runs on. `visible`: value of CUDA_VISIBLE_DEVICES, None to leave it alone. `needs`: place in the plan, from 0, of the
    command that makes its input. `makes`: a folder that is removed first, so that nothing of an earlier run is taken for
    this one's.
    """

    stage: str
    entry: str
    text: str
    shown_log: str = ""
    gpus: tuple[str, ...] = ()
    visible: str | None = None
    needs: int | None = None
    makes: str = ""

    @property
    def shown(self) -> str:
        """The command as the status lines have it."""
        return f"{self.text} > {self.shown_log} 2>&1 " if self.shown_log else self.text


def make_plan(config: Config, gpu_id: str = "") -> list[Command]:
    """Every command of the mode that `config` was read for. `gpu_id`: CUDA_VISIBLE_DEVICES where nothing is trained.

    Raises TipcError where there is nothing to run.
    """
    plan: list[Command] = []
    if config.training:
        for devices, use_gpu in config.training.devices:
            for autocast in config.training.autocast.alternatives():
                for trainer in config.training.trainers:
                    _add_training(plan, config, devices, use_gpu, autocast, trainer)
    else:
        _add_models(plan, config, gpu_id)
    if not plan:
        raise TipcError("nothing to run: every line that this mode uses is off")
    return plan


def _add_training(plan: list[Command], config: Config, devices: Devices, use_gpu: str, autocast: str, trainer: Trainer) -> None:
    training = config.training
    entry = f"{trainer.name}_gpus_{devices.name}_autocast_{autocast}" + (f"_nodes_{len(devices.ips)}" if devices.ips else "")
    folder = f"{OUTPUT}/{entry}"
    weights = f"{folder}/{training.model_name}"
    first_gpu = devices.gpus[0] if devices.gpus else None
    train = len(plan)
    plan.append(Command(
        "train", entry, _training_text(config, devices, use_gpu, autocast, trainer, folder), gpus=devices.gpus,
        # The launcher chooses among several GPUs itself.
        visible=first_gpu if len(devices.gpus) == 1 and not devices.ips else None,
        # Nodes may share a file system and start at different times.
        makes="" if devices.ips else folder,
    ))  # fmt: skip
    later = {"entry": entry, "gpus": devices.gpus[:1], "visible": first_gpu}
    if training.evaluate:
        words = [config.python, training.evaluate, training.pretrained.flag(weights), use_gpu, training.eval_extra]
        plan.append(Command("eval", text=" ".join(words), needs=train, **later))
    if trainer.export:
        words = [config.python, trainer.export, config.export_weights.flag(weights), config.save_infer.flag(folder)]
        export = len(plan)
        plan.append(Command("export", text=" ".join(words), needs=train, **later))
        model = folder if training.inference_dir == "null" else f"{folder}/{training.inference_dir}"
        _add_inference(plan, config, entry, model, training.image_dir, trainer.quantised, first_gpu, export)


def _training_text(config: Config, devices: Devices, use_gpu: str, autocast: str, trainer: Trainer, folder: str) -> str:
    """The flags in the order, and with the blanks, of the public drivers, which differ for one GPU, several and several nodes."""
    training = config.training
    save, epoch, pretrained = training.save_model.flag(folder), training.epoch, training.pretrained.flag()
    amp = OCR_AMP if autocast == "amp" and training.autocast.key.startswith("Global.") else BLANK
    last = [training.autocast.flag(autocast), training.batch_size, training.extra, amp]
    launch, gpus = [config.python, "-m paddle.distributed.launch"], f"--gpus={devices.name}"
    if devices.ips:
        words = [*launch, f"--ips={','.join(devices.ips)}", gpus, trainer.train, use_gpu, save, pretrained, epoch]
    elif len(devices.gpus) > 1:
        words = [*launch, gpus, trainer.train, use_gpu, save, epoch, pretrained]
    else:
        words, last = [config.python, trainer.train, use_gpu, "", save, epoch, pretrained], [*last, ""]
    return " ".join([*words, *last])


def _add_models(plan: list[Command], config: Config, gpu_id: str) -> None:
    visible = gpu_id or None
    for number, model in enumerate(config.models):
        folder, export, entry = model.path, None, f"model_{number}"
        if model.export:
            # Public drivers export beside the model; quantised models get a folder of their own.
            folder = model.path if config.mode == "whole_infer" else f"{model.path}_klquant"
            words = [config.python, model.export, config.export_weights.flag(model.path), config.save_infer.flag(folder)]
            export = len(plan)
            plan.append(Command("export", entry, " ".join(words), visible=visible))
        _add_inference(plan, config, entry, folder, config.inference.image_dir.value, model.quantised, visible, export)


def _add_inference(
    plan: list[Command], config: Config, entry: str, model: str, images: str, quantised: bool,
    visible: str | None, needs: int | None,
) -> None:  # fmt: skip
    inference = config.inference
    for use_gpu in inference.use_gpu.alternatives():
        if use_gpu == "null" or not inference.script:
            continue
        on_gpu = use_gpu.lower() in ("true", "gpu")
        gpus = tuple((visible or "0").split(",")) if on_gpu else ()
        start = [config.python, inference.script, inference.use_gpu.flag(use_gpu)]
        for name, flags in (_gpu_flags if on_gpu else _cpu_flags)(inference, model, images, quantised):
            log = f"{OUTPUT}/python_infer_{name}.log"
            plan.append(Command("inference", entry, " ".join([*start, *flags]), log, gpus=gpus, visible=visible, needs=needs))


def _cpu_flags(inference: Inference, model: str, images: str, quantised: bool) -> Iterator[tuple[str, list[str]]]:
    """(name, flags) of every combination on the CPU: fp16 only with oneDNN, a quantised model only with int8."""
    for mkldnn in inference.mkldnn.alternatives():
        for threads in inference.threads.alternatives():
            for batch_size in inference.batch_size.alternatives():
                for precision in inference.precision.alternatives():
                    if (mkldnn.lower() == "false" and precision == "fp16") or (quantised and precision != "int8"):
                        continue
                    yield f"cpu_usemkldnn_{mkldnn}_threads_{threads}_precision_{precision}_batchsize_{batch_size}", [
                        inference.mkldnn.flag(mkldnn), inference.threads.flag(threads), inference.model_dir.flag(model),
                        inference.batch_size.flag(batch_size), BLANK, inference.image_dir.flag(images), inference.benchmark,
                        inference.precision.flag(precision), inference.extra,
                    ]  # fmt: skip


def _gpu_flags(inference: Inference, model: str, images: str, quantised: bool) -> Iterator[tuple[str, list[str]]]:
    """The same for a GPU: fp16 and int8 only with TensorRT, int8 only for a quantised model."""
    for tensorrt in inference.tensorrt.alternatives():
        for precision in inference.precision.alternatives():
            low = "fp16" in precision or "int8" in precision
            if ("int8" in precision and not quantised) or (low and tensorrt.lower() == "false"):
                continue
            for batch_size in inference.batch_size.alternatives():
                yield f"gpu_usetrt_{tensorrt}_precision_{precision}_batchsize_{batch_size}", [
                    inference.tensorrt.flag(tensorrt), inference.precision.flag(precision), inference.model_dir.flag(model),
                    inference.batch_size.flag(batch_size), inference.image_dir.flag(images), inference.benchmark,
                    inference.extra, BLANK,
                ]  # fmt: skip
