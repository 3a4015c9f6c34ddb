"""Copies, between devices too, and what else handles whole blobs. On one device a copy may be the value itself."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Str
from netgrad.graph.declaration import ANY_PAIR, In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import RuleFunction, emits, forbidden, no_gradient
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import product
from netgrad.ops._axes import side_by_side
from netgrad.ops._strings import string_array


class _Copy(Operator, abstract=True):
    """What the copies share: values are never written in place, so that the value itself serves as its copy."""

    inputs = [In("input")]
    outputs = [Out("output", "like input")]
    strings = True
    shape = same_as(0)
    shares = {(0, 0)}

    def kernel(xp: Any, input: Any) -> Any:
        return input


class Copy(_Copy):
    """The input, on the device of the operator."""

    gradient: RuleFunction = emits("CopyOnDeviceLike", "GO0 I0", "GI0")
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})


class CopyCPUToGPU(_Copy):
    """The input, on the GPU."""

    gradient: RuleFunction = emits("CopyGPUToCPU", "GO0", "GI0")
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})


class CopyGPUToCPU(_Copy):
    """The input, on the host."""

    gradient: RuleFunction = emits("CopyCPUToGPU", "GO0", "GI0")
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any) -> Any:
        return xp.from_numpy(xp.to_numpy(input))


class CopyFromCPUInput(_Copy):
    """The input, which is on the host, on the device of the operator."""

    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})


class CopyOnDeviceLike(_Copy):
    """The input, on the device of the second one."""

    inputs = [In("input"), In("dst", "only its device matters", shape_only=True)]
    gradient = emits("CopyOnDeviceLike", "GO0 I0", "GI0")
    example = Example(
        {"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "dst": [0.0]},
        {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any, dst: Any) -> Any:
        device = getattr(dst, "device", None)
        return input if device == getattr(input, "device", None) else xp.from_numpy(xp.to_numpy(input), like=dst)


class EnsureCPUOutput(_Copy):
    """The input, on the host."""

    gradient: RuleFunction = no_gradient
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any) -> Any:
        return xp.from_numpy(xp.to_numpy(input))


class Free(Operator):
    """Empties blobs: they become tensors of nothing."""

    inputs = [In("blobs", variadic=True)]
    outputs = [Out("blobs", variadic=True)]
    num_inputs_outputs = staticmethod(lambda inputs, outputs: inputs == outputs)
    inplace_required = side_by_side()
    strings = True
    gradient = forbidden("its output holds nothing")

    def kernel(xp: Any, *blobs: Any) -> Any:
        return tuple(xp.zeros((0,), dtype=xp.float32) for _ in blobs)


class FeedBlob(Operator):
    """A string."""

    outputs = [Out("string", "one string; no tensor")]
    arguments = [Str("value", "")]
    host = True
    gradient = forbidden()
    example = Example({}, {"string": "abc"}, {"value": "abc"})

    def kernel(xp: Any, *, value: str) -> Any:
        return value.encode("utf-8", "surrogateescape")


class GetAllBlobNames(Operator):
    """The names of all blobs of the workspace."""

    outputs = [Out("blob_names", "1-D strings")]
    arguments = [Bool("include_shared", True, "those of the parent workspace too")]
    effects = {"blobs"}
    host = True

    def kernel(xp: Any, *, op: Any) -> Any:
        names = sorted(op.workspace.values)
        return string_array([name.encode() for name in names], (len(names),))


class DataCouple(Operator):
    """Outputs are the inputs, once all of them are there: an edge for schedulers."""

    inputs = [In("input", variadic=True, optional=True)]
    outputs = [Out("output", "the input at its place", variadic=True, optional=True)]
    strings = True
    inplace_required = side_by_side()
    shares = side_by_side()
    example = Example({"X0": [1.0], "X1": [2.0]}, {"X0": [1.0], "X1": [2.0]})

    def kernel(xp: Any, *inputs: Any) -> Any:
        return tuple(inputs)


class ScaleBlobs(Operator):
    """Every output is its input times one factor."""

    inputs = [In("X", "float", variadic=True)]
    outputs = [Out("Y", "like X", variadic=True)]
    arguments = [Float("scale", 1.0)]
    inplace = ANY_PAIR
    example = Example({"X0": [1.0, 2.0], "X1": [3.0]}, {"Y0": [2.0, 4.0], "Y1": [6.0]}, {"scale": 2.0})

    def shape(*X: TensorType, **_: Any) -> tuple[TensorType, ...]:
        return X

    inplace_keeps_shape = True

    def kernel(xp: Any, *X: Any, scale: float) -> Any:
        return tuple(x * scale for x in X)


class UnsafeCoalesce(Operator):
    """Lays all inputs one behind the other into one vector, of which the other outputs are parts.

    They hold one storage from then on: what is fed to one of these blobs, or made by an operator in place on it, is
    seen in the others. An operator that writes one of them anew, not in place, takes it out of the storage.
    """

    inputs = [In("X", "float32", variadic=True, optional=True)]
    outputs = [Out("Y", "the input at its place", variadic=True, optional=True), Out("coalesced", "1-D")]
    num_inputs_outputs = staticmethod(lambda inputs, outputs: outputs == inputs + 1)
    inplace = side_by_side()
    effects = {"binds"}
    example = Example({"X0": [1.0, 2.0], "X1": [3.0]}, {"X0": [1.0, 2.0], "X1": [3.0], "coalesced": [1.0, 2.0, 3.0]})

    def kernel(xp: Any, *X: Any, op: Any) -> Any:
        from netgrad.runtime.lending import join

        for x in X:
            if xp.dtype_name(x) != "float32":
                raise ValueError(f"found a tensor of {xp.dtype_name(x)}, only float32 can be laid together")
        whole = xp.concat([xp.reshape(x, (-1,)) for x in X]) if X else xp.zeros((0,), dtype=xp.float32)
        parts, start = [], 0
        for x in X:
            size = product(x.shape)
            parts.append(xp.reshape(whole[start:start + size], x.shape))
            start += size
        for name, view in zip(op.outputs, (*parts, whole), strict=True):
            op.workspace.values[name] = join(view)


class Accumulate(Operator):
    """output = input + gamma output: a running sum that the output blob keeps.

    It starts from zero, and again when the shape changes.
    """

    inputs = [In("input", "numeric")]
    outputs = [Out("output", "like input")]
    arguments = [Float("gamma", 1.0, "weight of the old sum")]
    shape = same_as(0)
    effects = {"state"}
    gradient = forbidden("the running sum depends on earlier runs")
    example = Example({"input": [1.0, 2.0]}, {"output": [1.0, 2.0]}, {"gamma": 1.0})

    def kernel(xp: Any, input: Any, *, gamma: float, op: Any) -> Any:
        old = op.workspace.values.get(op.outputs[0])
        if old is None or old.shape != input.shape:
            return input + 0
        return input + old * gamma
