"""Operators declared by one function: `operator`, a short form of subclassing `Operator`."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from netgrad.graph import registry
from netgrad.graph.arguments import REQUIRED, Arg, Bool, Float, Floats, Int, Ints, Str, Strs
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import Emits
from netgrad.graph.shapes import Same

_KINDS: dict[Any, type[Arg]] = {bool: Bool, int: Int, float: Float, str: Str}
_LISTS: dict[Any, type[Arg]] = {int: Ints, float: Floats, str: Strs}

Slots = str | Iterable[str | In] | Iterable[str | Out]


def operator(function: Callable[..., Any] | None = None, /, *, type: str = "", inputs: Slots | None = None,
             outputs: Slots | None = None, arguments: Iterable[Arg] | None = None, gradient: Any = None,
             gradient_of: Any = None, shape: Any = None, replace: bool = False, **attributes: Any) -> Any:
    """Declares an operator whose kernel is the decorated function, and returns the declaration.

    The function's parameters say the rest: after ``xp`` come the inputs (``X=None``: optional, ``*X``: any number),
    then, keyword-only, the arguments, whose kind is their annotation (``bool``, ``int``, ``float``, ``str``, or a list)
    or that of their default; one without a default is required. ``op`` is the call itself, as in any kernel::

        @netgrad.operator(shape=netgrad.same_as(0))
        def Snake(xp, X, *, alpha: float = 1.0):
            return X + xp.sin(alpha * X) ** 2 / alpha

        @netgrad.operator(gradient_of=Snake)
        def SnakeGradient(xp, X, dY, *, alpha: float = 1.0):
            return dY * (1 + xp.sin(2 * alpha * X))

    Args:
        type: the operator's type; the function's name unless given.
        inputs: the inputs where the parameters do not say enough: names, separated by blanks or as a list, or `In`.
        outputs: likewise; one output Y unless given, or as many as an annotated tuple has (``-> tuple[Any, Any]``).
        arguments: the arguments, where the parameters do not say enough.
        gradient: the gradient rule.
        gradient_of: the operator (or its type) whose gradient this is. Its parameters are then called like that
            operator's inputs and outputs, with ``d`` before the name for the gradient of an output; its outputs are
            the gradients of all inputs, or of those named in ``outputs`` (``"dX dW"``).
        shape: shapes and dtypes of the outputs; of a gradient, those of the inputs it reads, unless given.
        replace: a built-in operator of this type is replaced, or the gradient that ``gradient_of`` has already.
        attributes: any other attribute of `Operator` (``inplace``, ``effects``, ``host``, ...).

    Raises:
        TypeError: a parameter does not say what it is, or an attribute does not exist.
        ValueError: the gradient reads or makes what the forward operator has not.
        BuiltInOperatorError: a built-in operator would change, and ``replace`` is not set.
    """
    if function is None:
        return lambda f: operator(f, type=type, inputs=inputs, outputs=outputs, arguments=arguments, gradient=gradient,
                                  gradient_of=gradient_of, shape=shape, replace=replace, **attributes)
    if unknown := [name for name in attributes if name.startswith("_") or not hasattr(Operator, name)]:
        raise TypeError(f"operators have no attribute {', '.join(unknown)}; see netgrad.Operator for those they have")
    name = type or function.__name__
    parameters = _parameters(function)
    body = {**attributes, "type": name, "kernel": function, "gradient": gradient, "shape": shape,
            "inputs": _inputs(parameters) if inputs is None else _slots(inputs, In),
            "arguments": _arguments(function, parameters) if arguments is None else list(arguments),
            "outputs": _outputs(function) if outputs is None else _slots(outputs, Out),
            "__doc__": function.__doc__, "__module__": function.__module__ or "__main__",
            "__qualname__": function.__qualname__}
    forward, rule = None, None
    if gradient_of is not None:
        forward = _forward(gradient_of, replace)
        if outputs is None:
            body["outputs"] = [Out(f"d{i.name}") for i in forward.inputs]
        rule = _rule(name, body["inputs"], body["outputs"], forward)
        if shape is None:
            body["shape"] = _shape(rule)
    declared = types.new_class(name, (Operator,), {"replace": replace}, lambda namespace: namespace.update(body))
    if forward is not None:
        forward.gradient = rule
        registry.register(forward, replace)
    return declared


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in (inspect.Parameter.POSITIONAL_ONLY,
                                                    inspect.Parameter.POSITIONAL_OR_KEYWORD):
        raise TypeError(f"{function.__name__} should take xp, the array functions, as its first parameter")
    return parameters[1:]


def _inputs(parameters: Sequence[inspect.Parameter]) -> list[In]:
    found = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            found.append(In(p.name, variadic=True))
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            found.append(In(p.name, optional=p.default is not p.empty))
    return found


def _slots(given: Slots, kind: Any) -> list[Any]:
    return [kind(slot) if isinstance(slot, str) else slot
            for slot in (given.split() if isinstance(given, str) else given)]


def _outputs(function: Callable[..., Any]) -> list[Out]:
    annotation = _resolved(inspect.signature(function).return_annotation, function)
    parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else ()
    if Ellipsis in parts:
        return [Out("Y", variadic=True)]
    return [Out(f"Y{k}") for k in range(len(parts))] if len(parts) > 1 else [Out("Y")]


def _arguments(function: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> list[Arg]:
    found = []
    for p in parameters:
        if p.kind is not p.KEYWORD_ONLY or p.name == "op":
            continue
        kind = _kind(_resolved(p.annotation, function)) if p.annotation is not p.empty else _kind_of_default(p.default)
        if kind is None:
            raise TypeError(f"the parameter {p.name!r} of {function.__name__} does not say what kind of argument it "
                            "is; annotate it as bool, int, float, str, or a list of the last three, or give arguments=")
        found.append(kind(p.name, REQUIRED if p.default is p.empty else p.default))
    return found


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    """An annotation that was put off (``from __future__ import annotations``); None where its names are unknown."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(function, "__globals__", {}))
    except Exception:
        return None


def _kind(annotation: Any) -> type[Arg] | None:
    arguments = [a for a in typing.get_args(annotation) if a not in (types.NoneType, Ellipsis)]
    if typing.get_origin(annotation) in (types.UnionType, typing.Union) and len(arguments) == 1:
        return _kind(arguments[0])
    if arguments and len(set(arguments)) == 1:
        return _LISTS.get(arguments[0])
    return _KINDS.get(annotation) if isinstance(annotation, type) else None


def _kind_of_default(default: Any) -> type[Arg] | None:
    if isinstance(default, (list, tuple)):
        return _LISTS.get(type(default[0])) if default else None
    return _KINDS.get(type(default))


def _forward(gradient_of: Any, replace: bool) -> type[Operator]:
    """The declaration whose gradient is declared; raises where it cannot take one."""
    forward = registry.find(gradient_of) if isinstance(gradient_of, str) else gradient_of
    if forward is None:
        raise ValueError(f"there is no operator {gradient_of!r} to be the gradient of; declare it first")
    if forward.gradient is not None and not replace:
        raise ValueError(f"{forward.type} has a gradient already; replace=True puts this one in its place")
    if any(slot.optional or slot.variadic for slot in (*forward.inputs, *forward.outputs)):
        raise ValueError(f"{forward.type} has optional or repeated inputs or outputs: state its rule as a function of "
                         "netgrad.Rule, gradient=...")
    return typing.cast("type[Operator]", forward)


def _rule(type: str, inputs: Sequence[In], outputs: Sequence[Out], forward: type[Operator]) -> Emits:
    known = {f"d{o.name}": ("GO", k) for k, o in enumerate(forward.outputs)}
    known |= {o.name: ("O", k) for k, o in enumerate(forward.outputs)}
    known |= {i.name: ("I", k) for k, i in enumerate(forward.inputs)}
    wanted = {f"d{i.name}": ("GI", k) for k, i in enumerate(forward.inputs)}
    for name, names in (*((i.name, known) for i in inputs), *((o.name, wanted) for o in outputs)):
        if name not in names:
            raise ValueError(f"{type}: {name!r} is none of {', '.join(names)}, which the gradient of "
                             f"{forward.type} can {'read' if names is known else 'make'}")
    return Emits(type, tuple(known[i.name] for i in inputs), tuple(wanted[o.name] for o in outputs))


def _shape(rule: Emits) -> Same | None:
    """Gradients have the shapes of what they belong to, where the rule reads that."""
    read = {k: position for position, (kind, k) in enumerate(rule.inputs) if kind == "I"}
    wanted = [k for _, k in rule.outputs]
    return Same(tuple(read[k] for k in wanted)) if read.keys() >= set(wanted) else None
