"""Parameter updates: sparse ones against dense ones row by row, formulas by hand, refusals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph import registry
from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime import backends
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import evaluate

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
RNG = np.random.default_rng(0)
#: repeated indices, one of them three times, and rows that are not named
INDICES = np.array([1, 3, 1, 0, 1])
GRADS = RNG.standard_normal((5, 2))
LR = np.array([-0.1])


def state(*names: str) -> dict[str, np.ndarray]:
    """Tables of four rows; those that must be positive are."""
    return {name: RNG.standard_normal((4, 2)) if name in ("param", "moment_1") else RNG.uniform(0.1, 1, (4, 2))
            for name in names}


#: sparse type, dense type, what is updated, what follows the gradient, arguments
ROW_BY_ROW: list[tuple[str, str, dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]] = [
    ("SparseAdagrad", "Adagrad", state("param", "moment"), {"lr": LR}, {"weight_decay": 0.1}),
    ("SparseAdam", "Adam", state("param", "moment_1", "moment_2"), {"lr": LR, "iter": np.array([6])}, {"beta1": 0.8}),
    ("SparseAdadelta", "Adadelta", state("param", "moment", "delta"), {"lr": LR}, {"decay": 0.7}),
    ("SparseFtrl", "Ftrl", {"param": RNG.standard_normal((4, 2)), "n_z": RNG.uniform(0.1, 1, (4, 2, 2))},
     {"alpha": np.array([0.1])}, {"lambda1": 0.3}),
]


@BACKENDS
@pytest.mark.parametrize(("sparse", "dense", "tables", "rest", "arguments"), ROW_BY_ROW)
def test_sparse_update_is_the_dense_one_row_after_row(sparse: str, dense: str, tables: dict[str, np.ndarray],
                                                      rest: dict[str, np.ndarray], arguments: Any,
                                                      backend: str) -> None:
    names = list(tables)
    expected = {name: table.copy() for name, table in tables.items()}
    for row, grad in zip(INDICES, GRADS, strict=True):
        feeds = {name: table[row] for name, table in expected.items()} | {"grad": grad} | rest
        step = evaluate(operator(dense, [*names, "grad", *rest], names, **arguments), feeds, names, backend)
        for name in names:
            expected[name][row] = step[name]
    op = operator(sparse, [*names, "indices", "grad", *rest], names, **arguments)
    found = evaluate(op, tables | {"indices": INDICES, "grad": GRADS} | rest, names, backend)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, err_msg=name)
        np.testing.assert_array_equal(found[name][2], tables[name][2])


@pytest.mark.parametrize(("type", "inputs", "arguments"), [
    ("Adam", "param moment_1 moment_2 param lr iter", {"beta1": 0.8, "beta2": 0.9, "epsilon": 0.1}),
    ("Adagrad", "param moment_2 moment_1 lr", {"epsilon": 0.1, "decay": 0.9, "weight_decay": 0.3}),
    ("RmsProp", "param moment_2 moment_1 lr", {"decay": 0.8, "epsilon": 0.1, "momentum_argument": 0.7}),
])
def test_overrides_agree_with_the_reference(type: str, inputs: str, arguments: dict[str, float]) -> None:
    backend = backends.get("torch")
    faster, reference = backend.overrides.find(type), registry.find(type)
    assert faster is not None and reference is not None and reference.kernel is not None
    feeds = state("param", "moment_1", "moment_2") | {"lr": LR, "iter": np.array([3])}
    tensors = [backend.from_numpy(feeds[name]) for name in inputs.split()]
    call = {} if type == "RmsProp" else {"op": SimpleNamespace(wants=lambda k: k < 3, num_outputs=2)}
    for mine, other in zip(faster(backend.xp, *tensors, **arguments, **call),
                           reference.kernel(backend.xp, *tensors, **arguments)):
        np.testing.assert_allclose(mine, other, rtol=1e-12)


@BACKENDS
@pytest.mark.parametrize("nesterov", [0, 1])
def test_momentum(nesterov: int, backend: str) -> None:
    """Three steps by hand on one number, then the same through a sparse update that names it three times."""
    grads, rate, mu = [1.0, -2.0, 0.5], 0.1, 0.875
    param, moment = 2.0, 0.3
    for g in grads:
        old, moment = moment, mu * moment + rate * g
        param -= (1 + mu) * moment - mu * old if nesterov else moment
    feeds = {"grad": np.array(grads), "moment": np.array([0.3]), "lr": np.array([rate]), "param": np.array([2.0]),
             "indices": np.zeros(3, np.int64)}
    op = operator("SparseMomentumSGDUpdate", list(feeds), ["grad", "moment", "param"], momentum=mu, nesterov=nesterov)
    found = evaluate(op, feeds, backend=backend)
    np.testing.assert_allclose([found["param"][0], found["moment"][0]], [param, moment], rtol=1e-12)
    dense = feeds | {"grad": np.array([1.0])}
    ops = [operator("MomentumSGDUpdate", ["grad", "moment", "lr", "param"], ["a", "b", "c"], momentum=mu,
                    nesterov=nesterov),
           operator("MomentumSGD", ["grad", "moment", "lr"], ["d", "e"], momentum=mu, nesterov=nesterov),
           operator("FP32MomentumSGDUpdate", ["grad", "moment", "lr", "param"], ["f", "g", "h"], momentum=mu,
                    nesterov=nesterov)]
    found = evaluate(ops, dense, backend=backend)
    assert found["a"] == found["d"] and found["b"] == found["e"] and found["c"] == 2 - found["d"]
    np.testing.assert_allclose(found["h"], found["c"], rtol=1e-6)


@BACKENDS
def test_rowwise_updates_keep_one_moment_per_row(backend: str) -> None:
    param, moment = RNG.standard_normal((4, 2)), RNG.uniform(0.1, 1, 4)
    expected, sums = param.copy(), moment.copy()
    for row, g in zip(INDICES, GRADS, strict=True):
        sums[row] += (g * g).mean()
        expected[row] += LR * g / (np.sqrt(sums[row]) + 1e-5)
    feeds = {"param": param, "moment": moment, "indices": INDICES, "grad": GRADS, "lr": LR}
    found = evaluate(operator("RowWiseSparseAdagrad", list(feeds), ["param", "moment"]), feeds, backend=backend)
    np.testing.assert_allclose(found["param"], expected)
    np.testing.assert_allclose(found["moment"], sums)
    bag = {"g": GRADS[:2], "l": np.array([2, 3], np.int32)}
    ops = [operator("LengthsSumGradient", ["g", "l"], ["grad"]),
           operator("RowWiseSparseAdagrad", ["param", "moment", "indices", "grad", "lr"], ["param", "moment"])]
    apart = evaluate(ops, feeds | bag, ["param", "moment"], backend)
    fused = operator("RowWiseSparseAdagradFusedWithSparseLengthsSumGradient",
                     ["param", "moment", "indices", "g", "lr", "l"], ["param", "moment"])
    together = evaluate(fused, feeds | bag, ["param", "moment"], backend)
    np.testing.assert_array_equal(together["param"], apart["param"])


@BACKENDS
def test_fused_weighted_update_equals_its_parts(backend: str) -> None:
    """Caffe2's kernel takes weights by place in the bag; here each index has its own, as in the operators it fuses."""
    feeds = state("param", "moment") | {"w": GRADS[:, 0], "indices": INDICES, "g": GRADS[:2], "lr": LR,
                                        "l": np.array([2, 3], np.int32)}
    apart = evaluate(
        [operator("SparseLengthsIndicesInGradientWeightedSumWithMainInputGradient", ["w", "g", "l", "param", "indices"],
                  ["grad", "dw"]),
         operator("SparseAdagrad", ["param", "moment", "indices", "grad", "lr"], ["param", "moment"])], feeds,
        ["param", "moment", "dw"], backend)
    fused = operator("SparseAdagradFusedWithSparseLengthsWeightedSumGradient",
                     ["param", "moment", "w", "indices", "g", "lr", "l"], ["param", "moment", "dw"])
    together = evaluate(fused, feeds, ["param", "moment", "dw"], backend)
    for name, value in apart.items():
        np.testing.assert_array_equal(together[name], value, err_msg=name)


@BACKENDS
def test_norms_steer_the_rate(backend: str) -> None:
    feeds = {"p": np.array([1.0, 2.0]), "b": np.array([4.0]), "g": np.array([3.0, 4.0]), "lr": LR,
             "i": np.array([1, 0]), "m": np.array([1.0, 1.0]), "three": np.array([3.0])}
    found = evaluate([
        operator("Wngrad", ["p", "b", "g", "lr"], ["wp", "wb", "rate", "step"], epsilon=1.0),
        operator("Storm", ["p", "m", "b", "g", "lr"], ["sp", "sm", "sb"], momentum=50.0, beta=-2.0),
        operator("Lars", ["p", "g", "b", "three", "three"], ["lars"], offset=0.5, lr_min=0.01),
        operator("LearningRateAdaption", ["lr", "g", "g"], ["adapted"], lr_alpha=0.5),
        operator("ClipTensorByScaling", ["g", "three"], ["clipped"], threshold=1.5),
        operator("ClipTensorByScaling", ["g", "three", "b"], ["kept"], threshold=1.0),
        operator("SparseWngrad", ["p", "b", "i", "g", "lr"], ["p", "b"], epsilon=1.0),
    ], feeds, backend=backend)
    np.testing.assert_allclose(found["wp"], [1 - 0.1 / 5 * 3, 2 - 0.1 / 5 * 4])
    assert found["wb"] == 9 and found["rate"] == -0.1 / 5 and found["b"] == 4 + 25 / 4
    rate = -0.1 / 27 ** (1 / 3)
    moment = np.array([3, 4]) + (1 - 50 * rate ** 2) * np.array([-2, -3])
    np.testing.assert_allclose(found["sp"], np.array([1, 2]) + rate * moment)
    np.testing.assert_allclose(found["lars"], 3 / (5 / np.sqrt(5) + 4 + 0.5))
    np.testing.assert_allclose(found["adapted"], -0.05)
    np.testing.assert_allclose(found["clipped"], [1.5, 2])
    assert found["kept"].tolist() == [3, 4]
    np.testing.assert_allclose(found["p"], [1 - 0.1 / 5 * 4, 2 - 0.1 / 5 * 3])


@BACKENDS
def test_counters(backend: str) -> None:
    """An Iter without an input counts in its output; weights scale and rows are counted by it."""
    feeds = {"w": np.array([8.0]), "last": np.array([0, 3]), "uses": np.array([1.0, 2.0]), "rows": np.array([1, 1])}
    ops = [operator("Iter", [], ["t"]), operator("CreateMutex", [], ["mutex"]), operator("Iter", [], ["t"]),
           operator("AtomicIter", ["mutex", "t"], ["t"]),
           operator("WeightScale", ["w", "t"], ["now"], stepsize=4, scale=0.5),
           operator("WeightScale", ["w", "t"], ["late"], stepsize=4, scale=0.5, upper_bound_iter=4),
           operator("Iter", ["t"], ["t"]), operator("Iter", ["t"], ["t"]),
           operator("RowWiseCounter", ["last", "uses", "rows", "t"], ["last", "uses"], counter_halflife=2)]
    found = evaluate(ops, feeds, backend=backend)
    assert found["t"].tolist() == [5] and found["now"] == 4 and found["late"] == 8
    np.testing.assert_allclose(found["uses"], [1, 1 + (1 + 2 / 2)])
    assert found["last"].tolist() == [0, 5]


@BACKENDS
@pytest.mark.parametrize(("type", "inputs", "words"), [
    ("SparseAdagrad", {"param": GRADS, "moment": GRADS, "i": np.array([5]), "g": GRADS[:1], "lr": LR}, "0..4"),
    ("SparseAdagrad", {"param": GRADS, "moment": GRADS, "i": np.array([1]), "g": GRADS, "lr": LR}, "one row per index"),
    ("SparseAdagrad", {"param": GRADS, "moment": GRADS, "i": INDICES, "g": GRADS, "lr": np.ones(2)}, "single number"),
    ("Adagrad", {"param": GRADS, "moment": GRADS[:2], "g": GRADS, "lr": LR}, "moment must have the shape of param"),
])
def test_wrong_input_is_refused(type: str, inputs: dict[str, np.ndarray], words: str, backend: str) -> None:
    with pytest.raises(OperatorError, match=words):
        evaluate(operator(type, list(inputs), ["param", "moment"]), inputs, backend=backend)


def test_an_update_has_no_gradient() -> None:
    with pytest.raises(Exception, match="parameter update"):
        GetBackwardPass([operator("Adagrad", ["p", "m", "g", "lr"], ["p2", "m2"])], ["p2"])
