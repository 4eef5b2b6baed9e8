# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A small transformer encoder over token ids."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return self.out((weights @ v).transpose(1, 2).contiguous().view(b, n, c))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width))

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, words=50, length=12, width=16, depth=2, heads=4):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Parameter(torch.zeros(1, length, width))
        self.register_buffer("scale", torch.tensor(2.0))
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, 5)
        nn.init.trunc_normal_(self.places, std=0.02)

    def forward(self, ids, mask=None):
        x = self.words(ids) + self.places[:, : ids.shape[1]] * self.scale
        for layer in self.layers:
            x = layer(x, mask)
        x = torch.cat([x.mean(dim=1), x.max(dim=1)[0]], dim=-1)
        first, second = torch.split(x, 16, dim=-1)
        return self.head(first - second)
