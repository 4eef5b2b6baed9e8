# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""checkpoint.py of both trees: a file may hold a tied tensor once, under any of its names."""
import subprocess
import sys

import pytest

from conftest import TEMPLATE

CODE = """
import sys
from pathlib import Path
import numpy as np
from safetensors.numpy import load_file, save_file
import checkpoint
from pipeline.align.errors import UserError

side, path = sys.argv[1], Path(sys.argv[2])
if side == "torch":
    import torch.nn as nn
    Base, LSTM = nn.Module, nn.LSTM
else:
    import paddle.nn as nn
    Base, LSTM = nn.Layer, nn.LSTM


class Tied(Base):
    def __init__(self):
        super().__init__()
        self.embedding, self.head, self.lstm = nn.Embedding(5, 4), Base(), LSTM(3, 3)
        self.head.weight = self.embedding.weight


model = Tied()
checkpoint.save_weights(model, path)
held = load_file(path)
for kept, left in (("embedding.weight", "head.weight"), ("head.weight", "embedding.weight")):
    once = {name: value + 1 for name, value in held.items() if name != left and ".cell." not in name}
    save_file(once, path)
    checkpoint.load_weights(model, path)
    assert model.head.weight is model.embedding.weight
    assert np.array_equal(model.embedding.weight.detach().numpy(), held[kept] + 1)
del once[kept]
save_file(once, path)
try:
    checkpoint.load_weights(model, path)
except UserError as error:
    assert "embedding.weight, head.weight" in str(error)
    print("checked")
"""


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_tied_tensors_may_be_stored_once(side, tmp_path):
    tree = TEMPLATE / {"torch": "torch_ref", "paddle": "paddle"}[side]
    code = f"import sys\nsys.path[:0] = [{str(tree)!r}, {str(TEMPLATE)!r}]\n{CODE}"
    done = subprocess.run([sys.executable, "-c", code, side, str(tmp_path / "w.safetensors")], capture_output=True, text=True)
    assert done.stdout.endswith("checked\n"), done.stderr
