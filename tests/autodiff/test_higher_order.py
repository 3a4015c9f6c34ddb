"""Derivatives of derivatives: whole nets to the third order, products with Hessians, penalties on gradients."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from small_nets import net, op

import netgrad
from netgrad.autodiff.errors import MissingRuleError
from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph import registry
from netgrad.runtime.errors import BadArgument, NoDerivative, OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Distinct and away from zero, both signs."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.3, 1.5, shape) * rng.choice([-1.0, 1.0], shape)


MLP = [op("FC", "x w1 b1", "h"), op("Tanh", "h", "t"), op("FC", "t w2 b2", "o"),
       op("SoftmaxWithLoss", "o label", "p loss")]
MLP_FEEDS = {"x": numbers(2, 2), "w1": numbers(3, 2, seed=1), "b1": numbers(3, seed=2), "w2": numbers(2, 3, seed=3),
             "b2": numbers(2, seed=4), "label": np.array([1, 0], np.int32)}
CONV = [op("Conv", "x k1 c1", "h", kernel=2), op("SpatialBN", "h s b m v", "n m v sm sv", is_test=0),
        op("Sigmoid", "n", "g"), op("MaxPool", "g", "q", kernel=2, stride=1), op("Conv", "q k2 c2", "r", kernel=1),
        op("AveragePool", "r", "a", global_pooling=1), op("FC", "a w c3", "o"),
        op("SoftmaxWithLoss", "o label", "p loss")]
CONV_FEEDS = {"x": numbers(2, 1, 3, 3), "k1": numbers(2, 1, 2, 2, seed=1), "c1": numbers(2, seed=2),
              "s": numbers(2, seed=3), "b": numbers(2, seed=4), "m": np.zeros(2), "v": np.ones(2),
              "k2": numbers(1, 2, 1, 1, seed=5), "c2": numbers(1, seed=6), "w": numbers(2, 1, seed=7),
              "c3": numbers(2, seed=8), "label": np.array([1, 0], np.int32)}


@BACKENDS
def test_a_classifier_to_the_third_order(backend: str) -> None:
    check_gradient(MLP, MLP_FEEDS, ["loss"], ["x", "w2"], backend=backend, order=3, overwritten="save")


@BACKENDS
def test_a_convolutional_net_to_the_second_order(backend: str) -> None:
    check_gradient(CONV, CONV_FEEDS, ["loss"], ["k1", "s", "c2", "w"], backend=backend, order=2, overwritten="save")


@pytest.mark.soak
@BACKENDS
def test_a_convolutional_net_to_the_third_order(backend: str) -> None:
    check_gradient(CONV, CONV_FEEDS, ["loss"], ["k1", "s"], backend=backend, order=3, overwritten="save")


def hessian(ops: list[Any], feeds: dict[str, Any], by: list[str], backend: str) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian by products with unit vectors, and by differences of the gradient."""
    made = net(*ops)
    products = netgrad.hessian_vector(made, "loss", {x: f"{x}_v" for x in by})
    first = net(*ops)
    gradients = netgrad.backward(first, "loss", wrt=by, overwritten="save")
    sizes = [feeds[x].size for x in by]

    def split(flat: np.ndarray, suffix: str = "") -> dict[str, np.ndarray]:
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        return {x + suffix: part.reshape(feeds[x].shape) for x, part in zip(by, parts, strict=True)}

    def dense(values: dict[str, np.ndarray], x: str) -> np.ndarray:
        if x not in gradients:
            return np.zeros(feeds[x].size)
        gradient = gradients[x]
        if not hasattr(gradient, "indices"):
            return values[str(gradient)].ravel()
        out = np.zeros_like(feeds[x])
        np.add.at(out, values[str(gradient.indices)], values[str(gradient.values)])
        return out.ravel()

    at = np.concatenate([feeds[x].ravel() for x in by])
    rows, differences, h = [], [], 1e-5
    for unit in np.eye(len(at)):
        values = {**feeds, **evaluate(made, {**feeds, **split(unit, "_v")}, None, backend)}
        rows.append(np.concatenate([values[str(products[x])].ravel() for x in by]))
        sides = [{**feeds, **evaluate(first, {**feeds, **split(at + step * unit)}, None, backend)}
                 for step in (h, -h)]
        up, down = (np.concatenate([dense(values, x) for x in by]) for values in sides)
        differences.append((up - down) / (2 * h))
    return np.array(rows), np.array(differences)


TABLE = [op("Gather", "table ids", "rows"), op("Sqr", "rows", "s"), op("FC", "s w b", "o"),
         op("SquaredL2Distance", "o target", "e"), op("AveragedLoss", "e", "loss")]
SHARED = [op("Sum", "x y", "z"), op("Mul", "z z", "c"), op("SumElements", "c", "loss")]
LINEAR = [op("Mul", "x y", "z"), op("SumElements", "z", "loss")]
POWER = [op("Pow", "x", "c", exponent=3.0), op("Relu", "c", "c"), op("SumElements", "c", "loss")]
NETS = {
    "classifier": (MLP, MLP_FEEDS, ["x", "w1", "b2"]),
    "rows of a table": (TABLE, {"table": numbers(3, 2), "ids": np.array([0, 2, 0]), "w": numbers(1, 2, seed=1),
                                "b": numbers(1, seed=2), "target": numbers(3, 1, seed=3)}, ["table", "w"]),
    "one gradient for several": (SHARED, {"x": numbers(2), "y": numbers(2, seed=1)}, ["x", "y"]),
    "zero": (LINEAR, {"x": numbers(2), "y": numbers(2, seed=1)}, ["x"]),
    "overwritten": (POWER, {"x": numbers(3)}, ["x"]),
}


@BACKENDS
@pytest.mark.parametrize("name", NETS)
def test_products_with_a_hessian(name: str, backend: str) -> None:
    products, differences = hessian(*NETS[name], backend)
    np.testing.assert_allclose(products, differences, rtol=1e-6, atol=1e-8)


def test_a_product_asks_for_at_least_one_vector() -> None:
    with pytest.raises(ValueError, match="vectors is empty"):
        netgrad.hessian_vector(net(*MLP), "loss", {})


@pytest.mark.parametrize("layer", [
    op("FC", "x w1 b1", "h"), op("FC", "x w1 b1", "h", axis_w=1), op("FCTransposed", "x w1t b1", "h")],
    ids=["FC", "axis", "FCTransposed"])
@pytest.mark.parametrize("wrt", [["x"], None])
def test_a_penalty_on_the_norm_of_a_gradient(layer: Any, wrt: list[str] | None) -> None:
    """The derivative by x alone leaves out what the second derivative could read."""
    made = net(layer, op("Tanh", "h", "t"), op("FC", "t w2 b2", "score"))
    slope = str(made.AddGradientOperators(["score"], wrt=wrt)["x"])
    made.Proto().op.extend([op("Sqr", slope, "squares"), op("ReduceBackSum", "squares", "total"),
                            op("Sqrt", "total", "norm"), op("SquaredL2Distance", "norm one", "e"),
                            op("AveragedLoss", "e", "penalty")])
    feeds = {**MLP_FEEDS, "w1t": MLP_FEEDS["w1"].T.copy(), "w2": numbers(1, 3), "b2": numbers(1), "one": np.ones((2,))}
    check_gradient(made, feeds, ["penalty"], ["x", "w1t" if layer.type == "FCTransposed" else "w1", "b1", "w2"])


def test_numpy_needs_no_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
import numpy as np, netgrad
net = netgrad.Net("n")
p, loss = net.SoftmaxWithLoss([net.FC(["x", "w", "b"], "o"), "label"], ["p", "loss"])
products = netgrad.hessian_vector(net, loss, {"w": "v"})
assert "VectorJacobianProduct" in {op.type for op in net.Proto().op}
workspace = netgrad.Workspace()
workspace.feed(x=np.ones((2, 3)), w=np.ones((2, 3)), b=np.zeros(2), v=np.eye(2, 3), label=np.array([0, 1], np.int32))
workspace.run(net)
print(workspace.fetch(products["w"]).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "NETGRAD_BACKEND": "numpy"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]"


# ---- kernels that cannot be followed, and misuse


@pytest.fixture
def declared() -> Any:
    before = set(registry.names())
    yield
    for type in set(registry.names()) - before:
        registry.unregister(type)


@BACKENDS
def test_a_kernel_that_leaves_xp_is_refused(backend: str, declared: None) -> None:
    @netgrad.operator(gradient=netgrad.through_kernel, shape=netgrad.same_as(0))
    def LeavesXp(xp, X):
        return xp.from_numpy(np.tanh(xp.to_numpy(X)), like=X)

    first, _ = GetBackwardPass([op("LeavesXp", "x", "y")], ["y"])
    with pytest.raises(NoDerivative, match=r"its kernel turns a tensor .*outside of xp.*rule by hand"):
        evaluate([op("LeavesXp", "x", "y"), *first], {"x": numbers(3)}, backend=backend)


@BACKENDS
def test_a_derivative_by_whole_numbers_is_refused(backend: str, declared: None) -> None:
    @netgrad.operator(gradient=netgrad.through_kernel, shape=netgrad.same_as(0))
    def Picks(xp, X, Rows):
        return xp.take(X, Rows, axis=0)

    first, _ = GetBackwardPass([op("Picks", "x i", "y")], ["y"])
    with pytest.raises(NoDerivative, match=r"by its input 1 \(Rows\), which is int64.*differentiable=False"):
        evaluate([op("Picks", "x i", "y"), *first], {"x": numbers(3), "i": np.array([0, 2])}, backend=backend)


def test_what_cannot_be_followed_is_refused_before_it_runs(declared: None) -> None:
    @netgrad.operator(gradient=netgrad.through_kernel, effects={"random"})
    def Draws(xp, X, *, op):
        return X

    for made in (op("Draws", "x", "y"),):
        with pytest.raises(MissingRuleError, match=r"Draws #0.*running it has effects \(random\)"):
            GetBackwardPass([made], ["y"])


@BACKENDS
@pytest.mark.parametrize(("changes", "error", "words"), [
    ({"net": None}, BadArgument, "holds 0 operators"), ({"by": [5]}, BadArgument, "name an input or output"),
    ({"given": [3]}, BadArgument, "name an input or output"), ({"given": []}, OperatorError, "0 cotangents"),
])
def test_a_product_written_by_hand_is_checked(backend: str, changes: dict[str, Any], error: Any, words: str) -> None:
    arguments = {"net": net(op("ReduceTailSum", "X", "Y")).Proto(), "by": [0], "given": [0], **changes}
    made = op("VectorJacobianProduct", "x g", "d", **{k: v for k, v in arguments.items() if v is not None})
    with pytest.raises(error, match=words):
        evaluate([made], {"x": numbers(2, 3), "g": numbers(2)}, backend=backend)


@BACKENDS
def test_a_given_gradient_of_another_shape_is_refused(backend: str) -> None:
    made = op("VectorJacobianProduct", "x g", "d", net=net(op("ReduceTailSum", "X", "Y")).Proto(), by=[0], given=[0])
    with pytest.raises(OperatorError, match=r"has shape \(3,\), expected \(2,\)"):
        evaluate([made], {"x": numbers(2, 3), "g": numbers(3)}, backend=backend)


def test_the_operator_carried_does_not_depend_on_names() -> None:
    """Equal uses make equal operators, so that they are bound once and compare as equal."""
    carried = []
    for name in ("a", "b"):
        first, gradients = GetBackwardPass([op("MaxPool", f"{name}x", f"{name}y", kernel=2)], [f"{name}y"])
        second, _ = GetBackwardPass([op("MaxPool", f"{name}x", f"{name}y", kernel=2), *first], [gradients[f"{name}x"]])
        carried += [list(made.arg) for made in second if made.type == "VectorJacobianProduct"]
    assert carried[0] == carried[1]
