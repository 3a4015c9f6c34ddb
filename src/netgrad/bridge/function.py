"""A net as a function of torch tensors, which autograd differentiates by the net's own backward pass."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from netgrad.graph import registry, scope
from netgrad.graph.net import Net
from netgrad.graph.operator import GradientSlice
from netgrad.proto import caffe2_pb2
from netgrad.runtime import lending
from netgrad.runtime.workspace import Workspace


def share(workspace: Workspace, tensors: Mapping[str, torch.Tensor]) -> None:
    """Makes tensors blobs of a workspace on the torch backend, without a copy: both see what is written into either.

    Nets never write into such a blob's storage: an operator that updates it in place binds its name to a new tensor.
    """
    if workspace.backend.name != "torch":
        raise ValueError(f"tensors are shared with workspaces on torch; this one is on {workspace.backend.name}, whose "
                         "blobs are copies: feed them")
    for name, tensor in tensors.items():
        workspace.values[str(name)] = lending.show(tensor.detach())


@dataclass(frozen=True)
class _Passes:
    """The forward and the backward net for the inputs whose gradients are wanted.

    Attributes:
        forward, backward: created in the workspace.
        saved: blobs that the backward net reads and the forward net leaves.
        given: the blobs in which it expects the outputs' gradients; None where an output takes none.
        gradients: the blobs in which it leaves the wanted gradients; None where there is none.
    """

    workspace: Workspace
    forward: Any
    backward: Any
    saved: tuple[str, ...]
    given: tuple[str | None, ...]
    gradients: Mapping[str, str | tuple[str, str] | None]


class NetFunction:
    """A net as a function: tensors of its inputs in, tensors of its outputs out.

    The function is pure: what else the net writes is forgotten. It runs on torch, on the device of its inputs, and
    takes part in autograd, to any order for which the net's operators have gradients.

    Args:
        net: a Net or a NetDef, without a backward pass (it is derived from it, a copy).
        inputs: blobs that the call gives, in order: all that the net reads and does not make.
        outputs: blobs that the call returns.
        state: further blobs that it returns after these, without a gradient: what the net updates (running averages).
        sparse_gradients: the gradient of a table of which only rows were read is a sparse tensor, not a dense one.

    Raises:
        ValueError: inputs or outputs are not those of the net.
    """

    def __init__(self, net: Any, inputs: Iterable[Any], outputs: Iterable[Any], *,
                 state: Iterable[Any] = (), sparse_gradients: bool = False) -> None:
        self.definition = caffe2_pb2.NetDef()
        self.definition.CopyFrom(net.Proto() if hasattr(net, "Proto") else net)
        self.inputs = tuple(str(blob) for blob in inputs)
        self.outputs = tuple(str(blob) for blob in outputs)
        self.state = tuple(str(blob) for blob in state)
        self.sparse_gradients = sparse_gradients
        _check(self.definition, self.inputs, (*self.outputs, *self.state))
        self._passes: dict[tuple[torch.device, tuple[str, ...]], _Passes] = {}
        self._lock = threading.RLock()

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The outputs for these inputs: one tensor, or a tuple where the function has several outputs."""
        if len(tensors) != len(self.inputs):
            raise TypeError(f"expected {len(self.inputs)} tensors ({', '.join(self.inputs)}), found {len(tensors)}")
        for name, tensor in zip(self.inputs, tensors):
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"input {name!r} should be a tensor, not {type(tensor).__name__}")
        found: tuple[torch.Tensor, ...]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            found = _Apply.apply(self, *tensors)
        else:
            found = _separate(self, tensors, self.run_forward((), tensors)[0])
        return found[0] if len(found) == 1 else found

    def __repr__(self) -> str:
        return f"<NetFunction {self.definition.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def passes(self, device: torch.device, wanted: Sequence[str]) -> _Passes:
        """The nets for these inputs' gradients on this device, made when first asked for."""
        key = device, tuple(wanted)
        if key not in self._passes:
            self._passes[key] = self._prepare(device, wanted)
        return self._passes[key]

    def _prepare(self, device: torch.device, wanted: Sequence[str]) -> _Passes:
        workspace = Workspace(backend="torch")
        for name in self.inputs:
            workspace.create_blob(name)
        whole, given, gradients, start = self._differentiate(wanted)
        forward, backward = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
        for part in (forward, backward):
            part.CopyFrom(whole)
            if device.type == "cuda":
                part.device_option.CopyFrom(
                    caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CUDA, device_id=device.index or 0))
        del forward.op[start:]
        del backward.op[:start]
        backward.name += "_backward"
        bound = workspace.create_net(forward)
        for blob in filter(None, given):
            workspace.create_blob(blob)
        made = {*filter(None, given)}
        read: dict[str, None] = {}
        for op in backward.op:
            read.update(dict.fromkeys(name for name in op.input if name and name not in made))
            made.update(op.output)
        needed = {part for g in gradients.values() if g for part in ([g] if isinstance(g, str) else g)}
        read.update(dict.fromkeys(sorted(needed - made)))
        return _Passes(workspace, bound, workspace.create_net(backward), tuple(read), given, gradients)

    def _differentiate(self, wanted: Sequence[str]) -> tuple[
            caffe2_pb2.NetDef, tuple[str | None, ...], dict[str, str | tuple[str, str] | None], int]:
        """The net with its backward pass, the given and the made gradients, where the backward pass begins."""
        net = Net(self.definition)
        names = {name for op in self.definition.op for name in (*op.input, *op.output)}
        given = tuple(_fresh(f"{output}_given", names) if _differentiable(self.definition, output) else None
                      for output in self.outputs)
        ys = {output: gradient for output, gradient in zip(self.outputs, given) if gradient}
        wrt = [name for name in wanted if name in names]
        if not ys or not wrt:
            return net.Proto(), given, dict.fromkeys(wanted), len(self.definition.op)
        with scope.EmptyNameScope():
            found = net.AddGradientOperators(ys, wrt=wrt, overwritten="save")
        gradients: dict[str, str | tuple[str, str] | None] = {}
        for name in wanted:
            gradient = found.get(name)
            gradients[name] = None if gradient is None else (str(gradient.indices), str(gradient.values)) \
                if isinstance(gradient, GradientSlice) else str(gradient)
        return net.Proto(), given, gradients, found.start

    def second(self, wanted: Sequence[str]) -> NetFunction:
        """The backward pass as a function of inputs and given gradients, to be differentiated in turn."""
        whole, given, gradients, _ = self._differentiate(wanted)
        dense = [g for g in gradients.values() if isinstance(g, str)]
        if len(dense) < len(wanted):
            raise NotImplementedError("the gradient of rows of a table cannot be differentiated again as a function; "
                                      "give Gather the argument dense_gradient=1, or differentiate the net itself")
        return NetFunction(whole, (*self.inputs, *filter(None, given)), dense)

    def run_forward(self, wanted: Sequence[str], tensors: Sequence[torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """The outputs, and what the backward pass will read."""
        with self._lock:
            passes = self.passes(_device(tensors), wanted)
            values = passes.workspace.values
            values.update((name, tensor.detach()) for name, tensor in zip(self.inputs, tensors))
            passes.forward.run()
            outputs = [values[name] for name in (*self.outputs, *self.state)]
            saved = {name: values[name] for name in passes.saved}
            self._forget(passes)
        return outputs, saved

    def run_backward(self, wanted: Sequence[str], saved: Mapping[str, Any], given: Sequence[torch.Tensor],
                     device: torch.device, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
        """The gradients of the wanted inputs."""
        with self._lock:
            passes = self.passes(device, wanted)
            values = passes.workspace.values
            values.update(saved)
            values.update((name, g.detach().contiguous()) for name, g in zip(passes.given, given) if name)
            passes.backward.run()
            like = dict(zip(self.inputs, inputs))
            found = [self._gradient(passes.gradients[name], values, like[name]) for name in wanted]
            self._forget(passes)
        return found

    def _gradient(self, gradient: str | tuple[str, str] | None, values: Mapping[str, Any],
                  like: torch.Tensor) -> torch.Tensor | None:
        if gradient is None:
            return None
        if isinstance(gradient, str):
            found: torch.Tensor = values[gradient]
            return found.reshape(like.shape)
        indices, rows = values[gradient[0]].flatten().long(), values[gradient[1]]
        rows = rows.reshape(-1, *like.shape[1:])
        if self.sparse_gradients:
            return torch.sparse_coo_tensor(indices[None], rows, like.shape, check_invariants=False)
        return torch.zeros_like(like).index_add_(0, indices, rows)

    @staticmethod
    def _forget(passes: _Passes) -> None:
        """Lets go of all tensors, so that only autograd holds what it needs."""
        passes.workspace.values.update(dict.fromkeys(passes.workspace.values))


class _Apply(torch.autograd.Function):
    """One call of a `NetFunction`."""

    @staticmethod
    def forward(ctx: Any, function: NetFunction, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.function = function
        ctx.wanted = [name for name, needed in zip(function.inputs, ctx.needs_input_grad[1:]) if needed]
        outputs, saved = function.run_forward(ctx.wanted, tensors)
        found = _separate(function, tensors, outputs)
        ctx.mark_non_differentiable(*found[len(function.outputs):], *(y for y in found if not y.is_floating_point()))
        # tensors share their count of writes with their aliases: autograd notices when one is written into too early
        ctx.saved_names = [name for name, value in saved.items() if isinstance(value, torch.Tensor)]
        ctx.others = {name: value for name, value in saved.items() if not isinstance(value, torch.Tensor)}
        ctx.save_for_backward(*tensors, *(saved[name] for name in ctx.saved_names))
        return found

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        function: NetFunction = ctx.function
        inputs = ctx.saved_tensors[:len(function.inputs)]
        wanted = ctx.wanted
        if torch.is_grad_enabled():
            found = _differentiable_backward(function, wanted, inputs, given)
        else:
            saved = {**ctx.others, **{name: tensor.detach() for name, tensor in
                                      zip(ctx.saved_names, ctx.saved_tensors[len(function.inputs):])}}
            found = function.run_backward(wanted, saved, given, _device(inputs), inputs)
        gradients = dict(zip(wanted, found))
        return (None, *(gradients.get(name) for name in function.inputs))


def _differentiable_backward(function: NetFunction, wanted: Sequence[str], inputs: Sequence[torch.Tensor],
                             given: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """The gradients as a function that autograd may differentiate: the forward net runs again as a part of it."""
    passes = function.passes(_device(inputs), wanted)
    named = [name for name in wanted if passes.gradients[name]]
    if not named:
        return [None] * len(wanted)
    made = function.second(named)(*inputs, *(g for name, g in zip(passes.given, given) if name))
    found = dict(zip(named, made if isinstance(made, tuple) else (made,)))
    return [found.get(name) for name in wanted]


def _separate(function: NetFunction, inputs: Sequence[torch.Tensor],
              outputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """The outputs as tensors that share storage with no input and not with each other."""
    taken = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    found = []
    for name, output in zip((*function.outputs, *function.state), outputs):
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"output {name!r} of {function.definition.name} is no tensor of numbers")
        storage = output.untyped_storage().data_ptr()
        found.append(output.clone() if storage in taken else output.detach())
        taken.add(storage)
    return tuple(found)


def _device(tensors: Sequence[torch.Tensor]) -> torch.device:
    return next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))


def _fresh(name: str, names: set[str]) -> str:
    while name in names:
        name += "_"
    names.add(name)
    return name


def _differentiable(net: caffe2_pb2.NetDef, output: str) -> bool:
    """Whether the operator that writes an output last has a derivative there."""
    for op in reversed(net.op):
        for k, name in enumerate(op.output):
            if name == output:
                declaration = registry.find(op.type)
                slot = declaration.slot(declaration.outputs, k) if declaration is not None else None
                return slot is None or bool(slot.differentiable)
    return False


def _check(net: caffe2_pb2.NetDef, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    made: set[str] = set(inputs)
    written: set[str] = set()
    for position, op in enumerate(net.op):
        if missing := [name for name in op.input if name and name not in made]:
            raise ValueError(f"operator {position} of {net.name!r}, {op.type}, reads {', '.join(map(repr, missing))}, "
                             "which no operator makes before and which is not among the inputs; add it to them")
        made.update(op.output)
        written.update(op.output)
    if unknown := [name for name in outputs if name not in written]:
        raise ValueError(f"{', '.join(map(repr, unknown))} of the outputs: no operator of {net.name!r} makes that")
    if not outputs or len(set(inputs)) != len(inputs):
        raise ValueError("a function needs an output, and inputs that differ from each other")
