"""What operators stand for PyTorch's: a function of a `Context` and of the ATen operator's arguments by name, each.

A translation writes operators and returns the blob, or the blobs, that they make. Where there are none, or none that
would have the same values and gradients, it raises `Refused`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from netgrad.bridge.exported import Context

Translation = Callable[..., Any]

#: ATen operator, without overload and without the ``_`` of its in-place form -> translation
TRANSLATIONS: dict[str, Translation] = {}
#: operators that check something and make nothing
PASSED_OVER = frozenset({"_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size",
                         "sym_constrain_range"})


class Refused(Exception):
    """There is no counterpart; the message says why."""


class Size:
    """A size that is known when the net runs."""


def translates(*names: str) -> Callable[[Translation], Translation]:
    def register(function: Translation) -> Translation:
        TRANSLATIONS.update(dict.fromkeys(names, function))
        return function

    return register


def _only(**given: Any) -> None:
    """Refuses the arguments that are set: nothing here stands for them."""
    for name, value in given.items():
        if value not in (None, False, 0):
            raise Refused(f"its argument {name}={value} has no counterpart")


def _static(numbers: Any) -> list[int]:
    found = list(numbers)
    if not all(isinstance(n, int) for n in found):
        raise Refused("it takes a size that is only known when the net runs")
    return found


# one operator each

_UNARY = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt",
          "neg": "Negative", "abs": "Abs", "sin": "Sin", "cos": "Cos", "silu": "Swish", "rsqrt": "Rsqrt",
          "reciprocal": "Reciprocal"}


def _unary(type: str) -> Translation:
    def translation(to: Context, x: str) -> str:
        if not to.meta(x).is_floating_point():
            raise Refused(f"{type} takes floating-point numbers")
        return to.emit(type, x)

    return translation


TRANSLATIONS.update({name: _unary(type) for name, type in _UNARY.items()})


@translates("gelu")
def _gelu(to: Context, x: str, approximate: str) -> str:
    return to.emit("Gelu", x, fast_gelu=approximate == "tanh")


@translates("leaky_relu")
def _leaky_relu(to: Context, x: str, negative_slope: float) -> str:
    return to.emit("LeakyRelu", x, alpha=float(negative_slope))


@translates("detach")
def _detach(to: Context, x: str) -> str:
    return to.emit("StopGradient", x)


@translates("contiguous", "clone", "alias", "lift_fresh_copy", "dropout", "feature_dropout")
def _same(to: Context, x: str = "", input: str = "", p: float = 0.0, train: bool = False, **_: Any) -> str:
    if train and p:
        raise Refused("it drops at random; export the module in evaluation mode")
    return x or input


@translates("to", "_to_copy")
def _to(to: Context, x: str, dtype: torch.dtype | None = None, **_: Any) -> str:
    return x if to.made.dtype == to.meta(x).dtype else to.cast(x, to.made.dtype, last=True)


# arithmetic


def _arithmetic(to: Context, type: str, x: Any, other: Any) -> str:
    dtype = to.made.dtype
    if type == "Mul" and dtype.is_floating_point and isinstance(other, (int, float)):
        return to.emit("Scale", _as(to, x, dtype), scale=float(other))
    if type == "Div" and dtype.is_floating_point and isinstance(other, (int, float)) and other:
        return to.emit("Scale", _as(to, x, dtype), scale=1.0 / other)
    return to.emit(type, [_as(to, x, dtype), _as(to, other, dtype)])


def _as(to: Context, value: Any, dtype: torch.dtype) -> str:
    if isinstance(value, Size):
        raise Refused("it computes with a size that is only known when the net runs")
    if not isinstance(value, str):
        return to.constant(value, dtype)
    return value if to.meta(value).dtype == dtype else to.cast(value, dtype)


@translates("add", "sub")
def _add(to: Context, x: Any, other: Any, alpha: float = 1) -> str:
    type = "Sub" if "sub" in str(to.node.target) else "Add"
    if alpha != 1:
        other = to.emit("Scale", _as(to, other, to.made.dtype), last=False, scale=float(alpha)) \
            if isinstance(other, str) else other * alpha
        if isinstance(other, str):
            return to.emit(type, [_as(to, x, to.made.dtype), other])
    return _arithmetic(to, type, x, other)


@translates("rsub")
def _rsub(to: Context, x: str, other: Any, alpha: float = 1) -> str:
    _only(alpha=alpha != 1)
    return _arithmetic(to, "Sub", other, x)


@translates("mul")
def _mul(to: Context, x: Any, other: Any) -> str:
    return _arithmetic(to, "Mul", x, other)


@translates("div")
def _div(to: Context, x: Any, other: Any, rounding_mode: str | None = None) -> str:
    _only(rounding_mode=rounding_mode)
    return _arithmetic(to, "Div", x, other)


@translates("pow")
def _pow(to: Context, x: Any, exponent: Any) -> str:
    if not isinstance(x, str) or not isinstance(exponent, (int, float)) or not to.meta(x).is_floating_point():
        raise Refused("only powers of floating-point numbers with a fixed exponent have a counterpart")
    return to.emit("Sqr", x) if exponent == 2 else to.emit("Pow", x, exponent=float(exponent))


# products


@translates("linear")
def _linear(to: Context, input: str, weight: str, bias: str | None) -> str:
    if to.rank(input) < 2:
        raise Refused("FC takes batches: two or more dimensions")
    if bias is None:
        bias = to.constant(0, to.made.dtype, _static(to.meta(weight).shape[:1]))
    return to.emit("FC", [input, weight, bias], axis=to.rank(input) - 1)


@translates("addmm")
def _addmm(to: Context, x: str, mat1: str, mat2: str, beta: float = 1, alpha: float = 1) -> str:
    _only(beta=beta != 1, alpha=alpha != 1)
    return to.emit("Add", [to.emit("MatMul", [mat1, mat2], last=False), x])


@translates("matmul", "bmm", "mm")
def _matmul(to: Context, x: str, other: str | None = None, mat2: str | None = None) -> str:
    right = other or mat2
    assert right is not None
    ranks = to.rank(x), to.rank(right)
    if min(ranks) < 2:
        raise Refused("only matrices and batches of them are multiplied; give vectors a second dimension")
    if ranks == (2, 2):
        return to.emit("MatMul", [x, right])
    if ranks[1] == 2:
        return to.emit("FCTransposed", [x, right, to.constant(0, to.made.dtype, _static(to.meta(right).shape[1:]))],
                       axis=ranks[0] - 1)
    batch = list(to.made.shape[:-2])
    operands = [blob if list(to.meta(blob).shape[:-2]) == batch
                else _expanded(to, blob, _static([*batch, *to.meta(blob).shape[-2:]])) for blob in (x, right)]
    return to.emit("BatchMatMul", operands)


def _expanded(to: Context, x: str, shape: list[int], last: bool = False) -> str:
    sizes = to.emit("GivenTensorInt64Fill", [], last=False, shape=[len(shape)], values=shape)
    return to.emit("Expand", [x, sizes], last=last)


@translates("expand")
def _expand(to: Context, x: str, **_: Any) -> str:
    return _expanded(to, x, _static(to.made.shape), last=True)


# normalization


@translates("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(to: Context, x: str, dim: int, dtype: torch.dtype | None = None, half_to_float: bool = False) -> str:
    _only(half_to_float=half_to_float)
    if dtype is not None and dtype != to.meta(x).dtype:
        raise Refused(f"its argument dtype={dtype} has no counterpart; cast before it")
    axis, rank = to.axis(x, dim), to.rank(x)
    if "log" in _packet(to):
        greatest = to.emit("ReduceMax", x, last=False, axes=[axis], keepdims=1)
        shifted = to.emit("Sub", [x, to.emit("StopGradient", greatest, last=False)], last=False)
        total = to.emit("ReduceSum", to.emit("Exp", shifted, last=False), last=False, axes=[axis], keepdims=1)
        return to.emit("Sub", [shifted, to.emit("Log", total, last=False)])
    if axis == rank - 1:
        return to.emit("Softmax", x, axis=axis)
    swapped = list(range(rank))
    swapped[axis], swapped[-1] = rank - 1, axis
    rows = to.emit("Softmax", to.emit("Transpose", x, last=False, axes=swapped), last=False, axis=rank - 1)
    return to.emit("Transpose", rows, axes=swapped)


def _packet(to: Context) -> str:
    return str(to.node.target)


@translates("batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(to: Context, input: str, weight: str | None, bias: str | None, running_mean: str | None,
                running_var: str | None, eps: float, training: bool = False, **_: Any) -> Any:
    if training or running_mean is None or running_var is None:
        raise Refused("it takes statistics of the batch; export the module in evaluation mode")
    made = to.made if isinstance(to.made, torch.Tensor) else to.made[0]
    channels = _static(to.meta(running_mean).shape)
    scale = weight or to.constant(1, made.dtype, channels)
    shift = bias or to.constant(0, made.dtype, channels)
    Y = to.emit("SpatialBN", [input, scale, shift, running_mean, running_var], is_test=1, epsilon=float(eps))
    return Y if made is to.made else [Y, None, None]


@translates("layer_norm", "native_layer_norm")
def _layer_norm(to: Context, input: str, normalized_shape: Sequence[int], weight: str | None, bias: str | None,
                eps: float, **_: Any) -> Any:
    made = to.made if isinstance(to.made, torch.Tensor) else to.made[0]
    affine = []
    if weight is not None or bias is not None:
        shape = _static(normalized_shape)
        affine = [weight or to.constant(1, made.dtype, shape), bias or to.constant(0, made.dtype, shape)]
    Y = to.emit_several("LayerNorm", [input, *affine], ["", "_mean", "_std"],
                        axis=to.rank(input) - len(normalized_shape), epsilon=float(eps),
                        elementwise_affine=int(bool(affine)))
    return Y[0] if made is to.made else [Y[0], None, None]


# windows


def _pair(value: int | Sequence[int]) -> list[int]:
    numbers = _static([value] if isinstance(value, int) else value)
    return numbers * 2 if len(numbers) == 1 else numbers


@translates("conv2d", "convolution")
def _conv(to: Context, input: str, weight: str, bias: str | None, stride: Any, padding: Any, dilation: Any, groups: int,
          transposed: bool = False, **_: Any) -> str:
    kernel = _static(to.meta(weight).shape[2:])
    if transposed or len(kernel) != 2 or to.rank(input) != 4:
        raise Refused("only convolutions of batches of images have a counterpart here")
    strides, dilations = _pair(stride), _pair(dilation)
    if isinstance(padding, str):
        extra = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilations)]
        pads = [n // 2 for n in extra] + [n - n // 2 for n in extra]
    else:
        pads = _pair(padding) * 2
    return to.emit("Conv", [input, weight, *([bias] if bias is not None else [])], kernels=kernel, strides=strides,
                   pads=pads, dilations=dilations, group=groups)


def _window(to: Context, x: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1,
            ceil_mode: bool = False) -> dict[str, Any]:
    """The arguments of a pooling operator; a rounded-up size needs more padding at the end."""
    kernel, dilations, before = _pair(kernel_size), _pair(dilation), _pair(padding)
    strides = _pair(stride) if stride else kernel
    after = list(before)
    if ceil_mode:
        made = to.made if isinstance(to.made, torch.Tensor) else to.made[0]
        sizes, out = _static(to.meta(x).shape[-2:]), _static(made.shape[-2:])
        after = [max(p, (o - 1) * s + (k - 1) * d + 1 - n - p)
                 for n, o, k, s, p, d in zip(sizes, out, kernel, strides, before, dilations)]
    if to.rank(x) != 4:
        raise Refused("images are pooled in batches: four dimensions")
    return {"kernels": kernel, "strides": strides, "pads": before + after, "dilations": dilations}


@translates("max_pool2d")
def _max_pool(to: Context, x: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> str:
    return to.emit("MaxPool", x, **_window(to, x, kernel_size, stride, padding, dilation, ceil_mode))


@translates("max_pool2d_with_indices")
def _max_pool_indices(to: Context, x: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                      ceil_mode: bool) -> list[str | None]:
    if any(user.args[1] != 0 for user in to.node.users):
        raise Refused("the indices of the greatest have no counterpart")
    return [_max_pool(to, x, kernel_size, stride, padding, dilation, ceil_mode), None]


@translates("avg_pool2d")
def _avg_pool(to: Context, x: str, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
              count_include_pad: bool, divisor_override: int | None) -> str:
    _only(divisor_override=divisor_override)
    window = _window(to, x, kernel_size, stride, padding, 1, ceil_mode)
    pads = window["pads"]
    if count_include_pad and pads[:2] != pads[2:]:
        raise Refused("ceil_mode and count_include_pad together have no counterpart here")
    return to.emit("AveragePool", x, **window, count_include_pad=int(count_include_pad))


@translates("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def _adaptive_avg_pool(to: Context, x: str, output_size: Sequence[int]) -> str:
    out = _static(output_size)
    if to.rank(x) != 4:
        raise Refused("images are pooled in batches: four dimensions")
    if out == [1, 1]:
        return to.emit("AveragePool", x, global_pooling=1)
    sizes = _static(to.meta(x).shape[-2:])
    if any(n % o for n, o in zip(sizes, out)):
        raise Refused(f"{sizes} is no multiple of {out}, so that its windows differ in size")
    kernel = [n // o for n, o in zip(sizes, out)]
    return to.emit("AveragePool", x, kernels=kernel, strides=kernel)


# layout


@translates("view", "reshape", "_unsafe_view")
def _reshape(to: Context, x: str, **_: Any) -> str:
    return _reshaped(to, x)


def _reshaped(to: Context, x: str) -> str:
    """Reshape: of sizes that are only known when the net runs, those in their old places are 0, another one is -1."""
    old = list(map(str, to.meta(x).shape))
    sizes = [n if isinstance(n, int) else 0 if old[k:k + 1] == [str(n)] else -1 for k, n in enumerate(to.made.shape)]
    if sizes.count(-1) > 1:
        raise Refused("more than one of its sizes is only known when the net runs")
    if 0 in to.made.shape:
        raise Refused("it is empty")
    return to.emit_several("Reshape", x, ["", "_old_shape"], shape=sizes)[0]


@translates("flatten")
def _flatten(to: Context, x: str, start_dim: int, end_dim: int) -> str:
    start, end, rank = to.axis(x, start_dim), to.axis(x, end_dim), to.rank(x)
    if start == 1 and end == rank - 1:
        return to.emit("Flatten", x, axis=1)
    return _reshaped(to, x)


@translates("permute")
def _permute(to: Context, x: str, dims: Sequence[int]) -> str:
    return to.emit("Transpose", x, axes=[to.axis(x, d) for d in dims])


@translates("transpose", "t", "numpy_T", "mT")
def _transpose(to: Context, x: str, dim0: int = -2, dim1: int = -1) -> str:
    axes = list(range(to.rank(x)))
    if len(axes) < 2:
        return x
    first, second = to.axis(x, dim0), to.axis(x, dim1)
    axes[first], axes[second] = second, first
    return to.emit("Transpose", x, axes=axes)


@translates("unsqueeze")
def _unsqueeze(to: Context, x: str, dim: int) -> str:
    return to.emit("ExpandDims", x, dims=[dim % (to.rank(x) + 1)])


@translates("squeeze")
def _squeeze(to: Context, x: str, dim: Any = None) -> str:
    axes = range(to.rank(x)) if dim is None else [to.axis(x, d) for d in ([dim] if isinstance(dim, int) else dim)]
    ones = [axis for axis in axes if to.sizes(x)[axis] == 1]
    return to.emit("Squeeze", x, dims=ones) if ones else x


@translates("cat")
def _cat(to: Context, tensors: Sequence[str], dim: int) -> str:
    parts = [_as(to, part, to.made.dtype) for part in tensors]
    return to.emit_several("Concat", parts, ["", "_split_info"], axis=dim % to.made.dim())[0]


@translates("stack")
def _stack(to: Context, tensors: Sequence[str], dim: int) -> str:
    return to.emit_several("Concat", tensors, ["", "_split_info"], axis=dim % to.made.dim(), add_axis=1)[0]


@translates("split", "split_with_sizes", "chunk")
def _split(to: Context, x: str, dim: int, **_: Any) -> list[str]:
    axis = to.axis(x, dim)
    sizes = _static(part.shape[axis] for part in to.made)
    return to.emit_several("Split", x, [f"_{k}" for k in range(len(sizes))], axis=axis, split=sizes)


@translates("slice")
def _slice(to: Context, x: str, dim: int, start: int | None, end: int | None, step: int) -> str:
    _only(step=step != 1)
    axis, rank = to.axis(x, dim), to.rank(x)
    size = to.sizes(x)[axis]
    first, last = _static([start or 0, math.inf if end is None else end] if end is not None else [start or 0, -1])
    if end is None or last >= (size if size is not None else 2**62):
        last = -1
        if not first:
            return x
    elif size is None and (first < 0 or last < 0):
        raise Refused("it counts from an end that is only known when the net runs")
    elif size is not None:
        last = max(last + size, 0) if last < 0 else last
    if size is not None:
        first = max(first + size, 0) if first < 0 else first
        if first >= (size if last == -1 else last):
            raise Refused("it is empty")
    starts, ends = [0] * rank, [-1] * rank
    starts[axis], ends[axis] = first, last
    return to.emit("Slice", x, starts=starts, ends=ends)


@translates("select")
def _select(to: Context, x: str, dim: int, index: int) -> str:
    axis, rank = to.axis(x, dim), to.rank(x)
    size = to.sizes(x)[axis]
    (k,) = _static([index])
    if k < 0 and size is None:
        raise Refused("it counts from an end that is only known when the net runs")
    starts, ends = [0] * rank, [-1] * rank
    starts[axis] = k if k >= 0 else k + (size or 0)
    ends[axis] = starts[axis] + 1
    return to.emit("Squeeze", to.emit("Slice", x, last=False, starts=starts, ends=ends), dims=[axis])


@translates("embedding")
def _embedding(to: Context, weight: str, indices: str, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> str:
    _only(scale_grad_by_freq=scale_grad_by_freq)
    if padding_idx >= 0:
        raise Refused(f"the row padding_idx={padding_idx} has no gradient, which Gather knows nothing of")
    return to.emit("Gather", [weight, indices])


# reductions


@translates("mean", "sum")
def _reduce(to: Context, x: str, dim: Any = None, keepdim: bool = False, dtype: torch.dtype | None = None) -> str:
    rank, x = to.rank(x), _as(to, x, to.made.dtype)
    axes = [d % rank for d in ([dim] if isinstance(dim, int) else dim)] if dim or dim == 0 else list(range(rank))
    if not axes:
        return x
    type = "ReduceMean" if "mean" in _packet(to) else "ReduceSum"
    return to.emit(type, x, axes=axes, keepdims=int(keepdim))
