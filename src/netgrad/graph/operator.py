"""Writing one operator: names, arguments and device of an OperatorDef, and what its declaration has to say to them."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

from netgrad.graph import provenance, registry, schema
from netgrad.graph.argument_values import plain_fields, set_argument, set_declared
from netgrad.graph.arguments import UNIVERSAL, Arg, ArgumentError
from netgrad.graph.blob import BlobReference, _RectifyInputOutput, rectified_names
from netgrad.graph.declaration import Operator
from netgrad.graph.lazy_imports import TriggerLazyImport
from netgrad.graph.scope import _threadlocal_scope
from netgrad.proto import caffe2_pb2

__all__ = [
    "CreateOperator", "CreatePythonOperator", "DataType", "GetIndexFromGradientList", "GradientSlice", "IsOperator",
    "IsOperatorWithEngine", "RefreshRegisteredOperators", "UnknownArgumentWarning", "UnknownOperatorError",
    "_RectifyInputOutput", "_RegisterPythonImpl",
]

GradientSlice = namedtuple("GradientSlice", ["indices", "values"])


class DataType:
    """The values of ``TensorProto.DataType`` as attributes: ``DataType.FLOAT``."""


for _name, _value in caffe2_pb2.TensorProto.DataType.items():
    setattr(DataType, _name, _value)


class UnknownArgumentWarning(UserWarning):
    """An operator received an argument that its declaration does not name; it has no effect."""


class UnknownOperatorError(AttributeError):
    """A name that is no operator type was called on a net or a blob. Close names are looked up when it is printed."""

    def __init__(self, op_type: str) -> None:
        super().__init__(op_type)
        self.op_type = op_type

    def __str__(self) -> str:
        close = registry.close_names(self.op_type)
        return f"{self.op_type} is no method and no registered operator. Did you mean: [{','.join(close)}]"


def IsOperator(op_type: str) -> bool:
    """Whether an operator of that type is declared; imports put off are made good before the answer is no."""
    if op_type in registry.family_index() or registry.find(op_type) is not None:
        return True
    TriggerLazyImport()
    return registry.find(op_type) is not None


def RefreshRegisteredOperators(trigger_lazy: bool = True) -> None:
    """Makes imports good that were put off. Declarations register themselves."""
    if trigger_lazy:
        TriggerLazyImport()


def IsOperatorWithEngine(op_type: str, engine: str) -> bool:
    """Whether an operator of that type has an implementation under that engine, "DEFAULT" being the ordinary one."""
    return engine in ("", "DEFAULT") and IsOperator(op_type)


#: called with every operator written, while the workspace is in immediate mode
immediate: Callable[[Any], None] | None = None


class OperatorType:
    """What is known of an operator type when one is written; kept up to date with the registry."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.right: set[tuple[int, int]] = set()
        self.refresh()

    def refresh(self) -> None:
        self.declaration: type[Operator] | None = registry.find(self.type)
        self.table: dict[str, Arg] = dict(self.declaration.argument_table) if self.declaration else {}
        self.fields = {name: plain_fields(argument) for name, argument in self.table.items()}
        self.required = frozenset(name for name, argument in self.table.items() if argument.required)
        self.must_be_in_place = bool(self.declaration and self.declaration.inplace_required)
        #: counts of inputs and outputs that were checked and found right
        self.right.clear()

    def counts_are_right(self, n_in: int, n_out: int) -> bool:
        if (n_in, n_out) in self.right:
            return True
        if self.declaration is None or schema.counts(self.declaration, n_in, n_out):
            return False
        self.right.add((n_in, n_out))
        return True


_types: dict[str, OperatorType] = {}


def known_type(type: str) -> OperatorType:
    """What is known of an operator type, declared or not."""
    known = _types.get(type)
    if known is None:
        known = _types[type] = OperatorType(type)
    return known


def _changed(type: str) -> None:
    if type in _types:
        _types[type].refresh()


registry.watch(_changed)

_warned: set[tuple[str, str]] = set()
_warned_places: set[tuple[CodeType | None, int, str]] = set()


def set_arguments(op: Any, kind: OperatorType, kwargs: dict[str, Any]) -> bool:
    """Adds keyword arguments to an OperatorDef; ``None`` means not given.

    Returns:
        Whether all of them fit the declaration and none that it requires is missing.
    """
    fields, arguments = kind.fields, op.arg
    right = kind.required <= kwargs.keys() if kind.required else True
    for key, value in kwargs.items():
        if value is None:
            right = right and key not in kind.required
            continue
        argument = arguments.add()
        argument.name = key
        plain = fields.get(key)
        field = plain.get(value.__class__) if plain is not None else None
        try:
            if field == "f":
                argument.f = value
            elif field == "i":
                argument.i = value
            elif field == "s":
                argument.s = value
            elif plain is not None:
                right = set_declared(argument, kind.table[key], key, value) and right
            else:
                set_argument(argument, key, value)
                if (kind.declaration is not None and key not in UNIVERSAL
                        and not key.startswith(kind.declaration.argument_prefixes)):
                    _unknown_argument(kind, key)
        except ValueError as error:
            reason = str(error) if isinstance(error, ArgumentError) else f"argument {key!r}: {error}"
            raise ArgumentError(f"{op.type}: {reason}") from None
    return right


def _unknown_argument(kind: OperatorType, key: str) -> None:
    if (kind.type, key) in _warned:
        return
    _warned.add((kind.type, key))
    import difflib

    known = sorted(kind.table)
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it knows {', '.join(known) or 'none'}"
    code, offset = provenance.caller()
    filename, line = provenance.place(code, offset)
    warnings.warn_explicit(f"{kind.type} has no argument {key!r}, which has no effect; {hint}",
                           UnknownArgumentWarning, filename, line)


def warn_of_problems(op: Any, code: CodeType | None, offset: int, position: int | None = None, net: str = "") -> None:
    """One warning for each place (code, instruction) where an operator was written that its declaration refuses."""
    if (code, offset, op.type) in _warned_places:
        return
    problems = schema.check_operator(op)
    if not problems:
        return
    _warned_places.add((code, offset, op.type))
    where = f"operator {position} of net {net!r}, " if position is not None else ""
    filename, line = provenance.place(code, offset)
    warnings.warn_explicit(f"{where}{op.type}: {'; '.join(problems)}. Creating the net will fail.",
                           schema.SchemaWarning, filename, line)


#: keywords of `CreateOperator` that do not become arguments of the operator
NOT_ARGUMENTS = frozenset({"name", "control_input", "device_option", "arg", "engine", "debug_info", "random_seed"})


def fill_operator(
    op: Any,
    kind: OperatorType,
    /,
    name: str = "",
    control_input: Any = None,
    device_option: Any = None,
    arg: Iterable[Any] | None = None,
    engine: str | None = None,
    debug_info: str | None = None,
    random_seed: int | None = None,
    **kwargs: Any,
) -> bool:
    """Everything of an OperatorDef but its type, inputs and outputs (see `CreateOperator`).

    Returns:
        Whether all arguments fit the declaration and none that it requires is missing.
    """
    try:
        op.name = name
    except TypeError:
        raise ArgumentError(f"{op.type}: the operator's name is {name!r}; expected a string") from None
    if control_input:
        op.control_input.extend(rectified_names(control_input))
    option = device_option if device_option is not None else _threadlocal_scope.devicescope
    if option is not None:
        op.device_option.CopyFrom(option)
    if engine is not None:
        op.engine = engine
    if debug_info is not None:
        op.debug_info = debug_info
    if random_seed is not None:
        op.device_option.random_seed = random_seed
    if arg is not None:
        op.arg.extend(arg)
    right = set_arguments(op, kind, kwargs)
    return right and not arg


def CreateOperator(
    operator_type: str,
    inputs: Any,
    outputs: Any,
    name: str = "",
    control_input: Any = None,
    device_option: Any = None,
    arg: Iterable[Any] | None = None,
    engine: str | None = None,
    debug_info: str | None = None,
    **kwargs: Any,
) -> caffe2_pb2.OperatorDef:
    """Makes an OperatorDef that belongs to no net.

    Args:
        operator_type: the type.
        inputs: a blob or a list of them; strings receive the current name scope, references do not.
        outputs: likewise.
        control_input: blobs that must exist before it runs.
        device_option: the device; that of the current device scope if absent.
        arg: ready-made arguments.
        engine: which implementation to prefer.
        kwargs: further arguments by name; ``random_seed`` goes into the device option. Values are converted to the
            kinds that the declaration states where nothing is lost; None means absent.

    Raises:
        TypeError: inputs or outputs are neither strings nor references.
        ArgumentError: a value has no place in an argument.

    Warns:
        UnknownArgumentWarning: the declaration names no such argument (once for each type and name).
        SchemaWarning: the declaration refuses the operator (once for each place).
    """
    kind = known_type(operator_type)
    names, outs = rectified_names(inputs), rectified_names(outputs)
    op = caffe2_pb2.OperatorDef(type=operator_type, input=names, output=outs)
    right = fill_operator(op, kind, name, control_input, device_option, arg, engine, debug_info, **kwargs)
    if not (right and names_are_right(kind, names, outs)):
        warn_of_problems(op, *provenance.caller())
    if immediate is not None:
        immediate(op)
    return op


def names_are_right(kind: OperatorType, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
    """Whether counts and in-place use follow the declaration."""
    if not kind.counts_are_right(len(inputs), len(outputs)):
        return False
    if not kind.must_be_in_place and set(inputs).isdisjoint(outputs):
        return True
    return kind.declaration is not None and not schema.in_place(kind.declaration, inputs, outputs)


def _RegisterPythonImpl(f: Any, grad_f: Any = None, python_func_type: Any = None, pass_workspace: bool = False) -> str:
    """Registers Python functions for a Python operator; the token by which the operator names them."""
    from netgrad.runtime.python_ops import register_python_op

    if python_func_type is not None:
        function = python_func_type(f)
        f, grad_f = function.forward, function.backward
    else:
        if isinstance(f, tuple):
            f = f[0](*f[1], **f[2])
        if isinstance(grad_f, tuple):
            grad_f = grad_f[0](*grad_f[1], **grad_f[2])
    return str(register_python_op(f, grad_f, pass_workspace=pass_workspace))


def CreatePythonOperator(
    f: Any,
    inputs: Any,
    outputs: Any,
    grad_f: Any = None,
    pass_workspace: bool = False,
    python_func_type: Any = None,
    *args: Any,
    **kwargs: Any,
) -> caffe2_pb2.OperatorDef:
    """An operator that calls ``f(inputs, outputs)``; with ``pass_workspace``, ``f(inputs, outputs, workspace)``.

    Args:
        grad_f: called as the gradient, with inputs, outputs and the outputs' gradients as its inputs.
        python_func_type: a class with ``forward`` and ``backward``, constructed with ``f``.
    """
    kwargs["token"] = _RegisterPythonImpl(f, grad_f, python_func_type, pass_workspace=pass_workspace)
    return CreateOperator("Python", inputs, outputs, *args, **kwargs)


def GetIndexFromGradientList(g_list: Iterable[Any], name: Any) -> int | None:
    """The position of the gradient, dense or a slice, that has this name; None if there is none."""
    for k, gradient in enumerate(g_list):
        if gradient == name or (isinstance(gradient, GradientSlice) and name in (gradient.indices, gradient.values)):
            return k
    return None


def reference_or_tuple(outputs: Sequence[str], net: Any) -> BlobReference | tuple[BlobReference, ...] | None:
    """What ``net.X(...)`` returns: nothing, one reference, or one for each output."""
    if not outputs:
        return None
    if len(outputs) == 1:
        return BlobReference(outputs[0], net)
    return tuple([BlobReference(name, net) for name in outputs])
