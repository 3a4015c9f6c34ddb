"""Matrix products and fully connected layers, and their derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = ["numpy", "torch"]
FLAGS = list(itertools.product([0, 1], repeat=2))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def transposed_if(flag: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if flag else shape


@pytest.mark.parametrize(("trans_a", "trans_b"), FLAGS)
@pytest.mark.parametrize("type", ["MatMul", "BatchMatMul"])
def test_derivative_of_a_product(type: str, trans_a: int, trans_b: int) -> None:
    feeds = {"A": numbers(*transposed_if(trans_a, (2, 3))), "B": numbers(*transposed_if(trans_b, (3, 4)))}
    check_gradient(operator(type, ["A", "B"], ["Y"], trans_a=trans_a, trans_b=trans_b), feeds)


@pytest.mark.parametrize(("trans_a", "trans_b"), FLAGS)
def test_derivative_of_a_batch_of_products(trans_a: int, trans_b: int) -> None:
    feeds = {"A": numbers(*transposed_if(trans_a, (2, 1, 2, 3))), "B": numbers(*transposed_if(trans_b, (2, 1, 3, 4)))}
    check_gradient(operator("BatchMatMul", ["A", "B"], ["Y"], trans_a=trans_a, trans_b=trans_b), feeds)


@pytest.mark.parametrize(("a", "b", "arguments"), [
    ((2, 3, 4), (4, 5), {"axis_a": 2}), ((2, 3, 4), (12, 5), {}), ((2, 3), (3, 2, 2), {}),
    ((6, 2), (2, 3, 4), {"axis_b": 2, "trans_a": 1}), ((4, 2, 3), (5, 2, 3), {"trans_b": 1}),
    ((2, 3, 4), (2, 3, 5), {"axis_a": 2, "axis_b": -1, "trans_a": 1}),
])
def test_derivative_where_tensors_are_matrices_at_other_axes(a: Any, b: Any, arguments: dict[str, int]) -> None:
    check_gradient(operator("MatMul", ["A", "B"], ["Y"], **arguments), {"A": numbers(*a), "B": numbers(*b)})


@pytest.mark.parametrize(("x", "w", "arguments"), [
    ((2, 3), (4, 3), {}), ((2, 3, 2), (4, 6), {}), ((2, 3, 2), (4, 2), {"axis": 2}), ((2, 3), (2, 2, 3), {"axis_w": 2}),
    ((2, 3), (4, 3, 1), {}), ((0, 3), (4, 3), {}), ((2, 0), (4, 0), {}), ((3,), (4, 3), {"axis": 0}),
])
def test_derivative_of_a_layer(x: Any, w: Any, arguments: dict[str, int]) -> None:
    feeds = {"X": numbers(*x), "W": numbers(*w), "b": numbers(4)}
    check_gradient(operator("FC", ["X", "W", "b"], ["Y"], **arguments), feeds)


@pytest.mark.parametrize(("x", "w"), [((2, 3), (3, 4)), ((2, 3, 2), (6, 2, 2)), ((0, 3), (3, 4))])
def test_derivative_of_a_transposed_layer(x: Any, w: Any) -> None:
    feeds = {"X": numbers(*x), "W": numbers(*w), "b": numbers(4)}
    check_gradient(operator("FCTransposed", ["X", "W", "b"], ["Y"]), feeds)


@pytest.mark.parametrize(("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2))])
@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_broadcast_as_in_numpy(a: Any, b: Any, backend: str) -> None:
    feeds = {"A": numbers(*a), "B": numbers(*b)}
    Y = evaluate(operator("BatchMatMul", ["A", "B"], ["Y"], broadcast=1), feeds, backend=backend)["Y"]
    np.testing.assert_allclose(Y, np.atleast_1d(feeds["A"] @ feeds["B"]))


@pytest.mark.parametrize(("type", "shapes"), [
    ("MatMul", [(2, 3), (2, 3)]), ("MatMul", [(3,), (3, 2)]), ("BatchMatMul", [(2, 2, 3), (3, 2)]),
    ("FC", [(2, 3), (4, 2), (4,)]), ("FC", [(2, 3), (4, 3), (3,)]), ("FC", [(2, 3), (4, 3), (1, 4)]),
])
@pytest.mark.parametrize("backend", BACKENDS)
def test_shapes_that_do_not_fit_are_refused(type: str, shapes: Any, backend: str) -> None:
    feeds = {name: numbers(*shape) for name, shape in zip("XWb", shapes, strict=False)}
    with pytest.raises(OperatorError):
        evaluate(operator(type, list(feeds), ["Y"]), feeds, backend=backend)


@pytest.mark.parametrize("type", ["FCGradient", "FCTransposedGradient"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_of_another_shape_is_refused(type: str, backend: str) -> None:
    feeds = {"X": numbers(2, 3), "W": numbers(*((4, 3) if type == "FCGradient" else (3, 4))), "dY": numbers(9, 9)}
    with pytest.raises(OperatorError, match=r"dY.*\(9, 9\).*\(2, 4\)"):
        evaluate(operator(type, ["X", "W", "dY"], ["dW", "db", "dX"]), feeds, backend=backend)


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tensor_train_is_a_layer_with_the_contracted_weight(batch: int, backend: str) -> None:
    inputs, outputs, ranks = [2, 3], [4, 2], [1, 3, 1]
    cores = [numbers(i, s, r, o) for i, o, r, s in zip(inputs, outputs, ranks, ranks[1:], strict=False)]
    weight = np.einsum("asp,bsq->abpq", cores[0][:, :, 0, :], cores[1][:, 0, :, :]).reshape(6, 8)
    feeds = {"X": numbers(batch, 6), "b": numbers(8), "cores": np.concatenate([c.ravel() for c in reversed(cores)])}
    op = operator("TT", ["X", "b", "cores"], ["Y"], inp_sizes=inputs, out_sizes=outputs, tt_ranks=ranks)
    np.testing.assert_allclose(evaluate(op, feeds, backend=backend)["Y"], feeds["X"] @ weight + feeds["b"])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(("type", "inputs"), [("FC", ["X", "W", "b"]), ("MatMul", ["X", "W"])])
def test_operands_of_several_dtypes_are_refused_alike(type: str, inputs: list[str], backend: str) -> None:
    feeds = {"X": np.ones((2, 2)), "W": np.ones((2, 2), np.float32), "b": np.ones(2, np.float32)}
    with pytest.raises(OperatorError, match=r"is float64, .* is float32.*one dtype"):
        evaluate([operator(type, inputs, ["Y"])], {name: feeds[name] for name in inputs}, backend=backend)
