# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Runs inside the reference's own Python, as its sitecustomize: waits for torch and records one call of a module.

launch.py copies this file, injected_calls.py and injected_store.py to a temporary folder that comes first on PYTHONPATH.
Only the standard library is used, in syntax that Python 3.6 reads, because the reference may need an old interpreter.
Recorded into the folder of the variable REPROD_PROBE: the arguments before the call, what the call returned, and the target
of the loss that follows; then the process ends. Nothing else is changed: no file of the reference is touched.
"""

import atexit
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import types

from reprod_probe_calls import MODULE, direct, given, inside, is_named, named, place, title
from reprod_probe_store import FOLDER, WATCHED, Store, save

TARGET = "torch.nn.modules.module"
#: What a Python that is started from this one needs, so that the probe is in it too.
VARIABLES = ("REPROD_PROBE", "REPROD_PROBE_MODULE", "REPROD_PROBE_HOOK", "PYTHONDONTWRITEBYTECODE", "TORCHDYNAMO_DISABLE")
#: What the code of a loss function is replaced by: it must find its way from the function's own globals.
STUB = "def stub(*args, **kwargs): return __import__('reprod_probe_store').WATCHED[{!r}](*args, **kwargs)"


def chain():
    """Run the sitecustomize that this one hides, and leave no trace on sys.path."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def mark(kind):
    """Leave a file that says this process is there, so that it can be found and ended."""
    with open(os.path.join(FOLDER, f"{kind}-{os.getpid()}"), "w"):
        pass


class Finder:
    """Lets a module be imported as always, and calls `ready` with it right after it has run."""

    def __init__(self, name, ready):
        self.name, self.ready = name, ready
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            spec.loader.__dict__.pop("exec_module", None)
            run(module)
            self.ready(module)

        spec.loader.exec_module = exec_module
        return spec


def torch_ready(module):
    """torch's Module class is there."""
    mark("torch")
    Probe(module.Module)


def subprocess_ready(module):
    """Let programs that are started with other variables have the probe too."""
    original = module.Popen.__init__
    kept = {name: os.environ[name] for name in VARIABLES if name in os.environ}

    @functools.wraps(original)
    def start(self, *args, **kwargs):
        if FOLDER and os.path.isdir(FOLDER):
            bound = inspect.signature(original).bind(self, *args, **kwargs).arguments
            env = dict(os.environ if bound.get("env") is None else bound["env"], **kept)
            hook, path = kept.get("REPROD_PROBE_HOOK", ""), env.get("PYTHONPATH", "")
            if hook and hook not in path.split(os.pathsep):
                env["PYTHONPATH"] = os.pathsep.join(filter(None, [hook, path]))
            if len(args) > 10:  # env by position
                args = args[:10] + (env,) + args[11:]
            else:
                kwargs["env"] = env
        original(self, *args, **kwargs)

    module.Popen.__init__ = start


class Probe:
    """Takes the place of Module.__call__ until the call has come."""

    def __init__(self, base):
        self.base, self.original, self.matches, self.called, self.watched = base, base.__call__, {}, [], None
        self.loss, probe = None, self

        @functools.wraps(self.original)
        def call(module, *args, **kwargs):
            owner, frame = direct(module) if probe.watched is None else (None, None)
            if owner is not None and probe.wanted(owner):
                probe.watch(owner, frame)
            if probe.watched is not None or not probe.wanted(module) or not probe.claim():
                return probe.original(module, *args, **kwargs)
            return probe.record(module, args, kwargs)

        base.__call__ = call
        atexit.register(self.report)

    def report(self):
        """At the end of a process: the classes that were called, and the only call of a forward() where it has come once."""
        if os.path.isdir(FOLDER):
            save(f"called-{os.getpid()}.json", self.called)
            if self.watched == os.getpid() and not os.path.exists(os.path.join(FOLDER, "call.json")):
                for name in ("call.bin", "call.json"):
                    if os.path.exists(os.path.join(FOLDER, "once-" + name)):
                        os.replace(os.path.join(FOLDER, "once-" + name), os.path.join(FOLDER, name))

    def watch(self, module, frame):
        """model.forward(x): too late for what it returns, so the next one is recorded; this one is kept in case none comes."""
        if not self.claim():
            return
        self.watched, kind, arguments = os.getpid(), type(module), given(frame)
        original, probe = kind.forward, self

        @functools.wraps(original)
        def forward(module, *args, **kwargs):
            if module is not outer:
                return original(module, *args, **kwargs)
            kind.forward = original
            return probe.record(module, args, kwargs, functools.partial(original, module))

        outer, kind.forward = module, forward
        save("direct.json", title(kind))
        if arguments is not None:
            store = Store("once-call.bin")
            found = self.about(module, store, arguments)
            found["place"] = place(frame.f_back)
            store.file.close()
            save("once-call.json", found)

    def wanted(self, module):
        """Whether this call is the one to record: of the class asked for, or of the first module that has parameters."""
        if type(module) not in self.matches:
            kinds = [kind for one in inside(module) for kind in type(one).__mro__]
            self.matches[type(module)] = any(is_named(title(kind)) for kind in kinds)
            self.called.append(title(type(inside(module)[-1])))
        if not (self.matches[type(module)] if MODULE else next(iter(module.parameters()), None) is not None):
            return False
        import torch

        data = sys.modules.get("torch.utils.data")
        if data is not None and data.get_worker_info() is not None:
            return False
        distributed = getattr(torch, "distributed", None)
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank() == 0
        return os.environ.get("RANK", "0") == "0"

    def claim(self):
        """True for the first process that asks."""
        try:
            os.close(os.open(os.path.join(FOLDER, "claim"), os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            return False

    def about(self, module, store, arguments):
        """What is known before the call."""
        import torch

        return {
            "module": title(type(inside(module)[-1])), "wrappers": [type(one).__name__ for one in inside(module)[:-1]],
            "place": place(), "training": module.training, "gradients": torch.is_grad_enabled(), "torch": torch.__version__,
            "python": "{}.{}.{}".format(*sys.version_info[:3]), "error": None, "outputs": [],
            "arguments": [leaf for name, value in arguments for leaf in store.leaves(name, value)],
        }  # fmt: skip

    def record(self, module, args, kwargs, run=None):
        """Record the arguments, make the call, record what it returns, then wait for the loss. `run`: module.forward, where that
        is what was called."""
        self.base.__call__ = self.original
        store = Store("call.bin")
        found = self.about(module, store, named(inside(module)[-1], args, kwargs))
        try:
            result = (run or module)(*args, **kwargs)
            found["outputs"] = store.leaves("output", result)
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}".strip().split("\n")[0]
        store.file.close()
        save("call.json", found)
        if found["error"]:
            finish()
        if self.loss is None:
            self.loss = Loss(self, module)
        self.loss.gradients = found["gradients"]
        return result


class Loss:
    """After the recorded call: the target that the first loss gets. Ends the process there or at the next call or backward.

    A call without gradients may have been a trial before training: one with gradients then takes its place.
    """

    def __init__(self, probe, module):
        import torch

        base, original = probe.base, probe.original

        def call(other, *args, **kwargs):
            if other is module:
                if self.gradients or not torch.is_grad_enabled():
                    finish()
                result = probe.record(module, args, kwargs)
                base.__call__ = call
                return result
            name = type(other).__name__.lower()
            if len(args) > 1 and ("loss" in name or "criterion" in name) and not type(other).__module__.startswith("torch."):
                self.found(type(other).__name__, args[0], args[1], None)
            return original(other, *args, **kwargs)

        base.__call__ = call
        torch.autograd.backward = torch.autograd.grad = lambda *args, **kwargs: finish()
        functions = torch.nn.functional
        for name, function in list(vars(functions).items()):
            try:
                parameters = inspect.signature(function).parameters
            except (TypeError, ValueError):
                continue
            target = next((key for key in ("target", "targets") if key in parameters), None)
            if target and inspect.isfunction(function) and not function.__closure__ and not name.startswith("_"):
                self.watch(name, function, target)

    def watch(self, name, function, target):
        """Make `function` record its target first. Its code is replaced, because in `cross_entropy(model(x), y)` the function is
        looked up before the model is called."""
        original = types.FunctionType(function.__code__, function.__globals__, name, function.__defaults__)
        original.__kwdefaults__ = function.__kwdefaults__
        signature = inspect.signature(original)

        def call(*args, **kwargs):
            given = signature.bind(*args, **kwargs).arguments
            classes = name in ("cross_entropy", "nll_loss")
            ignored = given.get("ignore_index", -100) if classes else None
            self.found(name, next(iter(given.values())), given.get(target), ignored, classes)
            return original(*args, **kwargs)

        WATCHED[name] = call
        made = {}
        exec(STUB.format(name), made)  # a text of our own
        function.__code__, function.__defaults__, function.__kwdefaults__ = made["stub"].__code__, None, None

    @staticmethod
    def found(function, given, target, ignored, classes=False):
        """Save the target, where it is one array, and end."""
        if not hasattr(target, "dtype"):
            return
        store = Store("label.bin")
        leaf = store.leaves("label", target)[0]
        store.file.close()
        count = given.shape[1] if classes and getattr(given, "ndim", 0) > 1 else None
        save("label.json", dict(leaf, function=function, ignored=ignored, classes=count))
        finish()


def finish():
    """End this process without running anything more of it; launch.py ends the others."""
    save("finished", None)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(0)


if FOLDER and os.path.isdir(FOLDER):
    mark("python")
    Finder(TARGET, torch_ready)
    Finder("subprocess", subprocess_ready)
chain()
