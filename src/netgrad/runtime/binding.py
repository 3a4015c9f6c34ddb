"""Binding: what is known of an operator before it runs, found once.

A `Binding` belongs to an OperatorDef and a backend, not to a workspace; nets and operators run once share them.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrad.graph import engines, registry
from netgrad.graph.arguments import ArgumentError, parse_arguments, value_of
from netgrad.graph.declaration import Operator
from netgrad.graph.lazy_imports import TriggerLazyImport
from netgrad.graph.schema import check_operator
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, flags, random
from netgrad.runtime.backends import Backend
from netgrad.runtime.blobs import Strings
from netgrad.runtime.errors import (
    BadArgument,
    BadShape,
    DeviceError,
    MissingBlob,
    NoKernel,
    SchemaError,
    UnknownOperator,
    WrongKind,
)

if TYPE_CHECKING:
    from netgrad.runtime.workspace import Workspace

log = logging.getLogger("netgrad")

_GPUS = frozenset({caffe2_pb2.CUDA, caffe2_pb2.HIP})
#: other device types of the format, which are ways to compute on the host
_HOSTS = frozenset({caffe2_pb2.CPU, caffe2_pb2.MKLDNN, caffe2_pb2.IDEEP})
#: engines that builds of Caffe2 had and its own scripts name; that they are not here is no news
_CAFFE2S_ENGINES = frozenset({"", "DEFAULT", "CUDNN", "MIOPEN", "EIGEN", "MKLDNN", "NNPACK", "BLOCK", "SparseHash"})


@functools.cache
def _warn_once(message: str) -> None:
    log.warning(message)


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel after ``xp``: how many inputs it names, whether it takes any, which keywords."""

    inputs: int
    takes_inputs: bool
    keywords: tuple[str, ...]
    takes_call: bool
    takes_all: bool


@functools.cache
def signature_of(kernel: Callable[..., Any]) -> Signature:
    parameters = list(inspect.signature(kernel).parameters.values())[1:]
    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return Signature(
        takes_inputs=any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters),
        inputs=sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters),
        keywords=tuple(k for k in keywords if k != "op"),
        takes_call="op" in keywords,
        takes_all=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


@dataclass(frozen=True)
class Binding:
    """An operator, ready to be put into a net.

    Attributes:
        definition: the OperatorDef.
        inputs, outputs: names of blobs.
        kernel: ``kernel(xp, *inputs, **arguments)``.
        reference: the declaration's own, where `kernel` is a backend's.
        arguments: what the kernel receives by keyword.
        absent: Nones for the inputs that the kernel names and the operator has not.
        same: pairs (input, output) of one name whose shape must stay.
        takes_call: whether the kernel wants a `Call`.
        host: the kernel runs on NumPy whatever the backend is, and takes every kind of blob.
        strings: tensors of strings are taken.
        preferred: the engines that were preferred for it when it was bound.
        begin_empty: inputs that are empty tensors where their blob was never filled: operators keep their state there.
        silent: the kernel may return nothing, because it writes blobs itself.
        kinds: inputs that take one kind of number: position, pattern of the names of dtypes, what it is called.
        takes_inputs: the kernel is given the values of the inputs; else it looks at the workspace itself, if at all.
    """

    definition: caffe2_pb2.OperatorDef
    declaration: type[Operator]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kernel: Callable[..., Any]
    reference: Callable[..., Any] | None
    xp: Any
    arguments: Mapping[str, Any]
    absent: tuple[None, ...]
    same: tuple[tuple[int, int], ...]
    takes_call: bool
    host: bool
    strings: bool
    begin_empty: frozenset[int]
    silent: bool
    takes_inputs: bool
    preferred: tuple[str, ...]
    kinds: tuple[tuple[int, re.Pattern[str], str], ...]

    @property
    def type(self) -> str:
        return self.definition.type


class Call:
    """One operator of one net, as its kernel sees it (the keyword ``op``)."""

    def __init__(self, binding: Binding, workspace: Workspace) -> None:
        self.definition = binding.definition
        self.declaration = binding.declaration
        self.type = binding.definition.type
        self.inputs = binding.inputs
        self.outputs = binding.outputs
        self.num_inputs = len(binding.inputs)
        self.num_outputs = len(binding.outputs)
        #: lives as long as the net
        self.state: dict[Any, Any] = {}
        #: nets that are arguments, and the workspace of its own that one runs in; see `netgrad.runtime.nested`
        self.nets: dict[str, Any] = {}
        self.inside: Any = None
        self.workspace = workspace
        #: set when the run is cancelled: who waits for something gives up
        self.cancelled = threading.Event()

    def wants(self, k: int) -> bool:
        """Whether output ``k`` is asked for."""
        return k < self.num_outputs and self.outputs[k] != ""

    @functools.cached_property
    def rng(self) -> random.Stream:
        """What this operator draws random numbers from."""
        option = self.definition.device_option
        own = option.random_seed if option.HasField("random_seed") else None
        return random.open_stream(self.outputs[0] if self.outputs else self.type, own)

    def truth(self, k: int) -> bool:
        """The value of input ``k``, a condition: a single boolean."""
        name, values, backend = self.inputs[k], self.workspace.values, self.workspace.backend
        value = values.get(name)
        if value is None:
            raise MissingBlob(f"there is no value in {name!r}, which is the condition; feed it, or run what makes it")
        if not isinstance(value, backend.array_type) or isinstance(value, Strings):
            raise WrongKind(f"the condition {name!r} is no tensor of booleans but {type(value).__name__}")
        array = backend.to_numpy(value)
        if array.size != 1:
            raise BadShape(f"the condition {name!r} has {array.size} values, shape {array.shape}; it must have one")
        if array.dtype.kind != "b":
            raise WrongKind(f"the condition {name!r} is {array.dtype}; it must be bool: compare, or Cast it")
        return bool(array.all())

    def product(self, net: Any, by: Any, given: Any) -> Any:
        """The derivative of the operator that this one carries; see `netgrad.runtime.vector_jacobian`."""
        found = self.state.get("product")
        if found is None:
            from netgrad.runtime.vector_jacobian import Product

            found = self.state["product"] = Product(self, net, by, given)
        return found

    def argument(self, name: str, default: Any = None) -> Any:
        """The value of an argument, declared or not; ``default`` when it is absent."""
        for argument in self.definition.arg:
            if argument.name == name:
                return value_of(argument)
        return default


def arguments_of(definition: caffe2_pb2.OperatorDef, declaration: type[Operator]) -> dict[str, Any]:
    """Keyword -> value of every declared argument; raises `BadArgument`, which can be located, by name."""
    try:
        return parse_arguments(definition, declaration.argument_table)
    except ArgumentError as error:
        raise BadArgument(str(error)) from None


def _find(definition: caffe2_pb2.OperatorDef) -> type[Operator]:
    found = registry.find(definition.type)
    if found is None:
        TriggerLazyImport()
        found = registry.find(definition.type)
    if found is None:
        close = registry.close_names(definition.type)
        hint = f"; did you mean {' or '.join(close[:3])}?" if close else ""
        raise UnknownOperator(f"there is no operator of type {definition.type!r}{hint}")
    return found


def _kernel(declaration: type[Operator], backend: Backend, definition: caffe2_pb2.OperatorDef,
            preferred: Iterable[str]) -> Callable[..., Any]:
    if not declaration.host and not registry.is_replaced(declaration.type):
        for engine in definition.engine.split(",") if definition.engine else preferred:
            if (kernel := backend.overrides.find(declaration.type, engine)) is not None:
                return kernel
            if engine not in _CAFFE2S_ENGINES:
                _warn_once(f"there is no engine {engine!r} here; operators that name it run on the default one")
        if (kernel := backend.overrides.find(declaration.type)) is not None:
            return kernel
    if declaration.kernel is None:
        raise NoKernel(f"{declaration.type} is declared but has no kernel yet")
    return declaration.kernel


def preference(definition: caffe2_pb2.OperatorDef) -> tuple[str, ...]:
    """The engines that are preferred for an operator just now."""
    return tuple(engines.preferred_engines(definition.type, definition.device_option.device_type))


def _device(definition: caffe2_pb2.OperatorDef, backend: Backend) -> Any:
    option = definition.device_option
    if option.device_type in _HOSTS:
        return None
    if option.device_type not in _GPUS:
        kinds = {number: name for name, number in caffe2_pb2.DeviceTypeProto.items()}
        name = kinds.get(option.device_type, f"number {option.device_type}")
        raise DeviceError(f"it asks for a device of type {name}, which there is not; use CPU or CUDA")
    device = backend.device(option)
    if device is None:
        if flags.is_set("netgrad_strict_devices"):
            raise DeviceError(f"it asks for a GPU, there is none that the {backend.name} backend can use, and "
                              "strict_devices forbids the CPU instead")
        _warn_once(f"a net asks for a GPU, and there is none that the {backend.name} backend can use; "
                   "such operators run on the CPU")
    return device


def _begin_empty(declaration: type[Operator]) -> frozenset[int]:
    return frozenset(i for i, _ in declaration.inplace_required if "state" in declaration.effects)


#: what inputs may be restricted to
_FLOAT, _INTEGER, _NUMBER = ((re.compile("float"), "floating point is"), (re.compile("int"), "whole numbers are"),
                             (re.compile("int|float"), "numbers are"))


def _kind(slot: Any) -> tuple[re.Pattern[str], str] | None:
    return _FLOAT if slot.floating else _INTEGER if slot.integral else _NUMBER if slot.numeric else None


def bind(definition: caffe2_pb2.OperatorDef, backend: Backend) -> Binding:
    """All that can be known of an operator before it runs.

    Raises the `OperatorError` that says why it cannot: unknown type, broken schema, bad argument, no kernel, no device.
    """
    declaration = _find(definition)
    if problems := check_operator(definition):
        raise SchemaError("; ".join(problems))
    preferred = preference(definition)
    kernel = _kernel(declaration, backend, definition, preferred)
    device = _device(definition, backend)
    arguments = arguments_of(definition, declaration)
    signature = signature_of(kernel)
    if unknown := [k for k in signature.keywords if k not in arguments]:
        raise NoKernel(f"the kernel of {declaration.type} asks for {', '.join(unknown)}, which its declaration lacks")
    if not signature.takes_all:
        arguments = {k: arguments[k] for k in signature.keywords}
    inputs, outputs = tuple(definition.input), tuple(definition.output)
    slots = [(k, declaration.slot(declaration.inputs, k)) for k, name in enumerate(inputs) if name]
    same = [(i, o) for o, name in enumerate(outputs) for i, other in enumerate(inputs) if name == other and name]
    host = bool(declaration.host)
    return Binding(
        definition=definition, declaration=declaration, inputs=inputs, outputs=outputs,
        kernel=kernel if device is None or host else backend.on_device(kernel, device),
        reference=declaration.kernel,
        xp=backends.get("numpy").xp if host else backend.xp, arguments=arguments,
        absent=(None,) * max(0, signature.inputs - len(inputs)),
        same=tuple(same) if declaration.inplace_keeps_shape else (),
        takes_call=signature.takes_call, host=host, strings=host or declaration.strings,
        begin_empty=_begin_empty(declaration),
        silent=not outputs or not {"blobs", "binds"}.isdisjoint(declaration.effects),
        takes_inputs=signature.takes_inputs,
        preferred=preferred,
        kinds=tuple((k, *kind) for k, slot in slots if slot is not None and (kind := _kind(slot))),
    )
