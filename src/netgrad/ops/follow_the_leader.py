"""Follow the regularized leader: updates that keep parameters at exactly zero unless gradients insist.

Source: McMahan et al. 2013, Ad click prediction: a view from the trenches.
"""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Float
from netgrad.graph.declaration import In
from netgrad.graph.example import Example, Tensor
from netgrad.graph.shapes import same_as
from netgrad.ops._arrays import one_number
from netgrad.ops.optimizers import (
    INDICES,
    SPARSE_GRAD,
    Rows,
    Update,
    out,
    same_shape,
    update_rows,
)

FTRL = [Float("alpha", 0.005), Float("beta", 1.0), Float("lambda1", 0.001), Float("lambda2", 0.001)]
N_Z = In("n_z", "param's shape and a last axis of 2: sums of squared gradients, and z")


def _alpha(xp: Any, given: Any, argument: float) -> float:
    return argument if given is None else float(one_number(xp, "alpha", given))


def _ftrl_sums(xp: Any, w: Any, n_z: Any, g: Any, alpha: float) -> tuple[Any, Any]:
    if tuple(n_z.shape) != (*w.shape, 2):
        raise ValueError(f"n_z has shape {tuple(n_z.shape)}, expected {(*w.shape, 2)}: two sums for each parameter")
    n, z = n_z[..., 0], n_z[..., 1]
    total = n + g * g
    return total, z + g - (xp.sqrt(total) - xp.sqrt(n)) / alpha * w


def _ftrl(xp: Any, w: Any, n_z: Any, g: Any, alpha: float, beta: float, lambda1: float, lambda2: float) -> Rows:
    n, z = _ftrl_sums(xp, w, n_z, g, alpha)
    moved = (lambda1 * xp.sign(z) - z) / ((beta + xp.sqrt(n)) / alpha + lambda2)
    return xp.where(xp.abs(z) > lambda1, moved, xp.zeros_like(moved)), xp.stack([n, z], axis=-1)


class Ftrl(Update):
    """Follows the regularized leader, weight by weight. The gradient is not scaled by a learning rate.

    Source: McMahan et al. 2013, "Ad click prediction: a view from the trenches".
    """

    inputs = [In("var", "any shape, float"), N_Z, In("grad", "like var"),
              In("alpha", "one number, instead of the argument", optional=True)]
    outputs = [out("output_var"), out("output_n_z")]
    arguments = [Float("alpha", 0.005, as_="alpha_argument"), *FTRL[1:]]
    inplace = {(0, 0), (1, 1)}
    shape = same_as(0, 1)
    example = Example(
        {"var": [1.0, 2.0], "n_z": [[0.1, 0.1], [0.2, 0.2]], "grad": [0.5, -0.5]},
        {"output_var": [0.171132, 0.268555], "output_n_z": [[0.35, -54.476], [0.45, -89.7427]]})

    def kernel(xp: Any, var: Any, n_z: Any, grad: Any, alpha: Any, *, alpha_argument: float, beta: float,
               lambda1: float, lambda2: float) -> Any:
        same_shape(var=var, grad=grad)
        return _ftrl(xp, var, n_z, grad, _alpha(xp, alpha, alpha_argument), beta, lambda1, lambda2)


class SparseFtrl(Update):
    """Ftrl of the rows that are named."""

    inputs = [In("var", "(N, ...), float"), N_Z, INDICES, SPARSE_GRAD,
              In("alpha", "one number, instead of the argument", optional=True)]
    outputs = [out("output_var"), out("output_n_z")]
    arguments = [Float("alpha", 0.005, as_="alpha_argument"), *FTRL[1:]]
    inplace_required = {(0, 0), (1, 1)}
    shape = same_as(0, 1)
    example = Example(
        {"var": [[1.0, 2.0], [3.0, 4.0]], "n_z": [[[0.1, 0.1], [0.1, 0.1]], [[0.1, 0.1], [0.1, 0.1]]],
         "indices": Tensor([1], "int64"), "grad": [[0.5, -0.5]]},
        {"var": [[1.0, 2.0], [0.517171, 0.693332]],
         "n_z": [[[0.1, 0.1], [0.1, 0.1]], [[0.35, -164.628], [0.35, -220.704]]]})

    def kernel(xp: Any, var: Any, n_z: Any, indices: Any, grad: Any, alpha: Any, *, alpha_argument: float,
               beta: float, lambda1: float, lambda2: float) -> Any:
        rate = _alpha(xp, alpha, alpha_argument)
        return tuple(update_rows(xp, indices, [var, n_z], [grad],
                                 lambda w, s, g: _ftrl(xp, w, s, g, rate, beta, lambda1, lambda2))[0])


class GFtrl(Update):
    """Ftrl that keeps or drops whole columns: lambda1 acts on the norm of a column (group lasso)."""

    inputs = [In("var", "(outputs, inputs), float"), N_Z, In("grad", "like var"),
              In("alpha", "one number, instead of the argument", optional=True)]
    outputs = [out("output_var"), out("output_n_z")]
    arguments = [Float("alpha", 0.005, as_="alpha_argument"), *FTRL[1:]]
    inplace = {(0, 0), (1, 1)}
    shape = same_as(0, 1)
    example = Example(
        {"var": [[1.0, 2.0]], "n_z": [[[0.1, 0.1], [0.2, 0.2]]], "grad": [[0.5, -0.5]]},
        {"output_var": [[0.171132, 0.268555]], "output_n_z": [[[0.35, -54.476], [0.45, -89.7427]]]})

    def kernel(xp: Any, var: Any, n_z: Any, grad: Any, alpha: Any, *, alpha_argument: float, beta: float,
               lambda1: float, lambda2: float) -> Any:
        same_shape(var=var, grad=grad)
        rate = _alpha(xp, alpha, alpha_argument)
        n, z = _ftrl_sums(xp, var, n_z, grad, rate)
        matrix = xp.reshape(z, (z.shape[0], math.prod(z.shape[1:])) if z.ndim else (1, 1))
        norm = xp.sqrt(xp.sum(matrix * matrix, axis=0, keepdims=True))
        bound = lambda1 * math.sqrt(matrix.shape[0])
        factor = xp.where(norm > bound, bound / norm - 1, xp.zeros_like(norm))
        moved = xp.reshape(matrix * factor, z.shape) / ((beta + xp.sqrt(n)) / rate + lambda2)
        return moved, xp.stack([n, z], axis=-1)
