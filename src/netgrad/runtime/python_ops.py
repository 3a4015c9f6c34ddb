"""Python functions as operators: their registry, the tensors that they receive, and how they are called.

A function ``f(inputs, outputs)`` receives lists of `FunctionTensor`. It reads ``inputs[k].data`` and either feeds
``outputs[k]`` or reshapes it and writes into its ``data``. An input is read-only unless an output has the same name;
then both are one object.
"""

from __future__ import annotations

import hashlib
import math
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends
from netgrad.runtime.binding import Call
from netgrad.runtime.blobs import as_strings
from netgrad.runtime.errors import BadArgument, BlobError, UserFunctionFailed, WrongKind

Function = Callable[..., Any]

_functions: dict[str, tuple[Function, bool]] = {}
_gradients: dict[str, Function] = {}
_named: Counter[str] = Counter()
_known_pickles: set[str] = set()


def register_python_op(f: Function, grad_f: Function | None = None, pass_workspace: bool = False,
                       name: str = "") -> str:
    """Registers a function (and that of its gradient); the token by which an operator names it.

    With ``pass_workspace`` it is called as ``f(inputs, outputs, workspace)``. The token is ``name`` (the function's
    unless given), numbered where that is taken.
    """
    token = name = name or getattr(f, "__name__", type(f).__name__)
    if _named[name]:
        token = f"{name}:{_named[name]}"
    _named[name] += 1
    _functions[token] = (f, pass_workspace)
    if grad_f is not None:
        _gradients[token] = grad_f
    return token


def register_python_function(f: Function, pass_workspace: bool = False, name: str = "") -> str:
    """As `register_python_op`, with the parameters of Caffe2's compiled module."""
    return register_python_op(f, pass_workspace=pass_workspace, name=name)


def register_python_gradient_op(token: str, grad_f: Function) -> None:
    """Registers the gradient function that belongs to a token."""
    _gradients[token] = grad_f


def pickled_builder(builder: tuple[Function, Sequence[Any], dict[str, Any]]) -> bytes:
    """A function that makes the operator's function, and its arguments, for the argument ``pickled_builder``.

    Operators run only pickles that were made here, in this process, or trusted by `trust_pickle`.
    """
    function, args, kwargs = builder
    content = pickle.dumps((function, tuple(args), dict(kwargs)))
    trust_pickle(content)
    return content


def trust_pickle(content: bytes) -> None:
    """Allows operators to run this pickle, which may do anything: for nets from a source that you trust."""
    _known_pickles.add(hashlib.sha256(content).hexdigest())


class FunctionTensor:
    """A tensor as a Python function sees it."""

    __slots__ = ("_array", "_own", "_writable")

    def __init__(self, array: np.ndarray | None, writable: bool) -> None:
        self._array = np.zeros((0,), np.float32) if array is None else array
        self._own = False
        self._writable = writable

    @property
    def data(self) -> Any:
        """The values: of an output a buffer to write into, of an input a read-only view."""
        if not self._writable:
            view = self._array.view()
            view.flags.writeable = False
            return view
        if not self._own:
            self._array, self._own = np.array(self._array), True
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def _shape(self) -> list[int]:
        return list(self._array.shape)

    def reshape(self, shape: Sequence[int]) -> None:
        """Changes the shape; values stay where their number does, and are zero otherwise."""
        self._check_writable()
        shape = tuple(int(n) for n in shape)
        if math.prod(shape) == self._array.size:
            self._array = self._array.reshape(shape)
        else:
            self._array, self._own = np.zeros(shape, self._array.dtype), True

    _reshape = reshape

    def init(self, dims: Sequence[int], data_type: int) -> None:
        """Makes it a tensor of zeros of this shape and `TensorProto.DataType`."""
        self._check_writable()
        dtype = backends.get("numpy").xp.dtype_of(data_type)
        if dtype.hasobject:
            raise BlobError("a tensor of strings cannot be made without strings; feed it")
        self._array, self._own = np.zeros(tuple(dims), dtype), True

    def feed(self, array: Any) -> None:
        """Takes a copy of an array, dtype and shape included."""
        self._check_writable()
        copy = np.array(array)
        self._array, self._own = (as_strings(copy).view(np.ndarray) if copy.dtype.kind in "OSU" else copy), True

    def fetch(self) -> np.ndarray:
        return np.array(self._array)

    def _check_writable(self) -> None:
        if not self._writable:
            raise ValueError("an input of a Python operator is read-only unless an output has the same name")


class DLPackTensor(FunctionTensor):
    """A tensor whose ``data`` is a DLPack capsule, for ``torch.utils.dlpack.from_dlpack`` and the like."""

    @property
    def data(self) -> Any:
        if not self._own:
            self._array, self._own = np.array(self._array), True
        return self._array.__dlpack__()


def call(op: Call, inputs: Sequence[Any], *, gradient: bool = False,
         tensor: type[FunctionTensor] = FunctionTensor) -> tuple[Any, ...]:
    """Calls the function that an operator names; its outputs."""
    function, pass_workspace = _function(op, gradient)
    for name, value in zip(op.inputs, inputs):
        if not isinstance(value, np.ndarray):
            raise WrongKind(f"blob {name!r} is no tensor, but a {type(value).__name__}; Python functions take tensors")
    made: dict[str, FunctionTensor] = {}
    before = dict(zip(op.inputs, inputs))
    for name in op.outputs:
        made[name] = tensor(before[name] if name in before else _present(op, name), writable=True)
    given = [made.get(name) or tensor(value, writable=False) for name, value in zip(op.inputs, inputs)]
    outputs = [made[name] for name in op.outputs]
    try:
        if pass_workspace:
            function(given, outputs, op.workspace)
        else:
            function(given, outputs)
    except Exception as error:
        raise UserFunctionFailed(error) from None
    return tuple(output._array for output in outputs)


def _present(op: Call, name: str) -> np.ndarray | None:
    """What an output holds already: functions may leave it, or write a part."""
    value = op.workspace.values.get(name)
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    return op.workspace.backend.to_numpy(value) if isinstance(value, op.workspace.backend.array_type) else None


def _function(op: Call, gradient: bool) -> tuple[Function, bool]:
    if "function" not in op.state:
        op.state["function"] = _find(op.definition, gradient)
    found: tuple[Function, bool] = op.state["function"]
    return found


def _find(definition: caffe2_pb2.OperatorDef, gradient: bool) -> tuple[Function, bool]:
    arguments = {argument.name: argument for argument in definition.arg}
    pass_workspace = bool("pass_workspace" in arguments and arguments["pass_workspace"].i)
    key = "pickled_grad_builder" if gradient else "pickled_builder"
    if key in arguments and arguments[key].s:
        return _build(arguments[key].s), pass_workspace
    token = arguments["token"].s.decode() if "token" in arguments else ""
    if not token:
        raise BadArgument(f"it has neither a token nor a {key}; make such operators with Net.Python")
    if gradient:
        if token not in _gradients:
            raise BadArgument(f"no gradient function was registered for {token!r}; give Net.Python a grad_f")
        return _gradients[token], _functions[token][1]
    if token not in _functions:
        raise BadArgument(f"no Python function is registered as {token!r} in this process; functions do not travel "
                          "with a net: register it here too, or give Net.Python a builder (function, args, kwargs)")
    return _functions[token]


def _build(content: bytes) -> Function:
    if hashlib.sha256(content).hexdigest() not in _known_pickles:
        raise BadArgument("its function is a pickle that this process did not make, and a pickle can do anything when "
                          "it is loaded; if you trust where the net comes from, call "
                          "netgrad.runtime.python_ops.trust_pickle(content) first")
    function, args, kwargs = pickle.loads(content)
    try:
        built: Function = function(*args, **kwargs)
    except Exception as error:
        raise UserFunctionFailed(error) from None
    return built
