"""Functions of the array API that derivatives are followed through: right to the second order, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netgrad
from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator
from netgrad.runtime.backends.numpy import traced
from netgrad.runtime.backends.numpy.tracing import Traced
from netgrad.runtime.errors import NoDerivative
from netgrad.runtime.numeric import check_gradient

RNG = np.random.default_rng(0)
#: between 0.2 and 0.8, where everything is smooth; and the second operand, which differs from the first everywhere
X, B = RNG.uniform(0.2, 0.5, (2, 3)), RNG.uniform(0.55, 0.8, (2, 3))
INDEX = np.array([[2, 0, 1], [0, 0, 2]])

Kernel = Callable[..., Any]
UNARY = ["negative", "positive", "exp", "log", "sqrt", "sin", "cos", "sinh", "cosh", "expm1", "log1p", "log2", "log10",
         "abs", "square", "reciprocal", "tan", "tanh", "asin", "acos", "atan", "asinh", "atanh"]
KERNELS: dict[str, Kernel] = {
    **{name: (lambda xp, x, b, f=name: getattr(xp, f)(x) * b) for name in UNARY},
    "acosh": lambda xp, x, b: xp.acosh(1 + x), "erf": lambda xp, x, b: xp.erf(x),
    "add": lambda xp, x, b: xp.add(x, b) ** 2, "sub": lambda xp, x, b: (x - b) * (1 - x) * x,
    "mul": lambda xp, x, b: x * b[:1] * 2, "div": lambda xp, x, b: x / b + 1 / x, "pow": lambda xp, x, b: x ** b,
    "power of a number": lambda xp, x, b: x ** 3 + 2.0 ** b, "atan2": lambda xp, x, b: xp.atan2(x, b),
    "maximum": lambda xp, x, b: xp.maximum(x * x, b) + xp.minimum(x * x, b[0, :]),
    "tie": lambda xp, x, b: xp.maximum(x, x) * b + xp.minimum(x, x),
    "where": lambda xp, x, b: xp.where(x > 0.3, x * x, b[:1, :] * x), "neg": lambda xp, x, b: -x * abs(-b),
    "clip": lambda xp, x, b: xp.clip(x * x, 0.05, 0.12) * b, "clip by arrays": lambda xp, x, b: xp.maximum(x, b * b),
    "astype": lambda xp, x, b: xp.astype(xp.astype(x, xp.float64) ** 2, xp.float64),
    "sum": lambda xp, x, b: xp.sum(x * b, axis=1) + xp.sum(x * x), "mean": lambda xp, x, b: xp.mean(x * x, axis=0) * b,
    "sum keeps": lambda xp, x, b: xp.sum(x * b, axis=(0, 1), keepdims=True) * x,
    "max": lambda xp, x, b: xp.max(x, axis=1, keepdims=True) * b * x, "min": lambda xp, x, b: xp.min(x * b, axis=0) * b,
    "prod": lambda xp, x, b: xp.prod(x, axis=1) * b[:, 0],
    "cumulative_sum": lambda xp, x, b: xp.cumulative_sum(x * b, axis=1) * x,
    "reshape": lambda xp, x, b: xp.reshape(x, (3, 2)) ** 2,
    "matrix_transpose": lambda xp, x, b: xp.matrix_transpose(x) ** 2,
    "permute_dims": lambda xp, x, b: xp.permute_dims(xp.reshape(x * b, (1, 2, 3)), (2, 0, 1)) ** 2,
    "moveaxis": lambda xp, x, b: xp.moveaxis(x * b, 0, 1) ** 2, "flip": lambda xp, x, b: xp.flip(x, axis=1) * x,
    "expand_dims": lambda xp, x, b: xp.expand_dims(x, axis=1) * b,
    "squeeze": lambda xp, x, b: xp.squeeze(x[:1, :] * b[:1, :], 0),
    "broadcast_to": lambda xp, x, b: xp.broadcast_to(x[:1, :], (2, 3)) * x,
    "tile": lambda xp, x, b: xp.tile(x * x, (2, 1, 2)),
    "concat": lambda xp, x, b: xp.concat([x * x, b, x], axis=1) ** 2,
    "stack": lambda xp, x, b: xp.stack([x, b], axis=1) ** 2,
    "repeat": lambda xp, x, b: xp.repeat(x, 2, axis=1) ** 2,
    "take": lambda xp, x, b: xp.take(x, xp.asarray([2, 0, 2]), axis=1) * b,
    "take_along_axis": lambda xp, x, b: xp.take_along_axis(x, xp.asarray(INDEX), axis=1) * b,
    "getitem": lambda xp, x, b: x[:, 1:] * b[0, :2], "mask": lambda xp, x, b: x[x > 0.3] ** 2,
    "newaxis": lambda xp, x, b: x[None, ...] ** 2 * b,
    "scatter_add": lambda xp, x, b: xp.scatter_add(x * x, xp.asarray([1, 1]), b * x),
    "index_put": lambda xp, x, b: xp.index_put(x * x, xp.asarray([1]), b[:1, :] * x[:1, :]),
    "sort": lambda xp, x, b: xp.sort(x, axis=1, descending=True) ** 2 * b,
    "matmul": lambda xp, x, b: xp.matmul(x, xp.matrix_transpose(b)) @ x,
    "vectors": lambda xp, x, b: xp.matmul(x[0, :], b[1, :]) * x,
    "batched": lambda xp, x, b: xp.matmul(xp.reshape(x, (2, 1, 3)), xp.reshape(b, (3, 2))[None, ...]) ** 2,
    "einsum": lambda xp, x, b: xp.einsum("ij,kj->ik", x, b) ** 2,
    "einsum sums": lambda xp, x, b: xp.einsum("ij,k->jk", x, b[0, :]),
    "asarray": lambda xp, x, b: xp.asarray(x) * b,
}


def assigned(xp: Any, x: Any, b: Any) -> Any:
    """Parts are written, over and over, from parts of what is written."""
    out = xp.zeros((3, 4), dtype=x.dtype)
    out[:2, :3] = x * x
    out[1:, 1:] += b
    out[0, :] = out[1, :] * 2 + 1
    out[:, 0] = x[0, 0]
    return out


KERNELS["assignment"] = assigned


@pytest.fixture
def declare() -> Any:
    made = []

    def declare(kernel: Kernel) -> str:
        type = f"Traced{len(made)}"
        made.append(netgrad.operator(lambda xp, X, B: kernel(xp, X, B), type=type, gradient=netgrad.through_kernel))
        return type

    yield declare
    for declaration in made:
        registry.unregister(declaration.type)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_derivatives_of(name: str, backend: str, declare: Any) -> None:
    kernel = KERNELS[name]
    op = CreateOperator(declare(kernel), ["x", "b"], ["y"])
    check_gradient(op, {"x": X, "b": B}, backend=backend, order=2, subgradient=name == "tie")


def test_every_rule_is_tested() -> None:
    """A function with a rule that no kernel here calls would be believed, not known."""
    called = set()

    class Watch:
        def __getattr__(self, name: str) -> Any:
            called.add(name)
            return getattr(traced.XP, name)

    for kernel in KERNELS.values():
        kernel(Watch(), Traced(X), Traced(B))
    as_operators = {"subtract", "multiply", "divide", "pow", "ascontiguous"}
    assert set(traced._FUNCTIONS) - called == as_operators


def test_what_has_no_rule_is_refused(declare: Any) -> None:
    for kernel in (lambda xp, x, b: xp.roll(x, 1), lambda xp, x, b: x * float(xp.sum(b)),
                   lambda xp, x, b: x * b.tolist()[0][0], lambda xp, x, b: x % 0.3):
        with pytest.raises(NoDerivative, match="rule by hand"):
            check_gradient(CreateOperator(declare(kernel), ["x", "b"], ["y"]), {"x": X, "b": B}, backend="numpy")


def test_torch_refuses_what_is_overwritten_while_it_is_needed(declare: Any) -> None:
    def kernel(xp: Any, x: Any, b: Any) -> Any:
        out = x * b
        out[0, :] = out[1, :] * out[0, :]
        return out

    op = CreateOperator(declare(kernel), ["x", "b"], ["y"])
    with pytest.raises(NoDerivative, match=r"writes over .*rule by hand"):
        check_gradient(op, {"x": X, "b": B}, backend="torch")
    check_gradient(op, {"x": X, "b": B}, backend="numpy", order=2)


def test_a_product_with_a_zero_is_refused(declare: Any) -> None:
    op = CreateOperator(declare(lambda xp, x, b: xp.prod(x, axis=1) * b[:, 0]), ["x", "b"], ["y"])
    with pytest.raises(NoDerivative, match="a product that holds a zero"):
        check_gradient(op, {"x": np.zeros((2, 3)), "b": B}, backend="numpy")


def test_constants_may_become_numbers(declare: Any) -> None:
    """What is counted and compared is not followed."""
    def kernel(xp: Any, x: Any, b: Any) -> Any:
        count = int(xp.sum(xp.astype(x > 0, xp.int64)))
        return x * count if bool(xp.any(x > 0)) else b

    check_gradient(CreateOperator(declare(kernel), ["x", "b"], ["y"]), {"x": X, "b": B}, wrt=["x"], order=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_have_the_dtype_of_what_they_belong_to(dtype: Any) -> None:
    from netgrad.runtime import backends

    backend = backends.get("numpy")
    for kernel in KERNELS.values():
        inputs = [X.astype(dtype), B.astype(dtype)]
        Y = np.asarray(kernel(backend.xp, *inputs))
        found = backend.vector_jacobian(lambda xp, values, f=kernel: (f(xp, *values),), inputs, (0, 1),
                                        [np.ones_like(Y)])
        assert [g.dtype for g in found] == [dtype, dtype]
        assert [g.shape for g in found] == [X.shape, B.shape]
