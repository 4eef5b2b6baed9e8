# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A small residual network for 8x8 images, after He et al. 2016 (arXiv:1512.03385).

As in section 4.2 there: three stages that halve the image and double the channels, here with one block each. Two changes:
the shortcut averages before its 1x1 convolution (ResNet-D of He et al. 2019, arXiv:1812.01187, here 3x3 with padding),
and GELU (arXiv:1606.08415) stands for ReLU, because a smooth network trains on the same path in two frameworks, while
every ReLU that flips at a rounding error sends them apart.
"""
from __future__ import annotations

import torch
from torch import nn


def conv(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size at stride 1, with He initialisation (fan out)."""
    layer = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class Shortcut(nn.Module):
    """Halves the image and changes the channels: 3x3 average pooling, 1x1 convolution, batch normalisation."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.pool = nn.AvgPool2d(3, stride=2, padding=1)
        self.conv = conv(in_channels, out_channels, 1)
        self.bn = nn.BatchNorm2d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, in_channels, H, W] -> [N, out_channels, H/2, W/2]"""
        return self.bn(self.conv(self.pool(x)))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut, added before the last activation."""

    def __init__(self, in_channels: int, out_channels: int, downsample: bool):
        super().__init__()
        self.conv1 = conv(in_channels, out_channels, 3, stride=2 if downsample else 1)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.act1 = nn.GELU()
        self.conv2 = conv(out_channels, out_channels, 3)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = Shortcut(in_channels, out_channels) if downsample else nn.Identity()
        self.act2 = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[N, in_channels, H, W] -> [N, out_channels, H or H/2, W or W/2]"""
        y = self.act1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.act2(y + self.shortcut(x))


class ResNet(nn.Module):
    """Stem, three stages of `width`, 2 `width` and 4 `width` channels, global average pooling, linear classifier."""

    def __init__(self, in_channels: int, width: int, num_classes: int):
        super().__init__()
        self.conv = conv(in_channels, width, 3)
        self.bn = nn.BatchNorm2d(width)
        self.act = nn.GELU()
        self.stage1 = BasicBlock(width, width, downsample=False)
        self.stage2 = BasicBlock(width, 2 * width, downsample=True)
        self.stage3 = BasicBlock(2 * width, 4 * width, downsample=True)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(4 * width, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """float32 [N, in_channels, H, W] -> logits [N, num_classes]"""
        x = self.act(self.bn(self.conv(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.fc(self.pool(x).flatten(1))
