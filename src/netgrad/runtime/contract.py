"""Whether a kernel keeps its contract: it writes into no input, shares storage as declared, makes what was inferred."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime.backends import Backend
from netgrad.runtime.blobs import Strings, describe
from netgrad.runtime.inference import infer_operator, type_of
from netgrad.runtime.steps import Step, bound
from netgrad.runtime.workspace import Workspace


def violations(op: caffe2_pb2.OperatorDef, feeds: Mapping[str, Any], backend: str | None = None) -> list[str]:
    """Runs one operator on ``feeds`` and says in which ways it breaks its contract; an empty list if in none.

    Kernels must not write into their inputs, must not return storage of an input that their declaration's ``shares``
    does not allow (to return an input itself is to share it; an operator run in place may), and outputs must have the
    shapes and dtypes that the declaration's ``shape`` computes, where it knows them.
    """
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    found = bound(op, workspace.backend)
    before = {name: workspace.values[name] for name in found.inputs if name}
    copies = {name: workspace.fetch_blob(name) for name in before}
    inferred = infer_operator(op, [type_of(before.get(name)) for name in found.inputs])
    with workspace.backend.running():
        Step(found, workspace.backend, workspace).run()
    problems = [f"{op.type} writes into its input {name!r}" for name, value in before.items()
                if not _same(workspace, value, copies[name])]
    shares = found.declaration.shares
    for o, name in enumerate(found.outputs):
        made = workspace.values[name]
        for i, source in enumerate(found.inputs):
            if source not in ("", name) and (i, o) not in shares and _overlap(workspace.backend, before[source], made):
                problems.append(f"{op.type} returns storage of input {i} ({source!r}) as output {o} ({name!r}), which "
                                "its declaration's `shares` does not allow")
        is_, said = type_of(made), inferred[o]
        if said.dtype not in (None, is_.dtype) or not _fits(said.dims, is_.dims):
            problems.append(f"{op.type}: output {o} is {describe(name, made)}; its `shape` says {said.dtype} "
                            f"{said.dims}")
    return problems


def _same(workspace: Workspace, value: Any, copy: Any) -> bool:
    if isinstance(value, workspace.backend.array_type) and not isinstance(value, Strings):
        value = workspace.backend.to_numpy(value)
    if not isinstance(value, np.ndarray):
        return True
    return bool(value.tolist() == copy.tolist() if value.dtype == object else value.tobytes() == copy.tobytes())


def _overlap(backend: Backend, a: Any, b: Any) -> bool:
    array: type[Any] = backend.array_type
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(a.size > 0 and np.shares_memory(a, b))
    if isinstance(a, np.ndarray) or not (isinstance(a, array) and isinstance(b, array)):
        return False
    first, second = (tensor.untyped_storage() for tensor in (a, b))
    return bool(first.nbytes() > 0 and first.data_ptr() == second.data_ptr())


def _fits(said: Any, found: Any) -> bool:
    if said is None or found is None:
        return True
    return len(said) == len(found) and all(s is None or s == f for s, f in zip(said, found))


