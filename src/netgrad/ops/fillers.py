"""Tensors out of nothing: constants, given values, ranges.

A filler takes the shape of its result from the argument ``shape``, or from its input: from the shape of that, or, with
``input_as_shape``, from its elements; ``extra_shape`` is then appended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netgrad.graph.arguments import Any_, Bool, DType, Float, Int, Ints, Strs
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import TensorType, data_dependent
from netgrad.ops._arrays import checked_sizes, product, zeros
from netgrad.ops._axes import int_list, number
from netgrad.ops._rows import check_lengths, places, spread
from netgrad.ops._strings import string_array
from netgrad.proto import caffe2_pb2

_T = caffe2_pb2.TensorProto

class _List(Ints):
    """A list of integers; a single one is refused, which is more often a mistake than a vector."""

    def convert(self, argument: Any) -> list[int]:
        if argument.HasField("i"):
            raise ValueError("holds a single number; write a list")
        return super().convert(argument)


#: inputs and arguments that say what shape to fill
SHAPE_INPUT = In("input", "its shape, or with input_as_shape its elements (1-D int64), are the shape", optional=True)
SHAPE_ARGUMENTS = (
    _List("shape", None, "the shape, if there is no input", as_="wanted"),
    Ints("extra_shape", (), "appended to the shape of the input"),
    Bool("input_as_shape", False, "the input holds the shape"),
)


def filled_shape(xp: Any, input: Any, wanted: Any, extra_shape: Sequence[int], input_as_shape: bool) -> tuple[int, ...]:
    """The shape that a filler is to fill."""
    if input is None:
        if extra_shape or input_as_shape:
            raise ValueError("extra_shape and input_as_shape mean nothing without an input; give the argument shape")
        return checked_sizes(wanted or ())
    if wanted:
        raise ValueError("the shape is given twice: by the argument shape and by the input")
    if not input_as_shape:
        return checked_sizes((*input.shape, *extra_shape))
    if input.ndim != 1 or input.shape[0] == 0:
        raise ValueError(f"the input holds the shape, but has shape {tuple(input.shape)}: expected one dimension")
    return checked_sizes((*int_list(xp, input), *extra_shape))


def filled_type(dtype: str | None, types: Sequence[TensorType], wanted: Any, extra_shape: Sequence[int],
                input_as_shape: bool) -> TensorType:
    """The same before the run, as far as it is known."""
    if not types:
        return TensorType(dtype, tuple(wanted or ()))
    dims = types[0].dims
    if dims is None or (input_as_shape and dims[0] is None):
        return TensorType(dtype)
    return TensorType(dtype, (*((None,) * (dims[0] or 0) if input_as_shape else dims), *extra_shape))


def shape_of(dtype: str | None) -> Callable[..., TensorType]:
    """The shape function of a filler whose result has this dtype."""
    def shape(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, **_: Any) -> TensorType:
        return filled_type(dtype, types, wanted, extra_shape, input_as_shape)
    return shape


def shape_input_only(arguments: Mapping[str, Any], count: int) -> frozenset[int]:
    """Only the shape of the first input is read, unless its elements are the shape."""
    return frozenset() if arguments["input_as_shape"] else frozenset({0})


_NAMES: dict[int, str] = {
    _T.FLOAT: "float32", _T.INT32: "int32", _T.STRING: "string", _T.BOOL: "bool", _T.UINT8: "uint8", _T.INT8: "int8",
    _T.UINT16: "uint16", _T.INT16: "int16", _T.INT64: "int64", _T.DOUBLE: "float64", _T.FLOAT16: "float16",
}


def _constant_dtype(dtype: int | None, value: Any) -> str:
    """The dtype of a constant: as asked for, else int64 for an integer and float32 for a fraction or nothing."""
    if dtype is None:
        if value is not None and not isinstance(value, (int, float)):
            raise ValueError(f"value is {value!r}: expected a number, or the argument dtype beside it")
        return "int64" if isinstance(value, int) else "float32"
    if dtype not in _NAMES:
        raise ValueError(f"dtype {dtype} cannot be filled: expected one of {', '.join(_NAMES.values())}")
    return _NAMES[dtype]


def _like(model: str | None, name: str, dtype: int | None) -> str:
    """The dtype of a constant in the shape of a tensor of dtype ``model``."""
    return model if dtype is None and name == "float32" and model in ("float64", "float16", "bfloat16") else name


def _constant_value(name: str, value: Any) -> Any:
    if name == "string":
        return (value or "").encode("utf-8", "surrogateescape")
    if value is None:
        return 0
    if not isinstance(value, (int, float)) or ("float" not in name and value != int(value)):
        raise ValueError(f"value {value!r} does not fit the dtype {name}")
    return value if "float" in name else bool(value) if name == "bool" else int(value)


_CONSTANT = [*SHAPE_ARGUMENTS, DType("dtype", None, "that of the value unless given: int64 or float32"),
             Any_("value", None, "zero unless given")]


def _constant_type(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: Any,
                   value: Any) -> TensorType:
    return filled_type(_constant_dtype(dtype, value), types, wanted, extra_shape, input_as_shape)


class ConstantFill(Operator):
    """A tensor of one value.

    Its dtype is ``dtype``, else that of the value: int64 for 2; for 2.0 and for none that of a floating-point input
    whose shape is taken (so that the gradients of a double net are doubles), else float32.
    """

    inputs = [SHAPE_INPUT, In("value", "one element that stands for the argument", optional=True)]
    outputs = [Out("output")]
    arguments = [*_CONSTANT[:-1], Any_("value", None, "zero unless given", as_="constant")]
    inplace = {(0, 0)}
    shape_only = shape_input_only
    gradient = no_gradient
    example = Example({}, {"output": [1.5, 1.5]}, {"shape": [2], "value": 1.5})

    def shape(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: Any,
              constant: Any) -> TensorType:
        name = _constant_dtype(dtype, constant)
        if len(types) == 1 and not input_as_shape:
            name = _like(types[0].dtype, name, dtype)
        return filled_type(name, types[:1], wanted, extra_shape, input_as_shape)

    def kernel(xp: Any, input: Any = None, value: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool,
               dtype: int | None, constant: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        name = _constant_dtype(dtype, constant)
        if input is not None and value is None and not input_as_shape:
            name = _like(xp.dtype_name(input), name, dtype)
        fill = _constant_value(name, constant)
        if value is not None:
            if xp.dtype_name(value) != name:
                raise ValueError(f"the input value is {xp.dtype_name(value)}, but the result is to be {name}")
            fill = number(xp, value, "the input value")
        if name == "string":
            return string_array([fill] * product(dims), dims)
        return xp.full(dims, fill, dtype=xp.dtype_of(name), device=getattr(input, "device", None))


class DiagonalFill(Operator):
    """Zeros, but for a value on the diagonal; with more than two dimensions these must be equal."""

    inputs = [SHAPE_INPUT]
    outputs = [Out("output", "at least 2-D")]
    arguments = _CONSTANT
    inplace = {(0, 0)}
    shape = _constant_type
    shape_only = shape_input_only
    gradient = no_gradient
    example = Example({}, {"output": [[1.0, 0.0], [0.0, 1.0]]}, {"shape": [2, 2], "value": 1.0})

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: int | None,
               value: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        if len(dims) < 2 or (len(dims) > 2 and len(set(dims)) > 1):
            raise ValueError(f"shape {dims} has no diagonal: expected two dimensions, or more that are all equal")
        name = _constant_dtype(dtype, value)
        if name == "string":
            raise ValueError("strings have no zero to stand beside a diagonal; use ConstantFill")
        kind = xp.dtype_of(name)
        steps = [product(dims[k + 1:]) for k in range(len(dims))]
        on_diagonal = xp.arange(min(dims), dtype=xp.int64) * sum(steps)
        flat = xp.zeros((product(dims),), dtype=kind)
        values = xp.full((min(dims),), _constant_value(name, value), dtype=kind)
        return xp.reshape(xp.index_put(flat, on_diagonal, values), dims)


class _Given(Operator, abstract=True):
    """What the fillers with given values share."""

    inputs = [SHAPE_INPUT]
    outputs = [Out("output")]
    arguments = [
        *SHAPE_ARGUMENTS, DType("dtype", None, "not read"), Any_("values", (), "as many as the shape has elements"),
    ]
    inplace = {(0, 0)}
    shape_only = shape_input_only
    gradient = no_gradient


def _given(xp: Any, dims: tuple[int, ...], values: Any, name: str) -> Any:
    values = values if isinstance(values, (list, tuple)) else [] if values is None else [values]
    if len(values) != product(dims):
        raise ValueError(f"there are {len(values)} values for the {product(dims)} elements of shape {dims}")
    if name == "string":
        return string_array([_constant_value(name, v) for v in values], dims)
    values = [_constant_value(name, v) for v in values]
    return xp.reshape(xp.asarray(values, dtype=xp.dtype_of(name)), dims)


def _given_kernel(name: str) -> Callable[..., Any]:
    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, values: Any) -> Any:
        return _given(xp, filled_shape(xp, input, wanted, extra_shape, input_as_shape), values, name)
    return kernel


class GivenTensorFill(_Given):
    """The given values, as float32 or in the dtype asked for."""

    arguments = [*SHAPE_ARGUMENTS, DType("dtype", _T.FLOAT), Any_("values", (), "as many as the shape has elements")]
    example = Example({}, {"output": [1.0, 2.0]}, {"shape": [2], "values": [1.0, 2.0]})

    def shape(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: int,
              **_: Any) -> TensorType:
        return filled_type(_constant_dtype(dtype, None), types, wanted, extra_shape, input_as_shape)

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: int,
               values: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        return _given(xp, dims, values, _constant_dtype(dtype, None))


class GivenTensorDoubleFill(_Given):
    """The given values as float64."""

    shape = shape_of("float64")
    kernel = _given_kernel("float64")
    example = Example({}, {"output": Tensor([1.0, 2.0], "float64")}, {"shape": [2], "values": [1.0, 2.0]})


class GivenTensorBoolFill(_Given):
    """The given values as bool."""

    shape = shape_of("bool")
    kernel = _given_kernel("bool")
    example = Example({}, {"output": [True, False]}, {"shape": [2], "values": [1, 0]})


class GivenTensorInt16Fill(_Given):
    """The given values as int16."""

    shape = shape_of("int16")
    kernel = _given_kernel("int16")
    example = Example({}, {"output": Tensor([1, 2], "int16")}, {"shape": [2], "values": [1, 2]})


class GivenTensorIntFill(_Given):
    """The given values as int32."""

    shape = shape_of("int32")
    kernel = _given_kernel("int32")
    example = Example({}, {"output": [1, 2]}, {"shape": [2], "values": [1, 2]})


class GivenTensorInt64Fill(_Given):
    """The given values as int64."""

    shape = shape_of("int64")
    kernel = _given_kernel("int64")
    example = Example({}, {"output": Tensor([1, 2], "int64")}, {"shape": [2], "values": [1, 2]})


class GivenTensorStringFill(_Given):
    """The given strings."""

    shape = shape_of("string")
    kernel = _given_kernel("string")
    example = Example({}, {"output": ["abc"]}, {"shape": [1], "values": ["abc"]})


class GivenTensorByteStringToUInt8Fill(_Given):
    """The bytes of the one given string."""

    arguments = [*SHAPE_ARGUMENTS, DType("dtype", _T.STRING, "must be STRING"), Strs("values", (), "one string")]
    shape = shape_of("uint8")
    example = Example({}, {"output": Tensor([97, 98, 99], "uint8")}, {"shape": [3], "values": ["abc"]})

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: int,
               values: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        if dtype != _T.STRING or len(values) != 1:
            raise ValueError(f"dtype is {dtype} with {len(values)} values: expected STRING and one string")
        return _given(xp, dims, list(values[0].encode("utf-8", "surrogateescape")), "uint8")


class RangeFill(Operator):
    """0, 1, 2, ... as float32, row by row."""

    inputs = [SHAPE_INPUT]
    outputs = [Out("output", "float32")]
    arguments = SHAPE_ARGUMENTS
    inplace = {(0, 0)}
    shape = shape_of("float32")
    shape_only = shape_input_only
    gradient = no_gradient
    example = Example({}, {"output": [0.0, 1.0, 2.0]}, {"shape": [3]})

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        return xp.reshape(xp.astype(xp.arange(product(dims)), xp.float32), dims)


class LengthsRangeFill(Operator):
    """For every length n: 0, 1, ..., n - 1, one behind the other."""

    inputs = [In("lengths", "1-D int32")]
    outputs = [Out("range_sequence", "1-D int32", differentiable=False)]
    shape = data_dependent(("int32", 1))
    gradient = no_gradient
    example = Example({"lengths": [1, 2]}, {"range_sequence": [0, 0, 1]})

    def kernel(xp: Any, lengths: Any) -> Any:
        if lengths.ndim != 1 or xp.dtype_name(lengths) != "int32":
            raise ValueError(f"found {xp.dtype_name(lengths)} of shape {tuple(lengths.shape)}, expected 1-D int32")
        segments = spread(xp, lengths, name="lengths")
        return xp.astype(places(xp, check_lengths(xp, lengths, "lengths"), segments), lengths.dtype)


class Range(Operator):
    """start, start + step, ... before stop; with one input that is stop, with two start and stop."""

    inputs = [
        In("start", "one number"), In("stop", "one number", optional=True), In("step", "one number", optional=True),
    ]
    outputs = [Out("output", "1-D, dtype of the first input", differentiable=False)]
    shape = data_dependent((None, 1))
    gradient = no_gradient
    example = Example({"start": 3.0}, {"output": [0.0, 1.0, 2.0]})

    def kernel(xp: Any, start: Any, stop: Any = None, step: Any = None) -> Any:
        given = [x for x in (start, stop, step) if x is not None]
        kinds = [xp.dtype_name(x) for x in given]
        if len(set(kinds)) > 1 or kinds[0] not in ("int32", "int64", "float32", "float64"):
            raise ValueError(f"inputs are {', '.join(kinds)}: expected one of int32, int64, float32 and float64")
        for x, name in zip(given, ("start", "stop", "step")):
            number(xp, x, name)
        if step is not None and number(xp, step, "step") == 0:
            raise ValueError("Step size cannot be 0")
        values = [xp.reshape(x, ()) for x in given]
        first = zeros(xp, (), start) if len(values) == 1 else values[0]
        last = values[min(len(values) - 1, 1)]
        by = values[2] if len(values) > 2 else zeros(xp, (), start) + 1
        steps = -((first - last) // by) if kinds[0].startswith("int") else xp.ceil((last - first) / by)
        return xp.astype(xp.arange(max(0, int(steps))), start.dtype) * by + first


class SinusoidPositionEncoding(Operator):
    """Sines of positions in even columns, cosines in odd ones, of wavelengths that grow from 2 pi to 2 pi alpha.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; here every column has a wavelength of its own.
    """

    inputs = [In("positions", "(M, K), int32 or int64: a row holds one position K times")]
    outputs = [Out("output", "(M, K, embedding_size), float32", differentiable=False)]
    arguments = [Int("embedding_size", 100), Float("alpha", 10000.0), Float("amplitude", 1.0)]
    example = Example(
        {"positions": [[1], [2]]},
        {"output": [[[0.841471, 0.99995]], [[0.909297, 0.9998]]]},
        {"embedding_size": 2})

    def shape(positions: TensorType, *, embedding_size: int, **_: Any) -> TensorType:
        return TensorType("float32", None if positions.dims is None else (*positions.dims, embedding_size))

    def kernel(xp: Any, positions: Any, *, embedding_size: int, alpha: float, amplitude: float) -> Any:
        if positions.ndim != 2:
            raise ValueError(f"positions have shape {tuple(positions.shape)}, expected two dimensions")
        columns = xp.astype(xp.arange(embedding_size), xp.float64)
        angles = xp.astype(positions[:, :1], xp.float64) / xp.pow(alpha + 0 * columns, columns / embedding_size)
        angles = angles + (columns % 2) * math.pi / 2
        row = xp.reshape(xp.astype(amplitude * xp.sin(angles), xp.float32), (-1, 1, embedding_size))
        return xp.tile(row, (1, positions.shape[1], 1))
