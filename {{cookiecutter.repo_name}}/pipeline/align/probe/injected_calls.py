# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Which module is called, where, and with which arguments. Copied beside injected.py."""

import dis
import inspect
import os
import sys

MODULE = os.environ.get("REPROD_PROBE_MODULE", "")
#: Files of the probe that are on the stack of a call.
OWN = (__file__, os.path.join(os.path.dirname(__file__), "sitecustomize.py"))
#: What wraps a module and passes its arguments on.
WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "OptimizedModule")


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


def place(frame=None):
    """File and line of the call: the first frame outside of torch and of the probe."""
    frame = frame or sys._getframe(1)
    torch = os.path.dirname(sys.modules["torch"].__file__) + os.sep
    while frame.f_back and (frame.f_code.co_filename in OWN or frame.f_code.co_filename.startswith(torch)):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return f"{os.path.relpath(name) if name.startswith(os.getcwd() + os.sep) else name}:{frame.f_lineno}"


def direct(module):
    """The outermost module whose forward() runs around a call of `module`, and that frame: called without __call__."""
    import torch

    found, frame = (None, None), sys._getframe(2)
    while frame is not None:
        owner = frame.f_locals.get("self") if frame.f_code.co_name == "forward" else None
        if isinstance(owner, torch.nn.Module) and owner is not module:
            forward = getattr(type(owner), "forward", None)
            if getattr(forward, "__code__", None) is frame.f_code:
                found = owner, frame
        frame = frame.f_back
    return found


def given(frame):
    """[(name, value)] of the arguments of a frame; None where one has another value by now."""
    code = frame.f_code
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    stores = ("STORE_FAST", "DELETE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_DEREF")
    for step in dis.get_instructions(code):
        parts = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.offset < frame.f_lasti and step.opname in stores and set(parts) & set(names):
            return None
    return [(name, frame.f_locals[name]) for name in names if name in frame.f_locals]


def named(module, args, kwargs):
    """[(name, value)] of a call's arguments, as the module's forward names them.

    In the order of the call, which is that of the program's batch: positions first, then keywords as they were written.
    """
    try:
        signature = inspect.signature(module.forward)
        bound = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return [(f"arg{index}", value) for index, value in enumerate(args)] + list(kwargs.items())
    found = []
    for name, value in bound.items():
        if name in kwargs:
            continue
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found += [(f"{name}[{index}]", part) for index, part in enumerate(value)]
        elif kind is not inspect.Parameter.VAR_KEYWORD:
            found.append((name, value))
    return found + list(kwargs.items())
