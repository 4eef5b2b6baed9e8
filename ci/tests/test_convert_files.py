# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Weight files of all kinds as input, strict loading, and the public cases W1 to W15 of people who convert weights."""

import argparse
import json
import os
import pickle
import struct

import numpy as np
import paddle
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from convert_models import make_plan, scramble, to_paddle
from pipeline.align.convert import Fresh, convert_file, read_source, save_port, save_reference
from pipeline.align.convert.load_paddle import load_into_paddle
from pipeline.align.convert.load_torch import load_into_torch
from pipeline.align.errors import UserError

T, P = torch.nn, paddle.nn


def model():
    """Square layers and statistics, on both sides."""
    ours = T.Sequential(T.Linear(6, 6), T.BatchNorm1d(6), T.Linear(6, 6))
    return scramble(ours), P.Sequential(P.Linear(6, 6), P.BatchNorm1D(6), P.Linear(6, 6))


def converted(source, folder, user_map=None, ours=None, theirs=None):
    """Convert a file for the model; returns (Paddle state, report)."""
    if ours is None:
        ours, theirs = model()
    made = make_plan(ours, theirs, user_map)
    report = convert_file(made, source, folder / "out.safetensors")
    load_into_paddle(theirs, folder / "out.safetensors")
    return {name: value.numpy() for name, value in theirs.state_dict().items()}, report


def check(state, ours):
    """The Paddle state is that of the torch model by the rules, written down here once more."""
    for i in (0, 2):
        assert np.array_equal(state[f"{i}.weight"], ours[f"{i}.weight"].float().numpy().T)
        assert np.array_equal(state[f"{i}.bias"], ours[f"{i}.bias"].float().numpy())
    for name, other in (("weight", "weight"), ("bias", "bias"), ("running_mean", "_mean"), ("running_var", "_variance")):
        assert np.array_equal(state[f"1.{other}"], ours[f"1.{name}"].float().numpy())


def refusal(call, *args, **kwargs):
    with pytest.raises(UserError) as caught:
        call(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused(value, folder, **options):
    path = folder / "file.pth"
    torch.save(value, path)
    return refusal(converted, read_source(path, **options) if options else path, folder)


# -- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("name", ["w.pth", "w.pt", "w.bin", "model.pth.tar", "w"])
def test_torch_files(name, new, tmp_path):
    state = model()[0].state_dict()
    torch.save(state, tmp_path / name, _use_new_zipfile_serialization=new)
    check(converted(tmp_path / name, tmp_path)[0], state)


def test_safetensors_file(tmp_path):
    state = model()[0].state_dict()
    safetensors.torch.save_file(state, tmp_path / "w.safetensors")
    check(converted(tmp_path / "w.safetensors", tmp_path)[0], state)


def test_our_safetensors_are_read_by_the_library(tmp_path):
    ours, _ = model()
    save_reference(ours, None, tmp_path / "w.safetensors")
    loaded = safetensors.torch.load_file(tmp_path / "w.safetensors")
    assert all(torch.equal(loaded[name], value) for name, value in ours.state_dict().items())


def test_torch_tensors_of_all_kinds(tmp_path):
    """Views, strides, storages used twice, scalars, empty and parameter tensors, in both formats."""
    base = torch.arange(24.0)
    state = {
        "view": base[3:9],
        "strided": base[::2],
        "transposed": base.reshape(4, 6).t(),
        "scalar": torch.tensor(3),
        "empty": torch.zeros(0, 4),
        "parameter": T.Parameter(torch.rand(3)),
        "large": torch.rand(300, 300).t(),
        "bfloat16": torch.rand(5).bfloat16(),
        "bool": torch.tensor([True, False]),
        "complex": torch.rand(3, dtype=torch.complex64),
        "int8": torch.tensor([1, -3], dtype=torch.int8),
    }
    for new in (True, False):
        torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=new)
        read = read_source(tmp_path / "w.pth").entries[""]
        assert set(read) == set(state)
        for name, value in state.items():
            value = value.detach()
            expected = value.view(torch.int16).numpy().view(np.uint16) if name == "bfloat16" else value.numpy()
            assert read[name].dtype == str(value.dtype)[6:] and read[name].shape == tuple(value.shape)
            assert np.array_equal(read[name].read(), expected), name


@pytest.mark.parametrize("kind", ["safetensors", "bin"])
def test_sharded_directory(kind, tmp_path):
    state = model()[0].state_dict()
    folder = tmp_path / "model"
    folder.mkdir()
    names, weight_map = list(state), {}
    for i, part in enumerate((names[:4], names[4:])):
        shard = f"model-{i + 1}-of-2.{kind}"
        tensors = {name: state[name] for name in part}
        if kind == "bin":
            torch.save(tensors, folder / shard)
        else:
            safetensors.torch.save_file(tensors, folder / shard)
        weight_map |= dict.fromkeys(part, shard)
    index = folder / ("pytorch_model.bin.index.json" if kind == "bin" else "model.safetensors.index.json")
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    for source in (folder, index):
        got, report = converted(source, tmp_path)
        check(got, state)
        assert any(index.name in note for note in report.notes)
    last = weight_map[names[-1]]
    os.rename(folder / last, folder / "away")
    assert f"the shard '{last}' is not in the directory" in refusal(converted, folder, tmp_path)
    os.rename(folder / "away", folder / last)
    index.write_text(json.dumps({"weight_map": {**weight_map, names[0]: last}}))
    assert "which the index places in" in refusal(converted, folder, tmp_path)
    index.write_text(json.dumps({"weight_map": {**weight_map, "ghost": last}}))
    assert "'ghost' is not in" in refusal(converted, folder, tmp_path)
    index.write_text(json.dumps({"weight_map": dict.fromkeys(names, "../file")}))
    assert "'../file'" in refusal(converted, folder, tmp_path)


def test_directory_with_one_file(tmp_path):
    state = model()[0].state_dict()
    (tmp_path / "model").mkdir()
    torch.save(state, tmp_path / "model/pytorch_model.bin")
    check(converted(tmp_path / "model", tmp_path)[0], state)
    torch.save({"a": torch.rand(2)}, tmp_path / "model/training_args.bin")
    check(converted(tmp_path / "model", tmp_path)[0], state)
    os.rename(tmp_path / "model/pytorch_model.bin", tmp_path / "model/mine.bin")
    assert "several weight files" in refusal(converted, tmp_path / "model", tmp_path)
    (tmp_path / "empty").mkdir()
    assert "no weight files" in refusal(converted, tmp_path / "empty", tmp_path)


@pytest.mark.parametrize("protocol", [4])
@pytest.mark.parametrize("wrapped", [False, True])
def test_paddle_files_to_torch(wrapped, protocol, tmp_path):
    """paddle.save of a state_dict, in which recurrent layers have two names for each tensor, and of a dictionary around it."""
    ours, theirs = T.Sequential(T.Linear(6, 6), T.LSTM(6, 6)), scramble(P.Sequential(P.Linear(6, 6), P.LSTM(6, 6)))
    state = theirs.state_dict()
    paddle.save({"model": state, "epoch": 3} if wrapped else state, str(tmp_path / "w.pdparams"), protocol=protocol)
    report = convert_file(make_plan(ours, theirs), tmp_path / "w.pdparams", tmp_path / "back.safetensors", to="torch")
    load_into_torch(ours, tmp_path / "back.safetensors")
    assert np.array_equal(ours[0].weight.detach().numpy(), theirs[0].weight.numpy().T)
    assert np.array_equal(ours[1].weight_hh_l0.detach().numpy(), state["1.weight_hh_l0"].numpy())
    assert ("used: 'model'" in report.notes) == wrapped


def test_paddle_bfloat16_file(tmp_path):
    ours, theirs = T.Linear(3, 3), P.Linear(3, 3)
    theirs.to(dtype="bfloat16")
    paddle.save(theirs.state_dict(), str(tmp_path / "w.pdparams"))
    made = make_plan(ours, theirs)
    report = convert_file(made, tmp_path / "w.pdparams", tmp_path / "back.safetensors", to="torch")
    load_into_torch(ours, tmp_path / "back.safetensors")
    assert np.array_equal(ours.weight.detach().numpy(), theirs.weight.astype("float32").numpy().T)
    assert report.casts["weight"] == "bfloat16 -> float32 (exact)"


def test_our_pdparams_are_read_by_paddle_and_here(tmp_path):
    theirs = scramble(P.Sequential(P.Linear(3, 4), P.BatchNorm1D(4)))
    save_port(theirs, None, tmp_path / "w.pdparams")
    loaded = paddle.load(str(tmp_path / "w.pdparams"))
    assert {name: tuple(value.shape) for name, value in loaded.items()} == {
        name: tuple(v.shape) for name, v in theirs.state_dict().items()
    }
    other = P.Sequential(P.Linear(3, 4), P.BatchNorm1D(4))
    assert other.set_state_dict(loaded) == ([], [])
    third = P.Sequential(P.Linear(3, 4), P.BatchNorm1D(4))
    load_into_paddle(third, tmp_path / "w.pdparams")
    for name, value in theirs.state_dict().items():
        assert np.array_equal(other.state_dict()[name].numpy(), value.numpy())
        assert np.array_equal(third.state_dict()[name].numpy(), value.numpy())


def test_a_live_model_is_a_source(tmp_path):
    ours, theirs = model()
    check({name: value.numpy() for name, value in _converted_live(ours, theirs, tmp_path).items()}, ours.state_dict())


def _converted_live(ours, theirs, folder):
    to_paddle(ours, theirs, folder)
    return theirs.state_dict()


def test_checkpoint_into_the_reference(tmp_path):
    """save_reference with a source: the file's weights under the model's names, whatever wraps them."""
    ours, _ = model()
    state = {
        f"module.{name}": value.double() if value.is_floating_point() else value for name, value in ours.state_dict().items()
    }
    torch.save({"state_dict": state}, tmp_path / "w.pth")
    fresh, _ = model()
    scramble(fresh, 9)
    report = save_reference(fresh, read_source(tmp_path / "w.pth"), tmp_path / "w.safetensors")
    load_into_torch(fresh, tmp_path / "w.safetensors")
    assert all(torch.equal(a, b) for a, b in zip(ours.state_dict().values(), fresh.state_dict().values()))
    assert "used: 'state_dict'" in report.notes and report.casts["0.weight"] == "float64 -> float32 (exact)"


def test_old_files_without_counters_of_batches(tmp_path):
    """torch before 0.4.1 had no num_batches_tracked."""
    ours, _ = model()
    state = {name: value for name, value in ours.state_dict().items() if "tracked" not in name}
    torch.save(state, tmp_path / "w.pth")
    check(converted(tmp_path / "w.pth", tmp_path)[0], ours.state_dict())
    save_reference(ours, read_source(tmp_path / "w.pth"), tmp_path / "again.safetensors")


# -- damaged and foreign files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["zip", "old", "safetensors", "pdparams"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95, 0.9999])
def test_files_cut_off(kind, share, tmp_path):
    ours, theirs = model()
    path = tmp_path / f"w.{kind}"
    if kind == "pdparams":
        save_port(theirs, None, path)
    elif kind == "safetensors":
        save_reference(ours, None, path)
    else:
        torch.save(ours.state_dict(), path, _use_new_zipfile_serialization=kind == "zip")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    text = refusal(converted, path, tmp_path)
    assert str(path) in text


@pytest.mark.parametrize("kind", ["zip", "old", "safetensors", "pdparams", "nested"])
def test_damaged_bytes_give_an_error_or_an_array(kind, tmp_path):
    """Two hundred files with a few wrong, lacking or additional bytes: no crash, no other exception."""
    ours, theirs = model()
    path = tmp_path / "w.pdparams"
    if kind in ("zip", "old"):
        torch.save({"net": ours.state_dict(), "epoch": 3}, path, _use_new_zipfile_serialization=kind == "zip")
    elif kind == "nested":
        paddle.save({"net": theirs.state_dict()}, str(path))
    else:
        (save_port if kind == "pdparams" else save_reference)(
            (theirs if kind == "pdparams" else ours), None, tmp_path / f"x.{kind}"
        )
        os.rename(tmp_path / f"x.{kind}", path)
    whole, random, refused = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(random.integers(1, 4)):
            at = int(random.integers(min(1500, len(data)) if random.random() < 0.7 else len(data)))
            data[at : at + random.integers(0, 4)] = random.bytes(random.integers(0, 4))
        path.write_bytes(data)
        try:
            for arrays in read_source(path).entries.values():
                for array in arrays.values():
                    assert array.read().shape == array.shape
        except UserError:
            refused += 1
    assert refused > 100


def test_damaged_headers_of_safetensors(tmp_path):
    def file(header, data=b"\0" * 16):
        text = json.dumps(header).encode() if not isinstance(header, bytes) else header
        (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
        return refusal(read_source, tmp_path / "w.safetensors")

    entry = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
    assert "complete" in file({"a": {**entry, "data_offsets": [0, 12]}})
    assert "complete" in file({"a": {**entry, "shape": [5]}})
    assert "complete" in file({"a": entry, "b": entry})
    assert "complete" in file({"a": entry}, b"\0" * 15)
    assert "complete" in file({"a": {**entry, "shape": [-4]}})
    assert "twice" in file(
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'
    )
    assert "quantised" in file({"a": {"dtype": "F8_E4M3", "shape": [16], "data_offsets": [0, 16]}})


def test_files_that_are_no_weights(tmp_path):
    for content, reason in (
        (b"", "0 bytes"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
        (b"\x00" * 99, "no weight file"),
    ):
        (tmp_path / "w.pth").write_bytes(content)
        assert reason in refusal(read_source, tmp_path / "w.pth")
    assert "does not exist" in refusal(read_source, tmp_path / "nothing.pth")
    torch.save([torch.rand(2)], tmp_path / "w.pth")
    assert "a list, not a dictionary" in refusal(read_source, tmp_path / "w.pth")
    torch.jit.script(T.Linear(2, 2)).save(tmp_path / "w.pth")
    assert "TorchScript" in refusal(read_source, tmp_path / "w.pth")


def test_quantised_sparse_and_meta_tensors_in_files(tmp_path):
    for tensor, reason in (
        (torch.quantize_per_tensor(torch.rand(4), 0.1, 0, torch.qint8), "quantised"),
        (torch.eye(3).to_sparse(), "sparse"),
        (torch.rand(2, device="meta"), "meta"),
        (torch.rand(3).to(torch.float8_e4m3fn), "float8"),
    ):
        torch.save({"a": tensor}, tmp_path / "w.pth")
        assert reason in refusal(read_source, tmp_path / "w.pth")


def test_tensors_that_reach_beyond_their_storage(tmp_path):
    """Such a file would read foreign memory."""
    torch.save({"a": torch.rand(4)}, tmp_path / "w.pth")
    data = (tmp_path / "w.pth").read_bytes()
    # the shape (4,) is pickled as K\x04\x85
    (tmp_path / "w.pth").write_bytes(data.replace(b"K\x04\x85", b"K\x7f\x85"))
    assert "damaged" in refusal(read_source, tmp_path / "w.pth")


class Runs:
    """A pickle that runs code when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("new", [True, False])
def test_w14_code_in_a_file_is_not_run(new, tmp_path):
    for value in (Runs(tmp_path / "proof"), {"a": np.ones(2), "b": Runs(tmp_path / "proof")}):
        torch.save(value, tmp_path / "w.pth", _use_new_zipfile_serialization=new)
        text = refusal(read_source, tmp_path / "w.pth")
        assert "io.open" in text and "--trust-pickle" in text
        (tmp_path / "w.pdparams").write_bytes(pickle.dumps(value))
        assert "io.open" in refusal(read_source, tmp_path / "w.pdparams")
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("new", [True, False])
def test_w14_says_what_is_inside_and_loads_when_trusted(new, tmp_path):
    ours, _ = model()
    state = ours.state_dict()
    for value, inside in (
        ({"state_dict": state, "args": argparse.Namespace(lr=1)}, "argparse.Namespace"),
        ({"state_dict": state, "best": np.float64(0.5)}, "numpy"),
        (ours, "torch.nn.modules.linear.Linear"),
    ):
        torch.save(value, tmp_path / "w.pth", _use_new_zipfile_serialization=new)
        text = refusal(converted, tmp_path / "w.pth", tmp_path)
        assert inside in text and "--trust-pickle" in text
        check(converted(read_source(tmp_path / "w.pth", trust_pickle=True), tmp_path)[0], state)


# -- which dictionary, which names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["state_dict", "model", "network", "net.weights"])
def test_w13_wrapped_dictionary(place, tmp_path):
    state, value = model()[0].state_dict(), {"epoch": 3, "optimizer": {"state": {0: {"exp_avg": torch.rand(6, 6)}}}}
    inner = value
    for key in place.split(".")[:-1]:
        inner = inner.setdefault(key, {})
    inner[place.split(".")[-1]] = state
    torch.save(value, tmp_path / "w.pth")
    got, report = converted(tmp_path / "w.pth", tmp_path)
    check(got, state)
    assert f"used: '{place}'" in report.notes and "not weights: epoch" in report.notes
    assert "left aside: 'optimizer.state.0'" in report.notes


def test_average_beside_raw_weights_is_not_chosen_silently(tmp_path):
    raw, average = model()[0].state_dict(), scramble(model()[0], 5).state_dict()
    torch.save({"state_dict": raw, "state_dict_ema": average}, tmp_path / "w.pth")
    text = refusal(converted, tmp_path / "w.pth", tmp_path)
    assert "--entry state_dict or --entry state_dict_ema" in text
    check(converted(read_source(tmp_path / "w.pth", entry="state_dict_ema"), tmp_path)[0], average)
    check(converted(read_source(tmp_path / "w.pth", entry="state_dict"), tmp_path)[0], raw)
    assert "has no 'ema'; it holds 'state_dict', 'state_dict_ema'" in refusal(
        converted, read_source(tmp_path / "w.pth", entry="ema"), tmp_path
    )


def test_only_the_entry_that_fits_is_used(tmp_path):
    """The generator beside a discriminator of other shapes and names."""
    state = model()[0].state_dict()
    torch.save({"generator": state, "discriminator": {"x": torch.rand(2)}}, tmp_path / "w.pth")
    check(converted(tmp_path / "w.pth", tmp_path)[0], state)


def test_weights_under_a_prefix_beside_others_must_be_chosen(tmp_path):
    one, other = model()[0].state_dict(), scramble(model()[0], 5).state_dict()
    both = {f"student.{name}": value for name, value in one.items()} | {
        f"teacher.net.{name}": value for name, value in other.items()
    }
    torch.save({"state_dict": both}, tmp_path / "w.pth")
    assert "--entry state_dict.student or --entry state_dict.teacher.net" in refusal(converted, tmp_path / "w.pth", tmp_path)
    check(converted(read_source(tmp_path / "w.pth", entry="state_dict.teacher.net"), tmp_path)[0], other)


def test_parts_in_several_dictionaries(tmp_path):
    class Two(T.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = T.Linear(6, 6), T.Linear(6, 6)

    class TwoLayers(P.Layer):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = P.Linear(6, 6), P.Linear(6, 6)

    ours, theirs = scramble(Two()), TwoLayers()
    torch.save({"encoder": ours.encoder.state_dict(), "decoder": ours.decoder.state_dict(), "step": 3}, tmp_path / "w.pth")
    converted(tmp_path / "w.pth", tmp_path, None, ours, theirs)
    assert np.array_equal(theirs.decoder.weight.numpy(), ours.decoder.weight.detach().numpy().T)


def test_w10_data_parallel_file_and_zero_of_n(tmp_path):
    ours, _ = model()
    torch.save(T.DataParallel(ours).state_dict(), tmp_path / "w.pth")
    got, report = converted(tmp_path / "w.pth", tmp_path)
    check(got, ours.state_dict())
    assert "prefix 'module.' removed" in report.notes
    text = refused({"a.weight": torch.rand(2)}, tmp_path)
    assert "fits 0 of the model's 9 tensors" in text and "'a.weight'" in text
    assert "fits 0 of" in refused({}, tmp_path)


def named(folder, names, tensors=None):
    """Convert a file of Linear(6, 6) layers under the given names for a model that has the layers of the second names."""

    class Net(T.Module):
        pass

    def grow(net, path, make):
        *parents, last = path.split(".")
        for parent in parents:
            if not hasattr(net, parent):
                setattr(net, parent, T.Module() if isinstance(net, T.Module) else P.Layer())
            net = getattr(net, parent)
        setattr(net, last, make())

    ours, theirs = T.Module(), P.Layer()
    for wanted in names.values():
        grow(ours, wanted, lambda: T.Linear(6, 6, bias=False))
        grow(theirs, wanted, lambda: P.Linear(6, 6, bias_attr=False))
    state = {f"{file}.weight": torch.rand(6, 6) for file in names}
    torch.save(state, folder / "w.pth")
    converted(folder / "w.pth", folder, None, ours, theirs)
    for file, wanted in names.items():
        assert np.array_equal(theirs.state_dict()[f"{wanted}.weight"].numpy(), state[f"{file}.weight"].numpy().T), (
            file,
            wanted,
        )


def test_w11_names_that_contain_the_prefix(tmp_path):
    """By segments and one to one: text replacement of "module." would make 2 of these 4."""
    same = ("my_module", "enc.module", "a.module.fc", "a.fc")
    named(tmp_path, {name: name for name in same})
    named(tmp_path, {f"module.{name}": name for name in same})
    named(tmp_path, {"module.module": "module", "module.a": "a"})
    named(tmp_path, {"model.model.fc": "model.fc", "model.head": "head"})


@pytest.mark.parametrize(
    "wrap", ["module.{}", "_orig_mod.{}", "module._orig_mod.{}", "_orig_mod.module.{}", "model.backbone.{}", "model.module.{}"]
)
def test_w12_wrappers_in_any_order(wrap, tmp_path):
    named(tmp_path, {wrap.format(name): name for name in ("conv", "blocks.fc", "blocks.model.fc")})


def test_w12_wrappers_at_any_depth(tmp_path):
    named(tmp_path, {"enc._orig_mod.fc": "enc.fc", "module.dec.module.fc": "dec.fc", "head": "head"})
    named(tmp_path, {"enc.fc": "enc.module.fc", "dec.fc": "dec.fc"})


def test_prefix_that_only_the_model_has(tmp_path):
    named(tmp_path, {"fc": "backbone.fc", "norm": "backbone.norm"})
    named(tmp_path, {"fc": "encoder.bert.fc", "norm": "encoder.bert.norm"})


def test_any_common_prefix(tmp_path):
    named(tmp_path, {"lightning.student.fc": "fc", "lightning.student.norm": "norm"})


def test_two_names_that_would_become_one(tmp_path):
    assert "would both be 'fc.weight'" in refusal(named, tmp_path, {"module.fc": "fc", "model.fc": "head"})


def test_missing_left_over_and_misshapen_tensors_are_named(tmp_path):
    state = dict(model()[0].state_dict())
    assert "lacks '2.bias'" in refused({k: v for k, v in state.items() if k != "2.bias"}, tmp_path)
    text = refused({**state, "extra.table": torch.rand(3)}, tmp_path)
    assert "has 'extra.table', which the model lacks" in text and '"extra.table": null' in text
    text = refused({**state, "0.weight": torch.rand(6, 5)}, tmp_path)
    assert "'0.weight'" in text and "(6, 5)" in text and "(6, 6)" in text


def test_names_that_the_map_drops_may_stand_in_the_file(tmp_path):
    state = dict(model()[0].state_dict())
    for wrap in ("", "module."):
        extra = {"aux.fc.weight": torch.rand(3), "pos_ids": torch.arange(3)}
        torch.save({f"{wrap}{name}": value for name, value in {**state, **extra}.items()}, tmp_path / "w.pth")
        got, report = converted(tmp_path / "w.pth", tmp_path, {"aux": None, "pos_ids": None})
        check(got, state)
        assert any("2 tensors of the file left aside" in note for note in report.notes)
    ours, _ = model()
    save_reference(ours, read_source(tmp_path / "w.pth"), tmp_path / "again.safetensors", {"aux": None, "pos_ids": None})


def test_fresh_parts_stay_the_models_own(tmp_path):
    """Absent from the file, or there in another shape: a head of a fine-tuned checkpoint with more classes."""
    ours, theirs = model()
    state = dict(ours.state_dict())
    rest = {name: value for name, value in state.items() if not name.startswith("2.")}
    for extra in ({}, {"2.weight": torch.rand(9, 9), "2.bias": torch.rand(9)}):
        torch.save({**rest, **extra}, tmp_path / "w.pth")
        refusal(save_reference, ours, read_source(tmp_path / "w.pth"), tmp_path / "init.safetensors")
        save_reference(ours, read_source(tmp_path / "w.pth"), tmp_path / "init.safetensors", fresh=["2"])
        made = safetensors.numpy.load_file(tmp_path / "init.safetensors")
        assert all(np.array_equal(made[name], value.numpy()) for name, value in state.items())
        fresh = Fresh(("2",), tmp_path / "init.safetensors")
        convert_file(make_plan(ours, theirs), tmp_path / "w.pth", tmp_path / "p.safetensors", fresh=fresh)
        check(safetensors.numpy.load_file(tmp_path / "p.safetensors"), state)
    source = read_source(tmp_path / "w.pth")
    assert "'9' matches nothing" in refusal(save_reference, ours, source, tmp_path / "init.safetensors", fresh=["9"])


def test_the_setting_that_helps_is_named_for_whole_modules(tmp_path):
    state = dict(model()[0].state_dict())
    text = refused({**state, "aux.fc.weight": torch.rand(3), "aux.fc.bias": torch.rand(3)}, tmp_path)
    assert '"aux": null' in text
    text = refused({name: value for name, value in state.items() if not name.startswith("2.")}, tmp_path)
    assert "weights.fresh: [2]" in text


def test_gamma_and_beta_are_the_old_names_of_weight_and_bias(tmp_path):
    ours = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    theirs = paddle.nn.Sequential(paddle.nn.Linear(4, 4), paddle.nn.LayerNorm(4))
    state = {name: torch.rand_like(value) for name, value in ours.state_dict().items()}
    old = {name.replace("1.weight", "1.gamma").replace("1.bias", "1.beta"): value for name, value in state.items()}
    torch.save(old, tmp_path / "w.pth")
    got, report = converted(tmp_path / "w.pth", tmp_path, None, ours, theirs)
    assert np.array_equal(got["1.weight"], state["1.weight"]) and np.array_equal(got["1.bias"], state["1.bias"])
    assert "2 names of the file end in gamma and beta, which are weight and bias" in report.notes
    torch.save({**old, "1.weight": state["1.weight"]}, tmp_path / "both.pth")
    assert "has '1.gamma'" in refusal(converted, tmp_path / "both.pth", tmp_path, None, ours, theirs)


def test_buffers_that_older_versions_stored_are_left_aside(tmp_path):
    class Positions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)
            self.register_buffer("ids", torch.arange(4), persistent=False)

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = paddle.nn.Linear(4, 4)

    ours = Positions()
    torch.save({**ours.state_dict(), "ids": torch.arange(4)}, tmp_path / "w.pth")
    _, report = converted(tmp_path / "w.pth", tmp_path, None, ours, Port())
    assert "left aside: 'ids', which the model makes itself and does not store" in report.notes
    report = save_reference(ours, read_source(tmp_path / "w.pth"), tmp_path / "again.safetensors")
    assert "left aside: 'ids', which the model makes itself and does not store" in report.notes


# -- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "how"), [("bfloat16", "exact"), ("float16", "exact"), ("float64", "rounded")])
@pytest.mark.parametrize("kind", ["pth", "safetensors"])
def test_w15_other_precisions(dtype, how, kind, tmp_path):
    state = {}
    for name, value in model()[0].state_dict().items():
        state[name] = (value.double() * (1 + 1e-12)).to(getattr(torch, dtype)) if value.is_floating_point() else value
    if kind == "pth":
        torch.save(state, tmp_path / "w.pth")
    else:
        safetensors.torch.save_file(state, tmp_path / "w.safetensors")
    got, report = converted(tmp_path / f"w.{kind}", tmp_path)
    check(got, state)
    assert report.casts["0.weight"] == f"{dtype} -> float32 ({how})"
    assert set(report.casts) == {name for name in got}


def test_double_precision_that_fits_is_exact(tmp_path):
    state = {name: value.double() if value.is_floating_point() else value for name, value in model()[0].state_dict().items()}
    torch.save(state, tmp_path / "w.pth")
    assert set(converted(tmp_path / "w.pth", tmp_path)[1].casts.values()) == {"float64 -> float32 (exact)"}


def test_every_bfloat16_value_survives_and_rounding_is_torchs():
    from pipeline.align.convert.arrays import NUMPY, cast

    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = np.empty(bits.shape, np.float32)
    assert cast(bits, "bfloat16", "float32", wide, "x").endswith("(exact)")
    expected = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16).float().numpy()
    assert np.array_equal(wide, expected, equal_nan=True)
    values = np.random.default_rng(0).normal(size=100_000).astype(np.float32)
    values[:4] = 1.00390625, 1.01171875, -0.0, 3e38  # two ties, to even
    narrow = np.empty(values.shape, NUMPY["bfloat16"])
    assert cast(values, "float32", "bfloat16", narrow, "x").endswith("(rounded)")
    assert np.array_equal(narrow, torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16))


def test_casts_that_would_lose_values_are_refused(tmp_path):
    ours, theirs = T.Module(), P.Layer()
    ours.register_buffer("n", torch.tensor([1, 2]))
    theirs.register_buffer("n", paddle.zeros([2], "int32"))
    made = make_plan(ours, theirs)

    def convert(array):
        return convert_file(made, {"n": array}, tmp_path / "out.safetensors")

    assert convert(np.array([1, 2])).casts["n"] == "int64 -> int32 (exact)"
    assert "do not fit into int32" in refusal(convert, np.array([1, 1 << 40]))
    assert "float32 in the file but int32" in refusal(convert, np.array([1, 2], np.float32))
    assert "bool in the file" in refusal(convert, np.array([True, False]))
    assert "cannot be converted" in refusal(convert, np.array(["a", "b"]))
    ours.register_buffer("n", torch.zeros(2))
    theirs.register_buffer("n", paddle.zeros([2]))
    made = make_plan(ours, theirs)
    assert "too large for float32" in refusal(convert, np.array([1, 1e300]))
    assert "int8 in the file" in refusal(convert, np.array([1, 2], np.int8))
    infinite = np.array([np.inf, np.nan])
    assert convert(infinite).casts["n"] == "float64 -> float32 (exact)"


def test_half_precision_model_gets_half_precision_weights(tmp_path):
    ours, theirs = scramble(T.Linear(6, 6)), P.Linear(6, 6)
    theirs.to(dtype="bfloat16")
    made = make_plan(ours, theirs)
    report = convert_file(made, {n: v.numpy() for n, v in ours.state_dict().items()}, tmp_path / "w.safetensors")
    load_into_paddle(theirs, tmp_path / "w.safetensors")
    expected = ours.weight.detach().bfloat16().float().numpy().T
    assert np.array_equal(theirs.weight.astype("float32").numpy(), expected) and theirs.weight.dtype == paddle.bfloat16
    assert report.casts["weight"] == "float32 -> bfloat16 (rounded)"


# -- all or nothing ---------------------------------------------------------------------------------------------------


def test_output_appears_whole_or_not_at_all(tmp_path):
    ours, theirs = model()
    made = make_plan(ours, theirs)
    state = {name: value.numpy() for name, value in ours.state_dict().items()}
    target = tmp_path / "folder" / "out.safetensors"
    bad = {**state, "2.bias": state["2.bias"].astype(np.float64) * 1e300}  # found out while the file is written
    assert "too large" in refusal(convert_file, made, bad, target)
    assert os.listdir(tmp_path / "folder") == []
    convert_file(made, state, target)
    before = target.read_bytes()
    refusal(convert_file, made, bad, target)
    assert target.read_bytes() == before and os.listdir(tmp_path / "folder") == ["out.safetensors"]


def test_output_may_replace_its_source(tmp_path):
    ours, theirs = model()
    path = tmp_path / "w.safetensors"
    save_reference(ours, None, path)
    convert_file(make_plan(ours, theirs), path, path)
    load_into_paddle(theirs, path)
    check({name: value.numpy() for name, value in theirs.state_dict().items()}, ours.state_dict())


def test_incomplete_way_back_is_refused(tmp_path):
    class Net(T.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.aux = T.Linear(2, 2), T.Linear(2, 2)

    theirs = P.Layer()
    theirs.fc = P.Linear(2, 2)
    made = make_plan(Net(), theirs, {"aux": None})
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    assert "'aux.weight' (2 such) is dropped" in refusal(convert_file, made, state, tmp_path / "back.safetensors", to="torch")


# -- strict loading ---------------------------------------------------------------------------------------------------


def test_w1_weight_without_its_transpose(tmp_path):
    ours, theirs = T.Linear(3, 4), P.Linear(3, 4)
    safetensors.torch.save_file(ours.state_dict(), tmp_path / "w.safetensors")
    before = theirs.weight.numpy()
    text = refusal(load_into_paddle, theirs, tmp_path / "w.safetensors")
    assert "'weight'" in text and "(4, 3)" in text and "(3, 4)" in text
    assert np.array_equal(theirs.weight.numpy(), before)
    text = refusal(make_plan, T.Linear(3, 4), P.Linear(4, 3))
    assert "'weight' (4, 3)" in text and "'weight' (4, 3) by the rule Linear (T)" in text


def test_files_of_the_other_framework_are_refused(tmp_path):
    """Square matrices would load unnoticed, or be transposed twice."""
    ours, theirs = T.Linear(4, 4), P.Linear(4, 4)
    made = make_plan(ours, theirs)
    save_reference(ours, None, tmp_path / "w.safetensors")
    torch.save(ours.state_dict(), tmp_path / "w.pth")
    convert_file(made, tmp_path / "w.pth", tmp_path / "p.safetensors")
    paddle.save(theirs.state_dict(), str(tmp_path / "p.pdparams"))
    for name in ("w.safetensors", "w.pth"):
        assert "holds weights of torch, not of paddle" in refusal(load_into_paddle, theirs, tmp_path / name)
        assert "holds weights of torch" in refusal(convert_file, made, tmp_path / name, tmp_path / "x.safetensors", to="torch")
    for name in ("p.safetensors", "p.pdparams"):
        assert "holds weights of paddle, not of torch" in refusal(load_into_torch, ours, tmp_path / name)
        assert "holds weights of paddle" in refusal(convert_file, made, tmp_path / name, tmp_path / "x.safetensors")


def test_w2_nothing_is_written_when_one_key_is_wrong(tmp_path):
    theirs = P.Sequential(P.Linear(3, 3), P.Linear(3, 3))
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    for bad in (
        {**{n: v + 1 for n, v in state.items()}, "1.weight": state["1.weight"].astype(np.float16)},
        {**{n: v + 1 for n, v in state.items()}, "1.weight": np.zeros((3, 2), np.float32)},
        {n: v + 1 for n, v in state.items() if n != "1.bias"},
        {**{n: v + 1 for n, v in state.items()}, "x": np.zeros(2)},
    ):
        safetensors.numpy.save_file(bad, tmp_path / "w.safetensors")
        refusal(load_into_paddle, theirs, tmp_path / "w.safetensors")
        assert all(np.array_equal(value.numpy(), state[name]) for name, value in theirs.state_dict().items())
    ours = T.Sequential(T.Linear(3, 3), T.Linear(3, 3))
    state = {name: value.clone().numpy() for name, value in ours.state_dict().items()}
    bad = {**{n: v + 1 for n, v in state.items()}, "1.weight": state["1.weight"].astype(np.float16)}
    safetensors.numpy.save_file(bad, tmp_path / "w.safetensors")
    assert "float16" in refusal(load_into_torch, ours, tmp_path / "w.safetensors")
    assert all(np.array_equal(value.numpy(), state[name]) for name, value in ours.state_dict().items())


def tied():
    class Net(T.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.head = T.Embedding(4, 4), T.Linear(4, 4, bias=False)
            self.head.weight = self.emb.weight

    theirs = P.Layer()
    theirs.emb = P.Embedding(4, 4)
    return Net(), theirs


def test_w6_tied_weights_in_a_file(tmp_path):
    """Both names are in the file: loaded once if they are equal, an error if not, and either name alone will do."""
    ours, theirs = tied()
    table = torch.rand(4, 4)
    for state in ({"emb.weight": table, "head.weight": table.clone()}, {"emb.weight": table}, {"head.weight": table}):
        torch.save(state, tmp_path / "w.pth")
        got, _ = converted(tmp_path / "w.pth", tmp_path, None, ours, theirs)
        assert np.array_equal(got["emb.weight"], table.numpy())
    torch.save({"emb.weight": table, "head.weight": table.t()}, tmp_path / "w.pth")
    text = refusal(converted, tmp_path / "w.pth", tmp_path, None, ours, theirs)
    assert "'emb.weight'" in text and "'head.weight'" in text and "differ" in text


def test_tied_parameters_stay_tied(tmp_path):
    ours, _ = tied()
    save_reference(scramble(ours), None, tmp_path / "w.safetensors")
    assert list(safetensors.numpy.load_file(tmp_path / "w.safetensors")) == ["emb.weight"]
    other, _ = tied()
    load_into_torch(other, tmp_path / "w.safetensors")
    assert other.head.weight is other.emb.weight and torch.equal(other.emb.weight, ours.emb.weight)
    rnn, again = scramble(P.LSTM(3, 3)), P.LSTM(3, 3)
    save_port(rnn, None, tmp_path / "rnn.safetensors")
    load_into_paddle(again, tmp_path / "rnn.safetensors")
    x = paddle.rand([2, 4, 3])
    assert np.array_equal(again(x)[0].numpy(), rnn(x)[0].numpy())
    assert again.state_dict()["0.cell.weight_ih"] is again.state_dict()["weight_ih_l0"]


def test_w3_w4_square_matrices_go_by_the_type_of_their_module(tmp_path):
    ours, theirs = T.Sequential(T.Embedding(6, 6), T.Linear(6, 6)), P.Sequential(P.Embedding(6, 6), P.Linear(6, 6))
    scramble(ours)
    to_paddle(ours, theirs, tmp_path)
    assert np.array_equal(theirs[0].weight.numpy(), ours[0].weight.detach().numpy())
    assert np.array_equal(theirs[1].weight.numpy(), ours[1].weight.detach().numpy().T)


def test_w7_only_statistics_of_batch_norms_are_renamed(tmp_path):
    """A module whose own path contains the words keeps its names."""

    class Net(T.Module):
        def __init__(self):
            super().__init__()
            self.running_mean, self.bn = T.Linear(3, 3), T.BatchNorm1d(3)

    theirs = P.Layer()
    theirs.running_mean, theirs.bn = P.Linear(3, 3), P.BatchNorm1D(3)
    made = make_plan(Net(), theirs)
    assert {row.torch: row.paddle for row in made.rows} == {
        "running_mean.weight": "running_mean.weight",
        "running_mean.bias": "running_mean.bias",
        "bn.weight": "bn.weight",
        "bn.bias": "bn.bias",
        "bn.running_mean": "bn._mean",
        "bn.running_var": "bn._variance",
    }


def test_w8_momentum_is_described_on_both_sides():
    from pipeline.align.convert import describe_paddle, describe_torch

    ours = describe_torch.describe(T.BatchNorm2d(3, momentum=0.3, eps=1e-3))["modules"][0]["hyper"]
    theirs = describe_paddle.describe(P.BatchNorm2D(3, momentum=0.7, epsilon=1e-3))["modules"][0]["hyper"]
    assert (ours["momentum"], ours["eps"], theirs["_momentum"], theirs["_epsilon"]) == (0.3, 1e-3, 0.7, 1e-3)
