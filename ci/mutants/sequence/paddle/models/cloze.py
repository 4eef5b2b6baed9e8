# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""A small network that fills in masked words: embedding, attention, LSTM, output head tied to the embedding.

Put together so that every kind of layer that sequence models are ported with occurs once: sinusoidal positions and scaled
embedding of Vaswani et al. 2017 (arXiv:1706.03762), the framework's own pre-norm encoder layer, a block with hand-written
attention (fused projection), a bidirectional LSTM over the real lengths, and the output head of BERT (arXiv:1810.04805).
"""
from __future__ import annotations

import math

import paddle
import paddle.nn.functional as F
from paddle import nn

from parity import PaddedEmbedding, init_encoder_layer, torch_linear_attrs


def linear(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer that starts as torch's."""
    return nn.Linear(in_features, out_features, **torch_linear_attrs(in_features))


def sinusoids(length: int, width: int) -> paddle.Tensor:
    """Positions of section 3.5: float32 [length, width], sine in even columns, cosine in odd ones."""
    position = paddle.arange(length, dtype="float32").unsqueeze(1)
    rate = paddle.exp(paddle.arange(0, width, 2, dtype="float32") * (-math.log(10000.0) / width))
    table = paddle.zeros([length, width])
    table[:, 0::2] = paddle.sin(position * rate)
    table[:, 1::2] = paddle.cos(position * rate)
    return table


class Attention(nn.Layer):
    """Multi-head self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = linear(width, 3 * width)
        self.out = linear(width, width)

    def forward(self, x: paddle.Tensor, keep: paddle.Tensor) -> paddle.Tensor:
        """x: [N, L, width]; keep: bool [N, L], false where there is padding; returns [N, L, width]."""
        n, length, width = x.shape
        head = width // self.heads
        q, k, v = self.qkv(x).reshape([n, length, 3, self.heads, head]).transpose([2, 0, 3, 1, 4])
        scores = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(head)
        scores = paddle.where(keep[:, None, None, :], scores, paddle.full_like(scores, float("-inf")))
        weights = F.dropout(F.softmax(scores, axis=-1), self.dropout, training=self.training)
        return self.out((weights @ v).transpose([0, 2, 1, 3]).reshape([n, length, width]))


class Block(nn.Layer):
    """Pre-norm attention and feed-forward network, each beside a shortcut."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.up = linear(width, 2 * width)
        self.act = nn.GELU()
        self.down = linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: paddle.Tensor, keep: paddle.Tensor) -> paddle.Tensor:
        """[N, L, width] and bool [N, L] -> [N, L, width]"""
        x = x + self.drop(self.attention(self.norm1(x), keep))
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class Cloze(nn.Layer):
    """Word scores at every position."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, dropout: float):
        super().__init__()
        self.width = width
        self.embedding = PaddedEmbedding(vocabulary, width, weight_attr=nn.initializer.Normal(std=width**-0.5))
        self.register_buffer("positions", sinusoids(length, width))
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout, activation="gelu", normalize_before=True
        )
        init_encoder_layer(self.encoder)
        self.block = Block(width, heads, dropout)
        self.lstm = nn.LSTM(width, width // 2, direction="bidirect")
        self.sentence = linear(width, width)
        self.transform = linear(width, width)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(width)
        self.bias = self.create_parameter([vocabulary], is_bias=True)

    def forward(self, tokens: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """tokens: int64 [N, L]; lengths: int64 [N], from 1 to L; returns scores float32 [N, L, vocabulary]."""
        limit = tokens.shape[1]
        keep = paddle.arange(limit) < lengths[:, None]
        x = self.drop(self.embedding(tokens) * math.sqrt(self.width) + self.positions[:limit])
        x = self.encoder(x, src_mask=keep[:, None, None, :])
        x = self.block(x, keep)
        read, (last, _) = self.lstm(x, sequence_length=lengths)
        sentence = F.tanh(self.sentence(paddle.concat([last[0], last[1]], axis=-1)))
        x = x + read + sentence.unsqueeze(1)
        x = self.norm(self.act(self.transform(x)))
        return paddle.matmul(x, self.embedding.weight, transpose_y=True) + self.bias
