# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What the conversion tests share: random weights, and the conversion of a pair of models by the user-facing functions."""

import json

import numpy as np
import paddle
import torch

from pipeline.align.convert import Plan, convert_file, describe_paddle, describe_torch, plan, save_port, save_reference
from pipeline.align.convert.load_paddle import load_into_paddle
from pipeline.align.convert.load_torch import load_into_torch

#: Of the largest output; 15 times the 99th percentile of the frameworks' noise.
TOLERANCE = 1e-5


def scramble(model, seed=0):
    """Random weights of a size that keeps outputs near one, moved statistics: nothing is zero or one."""
    random = np.random.default_rng(seed)
    if isinstance(model, torch.nn.Module):
        tensors = model.state_dict(keep_vars=True)
    else:
        tensors = describe_paddle.state_tensors(model)
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if "int" in str(tensor.dtype):
            value = random.integers(1, 9, shape).astype(np.int64)
        elif name.endswith(("running_var", "_variance")):
            value = random.uniform(0.5, 2, shape)
        elif name.endswith(("_u", "_v")) and len(shape) == 1:
            value = random.normal(size=shape)
            value /= np.linalg.norm(value)
        else:
            fan = np.prod(shape[1:]) if len(shape) > 1 else 4
            value = random.normal(size=shape) / np.sqrt(max(fan, 1))
        if isinstance(model, torch.nn.Module):
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(np.asarray(value)))
        else:
            with paddle.no_grad():
                tensor.set_value(paddle.to_tensor(value).astype(tensor.dtype))
    return model


def make_plan(torch_model, paddle_model, user_map=None):
    """The plan as the processes make it: trees and plan pass through JSON."""
    trees = [
        json.loads(json.dumps(side.describe(model)))
        for side, model in ((describe_torch, torch_model), (describe_paddle, paddle_model))
    ]
    return Plan.from_json(json.loads(json.dumps(plan(*trees, user_map).to_json())))


def to_paddle(torch_model, paddle_model, folder, user_map=None):
    """Convert the torch model's weights into the Paddle model."""
    made = make_plan(torch_model, paddle_model, user_map)
    save_reference(torch_model, None, folder / "torch.safetensors")
    convert_file(made, folder / "torch.safetensors", folder / "paddle.safetensors")
    load_into_paddle(paddle_model, folder / "paddle.safetensors")
    return made


def to_torch(torch_model, paddle_model, folder, user_map=None):
    """Convert the Paddle model's weights into the torch model."""
    made = make_plan(torch_model, paddle_model, user_map)
    save_port(paddle_model, None, folder / "port.pdparams")
    convert_file(made, folder / "port.pdparams", folder / "back.safetensors", to="torch")
    load_into_torch(torch_model, folder / "back.safetensors")
    return made


def outputs(torch_model, paddle_model, inputs, torch_call=None, paddle_call=None):
    """Lists of both models' output arrays in eval mode."""
    torch_model.eval()
    paddle_model.eval()
    with torch.no_grad():
        ours = (torch_call or (lambda m, *x: m(*x)))(torch_model, *(torch.from_numpy(x) for x in inputs))
    with paddle.no_grad():
        theirs = (paddle_call or (lambda m, *x: m(*x)))(paddle_model, *(paddle.to_tensor(x) for x in inputs))
    return [_flat(ours), _flat(theirs)]


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [one for item in value for one in _flat(item)]
    return [value.numpy()]


def difference(ours, theirs):
    """The largest difference as a part of the largest output."""
    assert len(ours) == len(theirs) and all(a.shape == b.shape for a, b in zip(ours, theirs)), [
        (a.shape, b.shape) for a, b in zip(ours, theirs)
    ]
    assert all(np.abs(a).max() > 1e-3 for a in ours), "an output of zeros proves nothing"
    return max(float(np.abs(a - b).max() / max(1, np.abs(a).max())) for a, b in zip(ours, theirs))


def assert_converts(torch_model, paddle_model, inputs, folder, user_map=None, torch_call=None, paddle_call=None):
    """Both directions, with other random weights each, give equal outputs in eval mode. Returns the plan."""
    scramble(torch_model, 1)
    scramble(paddle_model, 2)
    made = to_paddle(torch_model, paddle_model, folder, user_map)
    assert difference(*outputs(torch_model, paddle_model, inputs, torch_call, paddle_call)) <= TOLERANCE
    scramble(torch_model, 3)
    scramble(paddle_model, 4)
    before = outputs(torch_model, paddle_model, inputs, torch_call, paddle_call)
    assert difference(*before) > 1e-3
    to_torch(torch_model, paddle_model, folder, user_map)
    assert difference(*outputs(torch_model, paddle_model, inputs, torch_call, paddle_call)) <= TOLERANCE
    return made
