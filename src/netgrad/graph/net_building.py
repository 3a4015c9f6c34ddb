"""``net.X(inputs, outputs, ...)``: how operators are written into a net.

This is the code that runs for each operator that anybody writes, and it is laid out for speed: one function per
operator type, made once and kept on the class, which writes into the NetDef directly.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex

from netgrad.graph import operator as operators
from netgrad.graph import provenance, registry
from netgrad.graph.blob import BlobReference, rectified_names, scoped_name
from netgrad.graph.declaration import Operator
from netgrad.graph.net_base import NetBase
from netgrad.graph.operator import (
    NOT_ARGUMENTS,
    IsOperator,
    OperatorType,
    UnknownOperatorError,
    fill_operator,
    known_type,
    names_are_right,
    reference_or_tuple,
    set_arguments,
    warn_of_problems,
)
from netgrad.graph.scope import _threadlocal_scope


class NetBuilding(NetBase):
    """Operators as methods."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(f"a net has no attribute {op_type!r}")
        if not IsOperator(op_type):
            raise UnknownOperatorError(op_type)
        if not hasattr(NetBuilding, op_type):
            setattr(NetBuilding, op_type, _method(known_type(op_type)))
        return getattr(NetBuilding, op_type).__get__(self)  # type: ignore[no-any-return]

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *registry.names()})

    def _CreateAndAddToSelf(self, op_type: str, inputs: Any, outputs: Any = None, **kwargs: Any) -> Any:
        """Writes an operator of any type, declared or not."""
        return _method(known_type(op_type))(self, inputs, outputs, **kwargs)

    def extend_ops(self, new_ops: Iterable[Any]) -> None:
        """Appends OperatorDefs."""
        self._net.op.extend(new_ops)

    _ExtendOps = extend_ops

    def _declare_input(self, name: str) -> None:
        self._net.external_input.append(name)
        index = self._index
        index.external.setdefault(name, index.n_external)
        index.n_external += 1

    def _automatic_outputs(self, type: str, outputs: Any) -> Any:
        if outputs is None:
            return self.NextName(prefix=type)
        return [self.NextName(prefix=type, output_id=k) for k in range(outputs)]


class Sheet(str):
    """The docstring of an operator's method: the declaration's own, and the whole sheet of the catalogue for whoever
    lays it out to be read, which ``help`` and ``inspect.getdoc`` do. That is written when it is asked for."""

    declaration: type[Operator]

    def __new__(cls, declaration: type[Operator]) -> Sheet:
        text = super().__new__(cls, declaration.__doc__ or "")
        text.declaration = declaration
        return text

    def expandtabs(self, tabsize: SupportsIndex = 8) -> str:
        catalogue = importlib.import_module("netgrad.ops.catalogue")
        return "\n".join(catalogue.sheet(self.declaration)).expandtabs(tabsize)


def _method(kind: OperatorType) -> Callable[..., Any]:
    """The method that writes operators of one type."""
    type_ = kind.type
    right = kind.right
    is_ours = provenance._ours
    scopes = _threadlocal_scope
    reference = BlobReference
    new = BlobReference.__new__
    not_arguments = NOT_ARGUMENTS

    def write(self: NetBuilding, inputs: Any, outputs: Any = None, **kwargs: Any) -> Any:
        prefix = scopes.namescope
        if inputs.__class__ is list:
            names = [b._name if b.__class__ is reference else prefix + b if b.__class__ is str else scoped_name(b, 0)
                     for b in inputs]
        else:
            names = rectified_names(inputs)
        net = self._net
        index = self._index
        ops, declared = net.op, net.external_input
        position = len(ops)
        if index.n_ops != position or index.net is not net or index.n_external != len(declared):
            index.catch_up(net)
        written, external = index.written, index.external
        if index.handed_out:
            if position:
                last = ops[position - 1].output
                if len(last) != 1 or written.get(last[0]) != position - 1:
                    index.check_tail()
                    written, external = index.written, index.external
            for name in names:
                k = written.get(name)
                if k is not None and name in ops[k].output:
                    continue
                if k is None and (k := external.get(name)) is not None and declared[k] == name:
                    continue
                if not (index.is_written(name) or index.is_external(name)):
                    self._declare_input(name)
        else:
            for name in names:
                if name not in written and name not in external:
                    self._declare_input(name)

        if outputs.__class__ is str:
            outs = [prefix + outputs]
        elif outputs.__class__ is reference:
            outs = [outputs._name]
        elif outputs is None or outputs.__class__ is int:
            outs = rectified_names(self._automatic_outputs(type_, outputs))
        else:
            outs = rectified_names(outputs)

        op = ops.add(type=type_, input=names, output=outs, name="")
        for name in outs:
            written[name] = position
        index.n_ops = position + 1

        frame: Any = sys._getframe(1)
        code = frame.f_code
        if is_ours.get(code) is not False:
            while frame is not None and provenance.is_ours(frame.f_code):
                frame = frame.f_back
            code = frame.f_code if frame is not None else None
        offset = frame.f_lasti if frame is not None else 0
        self._provenance.record(position, type_, outs[0] if outs else "", code, offset)

        right_arguments = not kind.required
        if kwargs or scopes.devicescope is not None:
            try:
                if scopes.devicescope is None and not_arguments.isdisjoint(kwargs):
                    right_arguments = set_arguments(op, kind, kwargs)
                else:
                    right_arguments = fill_operator(op, kind, **kwargs)
            except BaseException:
                del ops[position]
                index.rebuild(net)
                raise
        obvious = right_arguments and (len(names), len(outs)) in right and not kind.must_be_in_place
        if not (obvious and len(outs) == 1 and outs[0] not in names) and \
                not (right_arguments and names_are_right(kind, names, outs)):
            warn_of_problems(op, code, offset, position, net.name)
        if operators.immediate is not None:
            operators.immediate(op)
        if len(outs) == 1:
            result = new(reference)
            result._name = outs[0]
            result._from_net = self
            return result
        return reference_or_tuple(outs, self)

    write.__name__ = type_
    write.__qualname__ = f"Net.{type_}"
    write.__doc__ = Sheet(kind.declaration) if kind.declaration else None
    return write
