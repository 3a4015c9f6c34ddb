"""Operators that a net writes for its caller: constants, messages, Python functions, merged gradient slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.net_building import NetBuilding
from netgrad.graph.operator import DataType, GradientSlice, _RegisterPythonImpl


class NetHelpers(NetBuilding):
    """Short forms of common operators."""

    def Const(self, array: Any, blob_out: Any = None, dtype: Any = None) -> Any:
        """A blob filled with constants.

        Args:
            array: a number, string, truth value, array, or lists of these.
            blob_out: its name; automatic if absent.
            dtype: the NumPy type, if ``np.array(array)`` does not have the right one. Floats become float32 on the
                wire.
        """
        if isinstance(array, bool):
            return self.ConstantFill([], blob_out or 1, dtype=DataType.BOOL, value=array)  # type: ignore[attr-defined]
        import numpy as np

        array = np.array(array, dtype=dtype)
        if array.dtype.kind in "SUO":
            fill, values = self.GivenTensorStringFill, [v if isinstance(v, bytes) else str(v) for v in array.flat]
        else:
            fill = {"int32": self.GivenTensorIntFill, "int64": self.GivenTensorInt64Fill,
                    "bool": self.GivenTensorBoolFill}.get(array.dtype.name, self.GivenTensorFill)
            values = array.flatten().tolist()
        return fill([], blob_out or 1, shape=list(array.shape), values=values)

    def LogInfo(self, *msg_or_blobs: Any) -> None:
        """Operators that print messages and blobs when they run."""
        for message in msg_or_blobs:
            if not isinstance(message, BlobReference):
                message = self.GivenTensorStringFill([], self.NextName("log"), shape=[], values=[message])
            self.Print(message, [])

    def DeduplicateGradientSlices(self, g: GradientSlice, aggregator: str = "sum") -> GradientSlice:
        """A slice with each index once; the values of an index are summed, or averaged with the aggregator "mean"."""
        if not isinstance(g, GradientSlice):
            raise AssertionError(f"expected a GradientSlice, found {g!r}")
        merge = {"sum": "UnsortedSegmentSum", "mean": "UnsortedSegmentMean"}.get(aggregator.lower())
        if merge is None:
            raise ValueError(f"the aggregator is 'sum' or 'mean', not {aggregator!r}")
        unique, remapping = self.Unique([g.indices], 2, engine="SparseHash")
        return GradientSlice(indices=unique, values=getattr(self, merge)([g.values, remapping], 1))

    def Python(
        self,
        f: Any,
        grad_f: Any = None,
        python_func_type: Any = None,
        pass_workspace: bool = False,
        grad_output_indices: Sequence[int] | None = None,
        grad_input_indices: Sequence[int] | None = None,
    ) -> Callable[..., Any]:
        """Registers Python functions and returns what writes the operator: ``net.Python(f)(inputs, outputs)``.

        Args:
            f: called as ``f(inputs, outputs)`` with tensors that have ``data``, ``shape``, ``reshape`` and ``feed``;
                or a triple (function, args, kwargs) that makes such a function where the net runs.
            grad_f: likewise, for the gradient: its inputs are those of ``f``, its outputs, and the outputs' gradients;
                its outputs the inputs' gradients.
            python_func_type: a class with ``forward`` and ``backward``, made with ``f``.
            pass_workspace: whether the functions receive the workspace as third argument.
            grad_output_indices: which outputs' gradients ``grad_f`` receives; all if absent.
            grad_input_indices: which inputs' gradients it makes; all if absent.
        """
        own: dict[str, Any] = {
            "grad_output_indices": list(grad_output_indices or ()),
            "grad_input_indices": list(grad_input_indices or ()),
        }
        builder, grad_builder = _pickled(f), _pickled(grad_f)
        if grad_f and bool(builder) != bool(grad_builder):
            raise AssertionError("f and grad_f are both given as (function, args, kwargs), or neither is")
        if builder:
            own.update(pickled_builder=builder, pickled_grad_builder=grad_builder, pass_workspace=pass_workspace)
        else:
            own["token"] = _RegisterPythonImpl(f, grad_f, python_func_type, pass_workspace=pass_workspace)

        def write(*args: Any, **kwargs: Any) -> Any:
            return self._CreateAndAddToSelf("Python", *args, **{**kwargs, **own})

        return write


def _pickled(builder: Any) -> bytes:
    """The pickled form of (function, args, kwargs); empty for anything but a tuple."""
    if not isinstance(builder, tuple):
        return b""
    if len(builder) != 3:
        raise AssertionError(f"expected (function, args, kwargs), found a tuple of {len(builder)}")
    from netgrad.runtime.python_ops import pickled_builder

    return pickled_builder(builder)
