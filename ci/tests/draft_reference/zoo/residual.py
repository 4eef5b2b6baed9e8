# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A small residual network."""
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


def conv3x3(cin: int, cout: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(cin, cout, kernel_size=3, stride=stride, padding=1, groups=groups, bias=False)


class Block(nn.Module):
    expansion = 2

    def __init__(self, cin, width, stride=1, norm_layer=None):
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        self.conv1 = conv3x3(cin, width, stride)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width * self.expansion, 1)
        self.bn2 = nn.BatchNorm2d(width * self.expansion, eps=1e-3, momentum=0.01)
        self.act = nn.ReLU(inplace=True)
        project = nn.Conv2d(cin, width * self.expansion, 1, stride)
        self.shortcut = nn.Sequential(OrderedDict([("conv", project), ("bn", norm(width * self.expansion))]))

    def forward(self, x: Tensor) -> Tensor:
        out = self.act(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out, inplace=True)


class Residual(nn.Module):
    def __init__(self, widths=(8, 16), classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, bias=False)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        cin, blocks = 8, []
        for index, width in enumerate(widths):
            blocks.append(Block(cin, width, stride=1 + index))
            cin = width * Block.expansion
        self.layers = nn.ModuleList(blocks)
        self.avg = nn.AvgPool2d(3, stride=1, padding=1)
        self.head = nn.Linear(cin, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.BatchNorm2d):
                nn.init.constant_(m.weight, 1)

    def forward(self, x):
        x = self.pool(self.stem(x))
        for layer in self.layers:
            x = layer(x)
        x = self.avg(x)
        x = F.adaptive_avg_pool2d(x, (1, 1))
        return self.head(torch.flatten(x, 1))
