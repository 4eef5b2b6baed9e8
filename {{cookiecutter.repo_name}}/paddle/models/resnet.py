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

import paddle
from paddle import nn

from parity import torch_linear_attrs


def conv(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2D:
    """A convolution without bias that keeps the size at stride 1, with He initialisation (fan out)."""
    init = nn.initializer.KaimingNormal(mode="fan_out", nonlinearity="relu")
    return nn.Conv2D(in_channels, out_channels, kernel, stride, padding=kernel // 2, weight_attr=init, bias_attr=False)


def batch_norm(channels: int) -> nn.BatchNorm2D:
    """Batch normalisation with torch's defaults: its momentum 0.1 weighs the new value, Paddle's 0.9 the old one."""
    return nn.BatchNorm2D(channels, momentum=1 - 0.1, epsilon=1e-5)


class Shortcut(nn.Layer):
    """Halves the image and changes the channels: 3x3 average pooling, 1x1 convolution, batch normalisation."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        # torch counts the padding by default (count_include_pad=True), Paddle leaves it out (exclusive=True).
        self.pool = nn.AvgPool2D(3, stride=2, padding=1, exclusive=False)
        self.conv = conv(in_channels, out_channels, 1)
        self.bn = batch_norm(out_channels)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """[N, in_channels, H, W] -> [N, out_channels, H/2, W/2]"""
        return self.bn(self.conv(self.pool(x)))


class BasicBlock(nn.Layer):
    """Two 3x3 convolutions beside a shortcut, added before the last activation."""

    def __init__(self, in_channels: int, out_channels: int, downsample: bool):
        super().__init__()
        self.conv1 = conv(in_channels, out_channels, 3, stride=2 if downsample else 1)
        self.bn1 = batch_norm(out_channels)
        self.act1 = nn.GELU()
        self.conv2 = conv(out_channels, out_channels, 3)
        self.bn2 = batch_norm(out_channels)
        self.shortcut = Shortcut(in_channels, out_channels) if downsample else nn.Identity()
        self.act2 = nn.GELU()

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """[N, in_channels, H, W] -> [N, out_channels, H or H/2, W or W/2]"""
        y = self.act1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.act2(y + self.shortcut(x))


class ResNet(nn.Layer):
    """Stem, three stages of `width`, 2 `width` and 4 `width` channels, global average pooling, linear classifier."""

    def __init__(self, in_channels: int, width: int, num_classes: int):
        super().__init__()
        self.conv = conv(in_channels, width, 3)
        self.bn = batch_norm(width)
        self.act = nn.GELU()
        self.stage1 = BasicBlock(width, width, downsample=False)
        self.stage2 = BasicBlock(width, 2 * width, downsample=True)
        self.stage3 = BasicBlock(2 * width, 4 * width, downsample=True)
        self.pool = nn.AdaptiveAvgPool2D(1)
        self.fc = nn.Linear(4 * width, num_classes, **torch_linear_attrs(4 * width))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        """float32 [N, in_channels, H, W] -> logits [N, num_classes]"""
        x = self.act(self.bn(self.conv(x)))
        x = self.stage3(self.stage2(self.stage1(x)))
        return self.fc(self.pool(x).flatten(1))
