"""How parameters come into being: which operators the init net gets for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference, ScopedBlobReference
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.parameters import ParameterInfo

#: an operator type and its arguments
Filler = tuple[str, Mapping[str, Any]]


class Initializer:
    """Fills a parameter with one operator, which gets ``shape`` and the given arguments."""

    def __init__(self, operator_name: str | None = None, **kwargs: Any) -> None:
        self.operator_name = operator_name
        self.operator_kwargs: Mapping[str, Any] = kwargs

    def update(self, operator_name: str, kwargs: Mapping[str, Any]) -> None:
        """Sets the operator of an initializer that was made without one."""
        if self.operator_name is not None:
            raise ValueError(f"this initializer fills with {self.operator_name} already, not with {operator_name}")
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def _fill(self, init_net: Any, name: Any, shape: Sequence[int]) -> BlobReference:
        if self.operator_name is None:
            raise ValueError(
                f"no operator was given to fill parameter {str(name)!r} with; name one, as in "
                f"{type(self).__name__}('XavierFill')"
            )
        return getattr(init_net, self.operator_name)([], name, shape=shape, **self.operator_kwargs)  # type: ignore[no-any-return]

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        """Writes the filling operators into the init net."""
        return ParameterInfo(None, self._fill(init_net, param_name, shape), shape=shape)


class ExternalInitializer:
    """For parameters that somebody else puts into the workspace: writes nothing."""

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        if isinstance(param_name, BlobReference):
            param = BlobReference(str(param_name), init_net)
        elif isinstance(param_name, str):
            param = ScopedBlobReference(param_name, init_net)
        else:
            raise TypeError(f"a parameter's name is a string or a BlobReference, not {param_name!r}")
        return ParameterInfo(None, param, shape=shape)


class PseudoFP16Initializer(Initializer):
    """A float16 parameter for forward and backward pass, with a float32 copy ``*_fp32`` that the optimizer updates, so
    that small steps are not lost (https://arxiv.org/abs/1710.03740)."""

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        full = self._fill(init_net, param_name + "_fp32", shape)
        half = init_net.FloatToHalf(full, param_name)
        return ParameterInfo(None, half, shape=shape, blob_copy={TensorProto.FLOAT: full})


class ReversePseudoFP16Initializer(Initializer):
    """A float32 parameter with a float16 copy ``*_fp16``."""

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        full = self._fill(init_net, param_name, shape)
        half = init_net.FloatToHalf(full, param_name + "_fp16")
        return ParameterInfo(None, full, shape=shape, blob_copy={TensorProto.FLOAT16: half})


def update_initializer(
    initializer_class: type[Initializer] | None,
    operator_name_and_kwargs: Filler | None,
    default_operator_name_and_kwargs: Filler,
) -> Initializer:
    """An initializer of the given class (None: `Initializer`) for the given operator (None: the default one)."""
    operator, arguments = operator_name_and_kwargs or default_operator_name_and_kwargs
    return (initializer_class or Initializer)(operator, **arguments)
