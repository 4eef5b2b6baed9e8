# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""What PaConvert does not see in public models: settings of layers, layers that are values, names of layers that are texts."""
from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F


class SameConv(nn.Conv2d):
    """A convolution whose output is as large as its input divided by the stride."""

    def __init__(self, cin, cout, size, stride=1, **more):
        super().__init__(cin, cout, size, stride, **more)
        self.stride = self.stride if len(self.stride) == 2 else [self.stride[0]] * 2

    def forward(self, x):
        pads = []
        for axis in (1, 0):
            size, step = x.shape[2 + axis], self.stride[axis]
            pad = max((math.ceil(size / step) - 1) * step + (self.kernel_size[axis] - 1) * self.dilation[axis] + 1 - size, 0)
            pads += [pad // 2, pad - pad // 2]
        return F.conv2d(F.pad(x, pads), self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Unit(nn.Module):
    def __init__(self, cin, cout, stride=1, norm_layer=None, act_layer=nn.ReLU):
        super().__init__()
        if norm_layer is None:
            norm_layer = nn.BatchNorm2d
        self.conv = SameConv(cin, cout, 3, stride, bias=False)
        self.norm = norm_layer(num_features=cout, eps=1e-3, momentum=0.01)
        self.act = act_layer(inplace=True)
        self.second = norm_layer
        self.norm2 = self.second(cout, momentum=1 - 0.99)

    def forward(self, x):
        return self.norm2(self.act(self.norm(self.conv(x))))


class Padded(nn.Module):
    def __init__(self, dims=2, classes=5, final_norm=None):
        super().__init__()
        final_norm = final_norm or partial(nn.LayerNorm, eps=1e-6)
        up, pool = "ConvTranspose{}d".format(dims), f"MaxPool{dims}d"  # noqa: UP032
        self.units = nn.Sequential(Unit(3, 8, 2), Unit(8, 8))
        self.up, self.pool = getattr(nn, up)(8, 6, 2, stride=2), getattr(nn, pool)(2)
        head = nn.Conv2d(6, 6, 1)
        self.norm, self.fc = final_norm(head.out_channels), nn.Linear(6, classes)
        self.head = head
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                fan = m.kernel_size[0] * m.kernel_size[1] * m.out_channels
                nn.init.normal_(m.weight, 0.0, math.sqrt(2.0 / fan))
            elif isinstance(m, nn.BatchNorm2d):
                m.eps = 1e-2

    def forward(self, x):
        x = self.head(self.pool(self.up(self.units(x))))
        return self.fc(self.norm(torch.flatten(x, 2).mean(-1)))
