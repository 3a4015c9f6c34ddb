"""Counters of iterations."""

from __future__ import annotations

from typing import Any

from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Step, Tensor
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import Fixed, TensorType
from netgrad.ops._arrays import require_size
from netgrad.ops._shared_state import global_registry


class Iter(Operator):
    """Adds 1 to a counter. Without an input it counts in its output, from 0: the first run makes it 1."""

    inputs = [In("iter", "one number, int", optional=True)]
    outputs = [Out("iter", "one number, int64", differentiable=False)]
    inplace_required = {(0, 0)}
    inplace_keeps_shape = True
    effects = {"state"}
    gradient = no_gradient
    example = Example({"iter": Tensor([3], "int64")}, {"iter": Tensor([4], "int64")})

    def shape(*iter: TensorType) -> TensorType:
        return TensorType("int64", iter[0].dims if iter else (1,))

    def kernel(xp: Any, iter: Any, *, op: Any) -> Any:
        if iter is not None:
            require_size("iter", iter, 1)
            return xp.astype(iter, xp.int64) + 1
        counter = op.workspace.create_blob(op.outputs[0])
        before = int(counter.fetch().reshape(())) if counter.is_tensor() else 0
        return xp.full((1,), before + 1, dtype=xp.int64)


class AtomicIter(Operator):
    """Adds 1 to a counter under a mutex, whoever else does so at the same time; the statistics count the runs."""

    inputs = [In("mutex", "opaque, from CreateMutex"), In("iter", "one int64")]
    outputs = [Out("iter", "one int64", differentiable=False)]
    inplace_required = {(1, 0)}
    inplace_keeps_shape = True
    shape = Fixed((TensorType("int64", (1,)),))
    effects = {"state", "binds"}
    host = True
    gradient = no_gradient
    example = Example(
        {"iter": Tensor([1], "int64")},
        {"iter": Tensor([2], "int64")},
        before=(Step("CreateMutex", outputs=("mutex_ptr",)),),
        inputs=("mutex_ptr", "iter"))

    def kernel(xp: Any, *, op: Any) -> Any:
        mutex, name = op.inputs
        values = op.workspace.values
        lock, backend = values.get(mutex), op.workspace.backend
        if not hasattr(lock, "__enter__"):
            raise ValueError(f"{mutex!r} is no mutex; CreateMutex makes one")
        with lock:  # the counter is read and written under it, not before and after the kernel
            value = values.get(name)
            if value is None or tuple(getattr(value, "shape", ())) not in ((), (1,)):
                raise ValueError(f"the counter {name!r} is not one number")
            values[name] = backend.from_numpy(backend.to_numpy(value) + 1)
        global_registry().add({f"atomic_iter/stats/{name}/num_iter": 1})
