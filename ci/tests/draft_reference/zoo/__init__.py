# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Small models in the style of public PyTorch code, for PaConvert to translate."""
from .encoder import Encoder
from .padded import Padded
from .residual import Residual

__all__ = ["Encoder", "Padded", "Residual"]
