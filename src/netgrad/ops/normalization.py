"""Normalization over channels and batches: batch, instance and group normalization, local response."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example
from netgrad.graph.rules import Ref, Rule, emits, forbidden
from netgrad.graph.shapes import TensorType, same_as
from netgrad.ops._arrays import channels_back, channels_first, product, require_shape, zeros

IMAGE = "(N, C, ...) or, with order NHWC, (N, ..., C); float"
ORDER = Str("order", "NCHW", "NCHW or NHWC: where the channels are")


def _per_channel(xp: Any, v: Any, x: Any) -> Any:
    """(C,) so that it broadcasts against (N, C, ...)."""
    return xp.reshape(v, (1, -1, *(1 for _ in x.shape[2:])))


def _over_channel(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def require_vectors(size: int, **vectors: Any) -> None:
    for name, v in vectors.items():
        require_shape(name, v, (size,), ", one number per channel")


def channel_dims(X: TensorType, order: str) -> tuple[Any, ...] | None:
    return None if X.dims is None else (X.dims[1 if order == "NCHW" else -1],)


class SpatialBN(Operator):
    """Batch normalization over all axes but the channels'.

    In training, batch statistics are used and the running ones updated in place; in test mode the running ones serve.
    Source: Ioffe and Szegedy 2015, https://arxiv.org/abs/1502.03167.
    """

    inputs = [
        In("X", IMAGE), In("scale", "(C,)"), In("bias", "(C,)"),
        In("mean", "running mean, (C,)"), In("var", "running variance, (C,)"),
        In("sums", "per-channel sums when several batches form one", optional=True),
        In("sumsq", "per-channel sums of squares, likewise", optional=True),
    ]
    outputs = [
        Out("Y", "like X"),
        Out("mean", "updated running mean", optional=True, differentiable=False),
        Out("var", "updated running variance", optional=True, differentiable=False),
        Out("saved_mean", "mean of this batch", optional=True),
        Out("saved_var", "1 / sqrt(variance of this batch + epsilon)", optional=True),
    ]
    num_inputs = counts(5, 7)
    num_outputs = counts(1, 5)
    arguments = [
        Int("is_test", 0), Float("epsilon", 1e-5), ORDER,
        Float("momentum", 0.9, "weight of the old running value"),
        Int("num_batches", 1, "how many batches the sums are of"),
    ]
    inplace = {(0, 0), (5, 3), (6, 4)}
    inplace_required = {(3, 1), (4, 2)}
    effects = {"state"}
    example = Example(
        {"X": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "scale": [1.0, 2.0], "bias": [0.5, 0.0], "mean": [2.0, 4.0],
         "var": [1.0, 4.0]},
        {"Y": [[[[-0.499995, 1.49999]], [[-2.0, 2.0]]]], "mean": [2.0, 4.0], "var": [1.1, 4.4],
         "saved_mean": [2.0, 4.0], "saved_var": [0.999995, 0.499999]},
        {"is_test": 0},
        wrt=("X", "scale", "bias"))

    def shape(X: TensorType, scale: TensorType, *_: TensorType, **arguments: Any) -> tuple[TensorType, ...]:
        return (X, scale, scale, scale, scale)

    inplace_keeps_shape = True

    def kernel(xp: Any, X: Any, scale: Any, bias: Any, mean: Any, var: Any, sums: Any, sumsq: Any, *, is_test: int,
               epsilon: float, order: str, momentum: float, num_batches: int, op: Any) -> Any:
        x = channels_first(xp, X, order)
        require_vectors(x.shape[1], scale=scale, bias=bias, mean=mean, var=var)
        if is_test:
            factor = scale / xp.sqrt(var + epsilon)
            shift = bias - mean * factor
            return channels_back(xp, x * _per_channel(xp, factor, x) + _per_channel(xp, shift, x), order)
        if op.num_outputs != 5:
            raise ValueError(f"in training it has five outputs, but there are {op.num_outputs}: give all, or is_test=1")
        n = product(x.shape) // max(x.shape[1], 1)
        if n == 0:
            return X, mean, var, xp.zeros_like(mean), xp.zeros_like(var)
        if num_batches > 1:
            require_vectors(x.shape[1], sums=sums, sumsq=sumsq)
            n *= num_batches
            batch_mean = sums / n
            batch_var = sumsq / n - batch_mean * batch_mean
            centred = x - _per_channel(xp, batch_mean, x)
        else:
            batch_mean = xp.mean(x, axis=_over_channel(x))
            centred = x - _per_channel(xp, batch_mean, x)
            batch_var = xp.mean(centred * centred, axis=_over_channel(x))
        inv_std = 1 / xp.sqrt(batch_var + epsilon)
        Y = centred * _per_channel(xp, inv_std * scale, x) + _per_channel(xp, bias, x)
        unbiased = batch_var * (n / (n - 1)) if n > 1 else batch_var * float("inf")
        return (channels_back(xp, Y, order), mean * momentum + batch_mean * (1 - momentum),
                var * momentum + unbiased * (1 - momentum), batch_mean, inv_std)

    def gradient(op: Rule) -> None:
        outputs = [op.GI(0), op.GI(1), op.GI(2)]
        several = op.arg("num_batches", 1) > 1 and not op.arg("is_test", 0)
        if op.num_inputs != (7 if several else 5):
            raise op.fail("its inputs are five, and seven when num_batches says that several batches form one")
        if op.arg("is_test", 0):
            if op.num_outputs != 1:
                raise op.fail("in test mode it must have one output")
            op.emit("SpatialBNGradient", [op.I(0), op.I(1), op.GO(0), op.I(3), op.I(4)], outputs)
            return
        if op.num_outputs != 5:
            raise op.fail("in training it needs its five outputs, the saved statistics among them")
        # whoever sums over the batches (data parallelism) writes the sums to the gradients' names before they are read
        summed = [op.outside(op.input_name(k) + "_grad") for k in (1, 2)] if several else []
        statistics = op.in_pass and (op.has_GO(3) or op.has_GO(4))  # in a second derivative: the first one reads them
        if not statistics or op.has_GO(0):
            op.emit("SpatialBNGradient", [op.I(0), op.I(1), op.GO(0), op.O(3), op.O(4), *summed], outputs)
        if statistics:
            if several:
                raise op.fail("a gradient flows into statistics of several batches, which has no rule")
            _through_statistics(op)


def _through_statistics(op: Rule) -> None:
    """Adds to dX what comes by the saved statistics, mean m and s = 1 / sqrt(v - m^2 + epsilon), v the mean of squares.

    A gradient g of s is -g s^3 / 2 for v and g s^3 m for m; from there BatchMomentsGradient goes on.
    """
    first = op.has_GO(0)
    n = [0]

    def emitted(type: str, *inputs: Ref, **arguments: Any) -> Ref:
        n[0] += 1
        made = op.temp(f"{op.input_name(0)}_grad_statistics_{n[0]}")
        op.emit(type, inputs, [made], **arguments)
        return made

    order = op.arg("order", "NCHW")
    op.copy_arguments = False
    if op.has_GO(4):
        cube = emitted("Mul", emitted("Mul", emitted("Mul", op.O(4), op.O(4)), op.O(4)), op.GO(4))
        by_squares = emitted("Scale", cube, scale=-0.5)
        by_mean = emitted("Mul", cube, op.O(3))
        if op.has_GO(3):
            by_mean = emitted("Add", by_mean, op.GO(3))
    else:
        by_mean = op.GO(3)
        by_squares = emitted("ConstantFill", by_mean, value=0.0)
    part = op.temp(f"{op.input_name(0)}_grad_statistics") if first else op.GI(0)
    op.emit("BatchMomentsGradient", [by_mean, by_squares, op.I(0)], [part], order=order)
    if first:
        op.emit("Sum", [op.GI(0), part], [op.GI(0)])


class SpatialBNGradient(Operator):
    """Gradients of SpatialBN for X, scale and bias; with num_batches the latter come summed over the batches."""

    inputs = [
        In("X", IMAGE), In("scale", "(C,)"), In("dY", "like X"),
        In("mean", "of the batch; in test mode the running one"),
        In("inv_std", "of the batch; in test mode the running variance"),
        In("dscale_sum", "over all batches", optional=True), In("dbias_sum", "over all batches", optional=True),
    ]
    outputs = [Out("dX", "like X"), Out("dscale", "(C,)"), Out("dbias", "(C,)")]
    num_inputs = counts(5, 7)
    arguments = [Int("is_test", 0), Float("epsilon", 1e-5), ORDER, Int("num_batches", 1)]
    inplace = {(5, 1), (6, 2)}
    internal = True
    shape = same_as(0, 1, 1)
    example = Example(
        {"X": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "scale": [1.0, 2.0], "dY": [[[[1.0, 0.5]], [[2.0, -1.0]]]],
         "mean": [2.0, 4.0], "inv_std": [0.999995, 0.499999]},
        {"dX": [[[[2.50338e-06, -2.50338e-06]], [[3.57627e-06, -3.57627e-06]]]], "dscale": [-0.499997, -3.0],
         "dbias": [1.5, 1.0]},
        {"is_test": 0})

    def kernel(xp: Any, X: Any, scale: Any, dY: Any, mean: Any, inv_std: Any, dscale_sum: Any, dbias_sum: Any, *,
               is_test: int, epsilon: float, order: str, num_batches: int) -> Any:
        require_shape("the output's gradient", dY, X.shape, ", the input's")
        x, dy = channels_first(xp, X, order), channels_first(xp, dY, order)
        require_vectors(x.shape[1], scale=scale, mean=mean, inv_std=inv_std)
        n = product(x.shape) // max(x.shape[1], 1)
        if n == 0:
            return xp.zeros_like(X), xp.zeros_like(scale), xp.zeros_like(scale)
        if is_test:
            inv_std = 1 / xp.sqrt(inv_std + epsilon)
        normal = (x - _per_channel(xp, mean, x)) * _per_channel(xp, inv_std, x)
        if num_batches > 1 and dscale_sum is not None:
            dscale, dbias = dscale_sum / num_batches, dbias_sum / num_batches
        else:
            dscale, dbias = xp.sum(dy * normal, axis=_over_channel(x)), xp.sum(dy, axis=_over_channel(x))
        if not is_test:
            dy = dy - (normal * _per_channel(xp, dscale, x) + _per_channel(xp, dbias, x)) / n
        return channels_back(xp, dy * _per_channel(xp, scale * inv_std, x), order), dscale, dbias


def _moments(xp: Any, x: Any, epsilon: float) -> tuple[Any, Any]:
    """Mean and 1 / sqrt(variance + epsilon) along the last axis, which is kept with size 1."""
    mean = xp.sum(x, axis=-1, keepdims=True) / max(x.shape[-1], 1)
    centred = x - mean
    return mean, 1 / xp.sqrt(xp.sum(centred * centred, axis=-1, keepdims=True) / max(x.shape[-1], 1) + epsilon)


def _back_through_moments(xp: Any, g: Any, normal: Any, inv_std: Any) -> Any:
    """The gradient through (x - mean) inv_std, statistics along the last axis; g is that of the normalized values."""
    n = max(g.shape[-1], 1)
    return (g - (xp.sum(g, axis=-1, keepdims=True) + normal * xp.sum(g * normal, axis=-1, keepdims=True)) / n) * inv_std


class InstanceNorm(Operator):
    """Y = (X - mean) inv_std scale + bias, statistics per image and channel.

    Source: Ulyanov et al. 2016, https://arxiv.org/abs/1607.08022.
    """

    inputs = [In("input", IMAGE), In("scale", "(C,)"), In("bias", "(C,)")]
    outputs = [Out("output", "like input"), Out("saved_mean", "(N, C)", optional=True),
               Out("saved_inv_stdev", "(N, C)", optional=True)]
    arguments = [Float("epsilon", 1e-5), ORDER]
    inplace = {(0, 0)}
    inplace_keeps_shape = True
    example = Example(
        {"input": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "scale": [1.0, 2.0], "bias": [0.5, 0.0]},
        {"output": [[[[-0.499995, 1.49999]], [[-2.0, 2.0]]]]})

    def shape(input: TensorType, scale: TensorType, *_: TensorType, **__: Any) -> tuple[TensorType, ...]:
        known = None if input.dims is None or scale.dims is None else (input.dims[0], scale.dims[0])
        statistics = input.with_dims(known)
        return input, statistics, statistics

    def kernel(xp: Any, input: Any, scale: Any, bias: Any, *, epsilon: float, order: str) -> Any:
        x = channels_first(xp, input, order)
        require_vectors(x.shape[1], scale=scale, bias=bias)
        flat = xp.reshape(x, (*x.shape[:2], product(x.shape[2:])))
        mean, inv_std = _moments(xp, flat, epsilon)
        Y = (flat - mean) * inv_std * xp.reshape(scale, (-1, 1)) + xp.reshape(bias, (-1, 1))
        return channels_back(xp, xp.reshape(Y, x.shape), order), mean[..., 0], inv_std[..., 0]

    def gradient(op: Rule) -> None:
        op.emit("InstanceNormGradient", [op.I(0), op.I(1), op.I(2), op.GO(0), *map(op.O, range(1, op.num_outputs))],
                [op.GI(0), op.GI(1), op.GI(2)])


class InstanceNormGradient(Operator):
    """Gradients of InstanceNorm; statistics that are not given are computed again."""

    inputs = [In("input"), In("scale"), In("bias", shape_only=True), In("doutput", "like input, float"),
              In("mean", "(N, C)", optional=True), In("inv_stdev", "(N, C)", optional=True)]
    outputs = [Out("dinput", "like input"), Out("dscale", "(C,)"), Out("dbias", "(C,)")]
    arguments = [Float("epsilon", 1e-5), ORDER]
    internal = True
    shape = same_as(0, 1, 1)
    example = Example(
        {"input": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "scale": [1.0, 2.0], "bias": [0.5, 0.0],
         "doutput": [[[[1.0, 0.5]], [[2.0, -1.0]]]]},
        {"dinput": [[[[2.50338e-06, -2.50338e-06]], [[3.57627e-06, -3.57627e-06]]]], "dscale": [-0.499997, -3.0],
         "dbias": [1.5, 1.0]})

    def kernel(xp: Any, input: Any, scale: Any, bias: Any, doutput: Any, mean: Any, inv_stdev: Any, *, epsilon: float,
               order: str) -> Any:
        require_shape("the output's gradient", doutput, input.shape, ", the input's")
        x, dy = channels_first(xp, input, order), channels_first(xp, doutput, order)
        require_shape("the scale", scale, (x.shape[1],), ", one number per channel")
        flat = xp.reshape(x, (*x.shape[:2], product(x.shape[2:])))
        dy = xp.reshape(dy, flat.shape)
        own_mean, own_inv_std = _moments(xp, flat, epsilon) if inv_stdev is None else (None, None)
        mean = own_mean if mean is None else xp.reshape(mean, (*x.shape[:2], 1))
        inv_std = own_inv_std if inv_stdev is None else xp.reshape(inv_stdev, (*x.shape[:2], 1))
        normal = (flat - mean) * inv_std
        dX = _back_through_moments(xp, dy * xp.reshape(scale, (-1, 1)), normal, inv_std)
        return (channels_back(xp, xp.reshape(dX, x.shape), order), xp.sum(dy * normal, axis=(0, 2)),
                xp.sum(dy, axis=(0, 2)))


def _in_groups(xp: Any, x: Any, group: int) -> Any:
    if group < 1 or x.shape[1] % group:
        raise ValueError(f"{x.shape[1]} channels cannot be split in {group} groups")
    return xp.reshape(x, (x.shape[0], group, product(x.shape[1:]) // group))


class GroupNorm(Operator):
    """Y = (X - mean) inv_std gamma + beta, statistics per image and group of channels.

    Source: Wu and He 2018, https://arxiv.org/abs/1803.08494.
    """

    inputs = [In("X", IMAGE), In("gamma", "(C,)"), In("beta", "(C,)")]
    outputs = [Out("Y", "like X"), Out("mean", "(N, group)", optional=True),
               Out("std", "1 / sqrt(variance + epsilon), (N, group)", optional=True)]
    num_outputs = counts(1, 3)
    arguments = [Int("group", 32), Int("num_groups", None, "another name of group"), Float("epsilon", 1e-5), ORDER,
                 Int("is_test", 1)]
    example = Example(
        {"X": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "gamma": [1.0, 2.0], "beta": [0.5, 0.0]},
        {"Y": [[[[-0.499995, 1.49999]], [[-2.0, 2.0]]]], "mean": [[2.0, 4.0]], "std": [[0.999995, 0.499999]]},
        {"group": 2},
        ys=("Y",))

    def shape(X: TensorType, *_: TensorType, group: int = 32, num_groups: int | None = None, **__: Any) -> Any:
        statistics = X.with_dims(None if X.dims is None else (X.dims[0], num_groups or group))
        return X, statistics, statistics

    def kernel(xp: Any, X: Any, gamma: Any, beta: Any, *, group: int, num_groups: int | None, epsilon: float,
               order: str) -> Any:
        x = channels_first(xp, X, order)
        require_vectors(x.shape[1], gamma=gamma, beta=beta)
        flat = _in_groups(xp, x, num_groups or group)
        mean, inv_std = _moments(xp, flat, epsilon)
        normal = xp.reshape((flat - mean) * inv_std, x.shape)
        Y = normal * _per_channel(xp, gamma, x) + _per_channel(xp, beta, x)
        return channels_back(xp, Y, order), mean[..., 0], inv_std[..., 0]

    def gradient(op: Rule) -> None:
        if op.num_outputs < 3:
            raise op.fail("it needs its three outputs, the saved mean and deviation among them")
        op.emit("GroupNormGradient", [op.GO(0), op.I(0), op.I(1), op.I(2), op.O(1), op.O(2)],
                [op.GI(0), op.GI(1), op.GI(2)])


class GroupNormGradient(Operator):
    """Gradients of GroupNorm from the saved statistics."""

    inputs = [In("dY", "like X"), In("X", IMAGE), In("gamma"), In("beta", shape_only=True), In("mean"), In("inv_std")]
    outputs = [Out("dX", "like X"), Out("dgamma", "(C,)"), Out("dbeta", "(C,)")]
    arguments = [Int("group", 32), Int("num_groups", None), ORDER]
    internal = True
    shape = same_as(1, 2, 2)
    example = Example(
        {"dY": [[[[1.0, 0.5]], [[2.0, -1.0]]]], "X": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "gamma": [1.0, 2.0],
         "beta": [0.5, 0.0], "mean": [[2.0, 4.0]], "inv_std": [[0.999995, 0.499999]]},
        {"dX": [[[[2.50338e-06, -2.50338e-06]], [[3.57627e-06, -3.57627e-06]]]], "dgamma": [-0.499997, -3.0],
         "dbeta": [1.5, 1.0]},
        {"group": 2})

    def kernel(xp: Any, dY: Any, X: Any, gamma: Any, beta: Any, mean: Any, inv_std: Any, *, group: int,
               num_groups: int | None, order: str) -> Any:
        require_shape("the output's gradient", dY, X.shape, ", the input's")
        x, dy = channels_first(xp, X, order), channels_first(xp, dY, order)
        groups = num_groups or group
        flat = _in_groups(xp, x, groups)
        require_shape("the mean", mean, (x.shape[0], groups), ", one number per image and group")
        require_shape("inv_std", inv_std, mean.shape, ", one number per image and group")
        require_shape("gamma", gamma, (x.shape[1],), ", one number per channel")
        inv_std = xp.reshape(inv_std, (x.shape[0], groups, 1))
        normal = (flat - xp.reshape(mean, (x.shape[0], groups, 1))) * inv_std
        scaled = _in_groups(xp, dy * _per_channel(xp, gamma, x), groups)
        dX = xp.reshape(_back_through_moments(xp, scaled, normal, inv_std), x.shape)
        axes = _over_channel(x)
        return channels_back(xp, dX, order), xp.sum(dy * xp.reshape(normal, x.shape), axis=axes), xp.sum(dy, axis=axes)


LOCAL = (Int("size", 0, "how many channels a sum spans"), Float("alpha", 0.0), Float("beta", 0.0), Float("bias", 1.0),
         ORDER)


def _channel_sums(xp: Any, x: Any, before: int, behind: int) -> Any:
    """For every channel: the sum over it, ``before`` channels before it and ``behind`` behind it."""
    channels = x.shape[1]
    padded = xp.concat([zeros(xp, (x.shape[0], before, *x.shape[2:]), x), x,
                        zeros(xp, (x.shape[0], behind, *x.shape[2:]), x)], axis=1)
    total = 0
    for k in range(before + behind + 1):
        total = total + padded[:, k:k + channels, ...]
    return total


def _response_scale(xp: Any, x: Any, size: int, alpha: float, bias: float) -> Any:
    if size < 1 or size % 2 == 0:
        raise ValueError(f"the argument size is {size}, expected an odd number of channels")
    return _channel_sums(xp, x * x, (size - 1) // 2, size // 2) * (alpha / size) + bias


class LRN(Operator):
    """Y = X / scale^beta with scale = bias + alpha / size (sum of X^2 over the neighbouring channels).

    Source: Krizhevsky et al. 2012, section 3.3.
    """

    inputs = [In("X", IMAGE)]
    outputs = [Out("Y", "like X"), Out("Y_scale", "like X", optional=True)]
    arguments = [*LOCAL]
    shape = same_as(0, 0)
    gradient = emits("LRNGradient", "I0 O0 GO0", "GI0")
    example = Example(
        {"X": [[[[1.0, 3.0]], [[2.0, 6.0]]]]},
        {"Y": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "Y_scale": [[[[1.0, 1.0]], [[1.0, 1.0]]]]},
        {"size": 3},
        ys=("Y",))

    def kernel(xp: Any, X: Any, *, size: int, alpha: float, beta: float, bias: float, order: str) -> Any:
        x = channels_first(xp, X, order)
        scale = _response_scale(xp, x, size, alpha, bias)
        return channels_back(xp, x * scale ** -beta, order), channels_back(xp, scale, order)


class LRNGradient(Operator):
    """dX = dY scale^-beta - 2 alpha beta / size X (sum over the neighbouring channels of dY Y / scale)."""

    inputs = [In("X"), In("Y", shape_only=True), In("dY", "like X, float")]
    outputs = [Out("dX", "like X")]
    arguments = [*LOCAL]
    internal = True
    shape = same_as(0)
    example = Example(
        {"X": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "Y": [[[[1.0, 3.0]], [[2.0, 6.0]]]],
         "dY": [[[[1.0, 0.5]], [[2.0, -1.0]]]]},
        {"dX": [[[[1.0, 0.5]], [[2.0, -1.0]]]]},
        {"size": 3})

    def kernel(xp: Any, X: Any, Y: Any, dY: Any, *, size: int, alpha: float, beta: float, bias: float,
               order: str) -> Any:
        require_shape("the output's gradient", dY, X.shape, ", the input's")
        x, dy = channels_first(xp, X, order), channels_first(xp, dY, order)
        scale = _response_scale(xp, x, size, alpha, bias)
        direct = dy * scale ** -beta
        sums = _channel_sums(xp, direct * x / scale, size // 2, (size - 1) // 2)
        return channels_back(xp, direct - x * sums * (2 * alpha * beta / size), order)


class BatchMoments(Operator):
    """Per channel: the mean of X, and of its square."""

    inputs = [In("X", IMAGE)]
    outputs = [Out("mu", "(C,)"), Out("var", "(C,): the mean of squares, not centred")]
    arguments = [ORDER]
    gradient = emits("BatchMomentsGradient", "GO0 GO1 I0", "GI0")
    example = Example({"X": [[[1.0, 3.0], [2.0, 6.0]]]}, {"mu": [2.0, 4.0], "var": [5.0, 20.0]})

    def shape(X: TensorType, *, order: str = "NCHW") -> tuple[TensorType, TensorType]:
        return (X.with_dims(channel_dims(X, order)),) * 2

    def kernel(xp: Any, X: Any, *, order: str) -> Any:
        x = channels_first(xp, X, order)
        n = max(product(x.shape) // max(x.shape[1], 1), 1)
        return xp.sum(x, axis=_over_channel(x)) / n, xp.sum(x * x, axis=_over_channel(x)) / n


class BatchMomentsGradient(Operator):
    """dX = (dmu + 2 X dvar) / (elements per channel)."""

    inputs = [In("dmu", "(C,)"), In("dvar", "(C,)"), In("X", IMAGE)]
    outputs = [Out("dX", "like X")]
    arguments = [ORDER]
    internal = True
    shape = same_as(2)
    example = Example(
        {"dmu": [1.0, 0.5], "dvar": [1.0, 0.5], "X": [[[1.0, 3.0], [2.0, 6.0]]]},
        {"dX": [[[1.5, 3.5], [1.25, 3.25]]]})

    def kernel(xp: Any, dmu: Any, dvar: Any, X: Any, *, order: str) -> Any:
        x = channels_first(xp, X, order)
        require_vectors(x.shape[1], dmu=dmu, dvar=dvar)
        n = max(product(x.shape) // max(x.shape[1], 1), 1)
        dX = (x * _per_channel(xp, 2 * dvar, x) + _per_channel(xp, dmu, x)) / n
        return channels_back(xp, dX, order)


class ChannelStats(Operator):
    """Per channel: the sum of X, and of its square (for SpatialBN over several batches)."""

    inputs = [In("X", IMAGE)]
    outputs = [Out("sum", "(C,)"), Out("sumsq", "(C,)")]
    arguments = [ORDER]
    gradient = forbidden()
    example = Example({"X": [[[1.0, 3.0], [2.0, 6.0]]]}, {"sum": [4.0, 8.0], "sumsq": [10.0, 40.0]})

    def shape(X: TensorType, *, order: str = "NCHW") -> tuple[TensorType, TensorType]:
        return (X.with_dims(channel_dims(X, order)),) * 2

    def kernel(xp: Any, X: Any, *, order: str) -> Any:
        x = channels_first(xp, X, order)
        return xp.sum(x, axis=_over_channel(x)), xp.sum(x * x, axis=_over_channel(x))


class ChannelBackpropStats(Operator):
    """Per channel: the gradients of SpatialBN's scale and bias (to be summed over several batches)."""

    inputs = [In("X", "(N, C, ...), float"), In("mean", "(C,)"), In("inv_std", "(C,)"), In("output_grad", "like X")]
    outputs = [Out("scale_grad", "(C,)"), Out("bias_grad", "(C,)")]
    shape = same_as(1, 1)
    gradient = forbidden()
    example = Example(
        {"X": [[[[1.0, 3.0]], [[2.0, 6.0]]]], "mean": [2.0, 4.0], "inv_std": [1.0, 0.5],
         "output_grad": [[[[1.0, 0.5]], [[0.0, 2.0]]]]},
        {"scale_grad": [-0.5, 2.0], "bias_grad": [1.5, 2.0]})

    def kernel(xp: Any, X: Any, mean: Any, inv_std: Any, output_grad: Any) -> Any:
        require_shape("the output's gradient", output_grad, X.shape, ", the input's")
        require_vectors(X.shape[1], mean=mean, inv_std=inv_std)
        normal = (X - _per_channel(xp, mean, X)) * _per_channel(xp, inv_std, X)
        return xp.sum(output_grad * normal, axis=_over_channel(X)), xp.sum(output_grad, axis=_over_channel(X))
