"""Updates of parameters from gradients: dense, and of single rows (Sparse...).

The learning rate comes with the sign that moves downhill: Caffe2's optimizers feed it negative. Sparse updates go
through the indices in order, so that a repeated one sees what its first occurrence left; rows that are not named stay
as they are. Parameters and moments are usually updated in place, and the sparse updates insist on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import forbidden
from netgrad.graph.shapes import same_as
from netgrad.ops._arrays import one_number
from netgrad.ops._rows import check_indices, in_turn

NO_GRADIENT = forbidden("it is a parameter update, which comes after the gradients")

PARAM = In("param", "any shape, float")
MOMENT = In("moment", "like param")
GRAD = In("grad", "like param")
LR = In("lr", "one number, negative to go downhill")
ITER = In("iter", "one int64: the iteration, from 0")
SPARSE_PARAM = In("param", "(N, ...), float")
SPARSE_MOMENT = In("moment", "like param")
INDICES = In("indices", "(K,) int: rows of param")
SPARSE_GRAD = In("grad", "(K, ...): a row per index")
WEIGHT_DECAY = Float("weight_decay", 0.0, "this times the parameter is added to the gradient")


def out(name: str, optional: bool = False) -> Out:
    return Out(name, "updated" if name.startswith("output_") else "", optional=optional, differentiable=False)


def number(xp: Any, x: Any, like: Any) -> Any:
    """A single number in a tensor of any rank, as one of shape () with the dtype of ``like``."""
    if math.prod(x.shape) != 1:
        raise ValueError(f"expected a single number (a tensor of one element), found shape {tuple(x.shape)}")
    return xp.astype(xp.reshape(x, ()), like.dtype)


def same_shape(**tensors: Any) -> None:
    """Refuses tensors that are not all of one shape."""
    (first, expected), *others = ((name, tuple(t.shape)) for name, t in tensors.items())
    for name, shape in others:
        if shape != expected:
            raise ValueError(f"{name} must have the shape of {first}, {expected}; found {shape}")


Rows = Sequence[Any]


def update_rows(xp: Any, indices: Any, tables: Rows, inputs: Rows, step: Callable[..., Rows]) -> tuple[Rows, Rows]:
    """Applies ``step`` once per index, in their order, as if one after another.

    Args:
        indices: rows of the tables, (K,) or of more dimensions, which are gone through as they lie in memory.
        tables: each (N, ...): read and written at the rows.
        inputs: one entry per index: each (K, ...), or the shape of the indices and what a row has.
        step: (rows of each table, entries of each input) -> new rows of each table, then what else is wanted per index.

    Returns:
        the new tables, and what else step gave, each like inputs.
    """
    places = tuple(indices.shape)
    size, row = tables[0].shape[0], tuple(tables[0].shape[1:])
    for entries in inputs:
        if tuple(entries.shape) not in ((*places, *row), places):
            raise ValueError(f"grad must have one row per index, {(*places, *row)}; found shape {tuple(entries.shape)}")
    if len(places) != 1:
        indices = xp.reshape(indices, (-1,))
        inputs = [xp.reshape(e, (-1, *e.shape[len(places):])) for e in inputs]
    for table in tables[1:]:
        if table.shape[:1] != (size,) or tuple(table.shape[1:]) not in (row, (*row, 2), ()):
            raise ValueError(f"a moment has shape {tuple(table.shape)}, expected one entry or row for each row of the "
                             f"parameter, {(size, *row)}")
    indices = check_indices(xp, indices, tables[0].shape[0], "indices")
    rounds = in_turn(xp, indices)
    if not rounds:
        return tables, []
    named = xp.take(indices, rounds[0], axis=0)  # each row once, in rising order
    after = step(*(xp.take(t, named, axis=0) for t in tables), *(xp.take(e, rounds[0], axis=0) for e in inputs))
    rows, extra = list(after[:len(tables)]), [[other] for other in after[len(tables):]]
    for positions in rounds[1:]:
        at = xp.searchsorted(named, xp.take(indices, positions, axis=0))
        after = step(*(xp.take(r, at, axis=0) for r in rows), *(xp.take(e, positions, axis=0) for e in inputs))
        rows = [xp.index_put(r, at, new) for r, new in zip(rows, after, strict=False)]
        for parts, other in zip(extra, after[len(tables):], strict=True):
            parts.append(other)
    order = xp.concat(rounds)
    others = [xp.index_put(xp.zeros_like(each), order, each) for each in map(xp.concat, extra)]
    return ([xp.index_put(t, named, r) for t, r in zip(tables, rows, strict=True)],
            [xp.reshape(each, (*places, *each.shape[1:])) for each in others] if len(places) != 1 else others)


def row_mean(xp: Any, rows: Any) -> Any:
    """(K, ...) -> (K, 1, ...): the mean over all but the first axis, which stay as ones."""
    if rows.ndim == 1:
        return rows
    return xp.mean(rows, axis=tuple(range(1, rows.ndim)), keepdims=True)


class Update(Operator, abstract=True):
    """Base of the updates: nothing to differentiate, shapes as they were, state changed."""

    gradient = NO_GRADIENT
    effects = {"state"}
    inplace_keeps_shape = True


#: Caffe2 demands of some updates that output k have the name of input k, whatever k is
ALL_IN_PLACE = {(k, k) for k in range(10)}


# ---- momentum


def momentum_step(xp: Any, grad: Any, moment: Any, lr: Any, momentum: float, nesterov: bool) -> tuple[Any, Any]:
    """The adjusted gradient and the new moment, apart. Source: Sutskever et al. 2013 (Nesterov's form)."""
    new = momentum * moment + lr * grad
    return ((1 + momentum) * new - momentum * moment if nesterov else xp.asarray(new, copy=True)), new


MOMENTUM = [Float("momentum", 0.0), Int("nesterov", 0)]


class MomentumSGD(Update):
    """Turns a gradient into a step with momentum: m' = momentum m + lr grad; the step is m', or Nesterov's."""

    inputs = [In("grad", "any shape, float"), In("moment", "like grad"), LR]
    outputs = [out("output_grad"), out("output_moment")]
    arguments = MOMENTUM
    inplace = {(0, 0), (1, 1)}
    shape = same_as(0, 1)
    example = Example(
        {"grad": [0.5, -0.5], "moment": [0.1, 0.2], "lr": [-0.1]},
        {"output_grad": [0.04, 0.23], "output_moment": [0.04, 0.23]},
        {"momentum": 0.9})

    def kernel(xp: Any, grad: Any, moment: Any, lr: Any, *, momentum: float, nesterov: int) -> Any:
        same_shape(grad=grad, moment=moment)
        return momentum_step(xp, grad, moment, number(xp, lr, grad), momentum, bool(nesterov))


class MomentumSGDUpdate(Update):
    """MomentumSGD, and the step is subtracted from the parameter."""

    inputs = [In("grad", "any shape, float"), In("moment", "like grad"), LR, In("param", "like grad")]
    outputs = [out("output_grad"), out("output_moment"), out("output_param")]
    arguments = MOMENTUM
    inplace = {(0, 0), (1, 1), (3, 2)}
    shape = same_as(0, 1, 3)
    example = Example(
        {"grad": [0.5, -0.5], "moment": [0.1, 0.2], "lr": [-0.1], "param": [1.0, 2.0]},
        {"output_grad": [0.04, 0.23], "output_moment": [0.04, 0.23], "param": [0.96, 1.77]},
        {"momentum": 0.9})

    def kernel(xp: Any, grad: Any, moment: Any, lr: Any, param: Any, *, momentum: float, nesterov: int) -> Any:
        same_shape(grad=grad, moment=moment, param=param)
        step, new = momentum_step(xp, grad, moment, number(xp, lr, grad), momentum, bool(nesterov))
        return step, new, param - step


class SparseMomentumSGDUpdate(Update):
    """MomentumSGDUpdate of the rows that are named."""

    inputs = [SPARSE_GRAD, SPARSE_MOMENT, LR, SPARSE_PARAM, INDICES]
    outputs = [out("output_grad"), out("output_moment"), out("output_param")]
    arguments = MOMENTUM
    inplace = {(0, 0)}
    inplace_required = {(1, 1), (3, 2)}
    shape = same_as(0, 1, 3)
    example = Example(
        {"grad": [[0.5, -0.5]], "moment": [[0.1, 0.1], [0.2, 0.2]], "lr": [-0.1], "param": [[1.0, 2.0], [3.0, 4.0]],
         "indices": Tensor([1], "int64")},
        {"output_grad": [[0.13, 0.23]], "moment": [[0.1, 0.1], [0.13, 0.23]], "param": [[1.0, 2.0], [2.87, 3.77]]},
        {"momentum": 0.9})

    def kernel(xp: Any, grad: Any, moment: Any, lr: Any, param: Any, indices: Any, *, momentum: float,
               nesterov: int) -> Any:
        same_shape(moment=moment, param=param)
        rate = number(xp, lr, grad)

        def step(m: Any, p: Any, g: Any) -> Rows:
            adjusted, new = momentum_step(xp, g, m, rate, momentum, bool(nesterov))
            return new, p - adjusted, adjusted

        (moment, param), extra = update_rows(xp, indices, [moment, param], [grad], step)
        return (extra[0] if extra else grad), moment, param


def _decayed_momentum(xp: Any, grad: Any, moment: Any, lr: Any, param: Any, momentum: float, nesterov: int,
                      weight_decay: float) -> tuple[Any, ...]:
    same_shape(grad=grad, moment=moment, param=param)
    step, new = momentum_step(xp, grad + weight_decay * param, moment, number(xp, lr, grad), momentum, bool(nesterov))
    return step, new, param - step


class FP16MomentumSGDUpdate(Update):
    """MomentumSGDUpdate with weight decay on half-precision tensors; computed in single precision."""

    inputs = [In("grad", "any shape, half"), In("moment", "like grad"), LR, In("param", "like grad")]
    outputs = [out("output_grad"), out("output_moment"), out("output_param")]
    arguments = [*MOMENTUM, WEIGHT_DECAY, Int("fp32_update", 0, "compute in single precision; here always so")]
    inplace = {(0, 0), (1, 1), (3, 2)}
    shape = same_as(0, 1, 3)
    gradient = None
    example = Example(
        {"grad": Tensor([0.5, -0.5], "float16"), "moment": Tensor([0.0999756, 0.199951], "float16"),
         "lr": Tensor([-0.0999756], "float16"), "param": Tensor([1.0, 2.0], "float16")},
        {"output_grad": Tensor([0.039978, 0.22998], "float16"),
         "output_moment": Tensor([0.039978, 0.22998], "float16"),
         "output_param": Tensor([0.959961, 1.77051], "float16")},
        {"momentum": 0.9})

    def kernel(xp: Any, grad: Any, moment: Any, lr: Any, param: Any, *, momentum: float, nesterov: int,
               weight_decay: float) -> Any:
        g, m, rate, p = (xp.astype(t, xp.float32) for t in (grad, moment, lr, param))
        updated = _decayed_momentum(xp, g, m, rate, p, momentum, nesterov, weight_decay)
        return tuple(xp.astype(t, param.dtype) for t in updated)


class FP32MomentumSGDUpdate(Update):
    """MomentumSGDUpdate with weight decay on single-precision tensors."""

    inputs = [In("grad", "any shape, float"), In("moment", "like grad"), LR, In("param", "like grad")]
    outputs = [out("output_grad"), out("output_moment"), out("output_param")]
    arguments = [*MOMENTUM, WEIGHT_DECAY]
    inplace = {(0, 0), (1, 1), (3, 2)}
    shape = same_as(0, 1, 3)
    gradient = None
    example = Example(
        {"grad": [0.5, -0.5], "moment": [0.1, 0.2], "lr": [-0.1], "param": [1.0, 2.0]},
        {"output_grad": [0.04, 0.23], "output_moment": [0.04, 0.23], "output_param": [0.96, 1.77]},
        {"momentum": 0.9})

    def kernel(xp: Any, grad: Any, moment: Any, lr: Any, param: Any, *, momentum: float, nesterov: int,
               weight_decay: float) -> Any:
        return _decayed_momentum(xp, grad, moment, lr, param, momentum, nesterov, weight_decay)


# ---- Adam


def adam_correction(t: int, beta1: float, beta2: float) -> float:
    """sqrt(1 - beta2^t) / (1 - beta1^t): what makes up for moments that began at zero; t counts from 1.

    Raises ValueError where that is no number: betas from 1, iterations before 1.
    """
    if not (0 <= beta1 < 1 and 0 <= beta2 <= 1):
        raise ValueError(f"beta1 must be at least 0 and less than 1, beta2 from 0 to 1; found {beta1:g} and {beta2:g}")
    if t < 1:
        raise ValueError(f"iter must be 0 (for the first update) or more; found {t - 1}")
    return math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t)


def iteration(xp: Any, iter: Any) -> int:
    """The number of this iteration, from 1."""
    return int(one_number(xp, "iter", iter)) + 1


ADAM = [Float("beta1", 0.9), Float("beta2", 0.999), Float("epsilon", 1e-5)]


class Adam(Update):
    """m' = beta1 m + (1 - beta1) g; v' = beta2 v + (1 - beta2) g^2; param' = param + lr c m' / (sqrt(v') + epsilon).

    c corrects for moments that began at zero; output_grad is the step without lr.
    Source: Kingma and Ba 2014, https://arxiv.org/abs/1412.6980.
    """

    inputs = [PARAM, In("moment_1", "like param"), In("moment_2", "like param"), GRAD, LR, ITER]
    outputs = [out("output_param"), out("output_moment_1"), out("output_moment_2"), out("output_grad", optional=True)]
    arguments = ADAM
    inplace = {(0, 0), (1, 1), (2, 2)}
    shape = same_as(0, 1, 2, 3)
    example = Example(
        {"param": [1.0, 2.0], "moment_1": [0.1, 0.2], "moment_2": [0.1, 0.1], "grad": [0.5, -0.5], "lr": [-0.1],
         "iter": Tensor([0], "int64")},
        {"output_param": [0.986011, 1.98701], "output_moment_1": [0.14, 0.13], "output_moment_2": [0.10015, 0.10015]})

    def kernel(xp: Any, param: Any, moment_1: Any, moment_2: Any, grad: Any, lr: Any, iter: Any, *, beta1: float,
               beta2: float, epsilon: float) -> Any:
        same_shape(param=param, moment_1=moment_1, moment_2=moment_2, grad=grad)
        m = beta1 * moment_1 + (1 - beta1) * grad
        v = beta2 * moment_2 + (1 - beta2) * grad * grad
        step = adam_correction(iteration(xp, iter), beta1, beta2) * m / (xp.sqrt(v) + epsilon)
        return param + number(xp, lr, param) * step, m, v, step


def _rectifier(t: int, beta1: float, beta2: float) -> float | None:
    """The factor of rectified Adam, or None where the variance is not yet tractable and m' is used alone.

    Source: Liu et al. 2019, https://arxiv.org/abs/1908.03265.
    """
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * t * beta2 ** t / (1 - beta2 ** t)
    if length < 5:
        return None
    return math.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))


class SparseAdam(Update):
    """Adam of the rows that are named; with enableRAdam its rectified form."""

    inputs = [SPARSE_PARAM, In("moment_1", "like param"), In("moment_2", "like param"), INDICES, SPARSE_GRAD, LR, ITER]
    outputs = [out("output_param"), out("output_moment_1"), out("output_moment_2"), out("output_grad", optional=True)]
    arguments = [*ADAM, Bool("enableRAdam", False)]
    inplace_required = {(0, 0), (1, 1), (2, 2)}
    shape = same_as(0, 1, 2, 4)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment_1": [[0.1, 0.1], [0.2, 0.2]],
         "moment_2": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]], "lr": [-0.1],
         "iter": Tensor([0], "int64")},
        {"param": [[1.0, 2.0], [2.98374, 3.99081]], "moment_1": [[0.1, 0.1], [0.23, 0.13]],
         "moment_2": [[0.1, 0.1], [0.20005, 0.20005]]})

    def kernel(xp: Any, param: Any, moment_1: Any, moment_2: Any, indices: Any, grad: Any, lr: Any, iter: Any, *,
               beta1: float, beta2: float, epsilon: float, enableRAdam: bool) -> Any:
        same_shape(param=param, moment_1=moment_1, moment_2=moment_2)
        rate, t = number(xp, lr, param), iteration(xp, iter)
        correction = adam_correction(t, beta1, beta2)
        rectifier = _rectifier(t, beta1, beta2) if enableRAdam else 1.0

        def step(p: Any, m: Any, v: Any, g: Any) -> Rows:
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            if rectifier is None:
                change = m / (1 - beta1 ** t)
            else:
                change = correction * rectifier * m / (xp.sqrt(v) + epsilon)
            return p + rate * change, m, v, change

        tables, extra = update_rows(xp, indices, [param, moment_1, moment_2], [grad], step)
        return *tables, *(extra or [grad])


class RowWiseSparseAdam(Update):
    """SparseAdam with one second moment per row, that of the mean of the squared gradients."""

    inputs = [SPARSE_PARAM, In("moment_1", "like param"), In("moment_2", "(N,)"), INDICES, SPARSE_GRAD, LR, ITER]
    outputs = [out("output_param"), out("output_moment_1"), out("output_moment_2"), out("output_grad", optional=True)]
    arguments = ADAM
    inplace_required = {(0, 0), (1, 1), (2, 2)}
    shape = same_as(0, 1, 2, 4)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment_1": [[0.1, 0.1], [0.2, 0.2]], "moment_2": [0.1, 0.2],
         "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]], "lr": [-0.1], "iter": Tensor([0], "int64")},
        {"param": [[1.0, 2.0], [2.98374, 3.99081]], "moment_1": [[0.1, 0.1], [0.23, 0.13]],
         "moment_2": [0.1, 0.20005]})

    def kernel(xp: Any, param: Any, moment_1: Any, moment_2: Any, indices: Any, grad: Any, lr: Any, iter: Any, *,
               beta1: float, beta2: float, epsilon: float) -> Any:
        same_shape(param=param, moment_1=moment_1)
        rate = number(xp, lr, param)
        correction = adam_correction(iteration(xp, iter), beta1, beta2)

        def step(p: Any, m: Any, v: Any, g: Any) -> Rows:
            m = beta1 * m + (1 - beta1) * g
            mean = row_mean(xp, g * g)
            spread = beta2 * xp.reshape(v, mean.shape) + (1 - beta2) * mean
            change = correction * m / (xp.sqrt(spread) + epsilon)
            return p + rate * change, m, xp.reshape(spread, v.shape), change

        tables, extra = update_rows(xp, indices, [param, moment_1, moment_2], [grad], step)
        return *tables, *(extra or [grad])


# ---- Adagrad


class Adagrad(Update):
    """h' = decay h + g^2; param' = param + lr g / (sqrt(h') + epsilon).

    Source: Duchi, Hazan and Singer 2011.
    """

    inputs = [PARAM, MOMENT, GRAD, LR]
    outputs = [out("output_param"), out("output_moment"), out("output_effective_lr", optional=True),
               out("output_update", optional=True)]
    arguments = [Float("epsilon", 1e-5), Float("decay", 1.0), WEIGHT_DECAY]
    inplace = {(0, 0), (1, 1)}
    shape = same_as(0, 1, 0, 0)
    example = Example(
        {"param": [1.0, 2.0], "moment": [0.1, 0.2], "grad": [0.5, -0.5], "lr": [-0.1]},
        {"output_param": [0.915486, 2.07453], "output_moment": [0.35, 0.45]})

    def kernel(xp: Any, param: Any, moment: Any, grad: Any, lr: Any, *, epsilon: float, decay: float,
               weight_decay: float) -> Any:
        same_shape(param=param, moment=moment, grad=grad)
        g = grad + weight_decay * param if weight_decay else grad
        h = decay * moment + g * g
        effective = number(xp, lr, param) / (xp.sqrt(h) + epsilon)
        return param + effective * g, h, effective, effective * g


SPARSE_ADAGRAD = [Float("epsilon", 1e-5), Float("decay", 1.0, "must be 1"), WEIGHT_DECAY]


def sparse_adagrad(xp: Any, param: Any, moment: Any, indices: Any, grad: Any, lr: Any, epsilon: float, decay: float,
                   weight_decay: float) -> Rows:
    """New param and moment of SparseAdagrad."""
    if decay != 1:
        raise ValueError(f"a sparse Adagrad has no decay: it must be 1, found {decay}")
    same_shape(param=param, moment=moment)
    rate = number(xp, lr, param)

    def step(p: Any, h: Any, g: Any) -> Rows:
        g = xp.astype(g, p.dtype)
        g = g + weight_decay * p if weight_decay else g
        h = h + g * g
        return p + rate * g / (xp.sqrt(h) + epsilon), h

    return update_rows(xp, indices, [param, moment], [grad], step)[0]


def rowwise_sparse_adagrad(xp: Any, param: Any, moment: Any, indices: Any, grad: Any, lr: Any, epsilon: float,
                           weight_decay: float) -> Rows:
    """New param and moment of RowWiseSparseAdagrad."""
    if moment.shape[0] != param.shape[0]:
        raise ValueError(f"moment must have one entry per row, {param.shape[0]}; found shape {tuple(moment.shape)}")
    rate = number(xp, lr, param)

    def step(p: Any, h: Any, g: Any) -> Rows:
        g = xp.astype(g, p.dtype)
        g = g + weight_decay * p if weight_decay else g
        mean = row_mean(xp, g * g)
        total = xp.reshape(h, mean.shape) + mean
        return p + rate / (xp.sqrt(total) + epsilon) * g, xp.reshape(total, h.shape)

    return update_rows(xp, indices, [param, moment], [grad], step)[0]


class SparseAdagrad(Update):
    """Adagrad of the rows that are named."""

    inputs = [SPARSE_PARAM, SPARSE_MOMENT, INDICES, SPARSE_GRAD, LR]
    outputs = [out("output_param"), out("output_moment_1")]
    arguments = SPARSE_ADAGRAD
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [[0.1, 0.1], [0.45, 0.45]]})

    def kernel(xp: Any, param: Any, moment: Any, indices: Any, grad: Any, lr: Any, *, epsilon: float, decay: float,
               weight_decay: float) -> Any:
        return tuple(sparse_adagrad(xp, param, moment, indices, grad, lr, epsilon, decay, weight_decay))


class RowWiseSparseAdagrad(Update):
    """SparseAdagrad with one moment per row, which grows by the mean of the squared gradients."""

    inputs = [SPARSE_PARAM, In("moment", "(N,)"), INDICES, SPARSE_GRAD, LR]
    outputs = [out("output_param"), out("output_moment_1")]
    arguments = [Float("epsilon", 1e-5), WEIGHT_DECAY]
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [0.1, 0.2], "indices": Tensor([1], "int64"),
         "grad": [[0.5, -0.5]], "lr": [-0.1]},
        {"param": [[1.0, 2.0], [2.92547, 4.07453]], "moment": [0.1, 0.45]})

    def kernel(xp: Any, param: Any, moment: Any, indices: Any, grad: Any, lr: Any, *, epsilon: float,
               weight_decay: float) -> Any:
        return tuple(rowwise_sparse_adagrad(xp, param, moment, indices, grad, lr, epsilon, weight_decay))


# ---- others with moments


class RmsProp(Update):
    """ms' = ms + (1 - decay)(g^2 - ms); mom' = momentum mom + lr g / sqrt(epsilon + ms'); the new gradient is mom'."""

    inputs = [In("grad", "any shape, float"), In("mean_squares", "like grad"), In("momentum", "like grad"), LR]
    outputs = [out("output_grad"), out("output_mean_squares"), out("output_momentum")]
    arguments = [Float("decay", 0.9), Float("epsilon", 1e-5), Float("momentum", 0.0, as_="momentum_argument")]
    inplace = {(0, 0), (1, 1), (2, 2)}
    shape = same_as(0, 1, 2)
    example = Example(
        {"grad": [0.5, -0.5], "mean_squares": [0.1, 0.2], "momentum": [0.0, 0.0], "lr": [-0.1]},
        {"output_grad": [-0.147436, 0.110429], "output_mean_squares": [0.115, 0.205],
         "output_momentum": [-0.147436, 0.110429]},
        {"decay": 0.9, "momentum": 0.5})

    def kernel(xp: Any, grad: Any, mean_squares: Any, momentum: Any, lr: Any, *, decay: float, epsilon: float,
               momentum_argument: float) -> Any:
        same_shape(grad=grad, mean_squares=mean_squares, momentum=momentum)
        ms = mean_squares + (1 - decay) * (grad * grad - mean_squares)
        step = momentum_argument * momentum + number(xp, lr, grad) * grad / xp.sqrt(epsilon + ms)
        return step, ms, xp.asarray(step, copy=True)


def _root(xp: Any, x: Any) -> Any:
    """The square root, correctly rounded: torch's own is off by a unit in the last place for one number in five."""
    return xp.astype(xp.sqrt(xp.astype(x, xp.float64)), x.dtype)


def _adadelta(xp: Any, p: Any, h: Any, d: Any, g: Any, rate: Any, epsilon: float, decay: float,
              root: Callable[[Any], Any]) -> Rows:
    h = decay * h + (1 - decay) * g * g
    step = root(d + epsilon) / root(h + epsilon) * g
    return p + rate * step, h, decay * d + (1 - decay) * step * step


class Adadelta(Update):
    """h' = decay h + (1 - decay) g^2; s = g sqrt(d + epsilon) / sqrt(h' + epsilon); param' = param + lr s;
    d' = decay d + (1 - decay) s^2. Source: Zeiler 2012, https://arxiv.org/abs/1212.5701."""

    inputs = [PARAM, MOMENT, In("moment_delta", "like param"), GRAD, LR]
    outputs = [out("output_param"), out("output_moment"), out("output_moment_delta")]
    arguments = [Float("epsilon", 1e-5), Float("decay", 0.95)]
    inplace = {(0, 0), (1, 1), (2, 2)}
    shape = same_as(0, 1, 2)
    example = Example(
        {"param": [1.0, 2.0], "moment": [0.1, 0.2], "moment_delta": [0.1, 0.1], "grad": [0.5, -0.5], "lr": [-0.1]},
        {"output_param": [0.951776, 2.03514], "output_moment": [0.1075, 0.2025],
         "output_moment_delta": [0.106628, 0.101173]})

    def kernel(xp: Any, param: Any, moment: Any, moment_delta: Any, grad: Any, lr: Any, *, epsilon: float,
               decay: float) -> Any:
        same_shape(param=param, moment=moment, moment_delta=moment_delta, grad=grad)
        return _adadelta(xp, param, moment, moment_delta, grad, number(xp, lr, param), epsilon, decay, xp.sqrt)


class SparseAdadelta(Update):
    """Adadelta of the rows that are named."""

    inputs = [SPARSE_PARAM, SPARSE_MOMENT, In("moment_delta", "like param"), INDICES, SPARSE_GRAD, LR]
    outputs = [out("output_param"), out("output_moment"), out("output_moment_delta")]
    arguments = [Float("epsilon", 1e-5), Float("decay", 0.95)]
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1, 2)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]],
         "moment_delta": [[0.1, 0.1], [0.2, 0.2]], "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]],
         "lr": [-0.1]},
        {"param": [[1.0, 2.0], [2.95031, 4.04969]], "moment": [[0.1, 0.1], [0.2025, 0.2025]],
         "moment_delta": [[0.1, 0.1], [0.202346, 0.202346]]})

    def kernel(xp: Any, param: Any, moment: Any, moment_delta: Any, indices: Any, grad: Any, lr: Any, *,
               epsilon: float, decay: float) -> Any:
        same_shape(param=param, moment=moment, moment_delta=moment_delta)
        rate = number(xp, lr, param)

        def step(p: Any, h: Any, d: Any, g: Any) -> Rows:
            # Steps do not shrink with the gradient: near the optimum, the last bits decide where training ends up.
            return _adadelta(xp, p, h, d, g, rate, epsilon, decay, lambda x: _root(xp, x))

        return tuple(update_rows(xp, indices, [param, moment, moment_delta], [grad], step)[0])
