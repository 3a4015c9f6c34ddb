"""A module that ``torch.export`` has traced, as a net."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from netgrad.bridge.function import share
from netgrad.bridge.module import NetModule
from netgrad.bridge.translations import PASSED_OVER, TRANSLATIONS, Refused, Size
from netgrad.graph import scope
from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2
from netgrad.runtime.workspace import Workspace


class UntranslatableError(ValueError):
    """A module uses what has no counterpart; `problems` lists all of it, a sentence each."""

    def __init__(self, name: str, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(f"{name} cannot become a net; {len(self.problems)} of its operations have no counterpart:\n  "
                         + "\n  ".join(self.problems))


@dataclass
class TranslatedModule:
    """A module as a net.

    Attributes:
        net: the net.
        inputs, outputs: its blobs, in the order of the module's.
        parameters: blob -> the module's own parameter, not a copy; blobs are called as in its ``state_dict``.
        constants: likewise its buffers and constants, as far as the net reads them.
    """

    net: Net
    inputs: list[str]
    outputs: list[str]
    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)

    def feed(self, workspace: Workspace) -> None:
        """Puts parameters and constants into a workspace; on torch they are shared, on NumPy copied."""
        tensors = {**self.parameters, **self.constants}
        if workspace.backend.name == "torch":
            share(workspace, tensors)
            return
        for name, tensor in tensors.items():
            workspace.feed_blob(name, tensor)

    def module(self) -> NetModule:
        """The net as a module, with the parameters of the one that it came from."""
        return NetModule(self.net, self.inputs, self.outputs, parameters={**self.parameters, **self.constants},
                         frozen=self.constants)


def from_torch(module: torch.nn.Module | ExportedProgram, args: Sequence[torch.Tensor] | None = None, *,
               name: str | None = None, **options: Any) -> TranslatedModule:
    """A module as a net, from what ``torch.export`` made of it.

    Args:
        module: a module, in evaluation mode, or what ``torch.export.export`` made of one.
        args: example inputs, with which the module is exported.
        name: of the net; the module's class unless given.
        options: further arguments of ``torch.export.export`` (``dynamic_shapes``).

    Raises:
        UntranslatableError: some operations have no counterpart; all of them are listed.
    """
    if isinstance(module, torch.nn.Module):
        if args is None:
            raise TypeError("a module is exported with example inputs; give them in args")
        name = name or type(module).__name__
        module = torch.export.export(module, tuple(args), **options)
    return _Translation(module, name or "exported").run()


class _Translation:
    """The walk over a traced graph. Values of its nodes are blobs, lists of blobs, numbers, or sizes."""

    def __init__(self, program: ExportedProgram, name: str) -> None:
        self.program = program
        self.result = TranslatedModule(Net(name), [], [])
        self.net = self.result.net
        self.problems: list[str] = []
        self.values: dict[torch.fx.Node, Any] = {}
        self.names: set[str] = set()
        #: what the graph's nodes stand for among the module's parameters, buffers and constants
        self.held: dict[str, tuple[str, torch.Tensor, bool]] = {}

    def run(self) -> TranslatedModule:
        with scope.EmptyNameScope():
            self._declare_inputs()
            for node in self.program.graph.nodes:
                if node.op == "call_function":
                    self._translate(node)
            self._declare_outputs()
        if self.problems:
            raise UntranslatableError(self.net.Name(), self.problems)
        return self.result

    def _declare_inputs(self) -> None:
        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        tensors = {**self.program.constants, **self.program.state_dict}
        for node in self.program.graph.nodes:
            if node.op != "placeholder":
                continue
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                if isinstance(node.meta.get("val"), torch.Tensor):
                    self.values[node] = blob = self.new_name(node.name)
                    self.net.AddExternalInput(blob)
                    self.result.inputs.append(blob)
                elif node.users:
                    self.problems.append(f"input {node.name}: only tensors can be inputs of a net")
            elif isinstance(tensors.get(spec.target), torch.Tensor):
                self.values[node] = blob = self.new_name(spec.target)
                if node.users:
                    self.net.AddExternalInput(blob)
                    kind = self.result.parameters if spec.kind is InputKind.PARAMETER else self.result.constants
                    kind[blob] = tensors[spec.target]
            else:
                self.problems.append(f"input {node.name}: a {spec.kind.name.lower()} has no counterpart in a net")

    def _declare_outputs(self) -> None:
        (made,) = next(node for node in self.program.graph.nodes if node.op == "output").args
        for node, spec in zip(made, self.program.graph_signature.output_specs):
            value = self.values.get(node) if isinstance(node, torch.fx.Node) else None
            if spec.kind is not OutputKind.USER_OUTPUT:
                self.problems.append(f"{node}: the module changes its {spec.target}; export it in evaluation mode")
            elif not isinstance(value, str):
                self.problems.append(f"output {node}: only tensors can be outputs of a net")
            elif not self.problems:
                if value in self.result.outputs or value in self.net.Proto().external_input:
                    value = str(self.net.Copy(value, self.new_name(f"{value}_output")))
                self.net.AddExternalOutput(self.net.GetBlobRef(value))
                self.result.outputs.append(value)

    def _translate(self, node: torch.fx.Node) -> None:
        """Writes the operators of one node, or notes why there are none."""
        if node.target is operator.getitem:
            whole, k = node.args
            assert isinstance(whole, torch.fx.Node) and isinstance(k, int)
            parts = self.values.get(whole)
            self.values[node] = parts[k] if isinstance(parts, list) else None  # else it was refused already
            return
        name = _name_of(node.target)
        if name in PASSED_OVER or (not node.users and node.meta.get("val") is None):
            return
        if not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
            self.values[node] = Size()  # arithmetic of sizes
            return
        translation = TRANSLATIONS.get(name.rstrip("_"))
        try:
            if translation is None:
                raise Refused("there is no operator for it")
            if name.endswith("_"):
                self._check_in_place(node)
            context = Context(self, node)
            self.values[node] = translation(context, **self._arguments(node))
        except Refused as reason:
            where = str(node.meta.get("stack_trace") or "").strip().splitlines()
            line = next((text.strip() for text in reversed(where) if text.strip().startswith("File ")), "")
            self.problems.append(f"{node.name} = {node.target}: {reason}" + (f" ({line})" if line else ""))
            made = node.meta["val"]
            self.values[node] = [node.name] * len(made) if isinstance(made, (list, tuple)) else node.name

    def _check_in_place(self, node: torch.fx.Node) -> None:
        """What is written into must be known by this one node alone."""
        written = node.args[0]
        assert isinstance(written, torch.fx.Node)
        if written.op == "placeholder":
            raise Refused(f"it writes into {written.name}, an input or a buffer of the module")
        alias = [other for other in (written, *written.users) if other is not node and _name_of(other.target) in _VIEWS]
        if alias:
            raise Refused(f"it writes into {written.name}, of which {alias[0].name} is another view")

    def _arguments(self, node: torch.fx.Node) -> dict[str, Any]:
        """The node's arguments by name, defaults filled in, nodes as their values; ``self`` is called ``x``."""
        schema = node.target._schema.arguments  # type: ignore[union-attr]
        found: dict[str, Any] = {}
        for k, argument in enumerate(schema):
            if k < len(node.args) and not argument.kwarg_only:
                value: Any = node.args[k]
            elif argument.name in node.kwargs:
                value = node.kwargs[argument.name]
            else:
                value = argument.default_value
            found["x" if argument.name == "self" else argument.name] = torch.fx.map_arg(value, self.values.__getitem__)
        return found

    def new_name(self, wanted: str) -> str:
        name, k = wanted, 0
        while name in self.names:
            k += 1
            name = f"{wanted}_{k}"
        self.names.add(name)
        return name


def _name_of(target: Any) -> str:
    """``linear`` of ``aten.linear.default``."""
    packet = getattr(target, "overloadpacket", None)
    return packet.__name__ if packet is not None else getattr(target, "__name__", str(target))


_VIEWS = frozenset({"view", "reshape", "permute", "transpose", "t", "flatten", "select", "slice", "split", "chunk",
                    "split_with_sizes", "unsqueeze", "squeeze", "expand", "alias", "detach", "unflatten", "getitem"})


class Context:
    """What a translation has at hand for one node."""

    def __init__(self, translation: _Translation, node: torch.fx.Node) -> None:
        self._translation = translation
        self.node = node
        #: what the node makes: a tensor without values, or several
        self.made: Any = node.meta["val"]
        self._meta = {translation.values[n]: n.meta["val"] for n in node.all_input_nodes
                      if isinstance(translation.values.get(n), str)}

    def meta(self, blob: str) -> torch.Tensor:
        """An input as a tensor without values."""
        found: torch.Tensor = self._meta[blob]
        return found

    def rank(self, blob: str) -> int:
        return self.meta(blob).dim()

    def axis(self, blob: str, axis: int) -> int:
        """An axis counted from the front."""
        return axis % max(1, self.rank(blob))

    def sizes(self, blob: str) -> list[int | None]:
        """The shape; None where a size is only known when the net runs."""
        return [n if isinstance(n, int) else None for n in self.meta(blob).shape]

    def emit(self, type: str, inputs: str | Sequence[str], *, last: bool = True, **arguments: Any) -> str:
        """Writes an operator with one output, called like the node where it is the ``last`` of a translation."""
        return self.emit_several(type, inputs, [""], last=last, **arguments)[0]

    def emit_several(self, type: str, inputs: str | Sequence[str], suffixes: Sequence[str], *, last: bool = True,
                     **arguments: Any) -> list[str]:
        """As `emit`, with an output for every suffix to the node's name."""
        stem = self.node.name if last else f"{self.node.name}_{type.lower()}"
        outputs = [self._translation.new_name(stem + suffix) for suffix in suffixes]
        write: Callable[..., Any] = getattr(self._translation.net, type)
        write([inputs] if isinstance(inputs, str) else list(inputs), outputs, **arguments)
        return outputs

    def constant(self, value: float, dtype: torch.dtype, shape: Sequence[int] = (1,)) -> str:
        """A blob filled with a number."""
        number = data_type(dtype)
        typed = float(value) if dtype.is_floating_point else int(value)
        return self.emit("ConstantFill", [], last=False, shape=list(shape), value=typed, dtype=number)

    def cast(self, blob: str, dtype: torch.dtype, *, last: bool = False) -> str:
        return self.emit("Cast", blob, last=last, to=data_type(dtype), from_type=data_type(self.meta(blob).dtype))


def data_type(dtype: torch.dtype) -> int:
    """The `TensorProto.DataType` of a torch dtype."""
    names = {"float32": "FLOAT", "float16": "FLOAT16", "float64": "DOUBLE"}
    name = str(dtype).removeprefix("torch.")
    try:
        return int(caffe2_pb2.TensorProto.DataType.Value(names.get(name, name.upper())))
    except ValueError:
        raise Refused(f"blobs cannot be of {dtype}") from None
