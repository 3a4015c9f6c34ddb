"""Updates and learning rates that are steered by norms of the whole gradient: Wngrad, Storm, YellowFin, Lars."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int
from netgrad.graph.declaration import In
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import Fixed, TensorType, same_as
from netgrad.ops._arrays import one_number, require_size
from netgrad.ops.optimizers import (
    ALL_IN_PLACE,
    GRAD,
    INDICES,
    ITER,
    LR,
    MOMENT,
    NO_GRADIENT,
    PARAM,
    SPARSE_GRAD,
    SPARSE_MOMENT,
    SPARSE_PARAM,
    Rows,
    Update,
    iteration,
    momentum_step,
    number,
    out,
    same_shape,
    update_rows,
)


def total(xp: Any, x: Any) -> Any:
    """The sum of all entries, shape (), in x's dtype."""
    return xp.sum(x, dtype=x.dtype)


def norm(xp: Any, x: Any) -> Any:
    return xp.sqrt(total(xp, x * x))


SEQ_B = In("seq_b", "one number that grows: b' = b + sum(g^2) / (b + epsilon)")


class Wngrad(Update):
    """param' = param + lr g / (b + epsilon), one b for the whole parameter.

    Source: Wu, Ward and Bottou 2018, https://arxiv.org/abs/1803.02865.
    """

    inputs = [PARAM, SEQ_B, GRAD, LR]
    outputs = [out("output_param"), out("output_seq_b"), out("output_effective_lr", optional=True),
               out("output_update", optional=True)]
    arguments = [Float("epsilon", 1e-5)]
    inplace = {(0, 0), (1, 1)}
    shape = same_as(0, 1, 1, 0)
    example = Example(
        {"param": [1.0, 2.0], "seq_b": [1.0], "grad": [0.5, -0.5], "lr": [-0.1]},
        {"output_param": [0.950001, 2.05], "output_seq_b": [1.49999]})

    def kernel(xp: Any, param: Any, seq_b: Any, grad: Any, lr: Any, *, epsilon: float) -> Any:
        same_shape(param=param, grad=grad)
        require_size("seq_b", seq_b, 1)
        b = seq_b + epsilon
        effective = number(xp, lr, param) / b
        update = effective * grad
        return param + update, seq_b + total(xp, grad * grad) / b, effective, update


class SparseWngrad(Update):
    """Wngrad of the rows that are named; b' = b + sum(g^2) / b, without epsilon."""

    inputs = [SPARSE_PARAM, SEQ_B, INDICES, SPARSE_GRAD, LR]
    outputs = [out("output_param"), out("output_seq_b")]
    arguments = [Float("epsilon", 1e-5)]
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "seq_b": [1.0], "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]],
         "lr": [-0.1]},
        {"param": [[1.0, 2.0], [2.95, 4.05]], "seq_b": [1.5]})

    def kernel(xp: Any, param: Any, seq_b: Any, indices: Any, grad: Any, lr: Any, *, epsilon: float) -> Any:
        rate = number(xp, lr, param) / (number(xp, seq_b, param) + epsilon)
        (param,), _ = update_rows(xp, indices, [param], [grad], lambda p, g: [p + rate * g])
        return param, seq_b + total(xp, grad * grad) / seq_b


STORM = [Float("momentum", 10.0, "c in the paper"), Float("beta", 0.1, "w in the paper")]
GRAD_SQ_SUM = In("grad_sq_sum", "one number: the sum of all squared gradients so far")


def _storm(xp: Any, grad_sq_sum: Any, grad: Any, lr: Any, momentum: float, beta: float) -> tuple[Any, Any, Any]:
    """The new sum, this step's rate and how much of the old moment is corrected."""
    squares = grad_sq_sum + total(xp, grad * grad)
    rate = number(xp, lr, grad) * (beta + number(xp, squares, grad)) ** (-1 / 3)
    return squares, rate, momentum * rate * rate


class Storm(Update):
    """m' = g + (1 - a)(m - g); param' = param + r m'; r = lr (beta + sum of squares)^(-1/3), a = momentum r^2.

    Source: Cutkosky and Orabona 2019, https://arxiv.org/abs/1905.10018.
    """

    inputs = [PARAM, MOMENT, GRAD_SQ_SUM, GRAD, LR]
    outputs = [out("output_param"), out("output_moment"), out("output_grad_sq_sum")]
    arguments = STORM
    inplace = {(0, 0), (1, 1), (2, 2)}
    shape = same_as(0, 1, 2)
    example = Example(
        {"param": [1.0, 2.0], "moment": [0.1, 0.2], "grad_sq_sum": [1.0], "grad": [0.5, -0.5], "lr": [-0.1]},
        {"output_param": [0.98895, 1.98728], "output_moment": [0.12924, 0.14883], "output_grad_sq_sum": [1.5]})

    def kernel(xp: Any, param: Any, moment: Any, grad_sq_sum: Any, grad: Any, lr: Any, *, momentum: float,
               beta: float) -> Any:
        same_shape(param=param, moment=moment, grad=grad)
        squares, rate, alpha = _storm(xp, grad_sq_sum, grad, lr, momentum, beta)
        m = grad + (1 - alpha) * (moment - grad)
        return param + rate * m, m, squares


class SparseStorm(Update):
    """Storm of the rows that are named; the rate comes from all their gradients."""

    inputs = [SPARSE_PARAM, SPARSE_MOMENT, GRAD_SQ_SUM, SPARSE_GRAD, INDICES, LR]
    outputs = [out("output_param"), out("output_moment"), out("output_grad_sq_sum")]
    arguments = STORM
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1, 2)
    example = Example(
        {"param": [[1.0, 2.0], [3.0, 4.0]], "moment": [[0.1, 0.1], [0.2, 0.2]], "grad_sq_sum": [1.0],
         "grad": [[0.5, -0.5]], "indices": Tensor([1], "int64"), "lr": [-0.1]},
        {"param": [[1.0, 2.0], [2.98103, 3.98728]], "moment": [[0.1, 0.1], [0.22193, 0.14883]], "grad_sq_sum": [1.5]})

    def kernel(xp: Any, param: Any, moment: Any, grad_sq_sum: Any, grad: Any, indices: Any, lr: Any, *,
               momentum: float, beta: float) -> Any:
        same_shape(param=param, moment=moment)
        squares, rate, alpha = _storm(xp, grad_sq_sum, grad, lr, momentum, beta)

        def step(p: Any, m: Any, g: Any) -> Rows:
            m = g + (1 - alpha) * (m - g)
            return p + rate * m, m

        (param, moment), _ = update_rows(xp, indices, [param, moment], [grad], step)
        return param, moment, squares


class YellowFin(Update):
    """Momentum SGD that tunes its own learning rate and momentum from running averages of the gradient.

    scalars_memory holds averages of the gradient's norm, its square, the least and the greatest log of the square in
    the window, and the distance to the optimum. Source: Zhang and Mitliagkas 2017, https://arxiv.org/abs/1706.03471.
    """

    inputs = [
        PARAM, MOMENT, LR, In("mu", "the momentum, one number"), In("curv_win", "(curv_win_width,): logs of squares"),
        In("g_avg", "like param"), In("g2_avg", "like param"), In("scalars_memory", "(5,)"), GRAD, ITER,
    ]
    outputs = [out("output_param"), out("output_moment"), out("output_lr"), out("output_mu"), out("output_curv_win"),
               out("output_g_avg"), out("output_g2_avg"), out("output_scalars_memory")]
    arguments = [Float("beta", 0.999), Int("curv_win_width", 20), Float("epsilon", 1e-6), Bool("nesterov", False),
                 Bool("zero_debias", True, "correct for averages that began at zero")]
    inplace = {(k, k) for k in range(8)}
    shape = same_as(0, 1, 2, 3, 4, 5, 6, 7)
    example = Example(
        {"param": [1.0, 2.0], "moment": [0.1, 0.2], "lr": [0.1], "mu": [0.5], "curv_win": [0.0, 0.0],
         "g_avg": [0.1, 0.1], "g2_avg": [0.1, 0.1], "scalars_memory": [0.1, 0.1, 0.1, 0.1, 0.1], "grad": [0.5, -0.5],
         "iter": Tensor([1], "int64")},
        {"param": [0.9, 1.95], "moment": [0.1, 0.05], "lr": [0.1], "mu": [0.5], "curv_win": [-0.693147, 0.0],
         "g_avg": [0.1004, 0.0994], "g2_avg": [0.10015, 0.10015],
         "scalars_memory": [0.100607, 0.1004, 0.0992068, 0.0992068, 0.100902]},
        {"curv_win_width": 2})

    def kernel(xp: Any, param: Any, moment: Any, lr: Any, mu: Any, curv_win: Any, g_avg: Any, g2_avg: Any,
               scalars_memory: Any, grad: Any, iter: Any, *, beta: float, curv_win_width: int, epsilon: float,
               nesterov: bool, zero_debias: bool) -> Any:
        same_shape(param=param, moment=moment, g_avg=g_avg, g2_avg=g2_avg, grad=grad)
        if tuple(curv_win.shape) != (curv_win_width,) or tuple(scalars_memory.shape) != (5,):
            raise ValueError(f"curv_win must have shape ({curv_win_width},) and scalars_memory (5,); "
                             f"found {tuple(curv_win.shape)} and {tuple(scalars_memory.shape)}")
        t = int(one_number(xp, "iter", iter))
        if t < 1:
            raise ValueError(f"iter counts from 1 here (what Iter gives), found {t}")
        step, new_moment = momentum_step(xp, grad, moment, number(xp, lr, param), number(xp, mu, param), nesterov)
        debias = 1 / (1 - beta ** t) if zero_debias else 1.0
        floor = xp.full((), epsilon, dtype=grad.dtype, device=grad.device)

        def average(old: Any, new: Any) -> Any:
            return beta * old + (1 - beta) * new

        g_avg, g2_avg = average(g_avg, grad), average(g2_avg, grad * grad)
        g_norm2 = xp.maximum(total(xp, grad * grad), floor)
        place = xp.full((1,), (t - 1) % curv_win_width, dtype=xp.int64, device=grad.device)
        curv_win = xp.index_put(curv_win, place, xp.reshape(xp.log(g_norm2), (1,)))
        window = curv_win[:min(t, curv_win_width)]
        seen = [xp.sqrt(g_norm2), g_norm2, xp.min(window), xp.max(window)]
        memory = [average(scalars_memory[k], x) for k, x in enumerate(seen)]
        memory.append(average(scalars_memory[4], memory[0] / memory[1]))
        least, greatest = (xp.exp(memory[k] * debias) for k in (2, 3))
        mean = g_avg * debias
        variance = xp.maximum(memory[1] * debias - total(xp, mean * mean), floor)
        new_lr, new_mu = lr, mu
        if t > 1:
            tuned_lr, tuned_mu = _tune(xp, least, greatest, variance, memory[4] * debias)
            new_mu = average(mu, tuned_mu)
            new_lr = average(lr, tuned_lr)
        return param - step, new_moment, new_lr, new_mu, curv_win, g_avg, g2_avg, xp.stack(memory)


def _tune(xp: Any, least: Any, greatest: Any, variance: Any, distance: Any) -> tuple[Any, Any]:
    """The learning rate and momentum that minimize the paper's bound: the root of a cubic, by Vieta's substitution."""
    p = (distance * least) ** 2 / (2 * variance)
    w3 = -(xp.sqrt(p * p + 4 / 27 * p * p * p) + p) / 2
    w = xp.sign(w3) * xp.abs(w3) ** (1 / 3)
    root = xp.minimum(w - p / 3 / w + 1, xp.full_like(w, 1 - 1e-6))
    ratio = xp.sqrt(greatest / least)
    limit = (ratio - 1) / (ratio + 1)
    mu = xp.maximum(root * root, limit * limit)
    return (1 - xp.sqrt(mu)) ** 2 / least, mu


class Lars(Update):
    """A learning rate for one layer: trust / (|dX| / |X| + wd + offset), within lr_min..lr_max; 1 where X is zero.

    Source: You, Gitman and Ginsburg 2017, https://arxiv.org/abs/1708.03888.
    """

    inputs = [In("X", "the parameter, float"), In("dX", "its gradient"), In("wd", "weight decay, one number"),
              In("trust", "one number"), In("lr_max", "one number")]
    outputs = [out("lr_rescaled")]
    arguments = [Float("offset", 0.5), Float("lr_min", 0.02)]
    effects = frozenset[str]()
    shape = Fixed((TensorType(None, (1,)),))
    example = Example(
        {"X": [3.0, 4.0], "dX": [0.6, 0.8], "wd": [0.1], "trust": [0.5], "lr_max": [10.0]},
        {"lr_rescaled": [0.625]})

    def kernel(xp: Any, X: Any, dX: Any, wd: Any, trust: Any, lr_max: Any, *, offset: float, lr_min: float) -> Any:
        same_shape(X=X, dX=dX)
        for name, x in (("wd", wd), ("trust", trust), ("lr_max", lr_max)):
            require_size(name, x, 1)
        length = norm(xp, X)
        rate = xp.where(length > 0, trust / (norm(xp, dX) / length + wd + offset), xp.ones_like(trust))
        rate = xp.minimum(rate, lr_max)
        return xp.reshape(xp.maximum(rate, xp.full_like(rate, lr_min)), (1,))


class LearningRateAdaption(Update):
    """Moves a learning rate against the agreement of the gradient with the last effective one.

    lr' = lr (1 - lr_alpha cos(grad, effgrad)), or lr - lr_alpha grad . effgrad where not normalized.
    Source: Baydin et al. 2017, https://arxiv.org/abs/1703.04782.
    """

    inputs = [In("lr", "one number"), In("grad", "any shape, float"), In("effgrad", "like grad")]
    outputs = [out("output_lr")]
    arguments = [Float("lr_alpha", 0.01), Bool("normalized_lr_adaption", True)]
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = no_gradient
    example = Example({"lr": [0.1], "grad": [0.5, 1.0], "effgrad": [1.0, 1.0]}, {"output_lr": [0.0990513]})

    def kernel(xp: Any, lr: Any, grad: Any, effgrad: Any, *, lr_alpha: float, normalized_lr_adaption: bool) -> Any:
        same_shape(grad=grad, effgrad=effgrad)
        agreement = total(xp, grad * effgrad)
        if not normalized_lr_adaption:
            return lr - lr_alpha * agreement
        floor = xp.full((), 1e-12, dtype=grad.dtype, device=grad.device)
        cosine = agreement / (xp.maximum(norm(xp, grad), floor) * xp.maximum(norm(xp, effgrad), floor))
        return lr - lr * lr_alpha * cosine


class ClipTensorByScaling(Update):
    """Scales a tensor by threshold / val where val exceeds the threshold; val is usually its norm."""

    inputs = [In("input_tensor", "any shape, float"), In("val", "one number"),
              In("additional_threshold", "one number that multiplies the threshold", optional=True)]
    outputs = [out("clipped")]
    arguments = [Float("threshold", 0.0)]
    inplace = {(0, 0)}
    effects = frozenset[str]()
    shares = {(0, 0)}
    shape = same_as(0)
    gradient = NO_GRADIENT
    example = Example({"input_tensor": [3.0, 4.0], "val": [5.0]}, {"clipped": [0.6, 0.8]}, {"threshold": 1.0})

    def kernel(xp: Any, input_tensor: Any, val: Any, additional_threshold: Any, *, threshold: float) -> Any:
        limit = threshold
        if additional_threshold is not None:
            limit = threshold * float(one_number(xp, "additional_threshold", additional_threshold))
        size = float(one_number(xp, "val", val))
        return input_tensor * (limit / size) if size > limit else input_tensor


class WeightScale(Update):
    """Multiplies by ``scale`` after every ``stepsize`` iterations, before iteration ``upper_bound_iter``."""

    inputs = [In("w", "any shape, float"), ITER]
    outputs = [out("nw")]
    arguments = [Int("stepsize", 2 ** 63 - 1), Int("upper_bound_iter", 2 ** 63 - 1), Float("scale", 1.0)]
    inplace = {(0, 0)}
    effects = frozenset[str]()
    shares = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"w": [1.0, 2.0], "iter": Tensor([0], "int64")},
        {"nw": [0.5, 1.0]},
        {"stepsize": 1, "upper_bound_iter": 10, "scale": 0.5})

    def kernel(xp: Any, w: Any, iter: Any, *, stepsize: int, upper_bound_iter: int, scale: float) -> Any:
        t = iteration(xp, iter)
        return w * scale if t % stepsize == 0 and t < upper_bound_iter else w


class RowWiseCounter(Update):
    """Counts how often rows are used, older uses weighing less: count' = 1 + count / 2^(age / counter_halflife)."""

    inputs = [In("prev_iter", "(N,) int: when each row was last used"), In("update_counter", "(N,) float64"),
              In("indices", "(K,) int: the rows used now"), ITER]
    outputs = [out("output_prev_iter"), out("output_update_counter")]
    arguments = [Int("counter_halflife", -1, "in iterations; negative: nothing is counted")]
    inplace_required = ALL_IN_PLACE
    shape = same_as(0, 1)
    example = Example(
        {"prev_iter": Tensor([0, 2], "int64"), "update_counter": Tensor([1.0, 1.0], "float64"),
         "indices": Tensor([1], "int64"), "iter": Tensor([5], "int64")},
        {"prev_iter": Tensor([0, 5], "int64"), "update_counter": Tensor([1.0, 1.81225], "float64")},
        {"counter_halflife": 10})

    def kernel(xp: Any, prev_iter: Any, update_counter: Any, indices: Any, iter: Any, *, counter_halflife: int) -> Any:
        if counter_halflife <= 0:
            return prev_iter, update_counter
        now = int(one_number(xp, "iter", iter))

        def step(last: Any, count: Any) -> Rows:
            age = xp.astype(xp.reshape(now - last, count.shape), count.dtype)
            return xp.full_like(last, now), 1 + count * xp.exp(age * (-math.log(2) / counter_halflife))

        return tuple(update_rows(xp, indices, [prev_iter, update_counter], [], step)[0])

    shares = {(0, 0), (1, 1)}
