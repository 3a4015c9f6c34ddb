"""What a layer says of each of its parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.operator import IsOperator
from netgrad.graph.records import logger


class LayerPsParam(NamedTuple):
    """A table's hints for parameter servers: the blob of the ids, and how many are expected per row."""

    sparse_key: Any
    average_length: Any


class LayerParameter:
    """A parameter, how it is filled, updated and regularized.

    Attributes:
        parameter: its blob.
        optimizer: what updates it; None: the model's default.
        initializer: the OperatorDef that fills it, or None.
        shape: known from the initializer, which is run for it where it has no argument ``shape``; None if that fails.
        regularizer: or None.
    """

    def __init__(
        self, parameter: Any = None, optimizer: Any = None, initializer: Any = None, ps_param: Any = None,
        regularizer: Any = None,
    ) -> None:
        if not isinstance(parameter, BlobReference):
            raise AssertionError(f"a parameter is a BlobReference, not {parameter!r}, a {type(parameter).__name__}")
        self._shape: list[int] | None = None
        self.parameter = parameter
        self.optimizer = optimizer
        self.initializer = initializer
        self.ps_param = ps_param
        self.regularizer = regularizer

    @property
    def initializer(self) -> Any:
        return self._initializer

    @initializer.setter
    def initializer(self, op: Any) -> None:
        if op is not None and not IsOperator(str(getattr(op, "type", ""))):
            raise AssertionError(f"parameter {self.parameter} is filled by an operator, not by {op!r}")
        self._initializer = op
        if op is not None:
            self.shape = self._shape_from_initializer()

    @property
    def shape(self) -> list[int] | None:
        return self._shape

    @shape.setter
    def shape(self, shape: list[int] | None) -> None:
        if self._shape is not None and self._shape != shape:
            raise AssertionError(f"parameter {self.parameter} has shape {self._shape}; it cannot get shape {shape}")
        self._shape = shape

    def _shape_from_initializer(self) -> list[int] | None:
        for argument in self._initializer.arg:
            if argument.name == "shape":
                return list(argument.ints)
        from netgrad.runtime.workspace import Workspace

        net = Net("shape_of_parameter")
        net.Proto().op.append(self._initializer)
        shape = net.Shape([self.parameter], net.NextScopedBlob(f"{self.parameter}_shape"))
        workspace = Workspace()
        try:
            workspace.run_net_once(net)
            return [int(size) for size in workspace.fetch_blob(shape)]
        except RuntimeError as error:  # nothing that has a shape, or a file that is not there yet
            logger.info("the shape of parameter %s is not known: %s", self.parameter, error)
            return None

    def __str__(self) -> str:
        return str(self.parameter)
