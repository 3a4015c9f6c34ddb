"""Shape and layout: reshaping, axes and their order, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.graph.arguments import Bool, DType, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import Rule, emits, forbidden, no_gradient, pass_through
from netgrad.graph.shapes import Dim, Fixed, ShapeError, TensorType, same_as
from netgrad.ops._arrays import canonical_axis, require_rank, zeros
from netgrad.ops._axes import count, int_list
from netgrad.ops._strings import string_array
from netgrad.proto import caffe2_pb2


def reshaped(dims: Sequence[Dim], wanted: Sequence[int]) -> tuple[Dim, ...]:
    """The dimensions that a request stands for: 0 keeps the one at its place, -1 (at most once) takes what is left."""
    total = count(dims)
    if wanted.count(-1) > 1:
        raise ShapeError(f"shape {tuple(wanted)} leaves more than one dimension open: at most one may be -1")
    result: list[Dim] = [dims[k] if w == 0 and total != 0 and k < len(dims) else w for k, w in enumerate(wanted)]
    if -1 in result:
        place = result.index(-1)
        rest = count(result[:place] + result[place + 1:])
        if total is None or rest is None:
            result[place] = None
        elif total == 0:
            result[place] = 0
        elif rest == 0 or total % rest:
            raise ShapeError(f"{total} elements of shape {tuple(dims)} cannot take the shape {tuple(wanted)}")
        else:
            result[place] = total // rest
    if total is not None and count(result) not in (total, None):
        raise ShapeError(f"{total} elements of shape {tuple(dims)} cannot take the shape {tuple(wanted)}")
    return tuple(result)


class Reshape(Operator):
    """The same elements in a new shape.

    In the request 0 keeps the dimension at its place and one -1 takes what is left.
    """

    inputs = [In("data"), In("new_shape", "1-D int32 or int64, instead of the argument", optional=True)]
    outputs = [
        Out("reshaped"),
        Out("old_shape", "shape of data, 1-D int64 (the dtype of new_shape if that is given)", differentiable=False),
    ]
    arguments = [Ints("shape", None, "the new shape", as_="wanted")]
    strings = True
    inplace = {(0, 0)}
    shares = {(0, 0)}
    example = Example(
        {"data": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]},
        {"reshaped": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "old_shape": Tensor([2, 3], "int64")},
        {"shape": [3, -1]})

    def shape(data: TensorType, new_shape: TensorType | None = None, *, wanted: Any) -> tuple[TensorType, TensorType]:
        old_shape = TensorType(new_shape.dtype if new_shape else "int64", (data.rank,))
        if new_shape is not None or wanted is None:
            rank = new_shape.dims[0] if new_shape and new_shape.dims else None
            return data.with_dims(None if rank is None else (None,) * rank), old_shape
        if data.dims is None:
            return data.with_dims([w if w > 0 else None for w in wanted]), old_shape
        return data.with_dims(reshaped(data.dims, wanted)), old_shape

    def kernel(xp: Any, data: Any, new_shape: Any = None, *, wanted: Any) -> Any:
        if new_shape is None and wanted is None:
            raise ValueError("the new shape is missing: give the argument `shape` or a second input")
        if new_shape is not None:
            if wanted is not None:
                raise ValueError("the new shape is given twice: by the argument `shape` and by the second input")
            if new_shape.ndim != 1:
                raise ValueError(f"new_shape must be 1-D (empty for a scalar), found shape {tuple(new_shape.shape)}")
            wanted = int_list(xp, new_shape)
        old_shape = xp.asarray(list(data.shape), dtype=xp.int64 if new_shape is None else new_shape.dtype)
        return xp.reshape(data, reshaped(data.shape, wanted)), old_shape

    def gradient(op: Rule) -> None:
        op.copy_arguments = False
        op.emit("Reshape", [op.GO(0), op.O(1)], [op.GI(0), op.temp(f"_{op.input_name(0)}_grad_dims")])


class ResizeLike(Operator):
    """The elements of data in the shape of another tensor with as many."""

    inputs = [In("data"), In("shape_tensor", "only its shape matters", shape_only=True)]
    outputs = [Out("output", "dtype of data, shape of shape_tensor")]
    strings = True
    shares = {(0, 0)}
    gradient = emits("ResizeLike", "GO0 I0", "GI0")
    example = Example(
        {"data": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "shape_tensor": [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]},
        {"output": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})

    def shape(data: TensorType, shape_tensor: TensorType) -> TensorType:
        return data.with_dims(shape_tensor.dims)

    def kernel(xp: Any, data: Any, shape_tensor: Any) -> Any:
        return xp.reshape(data, reshaped(data.shape, [d if d else 0 for d in shape_tensor.shape]))


class Flatten(Operator):
    """A matrix: the axes before ``axis`` make its rows, the others its columns."""

    inputs = [In("X", "rank >= axis")]
    outputs = [Out("Y", "2-D")]
    arguments = [Int("axis", 1)]
    strings = True
    shares = {(0, 0)}
    gradient = emits("ResizeLike", "GO0 I0", "GI0")
    example = Example({"X": [[[1.0, 2.0], [3.0, 4.0]]]}, {"Y": [[1.0, 2.0, 3.0, 4.0]]})

    def shape(X: TensorType, *, axis: int) -> TensorType:
        return X.with_dims((None, None) if X.dims is None else (count(X.dims[:axis]), count(X.dims[axis:])))

    def kernel(xp: Any, X: Any, *, axis: int) -> Any:
        if not 0 <= axis <= X.ndim:
            raise ValueError(f"axis is {axis}, but X has shape {tuple(X.shape)}: expected 0 to {X.ndim}")
        return xp.reshape(X, (count(X.shape[:axis]), count(X.shape[axis:])))


class FlattenToVec(Operator):
    """All elements in one row, as a vector."""

    inputs = [In("input", "at least 1-D")]
    outputs = [Out("output", "1-D")]
    strings = True
    shares = {(0, 0)}
    gradient = emits("ResizeLike", "GO0 I0", "GI0")
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})

    def shape(input: TensorType) -> TensorType:
        return input.with_dims((None if input.dims is None else count(input.dims),))

    def kernel(xp: Any, input: Any) -> Any:
        if input.ndim == 0:
            raise ValueError("found a scalar, expected at least one dimension")
        return xp.reshape(input, (-1,)) if count(input.shape) else xp.reshape(input, (0,))


def _positions(dims: Sequence[int]) -> list[int]:
    """The argument `dims` of ExpandDims and Squeeze: positions, in order and without repetitions."""
    if not dims or min(dims) < 0:
        raise ShapeError(f"dims is {list(dims)}: expected at least one position, none of them negative")
    return sorted(set(dims))


class ExpandDims(Operator):
    """Inserts dimensions of size 1, which then stand at the positions ``dims``."""

    inputs = [In("data")]
    outputs = [Out("expanded", "as many dimensions more as there are dims")]
    arguments = [Ints("dims", (), "positions in the result")]
    strings = True
    inplace = {(0, 0)}
    shares = {(0, 0)}
    gradient = emits("Squeeze", "GO0", "GI0")
    example = Example({"data": [1.0, 2.0]}, {"expanded": [[1.0, 2.0]]}, {"dims": [0]})

    def shape(data: TensorType, *, dims: Any) -> TensorType:
        if data.dims is None:
            return data
        places = _positions(dims)
        if places[-1] >= len(data.dims) + len(places):
            raise ShapeError(f"dims are {list(dims)}, but data has shape {data.dims}: the result has no such position")
        result = list(data.dims)
        for place in places:
            result.insert(place, 1)
        return data.with_dims(result)

    def kernel(xp: Any, data: Any, *, dims: Any) -> Any:
        return xp.reshape(data, ExpandDims.shape(TensorType(None, tuple(data.shape)), dims=dims).dims)


class Squeeze(Operator):
    """Takes out the dimensions ``dims``, which must have size 1."""

    inputs = [In("data")]
    outputs = [Out("squeezed", "without those dimensions")]
    arguments = [Ints("dims", (), "positions in data")]
    strings = True
    inplace = {(0, 0)}
    shares = {(0, 0)}
    gradient = emits("ExpandDims", "GO0", "GI0")
    example = Example({"data": [[1.0, 2.0]]}, {"squeezed": [1.0, 2.0]}, {"dims": [0]})

    def shape(data: TensorType, *, dims: Any) -> TensorType:
        if data.dims is None:
            return data
        places = _positions(dims)
        if places[-1] >= len(data.dims) or any(data.dims[p] not in (1, None) for p in places):
            raise ShapeError(f"dims are {list(dims)}, but data has shape {data.dims}: these dimensions are not all 1")
        return data.with_dims([d for k, d in enumerate(data.dims) if k not in places])

    def kernel(xp: Any, data: Any, *, dims: Any) -> Any:
        return xp.reshape(data, Squeeze.shape(TensorType(None, tuple(data.shape)), dims=dims).dims)


class PrependDim(Operator):
    """Splits the first dimension in two, the first of them of size ``dim_size``."""

    inputs = [In("data", "at least 1-D")]
    outputs = [Out("reshaped", "one dimension more")]
    arguments = [Int("dim_size", 0, "must divide the first dimension")]
    strings = True
    inplace = {(0, 0)}
    shares = {(0, 0)}
    gradient = emits("MergeDim", "GO0", "GI0", copy_arguments=False)
    example = Example({"data": [1.0, 2.0, 3.0, 4.0]}, {"reshaped": [[1.0, 2.0], [3.0, 4.0]]}, {"dim_size": 2})

    def shape(data: TensorType, *, dim_size: int) -> TensorType:
        if not data.dims:
            return TensorType(data.dtype)
        first = data.dims[0]
        return data.with_dims((dim_size, None if first is None else first // max(dim_size, 1), *data.dims[1:]))

    def kernel(xp: Any, data: Any, *, dim_size: int) -> Any:
        if dim_size <= 0 or data.ndim == 0 or data.shape[0] % dim_size:
            raise ValueError(f"dim_size is {dim_size}, but data has shape {tuple(data.shape)}: "
                             "expected a positive divisor of its first dimension")
        return xp.reshape(data, (dim_size, data.shape[0] // dim_size, *data.shape[1:]))


class MergeDim(Operator):
    """Makes one of the first two dimensions."""

    inputs = [In("data", "at least 2-D")]
    outputs = [Out("reshaped", "one dimension less")]
    strings = True
    inplace = {(0, 0)}
    shares = {(0, 0)}
    gradient = emits("ResizeLike", "GO0 I0", "GI0")
    example = Example({"data": [[[1.0, 2.0], [3.0, 4.0]]]}, {"reshaped": [[1.0, 2.0], [3.0, 4.0]]})

    def shape(data: TensorType) -> TensorType:
        if data.dims is None or len(data.dims) < 2:
            return TensorType(data.dtype)
        return data.with_dims((count(data.dims[:2]), *data.dims[2:]))

    def kernel(xp: Any, data: Any) -> Any:
        if data.ndim < 2:
            raise ValueError(f"data has shape {tuple(data.shape)}, expected at least two dimensions")
        return xp.reshape(data, (count(data.shape[:2]), *data.shape[2:]))


def _permuted(X: TensorType, axes: Sequence[int]) -> TensorType:
    return X.with_dims(None if X.dims is None else [X.dims[a] for a in axes])


class Transpose(Operator):
    """Dimension k of Y is dimension ``axes[k]`` of X; the reverse order without axes."""

    inputs = [In("X")]
    outputs = [Out("Y", "permuted shape")]
    arguments = [Ints("axes", (), "a permutation of the axes")]
    shares = {(0, 0)}
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"Y": [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]})

    def shape(X: TensorType, *, axes: Any) -> TensorType:
        if X.dims is None:
            return X
        order = list(axes) or list(reversed(range(len(X.dims))))
        if sorted(order) != list(range(len(X.dims))):
            raise ShapeError(f"axes are {list(axes)}, which is no permutation of the axes of shape {X.dims}")
        return _permuted(X, order)

    def kernel(xp: Any, X: Any, *, axes: Any) -> Any:
        order = tuple(axes) or tuple(reversed(range(X.ndim)))
        if sorted(order) != list(range(X.ndim)):
            raise ValueError(f"axes are {list(axes)}, which is no permutation of the axes of shape {tuple(X.shape)}")
        return xp.permute_dims(X, order)

    def gradient(op: Rule) -> None:
        axes = op.arg("axes")
        if not isinstance(axes, list):  # the reverse order is its own inverse
            op.emit("Transpose", [op.GO(0)], [op.GI(0)])
            return
        inverse = [axes.index(k) if k in axes else 0 for k in range(len(axes))]
        op.copy_arguments = False
        kept = {name: op.arg(name) for name in op.argument_names() if name != "axes"}
        op.emit("Transpose", [op.GO(0)], [op.GI(0)], **kept, axes=inverse)


def _to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _to_second(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _check_image(X: Any) -> None:
    if X.ndim < 3:
        raise ValueError(f"found shape {tuple(X.shape)}, expected a batch, channels and at least one more dimension")


class NCHW2NHWC(Operator):
    """Moves the channels from the second to the last place, for any number of spatial dimensions."""

    inputs = [In("data", "(N, C, ...)")]
    outputs = [Out("output", "(N, ..., C)")]
    shares = {(0, 0)}
    gradient = emits("NHWC2NCHW", "GO0", "GI0")
    example = Example({"data": [[[[1.0, 2.0]], [[3.0, 4.0]]]]}, {"output": [[[[1.0, 3.0], [2.0, 4.0]]]]})

    def shape(data: TensorType) -> TensorType:
        return _permuted(data, _to_last(data.rank or 0))

    def kernel(xp: Any, data: Any) -> Any:
        _check_image(data)
        return xp.permute_dims(data, _to_last(data.ndim))


class NHWC2NCHW(Operator):
    """Moves the channels from the last to the second place."""

    inputs = [In("data", "(N, ..., C)")]
    outputs = [Out("output", "(N, C, ...)")]
    shares = {(0, 0)}
    gradient = emits("NCHW2NHWC", "GO0", "GI0")
    example = Example({"data": [[[[1.0, 3.0], [2.0, 4.0]]]]}, {"output": [[[[1.0, 2.0]], [[3.0, 4.0]]]]})

    def shape(data: TensorType) -> TensorType:
        return _permuted(data, _to_second(data.rank or 0))

    def kernel(xp: Any, data: Any) -> Any:
        _check_image(data)
        return xp.permute_dims(data, _to_second(data.ndim))


#: what brew and old nets put on every operator that was written as a convolution; without meaning here
_CONVOLUTION_ARGUMENTS = [
    *(Int(name, 0) for name in (
        "kernel", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w", "pad", "pad_t", "pad_l", "pad_b", "pad_r",
        "dilation", "dilation_h", "dilation_w", "legacy_pad", "shared_buffer")),
    *(Ints(name, ()) for name in ("kernels", "strides", "pads", "dilations")),
    Bool("global_pooling", False), Bool("float16_compute", False),
]


def _shuffled(xp: Any, X: Any, order: str, parts: int) -> Any:
    """Channels seen as (parts, rest) and written as (rest, parts)."""
    axis = 1 if order == "NCHW" else X.ndim - 1
    if parts <= 0 or X.shape[axis] % parts:
        raise ValueError(f"{X.shape[axis]} channels do not form {parts} groups")
    split = xp.reshape(X, (*X.shape[:axis], parts, X.shape[axis] // parts, *X.shape[axis + 1:]))
    order_of_axes = list(range(split.ndim))
    order_of_axes[axis], order_of_axes[axis + 1] = axis + 1, axis
    return xp.reshape(xp.permute_dims(split, tuple(order_of_axes)), X.shape)


class ChannelShuffle(Operator):
    """Interleaves the channels of ``group`` groups.

    Source: Zhang et al. 2017, https://arxiv.org/abs/1707.01083.
    """

    inputs = [In("X", "(N, C, ...) or (N, ..., C)")]
    outputs = [Out("Y", "like X")]
    arguments = [Int("group", 1, "must divide the channels"), Str("order", "NCHW"), *_CONVOLUTION_ARGUMENTS]
    shares = {(0, 0)}
    shape = same_as(0)
    gradient = emits("ChannelShuffleGradient", "GO0", "GI0")
    example = Example({"X": [[[1.0], [2.0], [3.0], [4.0]]]}, {"Y": [[[1.0], [3.0], [2.0], [4.0]]]}, {"group": 2})

    def kernel(xp: Any, X: Any, *, group: int, order: str) -> Any:
        return _shuffled(xp, X, order, group)


class ChannelShuffleGradient(Operator):
    """Puts interleaved channels back into their groups."""

    inputs = [In("dY")]
    outputs = [Out("dX", "like dY")]
    arguments = ChannelShuffle.arguments
    shares = {(0, 0)}
    shape = same_as(0)
    internal = True
    example = Example({"dY": [[[1.0], [0.5], [2.0], [-1.0]]]}, {"dX": [[[1.0], [2.0], [0.5], [-1.0]]]}, {"group": 2})

    def kernel(xp: Any, dY: Any, *, group: int, order: str) -> Any:
        channels = dY.shape[1 if order == "NCHW" else dY.ndim - 1]
        if group <= 0 or channels % group:
            raise ValueError(f"{channels} channels do not form {group} groups")
        return _shuffled(xp, dY, order, channels // group)


_BLOCK_ARGUMENTS = [
    Int("block_size", 2), Int("pad", 0, "rows and columns of zeros on every side"),
    Int("pad_t", None, "at the top; pad unless given"),
    Str("order", "NCHW", "must be NCHW"),
]


def _pads(pad: int, pad_t: int | None, order: str) -> tuple[int, int]:
    """Padding at the top and on the three other sides."""
    if order != "NCHW":
        raise ValueError(f"order is {order}, only NCHW is defined")
    return (pad if pad_t is None else pad_t), pad


class SpaceToBatch(Operator):
    """Cuts the padded image into blocks; pixels at one place of their blocks make one image of the batch."""

    inputs = [In("X", "(N, C, H, W); padded height and width must be multiples of block_size")]
    outputs = [Out("Y", "(N block_size^2, C, padded H / block_size, padded W / block_size)")]
    arguments = _BLOCK_ARGUMENTS
    shares = {(0, 0)}
    gradient = emits("BatchToSpace", "GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0], [3.0, 4.0]]]]},
        {"Y": [[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]]]},
        {"block_size": 2})

    def kernel(xp: Any, X: Any, *, block_size: int, pad: int, pad_t: int | None, order: str) -> Any:
        top, side = _pads(pad, pad_t, order)
        require_rank("X", X, 4)
        N, C, H, W = X.shape
        height, width = H + top + side, W + 2 * side
        if height % block_size or width % block_size:
            raise ValueError(f"the padded image is {height} x {width}, which is no multiple of block_size {block_size}")
        X = xp.concat([zeros(xp, (N, C, top, W), X), X, zeros(xp, (N, C, side, W), X)], axis=2)
        edge = zeros(xp, (N, C, height, side), X)
        X = xp.concat([edge, X, edge], axis=3)
        X = xp.reshape(X, (N, C, height // block_size, block_size, width // block_size, block_size))
        return xp.reshape(xp.permute_dims(X, (3, 5, 0, 1, 2, 4)),
                          (block_size * block_size * N, C, height // block_size, width // block_size))


class BatchToSpace(Operator):
    """Puts the images of a batch back into blocks of one image and cuts the padding off."""

    inputs = [In("X", "(N block_size^2, C, H, W)")]
    outputs = [Out("Y", "(N, C, H block_size - padding, W block_size - padding)")]
    arguments = _BLOCK_ARGUMENTS
    shares = {(0, 0)}
    gradient = emits("SpaceToBatch", "GO0", "GI0")
    example = Example(
        {"X": [[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]]]},
        {"Y": [[[[1.0, 2.0], [3.0, 4.0]]]]},
        {"block_size": 2})

    def kernel(xp: Any, X: Any, *, block_size: int, pad: int, pad_t: int | None, order: str) -> Any:
        top, side = _pads(pad, pad_t, order)
        batch, C, H, W = X.shape
        if batch % block_size ** 2:
            raise ValueError(f"the batch of {batch} is no multiple of block_size squared, {block_size ** 2}")
        X = xp.reshape(X, (block_size, block_size, batch // block_size ** 2, C, H, W))
        X = xp.reshape(xp.permute_dims(X, (2, 3, 4, 0, 5, 1)), (-1, C, H * block_size, W * block_size))
        return X[:, :, top:H * block_size - side, side:W * block_size - side]


_TYPE_NAMES = frozenset(caffe2_pb2.TensorProto.DataType.keys())


def _data_type(op: Rule, name: str) -> int:
    """The number of a data type that an argument gives as number or name."""
    value = op.arg(name, caffe2_pb2.TensorProto.FLOAT)
    if isinstance(value, str):
        if value.upper() not in _TYPE_NAMES:
            raise op.fail(f"its argument {name} is {value!r}, which is no data type")
        return int(caffe2_pb2.TensorProto.DataType.Value(value.upper()))
    if not isinstance(value, int):
        raise op.fail(f"its argument {name} is {value!r}, expected a data type as number or name")
    return value


class Cast(Operator):
    """The elements in another dtype; fractions are cut off on the way to integers."""

    inputs = [In("X")]
    outputs = [Out("Y", "shape of X, dtype `to`")]
    arguments = [DType("to", 1, "the wanted type"), DType("from_type", None, "the type of X; the gradient needs it")]
    shares = {(0, 0)}
    example = Example({"X": [1.5, -2.5]}, {"Y": [1, -2]}, {"to": 2})

    def shape(X: TensorType, *, to: int, **_: Any) -> TensorType:
        return X.with_dtype(_DTYPE_NAMES.get(to))

    def kernel(xp: Any, X: Any, *, to: int) -> Any:
        if to == caffe2_pb2.TensorProto.STRING:
            host = xp.to_numpy(X)
            form = "%f" if host.dtype.kind == "f" else "%d"
            return string_array([(form % x).encode() for x in host.reshape(-1).tolist()], host.shape)
        wanted = xp.dtype_of(to)
        return X if X.dtype == wanted else xp.astype(X, wanted)

    def gradient(op: Rule) -> None:
        if not op.has_arg("from_type"):
            raise op.fail("its argument from_type is missing: the gradient is cast back to that type")
        op.copy_arguments = False
        op.emit("Cast", [op.GO(0)], [op.GI(0)], to=_data_type(op, "from_type"), from_type=_data_type(op, "to"))


#: NumPy's names of the data types
_DTYPE_NAMES = {
    getattr(caffe2_pb2.TensorProto, kind): name for kind, name in (
        ("FLOAT", "float32"), ("INT32", "int32"), ("STRING", "string"), ("BOOL", "bool"), ("UINT8", "uint8"),
        ("INT8", "int8"), ("UINT16", "uint16"), ("INT16", "int16"), ("INT64", "int64"), ("FLOAT16", "float16"),
        ("DOUBLE", "float64"))
}


class Shape(Operator):
    """The shape of X, or its entries at ``axes``."""

    inputs = [In("X", shape_only=True)]
    outputs = [Out("shape", "1-D int64", differentiable=False)]
    arguments = [Ints("axes", (), "which dimensions; all unless given")]
    strings = True
    gradient = forbidden("a shape has no gradient")
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"shape": Tensor([2, 3], "int64")})

    def shape(X: TensorType, *, axes: Any) -> TensorType:
        return TensorType("int64", (len(axes) if axes else X.rank,))

    def kernel(xp: Any, X: Any, *, axes: Any) -> Any:
        dims = [X.shape[canonical_axis(a, X.ndim)] for a in axes] if axes else list(X.shape)
        return xp.asarray(dims, dtype=xp.int64)


class Size(Operator):
    """The number of elements of X."""

    inputs = [In("X", shape_only=True)]
    outputs = [Out("size", "a scalar, int64", differentiable=False)]
    strings = True
    shape = Fixed((TensorType("int64", ()),))
    gradient = no_gradient
    example = Example({"X": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"size": Tensor(6, "int64")})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.asarray(count(X.shape), dtype=xp.int64)


class Alias(Operator):
    """Output and input are the same storage."""

    inputs = [In("input")]
    outputs = [Out("output", "the input itself")]
    strings = True
    shape = same_as(0)
    shares = {(0, 0)}
    gradient = pass_through
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any) -> Any:
        return input


class AliasWithName(Operator):
    """Output and input are the same storage; the name marks the place for tools that rewrite nets."""

    inputs = [In("input")]
    outputs = [Out("output", "the input itself")]
    arguments = [Str("name", "invalid_name"), Bool("is_backward", False)]
    strings = True
    inplace = {(0, 0)}
    shape = same_as(0)
    shares = {(0, 0)}
    example = Example({"input": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]}, {"output": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]})

    def kernel(xp: Any, input: Any) -> Any:
        return input
