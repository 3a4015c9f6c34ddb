"""Tensor trains: whole ranks give the layer itself, low ranks an approximation."""

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator
from netgrad.runtime.numeric import evaluate
from netgrad.tools.tensor_train import init_tt_cores, matrix_to_tt, tt_svd

SIZES = [2, 3, 2], [3, 2, 2]


def layer(x, cores, ranks, out=12):
    op = CreateOperator("TT", ["X", "b", "cores"], "Y", inp_sizes=SIZES[0], out_sizes=SIZES[1], tt_ranks=ranks)
    return evaluate(op, {"X": x, "b": np.zeros(out, np.float32), "cores": cores})["Y"]


def test_whole_ranks_give_the_layer():
    rng = np.random.default_rng(0)
    weight, x = rng.standard_normal((12, 12)).astype(np.float32), rng.standard_normal((3, 12)).astype(np.float32)
    ranks = [1, 6, 4, 1]
    np.testing.assert_allclose(layer(x, matrix_to_tt(weight, *SIZES, ranks), ranks), x @ weight.T, atol=1e-4)
    low = layer(x, matrix_to_tt(weight, *SIZES, [1, 1, 1, 1]), [1, 1, 1, 1])
    assert not np.allclose(low, x @ weight.T, atol=1e-1)


def test_cores_of_a_tensor_multiply_to_it():
    tensor = np.random.default_rng(1).standard_normal((2, 3, 4))
    cores = tt_svd(tensor, [2, 3, 4], [1, 2, 4, 1])
    a, b, c = cores[:4].reshape(1, 2, 2), cores[4:28].reshape(2, 3, 4), cores[28:].reshape(4, 4, 1)
    np.testing.assert_allclose(np.einsum("aib,bjc,ckd->ijk", a, b, c), tensor, atol=1e-6)


def test_first_cores_are_orthogonal_and_seeded():
    ranks = [1, 3, 3, 1]
    cores = init_tt_cores(*SIZES, ranks)
    first = cores[:18].reshape(6, 3).astype(np.float64)
    gram = first.T @ first
    np.testing.assert_allclose(gram / gram[0, 0], np.eye(3), atol=1e-6)
    np.testing.assert_array_equal(cores, init_tt_cores(*SIZES, ranks))


@pytest.mark.parametrize("call", [
    lambda: init_tt_cores([2], [2], [1]), lambda: matrix_to_tt(np.zeros((3, 4)), [2], [4], [1, 1]),
    lambda: tt_svd(np.zeros((2, 2)), [2, 2], [1, 1]), lambda: tt_svd(np.zeros((2, 2)), [2, 2], [1, 5, 1])])
def test_sizes_that_do_not_go_together(call):
    with pytest.raises(AssertionError, match=r"expected|multiply|allow"):
        call()
