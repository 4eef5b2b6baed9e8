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

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def sinusoids(length: int, width: int) -> torch.Tensor:
    """Positions of section 3.5: float32 [length, width], sine in even columns, cosine in odd ones."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


class Attention(nn.Module):
    """Multi-head self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        """x: [N, L, width]; keep: bool [N, L], false where there is padding; returns [N, L, width]."""
        n, length, width = x.shape
        head = width // self.heads
        q, k, v = self.qkv(x).reshape(n, length, 3, self.heads, head).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(head)
        scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
        weights = F.dropout(torch.softmax(scores, dim=-1), self.dropout, training=self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    """Pre-norm attention and feed-forward network, each beside a shortcut."""

    def __init__(self, width: int, heads: int, dropout: float):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        """[N, L, width] and bool [N, L] -> [N, L, width]"""
        x = x + self.drop(self.attention(self.norm1(x), keep))
        return x + self.drop(self.down(self.act(self.up(self.norm2(x)))))


class Cloze(nn.Module):
    """Word scores at every position."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, dropout: float):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
        self.register_buffer("positions", sinusoids(length, width))
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.block = Block(width, heads, dropout)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.sentence = nn.Linear(width, width)
        self.transform = nn.Linear(width, width)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(width)
        self.decoder = nn.Linear(width, vocabulary)
        self.decoder.weight = self.embedding.weight
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """tokens: int64 [N, L]; lengths: int64 [N], from 1 to L; returns scores float32 [N, L, vocabulary]."""
        limit = tokens.shape[1]
        keep = torch.arange(limit, device=tokens.device) < lengths[:, None]
        x = self.drop(self.embedding(tokens) * math.sqrt(self.width) + self.positions[:limit])
        x = self.encoder(x, src_key_padding_mask=~keep)
        x = self.block(x, keep)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, (last, _) = self.lstm(packed)
        read, _ = pad_packed_sequence(packed, batch_first=True, total_length=limit)
        sentence = torch.tanh(self.sentence(torch.cat([last[0], last[1]], dim=-1)))
        x = x + read + sentence.unsqueeze(1)
        return self.decoder(self.norm(self.act(self.transform(x))))
