"""Half precision: conversions and fills."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Float, Ints
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import emits, no_gradient
from netgrad.graph.shapes import TensorType
from netgrad.ops._arrays import checked_sizes

_LARGEST = 65504.0


class FloatToHalf(Operator):
    """Y = X as float16; what is too large becomes infinite, or the largest half with clip."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "shape of X, float16")]
    arguments = [Bool("clip", False, "bring X into the range of float16 first")]
    gradient = emits("HalfToFloat", "GO0", "GI0")
    example = Example({"X": [1.5, -2.0]}, {"Y": Tensor([1.5, -2.0], "float16")}, wrt=())

    def shape(X: TensorType, **_: Any) -> TensorType:
        return X.with_dtype("float16")

    def kernel(xp: Any, X: Any, *, clip: bool) -> Any:
        return xp.astype(xp.clip(X, -_LARGEST, _LARGEST) if clip else X, xp.dtype_of("float16"))


class HalfToFloat(Operator):
    """Y = X as float32."""

    inputs = [In("X", "any shape, float16")]
    outputs = [Out("Y", "shape of X, float32")]
    gradient = emits("FloatToHalf", "GO0", "GI0")
    example = Example({"X": Tensor([1.5, -2.0], "float16")}, {"Y": [1.5, -2.0]}, wrt=())

    def shape(X: TensorType) -> TensorType:
        return X.with_dtype("float32")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.astype(X, xp.float32)


class Float16Fill(Operator, abstract=True):
    """A float16 tensor from nothing."""

    inputs = []
    outputs = [Out("Y", "of the argument shape, float16")]
    gradient = no_gradient

    def shape(*, shape: Any, **_: Any) -> TensorType:
        return TensorType("float16", tuple(shape))


class Float16ConstantFill(Float16Fill):
    """Y = ``value`` everywhere."""

    arguments = [Float("value", 0.0), Ints("shape", ())]
    example = Example({}, {"Y": Tensor([1.5, 1.5], "float16")}, {"shape": [2], "value": 1.5})

    def kernel(xp: Any, *, value: float, shape: Any) -> Any:
        return xp.astype(xp.full(checked_sizes(shape), value, dtype=xp.float32), xp.dtype_of("float16"))


class Float16UniformFill(Float16Fill):
    """Y = numbers drawn uniformly from [min, max)."""

    arguments = [Ints("shape", ()), Float("min", 0.0), Float("max", 1.0)]
    effects = {"random"}
    example = Example({}, {"Y": TensorType("float16", (2,))}, {"shape": [2], "min": 0.0, "max": 1.0})

    def kernel(xp: Any, *, shape: Any, min: float, max: float, op: Any) -> Any:
        drawn = op.rng.uniform(checked_sizes(shape)) * (max - min) + min
        return xp.astype(xp.from_numpy(drawn), xp.dtype_of("float16"))
