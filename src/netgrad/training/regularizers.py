"""Regularizers: what is added to the loss for a parameter, or done to the parameter after its update.

Those that work on the loss return the blob, one number, that is to be added to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import GradientSlice
from netgrad.training.optimizers.base import BuildUniqueMutexIter


class RegularizationBy:
    """When a regularizer is called."""

    AFTER_OPTIMIZER = "after_optimizer"
    ON_LOSS = "on_loss"


class Regularizer:
    """Base of regularizers: classes define `_run_on_loss`, `_run_after_optimizer`, or both."""

    def __init__(self) -> None:
        #: how far an open bound is from the numbers that are let through
        self.kEpsilon = 1e-9

    def __call__(
        self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None, by: str | None = None
    ) -> Any:
        """Writes the regularization of one parameter.

        Args:
            grad: its gradient, where there is one.
            by: one of `RegularizationBy`.

        Returns:
            the blob to add to the loss, or None.
        """
        if not isinstance(param, BlobReference):
            raise AssertionError(f"a parameter is a BlobReference, not {param!r}, a {type(param).__name__}")
        if by not in (RegularizationBy.AFTER_OPTIMIZER, RegularizationBy.ON_LOSS):
            raise AssertionError(
                f"{type(self).__name__}: by= is RegularizationBy.ON_LOSS or RegularizationBy.AFTER_OPTIMIZER, "
                f"not {by!r}"
            )
        run = self._run_on_loss if by == RegularizationBy.ON_LOSS else self._run_after_optimizer
        return run(net, param_init_net, param, grad)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        return None

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any) -> Any:
        return None

    def _feature_grouping(self, param: BlobReference, net: Any) -> Any:
        """The 2-norm of each column of a matrix: of the weights of each input."""
        squares = net.Mul([param, param], [net.NextScopedBlob("param_mul")])
        sums = net.ReduceFrontSum([squares], [net.NextScopedBlob("param_reduced")])
        return net.Pow([sums], [net.NextScopedBlob("grouped_feature_weight_vec")], exponent=0.5)

    def _ensure_clipped(
        self,
        net: Any,
        param: BlobReference,
        grad: Any = None,
        min: float | None = None,
        max: float | None = None,
        open_range: bool = False,
        left_open: bool = False,
        right_open: bool = False,
    ) -> None:
        """Brings a parameter into a range; of a parameter with a sparse gradient, only the rows that changed."""
        if min is not None and (open_range or left_open):
            min += self.kEpsilon
        if max is not None and (open_range or right_open):
            max -= self.kEpsilon
        rows = [grad.indices, grad.values] if isinstance(grad, GradientSlice) else []
        net.EnsureClipped([param, *rows], [param], min=min, max=max)


def _not_negative(regularizer: Any, weight: float) -> float:
    if not weight >= 0:
        raise AssertionError(
            f"{type(regularizer).__name__}: the weight of a regularization is at least 0, not {weight}"
        )
    return weight


def _positive(regularizer: Any, name: str, value: float) -> float:
    if not value > 0:
        raise AssertionError(f"{type(regularizer).__name__}: {name} must be positive, found {value}")
    return value


class _Norm(Regularizer):
    """reg_lambda times the p-norm; the 2-norm is squared."""

    _p: int

    def __init__(self, reg_lambda: float) -> None:
        super().__init__()
        self.reg_lambda = _not_negative(self, reg_lambda)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        added = net.NextScopedBlob(f"{param}_l{self._p}_regularization")
        net.LpNorm([param], [added], p=self._p)
        net.Scale([added], [added], scale=self.reg_lambda)
        return added


class L1Norm(_Norm):
    """reg_lambda sum |w|, on the loss."""

    _p = 1


class L2Norm(_Norm):
    """reg_lambda sum w^2, on the loss."""

    _p = 2


class ElasticNet(Regularizer):
    """l1 sum |w| + l2 sum w^2, on the loss."""

    def __init__(self, l1: float, l2: float) -> None:
        super().__init__()
        self.l1 = l1
        self.l2 = l2

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        added = net.NextScopedBlob(param + "_elastic_net_regularization")
        squares = net.NextScopedBlob(param + "_l2_blob")
        magnitudes = net.NextScopedBlob(param + "_l1_blob")
        net.LpNorm([param], [squares], p=2)
        net.LpNorm([param], [magnitudes], p=1)
        net.Scale([squares], [squares], scale=self.l2)
        net.Scale([magnitudes], [magnitudes], scale=self.l1)
        net.Add([magnitudes, squares], [added])
        return added


def _all_but_largest(net: Any, param: BlobReference, k: int, result: Any) -> None:
    """The sum of magnitudes without the k largest of each row."""
    magnitudes = net.Abs([param], [net.NextScopedBlob("abs")])
    everything = net.SumElements([magnitudes], [net.NextScopedBlob("sum_abs")], average=False)
    names = [net.NextScopedBlob(name) for name in ("topk", "id", "flat_id")]
    largest = net.TopK([magnitudes], names, k=k)[0]
    net.Sub([everything, net.SumElements([largest], [net.NextScopedBlob("topk_sum")], average=False)], [result])


class L1NormTrimmed(Regularizer):
    """reg_lambda times the sum of magnitudes but for the k largest (of each row), on the loss.

    Source: the trimmed lasso, https://arxiv.org/abs/1708.04527.
    """

    def __init__(self, reg_lambda: float, k: int) -> None:
        super().__init__()
        self.reg_lambda = _not_negative(self, reg_lambda)
        if not isinstance(k, int) or k < 1:
            raise AssertionError(f"L1NormTrimmed: k, how many weights go free, is an integer from 1 on, not {k!r}")
        self.k = k

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        added = net.NextScopedBlob(param + "_l1_trimmed_regularization")
        _all_but_largest(net, param, self.k, added)
        net.Scale([added], [added], scale=self.reg_lambda)
        return added


class ElasticNetL1NormTrimmed(Regularizer):
    """`ElasticNet` whose first part leaves out the k largest weights (of each row), as `L1NormTrimmed` does."""

    def __init__(self, l1: float, l2: float, k: int) -> None:
        super().__init__()
        self.l1 = l1
        self.l2 = l2
        self.k = k

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        added = net.NextScopedBlob(param + "_elastic_net_l1_trimmed_regularization")
        squares = net.NextScopedBlob(param + "_l2_blob")
        net.LpNorm([param], [squares], p=2)
        net.Scale([squares], [squares], scale=self.l2)
        magnitudes = net.NextScopedBlob(param + "_l1_blob")
        _all_but_largest(net, param, self.k, magnitudes)
        net.Scale([magnitudes], [magnitudes], scale=self.l1)
        net.Add([magnitudes, squares], [added])
        return added


class LpNorm(Regularizer):
    """reg_lambda times the p-norm of the norms of a matrix's columns, on the loss: whole inputs go to zero."""

    def __init__(self, reg_lambda: float, p_value: float = 0.5) -> None:
        super().__init__()
        self.reg_lambda = _positive(self, "reg_lambda", reg_lambda)
        self.p_value = _positive(self, "p_value", p_value)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        added = net.NextScopedBlob(param + "_dense_feature_regularization")
        columns = self._feature_grouping(param, net)
        raised = net.Pow([columns], [net.NextScopedBlob("lp_vec_raised")], exponent=self.p_value)
        summed = net.ReduceFrontSum([raised], [net.NextScopedBlob("lp_vec_summed")])
        norm = net.Pow([summed], [net.NextScopedBlob("lp_vec")], exponent=1 / self.p_value)
        net.Scale([norm], [added], scale=self.reg_lambda)
        return added


class L0ApproxNorm(Regularizer):
    """reg_lambda times about the number of columns that are not zero, on the loss.

    Args:
        alpha: a column counts min(its norm, alpha) / alpha.
        budget: so many columns are free; 0: none.
    """

    def __init__(self, reg_lambda: float, alpha: float = 0.01, budget: float = 0) -> None:
        super().__init__()
        self.reg_lambda = _positive(self, "reg_lambda", reg_lambda)
        self.alpha = _positive(self, "alpha", alpha)
        if budget < 0:
            raise AssertionError(f"L0ApproxNorm: budget is at least 0, not {budget}")
        self.budget = float(budget)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        added = net.NextScopedBlob(param + "_dense_feature_regularization")
        magnitudes = net.Abs([self._feature_grouping(param, net)], [net.NextScopedBlob("l0_abs")])
        capped = net.Clip([magnitudes], [net.NextScopedBlob("l0_min")], max=self.alpha)
        summed = net.ReduceFrontSum([capped], [net.NextScopedBlob("l0_summed")])
        count = net.Scale([summed], [net.NextScopedBlob("l0_norm")], scale=1 / self.alpha)
        if self.budget:
            budget = net.ConstantFill([], "budget", shape=[1], value=self.budget)
            beyond = net.Sub([count, budget], [net.NextScopedBlob("l0_budget")])
            count = net.Relu([beyond], [net.NextScopedBlob("relu_l0_sub_budget")])
        net.Scale([count], [added], scale=self.reg_lambda)
        return added


class GroupL1Norm(Regularizer):
    """reg_lambda sum_g sqrt(|g|) ||w_g||, over groups of a matrix's columns, on the loss.

    Source: group sparse regularization, https://arxiv.org/abs/1607.00485.

    Args:
        groups: the sizes of the groups; together, the columns of the parameter, which is (outputs, inputs).
        stabilizing_val: is added under the root, whose slope is infinite at 0; 1e-8, say.
    """

    def __init__(self, reg_lambda: float, groups: list[int], stabilizing_val: float = 0) -> None:
        super().__init__()
        self.reg_lambda = _not_negative(self, reg_lambda)
        if not isinstance(groups, list):
            raise AssertionError(f"GroupL1Norm: groups is a list, the size of each group, not {groups!r}")
        self.groups = groups
        self.stabilizing_val = stabilizing_val

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        columns = net.ReduceSum(net.Sqr(param), axes=[0], keepdims=0)
        sizes = net.GivenTensorIntFill([], 1, shape=[len(self.groups)], values=self.groups)
        squares = net.LengthsSum([columns, sizes])
        if self.stabilizing_val:
            net.Add([squares, net.ConstantFill([], 1, value=self.stabilizing_val)], [squares], broadcast=1)
        norms = net.Sqrt(squares)
        weights = net.GivenTensorFill(
            [], shape=[len(self.groups)], values=[math.sqrt(size) * self.reg_lambda for size in self.groups]
        )
        weighted = net.Mul([norms, weights], ["normalized_l2_norm_scaled"])
        return net.LpNorm(weighted, ["group_l1_nrom"], p=1)


class _RowNorm(Regularizer):
    """After the update, rows of a table that changed are scaled to a norm."""

    _at_most: bool

    def __init__(self, norm: float = 1.0) -> None:
        super().__init__()
        self.norm = norm

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any) -> None:
        _positive(self, "norm", self.norm)
        net.SparseNormalize([param, _rows(self, param, grad)], [param], use_max_norm=self._at_most, norm=self.norm)


class MaxNorm(_RowNorm):
    """After the update, rows that changed and are longer than ``norm`` are cut to it; sparse gradients only."""

    _at_most = True


class ConstantNorm(_RowNorm):
    """After the update, rows that changed get the length ``norm``; sparse gradients only."""

    _at_most = False


class SparseLpNorm(Regularizer):
    """After the update, rows that changed shrink by the p-norm's slope; p is 1 or 2; sparse gradients only."""

    def __init__(self, p: float, reg_lambda: float) -> None:
        super().__init__()
        if p not in (1.0, 2.0):
            raise AssertionError(f"{type(self).__name__}: p is 1 or 2, not {p}")
        self.p = p
        self.reg_lambda = _positive(self, "reg_lambda", reg_lambda)

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any) -> None:
        net.SparseLpRegularizer([param, _rows(self, param, grad)], [param], p=self.p, reg_lambda=self.reg_lambda)


class SparseL1Norm(SparseLpNorm):
    """`SparseLpNorm` with p = 1."""

    def __init__(self, reg_lambda: float) -> None:
        super().__init__(p=1.0, reg_lambda=reg_lambda)


class SparseL2Norm(SparseLpNorm):
    """`SparseLpNorm` with p = 2."""

    def __init__(self, reg_lambda: float) -> None:
        super().__init__(p=2.0, reg_lambda=reg_lambda)


def _rows(regularizer: Any, param: BlobReference, grad: Any) -> Any:
    """Which rows of a parameter have changed."""
    if not isinstance(grad, GradientSlice):
        raise NotImplementedError(
            f"{type(regularizer).__name__} changes the rows that a sparse gradient names, and the gradient of "
            f"{str(param)!r} is {'dense' if grad is not None else 'not given'}"
        )
    return grad.indices


class LogBarrier(Regularizer):
    """-c sum log w on the loss, for weights that stay positive, with a factor c that falls; clipped after the update.

    Source: Nocedal and Wright 1999, Numerical Optimization, chapter 19.

    Args:
        reg_lambda: what the factor begins with.
        discount_policy, discount_options: how it falls: a policy of the operator LearningRate, and its arguments;
            unless said, 1 / (1 + iteration).
    """

    def __init__(
        self, reg_lambda: float, discount_policy: str = "inv", discount_options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.reg_lambda = _positive(self, "reg_lambda", reg_lambda)
        self.discount_policy = discount_policy
        self.discount_options = discount_options or {"gamma": 1.0, "power": 1.0}

    def _run_on_loss(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any = None) -> Any:
        iteration = BuildUniqueMutexIter(param_init_net, net)
        factor = net.NextScopedBlob(param + "_log_barrier_discount")
        net.LearningRate(
            [iteration], [factor], base_lr=-self.reg_lambda, policy=self.discount_policy, **self.discount_options
        )
        # The parameter may begin below zero, or be pushed there by another process between two clippings.
        positive = net.NextScopedBlob(param + "_non_neg")
        net.Clip([param], [positive], min=self.kEpsilon)
        logs = net.NextScopedBlob(param + "_log")
        net.Log([positive], [logs])
        log_sum = net.NextScopedBlob(param + "_log_sum")
        net.SumElements([logs], [log_sum])
        added = net.NextScopedBlob(param + "_log_barrier")
        net.Mul([log_sum, factor], [added], broadcast=1)
        return added

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any) -> None:
        self._ensure_clipped(net, param, grad, min=0, open_range=True)


class BoundedGradientProjection(Regularizer):
    """After the update, the parameter is clipped to [lb, ub].

    Source: Nocedal and Wright 1999, Numerical Optimization, chapter 16.

    Args:
        lb, ub: the bounds; None: none.
        left_open, right_open: a bound that is not reached is kept by a distance of ``epsilon`` (1e-9).
    """

    def __init__(
        self,
        lb: float | None = None,
        ub: float | None = None,
        left_open: bool = False,
        right_open: bool = False,
        epsilon: float | None = None,
    ) -> None:
        super().__init__()
        self.lb = None if lb is None else float(lb)
        self.ub = None if ub is None else float(ub)
        self.left_open = left_open
        self.right_open = right_open
        if epsilon is not None:
            self.kEpsilon = _positive(self, "epsilon", float(epsilon))
        if self.lb is not None and self.ub is not None:
            least = self.lb + (self.kEpsilon if left_open else 0.0)
            if not least <= self.ub - (self.kEpsilon if right_open else 0.0):
                left, right = "(" if left_open else "[", ")" if right_open else "]"
                raise AssertionError(
                    f"BoundedGradientProjection: nothing lies in {left}{lb}, {ub}{right} with epsilon={self.kEpsilon}"
                )

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: BlobReference, grad: Any) -> None:
        self._ensure_clipped(
            net, param, grad, min=self.lb, max=self.ub, left_open=self.left_open, right_open=self.right_open
        )
