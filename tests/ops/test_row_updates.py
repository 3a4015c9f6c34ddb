"""Laws of the updates of rows: in parts as in whole, whatever the shape and the type of the indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.numeric import evaluate

ROWS, WIDTH = 5, 2
RNG = np.random.default_rng(1)


def _positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 1, shape)


PARAM = RNG.standard_normal((ROWS, WIDTH))
RATE = {"lr": np.array([-0.1])}
#: type -> tables, what else there is, names of inputs, of outputs, arguments
UPDATES: dict[str, tuple[dict[str, np.ndarray], dict[str, np.ndarray], str, str, dict[str, Any]]] = {
    "SparseAdagrad": ({"param": PARAM, "h": _positive(ROWS, WIDTH)}, RATE, "param h ids grad lr", "param h",
                      {"weight_decay": 0.1}),
    "RowWiseSparseAdagrad": ({"param": PARAM, "h": _positive(ROWS)}, RATE, "param h ids grad lr", "param h", {}),
    "SparseAdam": ({"param": PARAM, "m": PARAM / 3, "v": _positive(ROWS, WIDTH)}, RATE | {"iter": np.array([3])},
                   "param m v ids grad lr iter", "param m v", {}),
    "RowWiseSparseAdam": ({"param": PARAM, "m": PARAM / 3, "v": _positive(ROWS)}, RATE | {"iter": np.array([3])},
                          "param m v ids grad lr iter", "param m v", {}),
    "SparseAdadelta": ({"param": PARAM, "h": _positive(ROWS, WIDTH), "d": _positive(ROWS, WIDTH)}, RATE,
                       "param h d ids grad lr", "param h d", {}),
    "SparseFtrl": ({"param": PARAM, "nz": _positive(ROWS, WIDTH, 2)}, {}, "param nz ids grad", "param nz",
                   {"alpha": 0.5, "lambda1": 0.1}),
    "SparseMomentumSGDUpdate": ({"m": PARAM / 3, "param": PARAM}, RATE, "grad m lr param ids", "step m param",
                                {"momentum": 0.9, "nesterov": 1}),
    "ScatterWeightedSum": ({"param": PARAM}, {"one": np.ones(1), "lr": np.array([-0.1])}, "param one ids grad lr",
                           "param", {}),
    "SparseWngrad": ({"param": PARAM, "b": np.array([2.0])}, RATE, "param b ids grad lr", "param b", {}),
    "SparseStorm": ({"param": PARAM, "m": PARAM / 3, "s": np.array([2.0])}, RATE, "param m s grad ids lr", "param m s",
                    {}),
}
#: in which all gradients of a call steer the rate, so that parts are not the whole
OF_THE_WHOLE = {"SparseWngrad", "SparseStorm"}

indices = st.lists(st.integers(0, ROWS - 1), max_size=8)


def _gradients(count: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal((count, WIDTH))


def _apply(type: str, tables: dict[str, np.ndarray], ids: np.ndarray, grads: np.ndarray, backend: str) -> Any:
    _, rest, inputs, outputs, arguments = UPDATES[type]
    op = operator(type, inputs.split(), outputs.split(), **arguments)
    return evaluate(op, tables | rest | {"ids": ids, "grad": grads}, outputs.split(), backend)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("type", [type for type in UPDATES if type not in OF_THE_WHOLE])
@settings(max_examples=12, deadline=None)
@given(ids=indices, cut=st.integers(0, 8))
def test_updates_one_after_the_other_are_one_update(type: str, backend: str, ids: list[int], cut: int) -> None:
    tables, grads = UPDATES[type][0], _gradients(len(ids))
    whole = _apply(type, tables, np.array(ids, np.int64), grads, backend)
    parts = tables
    for part in (slice(None, cut), slice(cut, None)):
        found = _apply(type, parts, np.array(ids[part], np.int64), grads[part], backend)
        parts = {name: found[name] for name in tables}
    for name in tables:
        np.testing.assert_allclose(whole[name], parts[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("type", UPDATES)
@settings(max_examples=8, deadline=None)
@given(ids=st.lists(st.integers(0, ROWS - 1), min_size=6, max_size=6),
       shape=st.sampled_from([(2, 3), (6, 1), (1, 2, 3)]), dtype=st.sampled_from([np.int32, np.int64]))
def test_shape_and_type_of_indices_do_not_matter(type: str, backend: str, ids: list[int], shape: tuple[int, ...],
                                                 dtype: Any) -> None:
    tables, grads = UPDATES[type][0], _gradients(6)
    flat = _apply(type, tables, np.array(ids, np.int64), grads, backend)
    shaped = _apply(type, tables, np.array(ids, dtype).reshape(shape), grads.reshape(*shape, WIDTH), backend)
    for name, value in flat.items():
        np.testing.assert_array_equal(shaped[name].reshape(value.shape), value, err_msg=name)
        if name == "step":
            assert shaped[name].shape == (*shape, WIDTH)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("type", UPDATES)
def test_gradients_that_do_not_go_with_the_indices_are_refused(type: str, backend: str) -> None:
    ids = np.zeros((2, 3), np.int64)
    wrong = [_gradients(5)]
    if type != "ScatterWeightedSum":  # which goes by the number of elements, as in Caffe2
        wrong += [_gradients(6), _gradients(6).reshape(3, 2, WIDTH)]
    for grads in wrong:
        with pytest.raises(RuntimeError, match=f"operator 0 .{type}."):
            _apply(type, UPDATES[type][0], ids, grads, backend)
