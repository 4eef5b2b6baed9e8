# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Runs inside the reference's own Python, as its sitecustomize: waits for torch and records one call of a module.

launch.py copies this file and injected_store.py to a temporary folder that comes first on PYTHONPATH. Only the standard library
is used, in syntax that Python 3.6 reads, because the reference may need an old interpreter. Recorded into the folder of the
variable REPROD_PROBE: the arguments before the call, what the call returned, and the target of the loss that follows; then the
process ends. Nothing else is changed: no file of the reference is touched.
"""

import atexit
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import types

from reprod_probe_store import FOLDER, WATCHED, Store, save

MODULE = os.environ.get("REPROD_PROBE_MODULE", "")
TARGET = "torch.nn.modules.module"
#: What wraps a module and passes its arguments on.
WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "OptimizedModule")

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
    """Lets torch be imported as always, and patches Module.__call__ right after its module has run."""

    def find_spec(self, name, path=None, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            spec.loader.__dict__.pop("exec_module", None)
            run(module)
            mark("torch")
            Probe(module.Module)

        spec.loader.exec_module = exec_module
        return spec


def title(kind):
    """Dotted name of a class; one of the script itself is named by the script's file."""
    module = kind.__module__
    main = sys.modules.get("__main__")
    if module == "__main__":
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        module = spec.name if spec else os.path.splitext(os.path.basename(file))[0] if file else module
    return f"{module}.{kind.__qualname__}"


def is_named(name):
    """Whether REPROD_PROBE_MODULE names this class: by its name, by the end of its path, or by a package that passes it on."""
    package, _, own = MODULE.rpartition(".")
    return ("." + name).endswith("." + MODULE) or bool(package) and name.startswith(package + ".") and name.endswith("." + own)


def inside(module):
    """The module itself, then what its wrappers wrap."""
    found = [module]
    while type(module).__name__ in WRAPPERS:
        module = getattr(module, "_orig_mod", None) or module.module
        found.append(module)
    return found


def place():
    """File and line of the call: the first frame outside of torch and of this file."""
    frame = sys._getframe(1)
    torch = os.path.dirname(sys.modules["torch"].__file__) + os.sep
    while frame.f_back and (frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith(torch)):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return f"{os.path.relpath(name) if name.startswith(os.getcwd() + os.sep) else name}:{frame.f_lineno}"


def named(module, args, kwargs):
    """[(name, value)] of a call's arguments, as the module's forward names them."""
    try:
        signature = inspect.signature(module.forward)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [(f"arg{index}", value) for index, value in enumerate(args)] + list(kwargs.items())
    found = []
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found += [(f"{name}[{index}]", part) for index, part in enumerate(value)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found += list(value.items())
        else:
            found.append((name, value))
    return found


class Probe:
    """Takes the place of Module.__call__ until the call has come."""

    def __init__(self, base):
        self.base, self.original, self.matches, self.called = base, base.__call__, {}, []
        probe = self

        @functools.wraps(self.original)
        def call(module, *args, **kwargs):
            if not probe.wanted(module) or not probe.claim():
                return probe.original(module, *args, **kwargs)
            return probe.record(module, args, kwargs)

        base.__call__ = call
        atexit.register(self.report)

    def report(self):
        """At the end of a process: the classes that were called."""
        if os.path.isdir(FOLDER):
            save(f"called-{os.getpid()}.json", self.called)

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

    def record(self, module, args, kwargs):
        """Record the arguments, make the call, record what it returns, then wait for the loss."""
        import torch

        self.base.__call__ = self.original
        inner, store = inside(module)[-1], Store("call.bin")
        found = {
            "module": title(type(inner)), "wrappers": [type(one).__name__ for one in inside(module)[:-1]], "place": place(),
            "training": module.training, "gradients": torch.is_grad_enabled(), "torch": torch.__version__,
            "python": "{}.{}.{}".format(*sys.version_info[:3]), "error": None, "outputs": [],
            "arguments": [leaf for name, value in named(inner, args, kwargs) for leaf in store.leaves(name, value)],
        }  # fmt: skip
        try:
            result = module(*args, **kwargs)
            found["outputs"] = store.leaves("output", result)
        except Exception as error:
            found["error"] = f"{type(error).__name__}: {error}".strip().split("\n")[0]
        store.file.close()
        save("call.json", found)
        if found["error"]:
            finish()
        Loss(self.base, module)
        return result


class Loss:
    """After the recorded call: the target that the first loss gets. Ends the process there or at the next call or backward."""

    def __init__(self, base, module):
        import torch

        original = base.__call__

        def call(other, *args, **kwargs):
            if other is module:
                finish()
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
    sys.meta_path.insert(0, Finder())
chain()
