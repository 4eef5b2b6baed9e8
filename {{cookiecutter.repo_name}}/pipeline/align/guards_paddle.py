# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Ways around defects of Paddle 3.3.1 that crash the process or give wrong gradients on the CPU.

They act only in this kit's own process and only in the situation that is broken, compute what Paddle documents, and leave
a note each time: outside of the kit the port still meets the defect, and the note says what to write instead.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import paddle
from paddle.nn.layer import norm, rnn


def install(notes: set[str]) -> None:
    """Guard the classes and functions below; each use adds a line to `notes`. Installing again replaces `notes`."""
    for owner, name, guard in (
        (rnn.RNNBase, "forward", _recurrent),
        (norm.GroupNorm, "forward", _group_norm),
        (norm._BatchNormBase, "forward", _batch_norm),
        (norm.SyncBatchNorm, "forward", _sync_batch_norm),
        (paddle.nn.functional, "nll_loss", _nll_loss),
    ):
        setattr(owner, name, _guarded(guard, getattr(owner, name), notes))


def _guarded(guard: Callable, current: Callable, notes: set[str]) -> Callable:
    original = getattr(current, "unguarded", current)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return guard(original, notes, *args, **kwargs)

    call.unguarded = original
    return call


@contextlib.contextmanager
def _attributes(layer: paddle.nn.Layer, **values: Any) -> Iterator[None]:
    """Plain attributes of `layer` set to `values` inside, hiding registered parameters of the same name."""
    kept = {name: layer.__dict__[name] for name in values if name in layer.__dict__}
    layer.__dict__.update(values)
    try:
        yield
    finally:
        for name in values:
            del layer.__dict__[name]
        layer.__dict__.update(kept)


def _recurrent(
    original: Callable, notes: set[str], layer: rnn.RNNBase, inputs: Any, initial_states: Any = None, sequence_length: Any = None
) -> Any:
    """The fused kernel crashes without biases, and its backward fails in eval mode and with frozen weights.

    The cells, run step by step, have none of this. RNNBase.forward has that loop too, but it fails for GRU and SimpleRNN.
    """
    reason = _fused_kernel_fails(layer) if layer.could_use_cudnn else None
    if reason is None:
        return original(layer, inputs, initial_states, sequence_length)
    notes.add(f"{type(layer).__name__} {reason}; the kit ran its cells step by step instead")
    bidirectional, components = layer.num_directions == 2, layer.state_components
    if initial_states is None:
        size = [layer.num_layers * layer.num_directions, inputs.shape[1 if layer.time_major else 0], layer.hidden_size]
        initial_states = tuple(paddle.zeros(size, inputs.dtype) for _ in range(components))
    if components == 1 and isinstance(initial_states, (tuple, list)):
        initial_states = initial_states[0]
    final = []
    for index, (cells, state) in enumerate(zip(layer, rnn.split_states(initial_states, bidirectional, components))):
        if index:
            inputs = paddle.nn.functional.dropout(inputs, layer.dropout, training=layer.training)
        inputs, last = cells(inputs, state, sequence_length)
        if sequence_length is not None:  # as the kernel does, but the loop over cells does not
            inputs = inputs * _inside(inputs, sequence_length, layer.time_major)
        final.append(last)
    return inputs, rnn.concat_states(final, bidirectional, components)


def _inside(outputs: Any, sequence_length: Any, time_major: bool) -> Any:
    """1 up to the end of each sequence and 0 behind it, to be multiplied with [N, T, C] or [T, N, C]."""
    steps = paddle.arange(outputs.shape[0 if time_major else 1], dtype=sequence_length.dtype)
    inside = steps.unsqueeze(1) < sequence_length if time_major else steps < sequence_length.unsqueeze(1)
    return inside.astype(outputs.dtype).unsqueeze(-1)


def _fused_kernel_fails(layer: rnn.RNNBase) -> str | None:
    if len(layer._all_weights) < 4 * layer.num_layers * layer.num_directions:
        return "without biases crashes the process (keep the biases, at zero and out of the optimizer)"
    if not paddle.is_grad_enabled():
        return None
    if any(weight.stop_gradient for weight in layer._all_weights):
        return "with frozen weights has no backward (leave its weights trainable and out of the optimizer)"
    return None if layer.training else "in eval mode has no backward (use train mode and dropout 0 where gradients are needed)"


def _group_norm(original: Callable, notes: set[str], layer: norm.GroupNorm, value: Any) -> Any:
    """Without a scale the kernel's input gradient is wrong; a constant scale of 1 and shift of 0 is the same layer."""
    if layer.weight is not None or not _differentiates_on_cpu(value):
        return original(layer, value)
    notes.add("GroupNorm without weight has a wrong input gradient; the kit ran it with a constant weight of 1"
              " (keep weight and bias, at 1 and 0, with stop_gradient)")  # fmt: skip
    size, dtype = [layer._num_channels], value.dtype
    bias = paddle.zeros(size, dtype) if layer.bias is None else layer.bias
    with _attributes(layer, weight=paddle.ones(size, dtype), bias=bias):
        return original(layer, value)


def _batch_norm(original: Callable, notes: set[str], layer: norm._BatchNormBase, value: Any) -> Any:
    """use_global_stats=False in eval mode has wrong gradients; train mode with momentum 1 changes no statistics."""
    if layer._use_global_stats is not False or layer.training or not _differentiates_on_cpu(value):
        return original(layer, value)
    notes.add(f"{type(layer).__name__} with use_global_stats=False in eval mode has wrong gradients; the kit ran it in train mode"
              " without moving its statistics (leave the layer in train mode)")  # fmt: skip
    with _attributes(layer, training=True, _momentum=1.0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return original(layer, value)


def _sync_batch_norm(original: Callable, notes: set[str], layer: norm.SyncBatchNorm, value: Any) -> Any:
    """There is no CPU kernel. In one process it is batch normalisation."""
    if not value.place.is_cpu_place():
        return original(layer, value)
    notes.add("SyncBatchNorm has no CPU kernel; the kit ran it as BatchNorm, which it is in one process")
    statistics, settings = (layer._mean, layer._variance), (layer._momentum, layer._epsilon, layer._data_format)
    return paddle.nn.functional.batch_norm(value, *statistics, layer.weight, layer.bias, layer.training, *settings)


def _nll_loss(original: Callable, notes: set[str], *args: Any, **kwargs: Any) -> Any:
    """Ignored labels make the CPU kernel write outside its memory (reductions mean and sum)."""
    given = inspect.signature(original).bind(*args, **kwargs)
    given.apply_defaults()
    values, labels, weight = (given.arguments[name] for name in ("input", "label", "weight"))
    ignored, reduction = given.arguments["ignore_index"], given.arguments["reduction"]
    if reduction not in ("mean", "sum") or not values.place.is_cpu_place() or not bool((labels == ignored).any()):
        return original(*args, **kwargs)
    notes.add("nll_loss with ignored labels corrupts memory; the kit computed it from the gathered log-probabilities"
              " (leave ignored labels out before calling it)")  # fmt: skip
    kept = (labels != ignored).astype(values.dtype)
    chosen = paddle.where(labels != ignored, labels, paddle.zeros_like(labels))
    if weight is not None:
        kept = kept * paddle.gather(weight, chosen.flatten()).reshape(chosen.shape)
    loss = -(paddle.take_along_axis(values, chosen.unsqueeze(1), axis=1, broadcast=False).squeeze(1) * kept).sum()
    return loss if reduction == "sum" else loss / kept.sum()


def _differentiates_on_cpu(value: Any) -> bool:
    return paddle.is_grad_enabled() and value.place.is_cpu_place()
