"""`OpSchema`: what declarations say, in the form in which Caffe2's tools ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from netgrad.graph import registry
from netgrad.graph.arguments import REQUIRED
from netgrad.graph.declaration import Arity, Operator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.inference import infer_operator
from netgrad.runtime.shape_messages import message_of, type_in

_INFINITE = 2**31 - 1


class SchemaArgument(NamedTuple):
    name: str
    description: str
    required: bool


class OpSchema:
    """The schema of one operator type.

    Attributes:
        min_input, max_input, min_output, max_output: counts; ``inf`` where there is no bound.
        args: name, description, and whether it is required.
        input_desc, output_desc: pairs (name, description).
        doc: what the operator does.
        file, line: where it is declared.
        private: whether gradient rules make it, not people.
    """

    Argument = SchemaArgument
    inf = _INFINITE

    def __init__(self, declaration: type[Operator]) -> None:
        self._declaration = declaration
        self._inputs: Arity = declaration.num_inputs  # type: ignore[assignment]
        self._outputs: Arity = declaration.num_outputs  # type: ignore[assignment]
        self.min_input, self.max_input = self._inputs.least, _bound(self._inputs)
        self.min_output, self.max_output = self._outputs.least, _bound(self._outputs)
        self.args = [SchemaArgument(a.name, a.doc, a.default is REQUIRED) for a in declaration.arguments]
        self.input_desc = [(slot.name, slot.doc) for slot in declaration.inputs]
        self.output_desc = [(slot.name, slot.doc) for slot in declaration.outputs]
        self.doc = (declaration.__doc__ or "").strip()
        self.private = declaration.internal

    @staticmethod
    def get(type: str) -> OpSchema | None:
        """The schema of an operator type; None where there is none."""
        declaration = registry.find(type)
        return None if declaration is None else OpSchema(declaration)

    @property
    def file(self) -> str:
        import inspect

        return inspect.getsourcefile(self._declaration) or ""

    @property
    def line(self) -> int:
        import inspect

        return inspect.getsourcelines(self._declaration)[1]

    def num_inputs_allowed(self, count: int) -> bool:
        return count in self._inputs

    def num_outputs_allowed(self, count: int) -> bool:
        return count in self._outputs

    def num_inputs_outputs_allowed(self, inputs: int, outputs: int) -> bool:
        together = self._declaration.num_inputs_outputs
        return inputs in self._inputs and outputs in self._outputs and (together is None or together(inputs, outputs))

    def CalculateOutput(self, inputs: int) -> int:
        """How many outputs there are for so many inputs; -1 where that alone does not say."""
        return self.min_output if self.min_output == self.max_output else -1

    def inplace_enforced(self, i: int, o: int) -> bool:
        return (i, o) in self._declaration.inplace_required

    def infer_tensor(self, op: bytes, shapes: Sequence[bytes]) -> list[bytes]:
        """TensorShapes of the outputs for those of the inputs, all in wire form."""
        definition = caffe2_pb2.OperatorDef.FromString(op)
        types = [type_in(caffe2_pb2.TensorShape.FromString(shape)) for shape in shapes]
        return [message_of("", found).SerializeToString() for found in infer_operator(definition, types)]

    @staticmethod
    def get_cpu_impl(type: str) -> str | None:
        """Where the kernel of an operator is written; None where it has none."""
        declaration = registry.find(type)
        kernel = None if declaration is None else declaration.kernel
        return None if kernel is None else f"{kernel.__module__}.{kernel.__qualname__}"

    get_cuda_impl = get_cpu_impl

    @staticmethod
    def get_gradient_impl(type: str) -> str | None:
        """Where the gradient rule of an operator is written; None where it has none."""
        declaration = registry.find(type)
        rule: Any = None if declaration is None else declaration.gradient
        return None if rule is None else f"{rule.__module__}.{getattr(rule, '__qualname__', rule.__class__.__name__)}"


def _bound(arity: Arity) -> int:
    return _INFINITE if arity.most is None else arity.most
