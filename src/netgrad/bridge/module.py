"""A net as a ``torch.nn.Module``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from netgrad.bridge.function import NetFunction
from netgrad.proto import caffe2_pb2
from netgrad.runtime.workspace import Workspace


class NetModule(torch.nn.Module):
    """A net as a module: its parameters are the module's, its inputs and outputs those of the call.

    Floating-point blobs that the net only reads become parameters, without a copy where they are tensors; what else it
    reads becomes a buffer, and so does what it updates (running averages), which every call updates while the module
    trains. ``.`` in a blob's name is ``_`` in the parameter's.

    Args:
        net: a Net or a NetDef, without a backward pass.
        inputs: blobs that the call gives; all external ones that are no parameters unless given.
        outputs: blobs that the call returns; the net's external outputs unless given, or else what nobody reads.
        init_net: a net that makes parameters; it runs once, now.
        parameters: blob -> tensor or array, for those that ``init_net`` does not make, or instead.
        frozen: parameters that are not to be trained: they become buffers.
        sparse_gradients: see `NetFunction`.

    Raises:
        ValueError: a blob that the net reads is neither an input nor a parameter.
    """

    def __init__(self, net: Any, inputs: Iterable[Any] | None = None, outputs: Iterable[Any] | None = None, *,
                 init_net: Any = None, parameters: Mapping[Any, Any] | None = None, frozen: Iterable[Any] = (),
                 sparse_gradients: bool = False) -> None:
        super().__init__()
        definition: caffe2_pb2.NetDef = net.Proto() if hasattr(net, "Proto") else net
        values = {**_made_by(init_net), **{str(name): value for name, value in (parameters or {}).items()}}
        read, written, unread = _interface(definition)
        self.inputs = [name for name in read if name not in values] if inputs is None else [str(b) for b in inputs]
        self.outputs = [str(b) for b in outputs] if outputs is not None else list(definition.external_output) or unread
        held = [name for name in read if name not in self.inputs]
        if missing := [name for name in held if name not in values]:
            raise ValueError(f"the net {definition.name!r} reads {', '.join(map(repr, missing))}, which is neither an "
                             "input nor made by init_net; name it in inputs or give it in parameters")
        #: blob -> the name of the parameter or buffer that holds it
        self.blobs: dict[str, str] = {}
        fixed = {*map(str, frozen), *written}
        for name in held:
            self._hold(name, _tensor(values[name]), trainable=name not in fixed)
        self.state = [name for name in held if name in written]
        self.function = NetFunction(definition, (*self.inputs, *held), self.outputs, state=self.state,
                                    sparse_gradients=sparse_gradients)

    def _hold(self, name: str, tensor: torch.Tensor, trainable: bool) -> None:
        attribute = name.replace(".", "_")
        while hasattr(self, attribute):
            attribute += "_"
        self.blobs[name] = attribute
        if trainable and tensor.is_floating_point():
            self.register_parameter(attribute, tensor if isinstance(tensor, torch.nn.Parameter)
                                    else torch.nn.Parameter(tensor.detach()))
        else:
            self.register_buffer(attribute, tensor.detach())

    def forward(self, *args: torch.Tensor, **named: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The outputs for inputs in order, or by the names of their blobs: one tensor, or a tuple of them."""
        given = {**dict(zip(self.inputs, args)), **named}
        if len(args) + len(named) != len(self.inputs) or given.keys() != set(self.inputs):
            raise TypeError(f"the inputs are {', '.join(self.inputs)}; found {len(args)} by position"
                            + (f" and {', '.join(named)}" if named else ""))
        found = self.function(*(given[name] for name in self.inputs), *self.tensors().values())
        found = found if isinstance(found, tuple) else (found,)
        if self.training:
            for name, value in zip(self.state, found[len(self.outputs):]):
                setattr(self, self.blobs[name], value)
        outputs = found[:len(self.outputs)]
        return outputs[0] if len(outputs) == 1 else outputs

    def tensors(self) -> dict[str, torch.Tensor]:
        """Blob -> its parameter or buffer; for `netgrad.bridge.share`, say."""
        return {name: getattr(self, attribute) for name, attribute in self.blobs.items()}

    def extra_repr(self) -> str:
        return f"{self.function.definition.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}"


def _made_by(init_net: Any) -> dict[str, Any]:
    if init_net is None:
        return {}
    workspace = Workspace(backend="torch")
    workspace.run_net_once(init_net)
    return {name: value for name, value in workspace.values.items() if isinstance(value, torch.Tensor)}


def _interface(net: caffe2_pb2.NetDef) -> tuple[list[str], set[str], list[str]]:
    """What a net reads before it writes it, what it writes, and what its last operators make."""
    read: dict[str, None] = {}
    written: set[str] = set()
    unread: set[str] = set()
    for op in net.op:
        read.update(dict.fromkeys(name for name in op.input if name and name not in written))
        unread.difference_update(op.input)
        unread.update(op.output)
        written.update(op.output)
    ends = [name for op in net.op if unread.issuperset(op.output) for name in op.output if name and name not in read]
    return list(read), written, list(dict.fromkeys(ends))


def _tensor(value: Any) -> torch.Tensor:
    """A tensor that shares the value's storage, where it can be written into."""
    if isinstance(value, torch.Tensor):
        return value
    array = np.asarray(value)
    return torch.from_numpy(array if array.flags.writeable else array.copy())
