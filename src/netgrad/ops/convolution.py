"""Convolution, its transpose, its locally connected and deformable kin, and the unfolding of images into columns."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Bool, Int, Ints
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, RuleFunction, emits
from netgrad.graph.shapes import ShapeError, TensorType, same_as
from netgrad.ops._arrays import channels_back, channels_first, product, require_shape
from netgrad.ops._second import of_affine
from netgrad.ops._windows import WINDOW, Placed, Window, join_dims, split_dims, window_of

IMAGE = "(N, C, sizes) or, with order NHWC, (N, sizes, C); float"
CONVOLUTION = (
    *WINDOW, Bool("no_bias", False), Bool("no_gradient_to_input", False, "the gradient of X is not computed"),
)


def convolution_gradient(type: str, operands: int = 2) -> RuleFunction:
    """The rule of X, ..., filter and an optional bias: gradients of all but X first, that of X last unless declined."""

    def gradient(op: Rule) -> None:
        if op.arg("activation", b""):
            raise op.fail("a convolution with a Relu fused into it is for inference; differentiate the net from before")
        outputs = [op.GI(k) for k in range(1, op.num_inputs)]
        if not op.arg("no_gradient_to_input", 0):
            outputs.append(op.GI(0))
        mark = {"no_bias": 1} if op.num_inputs == operands else {}
        op.emit(type, [*map(op.I, range(operands)), op.GO(0)], outputs, **mark)

    return gradient


def _input(xp: Any, X: Any, order: str) -> Any:
    first = channels_first(xp, X, order)
    if first.ndim < 3:
        raise ShapeError(f"the input has shape {tuple(X.shape)}, expected {IMAGE}")
    return first


def place(xp: Any, X: Any, filter: Any, order: str, group: int, op: Any) -> tuple[Any, Any, Placed]:
    """X and the filter with channels first, and the window on X; raises `ShapeError` where they do not go together."""
    first, weights = _input(xp, X, order), channels_first(xp, filter, order)
    at = window_of(op, first.ndim - 2, tuple(weights.shape[2:])).on(first.shape[2:])
    channels = first.shape[1]
    if weights.ndim != first.ndim or channels % group or weights.shape[0] % group:
        raise ShapeError(f"the filter has shape {tuple(filter.shape)}, which does not go with an input of shape "
                         f"{tuple(X.shape)} and {group} groups")
    require_shape("the filter (channels first)", weights, (weights.shape[0], channels // group, *at.kernel),
                  f" for an input of {channels} channels and {group} groups")
    return first, weights, at



class _Convolution(Operator, abstract=True):
    inputs = [In("X", IMAGE), In("filter", "(M, C / group, kernel) or, with order NHWC, (M, kernel, C / group)"),
              In("bias", "(M,)", optional=True)]
    outputs = [Out("Y", "like X, M channels, one position per window")]
    arguments = [*CONVOLUTION]

    def shape(X: TensorType, filter: TensorType, *_: TensorType, order: str = "NCHW", **arguments: Any) -> TensorType:
        if X.rank is None:
            return X
        batch, _channels, sizes = split_dims(X, order)
        kernel = None
        filters = None
        if filter.rank is not None:
            filters, _depth, known = split_dims(filter, order)
            kernel = None if None in known else [n for n in known if n is not None]
        window = Window.declared(arguments, len(sizes), kernel)
        return X.with_dims(join_dims(batch, filters, window.out_dims(sizes), order))

    def kernel(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
        first, weights, at = place(xp, X, filter, order, group, op)
        batch, filters = first.shape[0], weights.shape[0]
        depth = first.shape[1] // group * at.elements
        columns = xp.reshape(at.columns(xp, first), (batch, group, depth, product(at.out)))
        Y = xp.matmul(xp.reshape(weights, (1, group, filters // group, depth)), columns)
        Y = xp.reshape(Y, (batch, filters, *at.out))
        if bias is not None:
            require_shape("the bias", bias, (filters,), ", one number per filter")
            Y = Y + xp.reshape(bias, (filters, *(1 for _ in at.out)))
        return channels_back(xp, Y, order)


def fused_relu(op: Any) -> bool:
    """Whether a convolution of engine NNPACK ends in a Relu, which its argument ``activation`` says."""
    activation = op.argument("activation", "")
    name = activation.decode() if isinstance(activation, bytes) else str(activation)
    if name not in ("", "identity", "Relu"):
        raise ValueError(f"activation is {name!r}; a convolution of engine NNPACK has 'Relu' or none")
    return name == "Relu"


class _ConvolutionGradient(Operator, abstract=True):
    inputs = [In("X", IMAGE), In("filter"), In("dY", "like Y", optional=True)]
    outputs = [Out("dfilter", "like filter"), Out("dbias or dX", "absent with no_bias", optional=True),
               Out("dX", "like X", optional=True)]
    arguments = [*CONVOLUTION]
    internal = True

    def shape(X: TensorType, filter: TensorType, *_: TensorType, no_bias: bool = False, **__: Any) -> Any:
        bias = filter.with_dims(None if filter.dims is None else filter.dims[:1])
        return (filter, X) if no_bias else (filter, bias, X)

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {1} if arguments["no_gradient_to_input"] else set()

    def kernel(xp: Any, X: Any, filter: Any, dY: Any, *, order: str, group: int, no_bias: bool, op: Any) -> Any:
        first, weights, at = place(xp, X, filter, order, group, op)
        batch, channels, filters = first.shape[0], first.shape[1], weights.shape[0]
        positions = product(at.out)
        require_shape("the output's gradient", dY, join_dims(batch, filters, at.out, order), ", the output's")
        dY = channels_first(xp, dY, order)
        spread = xp.reshape(dY, (batch, group, filters // group, positions))
        columns = xp.reshape(at.columns(xp, first), (batch, group, channels // group * at.elements, positions))
        dfilter = xp.sum(xp.matmul(spread, xp.matrix_transpose(columns)), axis=0)
        gradients = [channels_back(xp, xp.reshape(dfilter, weights.shape), order)]
        if not no_bias:
            gradients.append(xp.sum(dY, axis=(0, *range(2, dY.ndim))))
        if op.num_outputs > len(gradients):
            matrix = xp.reshape(weights, (1, group, filters // group, channels // group * at.elements))
            back = xp.matmul(xp.matrix_transpose(matrix), spread)
            back = xp.reshape(back, (batch, channels, at.elements, *at.out))
            gradients.append(channels_back(xp, at.scattered(xp, back), order))
        return tuple(gradients)


class Conv(_Convolution):
    """Y = filter * X + bias: cross-correlation over all spatial axes, however many there are."""

    gradient = convolution_gradient("ConvGradient")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]],
         "bias": [0.5]},
        {"Y": [[[[-3.5, -3.5], [-3.5, -3.5]]]]},
        {"kernel": 2})


class Conv1D(_Convolution):
    """Conv over one spatial axis."""

    gradient = convolution_gradient("Conv1DGradient")
    example = Example(
        {"X": [[[1.0, 2.0, 4.0]]], "filter": [[[1.0, -1.0]]], "bias": [0.5]},
        {"Y": [[[-0.5, -1.5]]]},
        {"kernels": [2]})


class Conv2D(_Convolution):
    """Conv over two spatial axes."""

    gradient = convolution_gradient("Conv2DGradient")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]],
         "bias": [0.5]},
        {"Y": [[[[-3.5, -3.5], [-3.5, -3.5]]]]},
        {"kernel": 2})


class Conv3D(_Convolution):
    """Conv over three spatial axes."""

    gradient = convolution_gradient("Conv3DGradient")
    example = Example(
        {"X": [[[[[1.0, 2.0], [3.0, 4.0]]]]], "filter": [[[[[1.0, 0.0], [0.0, -1.0]]]]], "bias": [0.5]},
        {"Y": [[[[[-2.5]]]]]},
        {"kernels": [1, 2, 2]})


class ConvGradient(_ConvolutionGradient):
    """Gradients of Conv: filter, bias (unless no_bias), and X where it has an output."""

    gradient = of_affine("Conv")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]],
         "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dfilter": [[[[5.0, 7.5], [12.5, 15.0]]]], "dbias_or_dX": [2.5],
         "dX": [[[[1.0, 0.5, 0.0], [2.0, -2.0, -0.5], [0.0, -2.0, 1.0]]]]},
        {"kernel": 2})


class Conv1DGradient(_ConvolutionGradient):
    """ConvGradient over one spatial axis."""

    gradient = of_affine("Conv1D")
    example = Example(
        {"X": [[[1.0, 2.0, 4.0]]], "filter": [[[1.0, -1.0]]], "dY": [[[1.0, 0.5]]]},
        {"dfilter": [[[2.0, 4.0]]], "dbias_or_dX": [1.5], "dX": [[[1.0, -0.5, -0.5]]]},
        {"kernels": [2]})


class Conv2DGradient(_ConvolutionGradient):
    """ConvGradient over two spatial axes."""

    gradient = of_affine("Conv2D")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]],
         "dY": [[[[1.0, 0.5], [2.0, -1.0]]]]},
        {"dfilter": [[[[5.0, 7.5], [12.5, 15.0]]]], "dbias_or_dX": [2.5],
         "dX": [[[[1.0, 0.5, 0.0], [2.0, -2.0, -0.5], [0.0, -2.0, 1.0]]]]},
        {"kernel": 2})


class Conv3DGradient(_ConvolutionGradient):
    """ConvGradient over three spatial axes."""

    gradient = of_affine("Conv3D")
    example = Example(
        {"X": [[[[[1.0, 2.0], [3.0, 4.0]]]]], "filter": [[[[[1.0, 0.0], [0.0, -1.0]]]]], "dY": [[[[[1.0]]]]]},
        {"dfilter": [[[[[1.0, 2.0], [3.0, 4.0]]]]], "dbias_or_dX": [1.0], "dX": [[[[[1.0, 0.0], [0.0, -1.0]]]]]},
        {"kernels": [1, 2, 2]})




TRANSPOSED = (
    *CONVOLUTION,
    Ints("adj", None, "extra positions at the end of every axis"), Int("adj_h"), Int("adj_w"), Ints("adjs"),
)


def _transposed(get: Any, sizes: Any, kernel: Any) -> Placed:
    """The window on the output, with ``sizes`` positions; its image has the sizes of the output."""
    rank = len(sizes)
    window = Window.read(get, rank, kernel)
    if window.legacy_pad:
        raise ValueError(f"legacy_pad {window.legacy_pad} has no meaning here: give pads")
    by_side = [get(f"adj_{side}", None) or 0 for side in "hw"] if rank == 2 else 0
    adj = get("adjs", None) or get("adj", None) or by_side
    adj = list(adj) if isinstance(adj, (list, tuple)) else [adj]
    adj = adj * rank if len(adj) == 1 else adj
    if len(adj) != rank or any(a < 0 or a >= max(s, 2) for a, s in zip(adj, window.stride, strict=False)):
        raise ValueError(f"adjs {adj} must be {rank} numbers smaller than the strides {window.stride}")
    out: tuple[Any, ...] = tuple(None if n is None else (n - 1) * s + k + a - h - t for n, s, k, a, h, t in zip(
        sizes, window.stride, window.kernel, adj, window.pads[:rank], window.pads[rank:], strict=True))
    if any(o is not None and o < 1 for o in out):
        raise ShapeError(f"the output would have sizes {out}: padding {window.pads} is too large")
    return Placed(out, window.kernel, window.stride, (1,) * rank, window.pads[:rank], window.pads[rank:], tuple(sizes))


def _require_transposed(weights: Any, channels: int, group: int, at: Placed) -> None:
    require_shape("the filter (channels first)", weights, (channels, weights.shape[1], *at.kernel),
                  f" for an input of {channels} channels")
    if channels % group:
        raise ShapeError(f"an input of {channels} channels does not go into {group} groups")


class ConvTranspose(Operator):
    """Y = the transpose of a convolution by filter, applied to X, plus bias: each element of X paints a window of Y."""

    inputs = [In("X", IMAGE), In("filter", "(C, M / group, kernel) or, with order NHWC, (C, kernel, M / group)"),
              In("bias", "(M,)", optional=True)]
    outputs = [Out("Y", "like X, M channels, (size - 1) stride + kernel + adj - padding positions")]
    arguments = [*TRANSPOSED]
    gradient = convolution_gradient("ConvTransposeGradient")
    example = Example(
        {"X": [[[[1.0, 2.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]], "bias": [0.5]},
        {"Y": [[[[1.5, 2.5, 0.5], [0.5, -0.5, -1.5]]]]},
        {"kernel": 2})

    def shape(X: TensorType, filter: TensorType, *_: TensorType, order: str = "NCHW", group: int = 1,
              **arguments: Any) -> TensorType:
        if X.rank is None or filter.rank is None:
            return X.with_dims(None if X.rank is None else (None,) * X.rank)
        batch, _channels, sizes = split_dims(X, order)
        _, filters, kernel = split_dims(filter, order)
        at = _transposed(lambda name, default: arguments.get(name, default), sizes, kernel)
        return X.with_dims(join_dims(batch, None if filters is None else filters * group, at.sizes, order))

    def kernel(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
        first, weights = _input(xp, X, order), channels_first(xp, filter, order)
        at = _transposed(op.argument, first.shape[2:], tuple(weights.shape[2:]))
        batch, channels, filters = first.shape[0], first.shape[1], weights.shape[1] * group
        _require_transposed(weights, channels, group, at)
        spread = xp.reshape(first, (batch, group, channels // group, product(at.out)))
        matrix = xp.reshape(weights, (1, group, channels // group, filters // group * at.elements))
        columns = xp.matmul(xp.matrix_transpose(matrix), spread)
        Y = at.scattered(xp, xp.reshape(columns, (batch, filters, at.elements, *at.out)))
        if bias is not None:
            require_shape("the bias", bias, (filters,), ", one number per filter")
            Y = Y + xp.reshape(bias, (filters, *(1 for _ in at.out)))
        return channels_back(xp, Y, order)


class ConvTransposeGradient(Operator):
    """Gradients of ConvTranspose: filter, bias (unless no_bias), and X where it has an output."""

    inputs = [In("X", IMAGE), In("filter"), In("dY", "like Y")]
    outputs = [Out("dfilter", "like filter"), Out("dbias or dX", "absent with no_bias", optional=True),
               Out("dX", "like X", optional=True)]
    arguments = [*TRANSPOSED]
    internal = True
    example = Example(
        {"X": [[[[1.0, 2.0]]]], "filter": [[[[1.0, 0.0], [0.0, -1.0]]]],
         "dY": [[[[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]]]]},
        {"dfilter": [[[[2.0, 4.5], [-0.5, 6.25]]]], "dbias_or_dX": [5.75], "dX": [[[[0.75, -2.5]]]]},
        {"kernel": 2})

    def shape(X: TensorType, filter: TensorType, dY: TensorType, *, no_bias: bool = False, order: str = "NCHW",
              **__: Any) -> Any:
        channels = None if dY.dims is None else (split_dims(dY, order)[1],)
        return (filter, X) if no_bias else (filter, dY.with_dims(channels), X)

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {1} if arguments["no_gradient_to_input"] else set()

    def kernel(xp: Any, X: Any, filter: Any, dY: Any, *, order: str, group: int, no_bias: bool, op: Any) -> Any:
        first, weights = _input(xp, X, order), channels_first(xp, filter, order)
        at = _transposed(op.argument, first.shape[2:], tuple(weights.shape[2:]))
        batch, channels, filters = first.shape[0], first.shape[1], weights.shape[1] * group
        _require_transposed(weights, channels, group, at)
        require_shape("the output's gradient", dY, join_dims(batch, filters, at.sizes, order), ", the output's")
        dY = channels_first(xp, dY, order)
        positions = product(at.out)
        columns = xp.reshape(at.columns(xp, dY), (batch, group, filters // group * at.elements, positions))
        spread = xp.reshape(first, (batch, group, channels // group, positions))
        dfilter = xp.sum(xp.matmul(spread, xp.matrix_transpose(columns)), axis=0)
        gradients = [channels_back(xp, xp.reshape(dfilter, weights.shape), order)]
        if not no_bias:
            gradients.append(xp.sum(dY, axis=(0, *range(2, dY.ndim))))
        if op.num_outputs > len(gradients):
            matrix = xp.reshape(weights, (1, group, channels // group, filters // group * at.elements))
            dX = xp.reshape(xp.matmul(matrix, columns), first.shape)
            gradients.append(channels_back(xp, dX, order))
        return tuple(gradients)


class _Local(Operator, abstract=True):
    inputs = [
        In("X", IMAGE),
        In("filter", "(positions, M, C / group, kernel) or, with order NHWC, (positions, M, kernel, C / group)"),
        In("bias", "(positions, M)", optional=True),
    ]
    outputs = [Out("Y", "like X, M channels, one position per window")]
    arguments = [*CONVOLUTION]

    def shape(X: TensorType, filter: TensorType, *_: TensorType, order: str = "NCHW", **arguments: Any) -> TensorType:
        if X.rank is None or filter.rank is None:
            return X.with_dims(None if X.rank is None else (None,) * X.rank)
        batch, _channels, sizes = split_dims(X, order)
        window = Window.declared(arguments, len(sizes))
        return X.with_dims(join_dims(batch, (filter.dims or ())[len(sizes)], window.out_dims(sizes), order))

    def kernel(xp: Any, X: Any, filter: Any, bias: Any, *, order: str, group: int, op: Any) -> Any:
        columns, matrix, at, _ = _local(xp, X, filter, order, group, op)
        filters = matrix.shape[1] * matrix.shape[2]
        Y = xp.matmul(matrix, columns)  # (positions, group, M / group, N)
        Y = xp.permute_dims(xp.reshape(Y, (product(at.out), filters, -1)), (2, 1, 0))
        Y = xp.reshape(Y, (Y.shape[0], filters, *at.out))
        if bias is not None:
            require_shape("the bias", bias, (*at.out, filters), ", one number per position and filter")
            Y = Y + xp.permute_dims(bias, (bias.ndim - 1, *range(bias.ndim - 1)))
        return channels_back(xp, Y, order)


def _local(xp: Any, X: Any, filter: Any, order: str, group: int, op: Any) -> tuple[Any, Any, Placed, Any]:
    """Columns (positions, group, depth, N), matrices (positions, group, M / group, depth), window, filter."""
    first = _input(xp, X, order)
    rank = first.ndim - 2
    at = window_of(op, rank).on(first.shape[2:])
    channels, positions = first.shape[1], product(at.out)
    weights = filter
    if order == "NHWC":
        weights = xp.permute_dims(filter, (*range(rank + 1), filter.ndim - 1, *range(rank + 1, filter.ndim - 1)))
    filters = weights.shape[rank]
    require_shape("the filter (channels first)", weights, (*at.out, filters, channels // group, *at.kernel),
                  " for this input and window")
    depth = channels // group * at.elements
    columns = xp.reshape(at.columns(xp, first), (first.shape[0], group, depth, positions))
    matrix = xp.reshape(weights, (positions, group, filters // group, depth))
    return xp.permute_dims(columns, (3, 1, 2, 0)), matrix, at, weights


class _LocalGradient(Operator, abstract=True):
    inputs = [In("X", IMAGE), In("filter"), In("dY", "like Y", optional=True)]
    outputs = [Out("dfilter", "like filter"), Out("dbias or dX", "absent with no_bias", optional=True),
               Out("dX", "like X", optional=True)]
    arguments = [*CONVOLUTION]
    internal = True

    def shape(X: TensorType, filter: TensorType, *_: TensorType, no_bias: bool = False, order: str = "NCHW",
              **__: Any) -> Any:
        rank = None if X.rank is None else X.rank - 2
        bias = filter.with_dims(None if filter.dims is None or rank is None else filter.dims[:rank + 1])
        return (filter, X) if no_bias else (filter, bias, X)

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {1} if arguments["no_gradient_to_input"] else set()

    def kernel(xp: Any, X: Any, filter: Any, dY: Any, *, order: str, group: int, no_bias: bool, op: Any) -> Any:
        columns, matrix, at, weights = _local(xp, X, filter, order, group, op)
        rank, positions, filters = len(at.out), product(at.out), matrix.shape[1] * matrix.shape[2]
        batch = X.shape[0]
        require_shape("the output's gradient", dY, join_dims(batch, filters, at.out, order), ", the output's")
        dY = channels_first(xp, dY, order)
        spread = xp.reshape(dY, (batch, group, filters // group, positions))
        spread = xp.permute_dims(spread, (3, 1, 2, 0))  # (positions, group, M / group, N)
        dfilter = xp.reshape(xp.matmul(spread, xp.matrix_transpose(columns)), weights.shape)
        if order == "NHWC":
            dfilter = xp.permute_dims(dfilter, (*range(rank + 1), *range(rank + 2, dfilter.ndim), rank + 1))
        gradients = [dfilter]
        if not no_bias:
            gradients.append(xp.permute_dims(xp.sum(dY, axis=0), (*range(1, rank + 1), 0)))
        if op.num_outputs > len(gradients):
            back = xp.permute_dims(xp.matmul(xp.matrix_transpose(matrix), spread), (3, 1, 2, 0))
            back = xp.reshape(back, (batch, back.shape[1] * back.shape[2] // at.elements, at.elements, *at.out))
            gradients.append(channels_back(xp, at.scattered(xp, back), order))
        return tuple(gradients)


class LC(_Local):
    """A locally connected layer: Conv with filters of its own at every position."""

    gradient = convolution_gradient("LCGradient")
    example = Example(
        {"X": [[[[1.0, 2.0]]]], "filter": [[[[[[1.0]]]], [[[[2.0]]]]]], "bias": [[[0.5], [0.5]]]},
        {"Y": [[[[1.5, 4.5]]]]},
        {"kernel": 1})


class LC1D(_Local):
    """LC over one spatial axis."""

    gradient = convolution_gradient("LC1DGradient")
    example = Example(
        {"X": [[[1.0, 2.0]]], "filter": [[[[1.0]]], [[[2.0]]]], "bias": [[0.5], [0.5]]},
        {"Y": [[[1.5, 4.5]]]},
        {"kernels": [1]})


class LC2D(_Local):
    """LC over two spatial axes."""

    gradient = convolution_gradient("LC2DGradient")
    example = Example(
        {"X": [[[[1.0, 2.0]]]], "filter": [[[[[[1.0]]]], [[[[2.0]]]]]], "bias": [[[0.5], [0.5]]]},
        {"Y": [[[[1.5, 4.5]]]]},
        {"kernel": 1})


class LC3D(_Local):
    """LC over three spatial axes."""

    gradient = convolution_gradient("LC3DGradient")
    example = Example(
        {"X": [[[[[1.0, 2.0]]]]], "filter": [[[[[[[[1.0]]]]], [[[[[2.0]]]]]]]], "bias": [[[[0.5], [0.5]]]]},
        {"Y": [[[[[1.5, 4.5]]]]]},
        {"kernels": [1, 1, 1]})


class LCGradient(_LocalGradient):
    """Gradients of LC: filter, bias (unless no_bias), and X where it has an output."""

    example = Example(
        {"X": [[[[1.0, 2.0]]]], "filter": [[[[[[1.0]]]], [[[[2.0]]]]]], "dY": [[[[1.0, 0.5]]]]},
        {"dfilter": [[[[[[1.0]]]], [[[[1.0]]]]]], "dbias_or_dX": [[[1.0], [0.5]]], "dX": [[[[1.0, 1.0]]]]},
        {"kernel": 1})


class LC1DGradient(_LocalGradient):
    """LCGradient over one spatial axis."""

    example = Example(
        {"X": [[[1.0, 2.0]]], "filter": [[[[1.0]]], [[[2.0]]]], "dY": [[[1.0, 0.5]]]},
        {"dfilter": [[[[1.0]]], [[[1.0]]]], "dbias_or_dX": [[1.0], [0.5]], "dX": [[[1.0, 1.0]]]},
        {"kernels": [1]})


class LC2DGradient(_LocalGradient):
    """LCGradient over two spatial axes."""

    example = Example(
        {"X": [[[[1.0, 2.0]]]], "filter": [[[[[[1.0]]]], [[[[2.0]]]]]], "dY": [[[[1.0, 0.5]]]]},
        {"dfilter": [[[[[[1.0]]]], [[[[1.0]]]]]], "dbias_or_dX": [[[1.0], [0.5]]], "dX": [[[[1.0, 1.0]]]]},
        {"kernel": 1})


class LC3DGradient(_LocalGradient):
    """LCGradient over three spatial axes."""

    example = Example(
        {"X": [[[[[1.0, 2.0]]]]], "filter": [[[[[[[[1.0]]]]], [[[[[2.0]]]]]]]], "dY": [[[[[1.0, 0.5]]]]]},
        {"dfilter": [[[[[[[[1.0]]]]], [[[[[1.0]]]]]]]], "dbias_or_dX": [[[[1.0], [0.5]]]], "dX": [[[[[1.0, 1.0]]]]]},
        {"kernels": [1, 1, 1]})


class Im2Col(Operator):
    """Y = the windows of an image as columns."""

    inputs = [In("X", IMAGE)]
    outputs = [Out("Y", "(N, C x kernel elements, positions) or, with order NHWC, (N, positions, kernel elements x C)")]
    arguments = [*WINDOW]
    shares = {(0, 0)}
    gradient = emits("Col2Im", "GO0 I0", "GI0")
    example = Example(
        {"X": [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]]},
        {"Y": [[[[1.0, 2.0], [4.0, 5.0]], [[2.0, 3.0], [5.0, 6.0]], [[4.0, 5.0], [7.0, 8.0]], [[5.0, 6.0], [8.0,
          9.0]]]]},
        {"kernel": 2})

    def shape(X: TensorType, order: str = "NCHW", **arguments: Any) -> TensorType:
        if X.rank is None:
            return X
        batch, channels, sizes = split_dims(X, order)
        window = Window.declared(arguments, len(sizes))
        depth = None if channels is None else channels * product(window.kernel)
        return X.with_dims(join_dims(batch, depth, window.out_dims(sizes), order))

    def kernel(xp: Any, X: Any, *, order: str, op: Any) -> Any:
        first = _input(xp, X, order)
        at = window_of(op, first.ndim - 2).on(first.shape[2:])
        columns = at.columns(xp, first)
        if order == "NHWC":  # the channels are the fastest within a window, too
            columns = xp.permute_dims(columns, (0, 2, 1, *range(3, columns.ndim)))
        columns = xp.reshape(columns, (first.shape[0], first.shape[1] * at.elements, *at.out))
        return channels_back(xp, columns, order)


class Col2Im(Operator):
    """Y = columns laid back on an image, overlaps added; the adjoint of Im2Col."""

    inputs = [In("columns", "as Im2Col makes them"), In("X", "an image of the wanted shape", shape_only=True)]
    outputs = [Out("Y", "like X")]
    arguments = [*WINDOW]
    shape = same_as(1)
    gradient = emits("Im2Col", "GO0", "GI0")
    example = Example(
        {"columns": [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]], "X": [[[[0.0, 0.0], [0.0, 0.0]]]]},
        {"Y": [[[[1.0, 2.0], [3.0, 4.0]]]]},
        {"kernel": 2},
        wrt=("columns",))

    def kernel(xp: Any, columns: Any, X: Any, *, order: str, op: Any) -> Any:
        first = _input(xp, X, order)
        at = window_of(op, first.ndim - 2).on(first.shape[2:])
        batch, channels = first.shape[:2]
        wanted = join_dims(batch, channels * at.elements, at.out, order)
        require_shape("the columns", columns, wanted, " for this image")
        columns = channels_first(xp, columns, order)
        if order == "NHWC":
            columns = xp.reshape(columns, (batch, at.elements, channels, *at.out))
            columns = xp.permute_dims(columns, (0, 2, 1, *range(3, columns.ndim)))
        else:
            columns = xp.reshape(columns, (batch, channels, at.elements, *at.out))
        return channels_back(xp, at.scattered(xp, columns), order)
