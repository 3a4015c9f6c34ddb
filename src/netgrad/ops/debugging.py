"""Looking at values while a net runs, and failing on purpose."""

from __future__ import annotations

import logging
import sys
from typing import Any

from netgrad.graph.arguments import Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, forbidden
from netgrad.graph.shapes import Fixed, TensorType, same_as
from netgrad.ops._axes import count

log = logging.getLogger("netgrad")

_BOOL = Fixed((TensorType("bool", ()),))


def _flag(xp: Any, value: bool) -> Any:
    return xp.asarray(value, dtype=xp.bool)


class HasElements(Operator):
    """Has any of the tensors an element?"""

    inputs = [In("X", "only their shapes matter", variadic=True, shape_only=True)]
    outputs = [Out("has_elements", "a scalar bool", differentiable=False)]
    strings = True
    shape = _BOOL
    gradient = forbidden()
    example = Example({"X": [1.0]}, {"has_elements": True})

    def kernel(xp: Any, *X: Any) -> Any:
        return _flag(xp, any(count(x.shape) for x in X))


class IsEmpty(Operator):
    """Has the tensor no element?"""

    inputs = [In("tensor", "only its shape matters", shape_only=True)]
    outputs = [Out("is_empty", "a scalar bool", differentiable=False)]
    strings = True
    shape = _BOOL
    gradient = forbidden()
    example = Example({"tensor": Tensor([], "float32", (0,))}, {"is_empty": True})

    def kernel(xp: Any, tensor: Any) -> Any:
        return _flag(xp, not count(tensor.shape))


def _first_bad(xp: Any, X: Any) -> str:
    """Where the first element is that is not finite, and what it is."""
    host = xp.to_numpy(X)
    good = abs(host.astype("float64")) < float("inf")
    place = tuple(int(k[0]) for k in (~good).nonzero())
    return f"{host[place]} at {place}; {int((~good).sum())} of {host.size} elements are not finite"


def _is_float(xp: Any, X: Any) -> bool:
    return bool(xp.isdtype(X.dtype, "real floating"))


class NanCheck(Operator):
    """The first input, if all inputs are finite; an error otherwise. The gradient is checked in the same way."""

    inputs = [In("tensor", "float"), In("others", "are checked as well", variadic=True, optional=True)]
    outputs = [Out("output", "the first input")]
    inplace = {(0, 0)}
    shape = same_as(0)
    shares = {(0, 0)}
    example = Example({"tensor": [1.0, 2.0]}, {"output": [1.0, 2.0]})

    def kernel(xp: Any, tensor: Any, *others: Any) -> Any:
        for k, X in enumerate((tensor, *others)):
            if _is_float(xp, X) and not bool(xp.all(xp.isfinite(X))):
                raise ValueError(f"input {k} holds {_first_bad(xp, X)}")
        return tensor

    def gradient(op: Rule) -> None:
        op.emit("NanCheck", [op.GO(0)], [op.GI(0)])


class EnforceFinite(Operator):
    """Fails unless all elements are finite."""

    inputs = [In("input", "float")]
    gradient = forbidden("it has no output")
    example = Example({"input": [1.0]}, {})

    def kernel(xp: Any, input: Any) -> Any:
        if not _is_float(xp, input):
            raise ValueError(f"the input is {xp.dtype_name(input)}, expected a float dtype")
        if not bool(xp.all(xp.isfinite(input))):
            raise ValueError(f"the input holds {_first_bad(xp, input)}")
        return ()


class Assert(Operator):
    """Fails unless all elements are true (bool) or not zero (int)."""

    inputs = [In("X", "bool, int32 or int64")]
    arguments = [Str("error_msg", "", "what to say")]
    example = Example({"X": [True]}, {})

    def kernel(xp: Any, X: Any, *, error_msg: str) -> Any:
        if xp.dtype_name(X) not in ("bool", "int32", "int64"):
            raise ValueError(f"X is {xp.dtype_name(X)}, expected bool, int32 or int64")
        wrong = int((xp.to_numpy(X) == 0).sum())
        if wrong:
            raise ValueError(error_msg or f"{wrong} of {count(X.shape)} elements are false")
        return ()


class Print(Operator):
    """Writes a blob to standard error, or to a file of its name in the workspace's folder."""

    inputs = [In("tensor", "any blob")]
    arguments = [
        Int("to_file", 0, "write to <folder>/<blob>.log"), Int("limit", 0, "most elements to show; 0: 1000"),
        Int("every_n", 1, "in every n-th run only"),
    ]
    effects = {"io", "state"}
    host = True
    gradient = forbidden("it has no output")
    example = Example({"tensor": [1.0]}, {})

    def kernel(xp: Any, tensor: Any, *, to_file: int, limit: int, every_n: int, op: Any) -> Any:
        if every_n < 1:
            raise ValueError(f"every_n is {every_n}, expected at least 1")
        runs = op.state["runs"] = op.state.get("runs", -1) + 1
        if runs % every_n:
            return ()
        name = op.inputs[0]
        if hasattr(tensor, "shape"):
            shown = ",".join(map(str, tensor.reshape(-1)[:limit or 1000].tolist()))
            text = f"{name}: {tensor.dtype} {tuple(tensor.shape)}: {shown}"
        else:
            text = f"{name}: {tensor!r}"
        if to_file:
            from pathlib import Path

            folder = Path(getattr(op.workspace, "root_folder", "."))
            with (folder / f"{name}.log").open("a") as file:
                file.write(text + "\n")
        else:
            print(text, file=sys.stderr)
        return ()


class Fail(Operator):
    """Says that it failed, which ``RunNet(..., allow_fail=True)`` bears."""

    gradient = forbidden("it has no output")

    def kernel(xp: Any) -> Any:
        return False


class ThrowException(Operator):
    """Fails with a message."""

    arguments = [Str("message", "Exception from ThrowExceptionOp")]
    gradient = forbidden("it has no output")

    def kernel(xp: Any, *, message: str) -> Any:
        raise ValueError(message)


class ThrowChildThreadException(Operator):
    """Fails with a message, from another thread."""

    arguments = [Str("message", "Exception from ThrowChildThreadExceptionOp")]
    gradient = forbidden("it has no output")

    def kernel(xp: Any, *, message: str) -> Any:
        from concurrent.futures import ThreadPoolExecutor

        def fail() -> None:
            raise ValueError(message)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(fail).result()


class LogFatal(Operator):
    """Logs a message and ends the process, for tests of what survives that."""

    arguments = [Str("message", "Logging from LogFatalOp")]
    effects = {"io"}
    gradient = forbidden("it has no output")

    def kernel(xp: Any, *, message: str) -> Any:
        import os

        log.critical(message)
        os.abort()


class Crash(Operator):
    """Ends the process by a segmentation fault, for tests of what survives that."""

    effects = {"io"}

    def kernel(xp: Any) -> Any:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)


class GetGPUMemoryUsage(Operator):
    """Memory in use on each GPU, and the most that was."""

    outputs = [Out("usage", "(2, GPUs), int64: bytes in use, and the most that were", differentiable=False)]

    def kernel(xp: Any) -> Any:
        try:
            from torch import cuda
        except ImportError:
            raise ValueError("it asks PyTorch, which is not installed: pip install netgrad[torch]") from None
        devices = range(cuda.device_count())
        usage = [[cuda.memory_allocated(k) for k in devices], [cuda.max_memory_allocated(k) for k in devices]]
        return xp.reshape(xp.asarray(usage, dtype=xp.int64), (2, len(devices)))
