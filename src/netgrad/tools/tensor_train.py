"""Tensor trains: weight matrices as products of small cores, for the operator TT.

The matrix of a fully connected layer, with its rows and columns numbered by several digits each, is a chain of cores,
one per digit; core k joins rank ``ranks[k]`` to ``ranks[k + 1]``. Sources: Oseledets 2011,
https://doi.org/10.1137/090752286; Novikov et al. 2015, https://arxiv.org/abs/1509.06569.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def _check(inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int]) -> None:
    if not len(inp_sizes) == len(out_sizes) == len(tt_ranks) - 1:
        raise AssertionError(f"there are {len(inp_sizes)} input sizes, {len(out_sizes)} output sizes and "
                             f"{len(tt_ranks)} ranks; expected as many outputs as inputs, and one rank more")


def init_tt_cores(inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int],
                  seed: int = 1234) -> np.ndarray:
    """Random cores to begin training with, orthogonal from one to the next; float32, flat, one core after another.

    Args:
        inp_sizes, out_sizes: the digits of the layer's inputs and outputs, one per core.
        tt_ranks: the ranks between the cores, one at either end.
        seed: of NumPy's global generator, which Caffe2 seeds and draws from too.
    """
    _check(inp_sizes, out_sizes, tt_ranks)
    np.random.seed(seed)
    cores = []
    carried: np.ndarray = np.eye(tt_ranks[0])
    for k, (n, m) in enumerate(zip(inp_sizes, out_sizes)):
        rows = tt_ranks[k]
        drawn = np.random.normal(size=(rows, n * m * tt_ranks[k + 1]))
        core = (carried @ drawn).reshape(rows * n * m, tt_ranks[k + 1])
        if k < len(inp_sizes) - 1:
            core, carried = np.linalg.qr(core)
        cores.append(core.reshape(-1))
    scale = 0.1 / (math.prod(inp_sizes) * math.prod(tt_ranks)) ** (1.0 / len(inp_sizes))
    return np.asarray(scale * np.concatenate(cores).astype(np.float32))


def matrix_to_tt(W: np.ndarray, inp_sizes: Sequence[int], out_sizes: Sequence[int],
                 tt_ranks: Sequence[int]) -> np.ndarray:
    """The cores of a fully connected layer's weight, as the operator TT takes them; float32, flat.

    Args:
        W: (product of ``inp_sizes``, product of ``out_sizes``); the layer computes ``X W^T``.
        tt_ranks: where they are smaller than the matrix needs, the result is an approximation.
    """
    _check(inp_sizes, out_sizes, tt_ranks)
    if W.shape != (math.prod(inp_sizes), math.prod(out_sizes)):
        raise AssertionError(f"W is {W.shape}; its sizes multiply to {math.prod(inp_sizes), math.prod(out_sizes)}")
    count = len(inp_sizes)
    digits = W.T.reshape(*inp_sizes, *out_sizes)
    paired = digits.transpose([axis for k in range(count) for axis in (k, count + k)])
    sizes = [n * m for n, m in zip(inp_sizes, out_sizes)]
    cores = tt_svd(paired.reshape(sizes), sizes, tt_ranks)
    parts, start = [], 0
    for k, size in enumerate(sizes):
        stop = start + tt_ranks[k] * size * tt_ranks[k + 1]
        core = cores[start:stop].reshape(tt_ranks[k], inp_sizes[k], out_sizes[k], tt_ranks[k + 1])
        parts.append(core.transpose(1, 3, 0, 2).reshape(-1))
        start = stop
    return np.concatenate(parts[::-1]).astype(np.float32)  # the operator begins with the last digit


def tt_svd(W: np.ndarray, sizes: Sequence[int], tt_ranks: Sequence[int]) -> np.ndarray:
    """The tensor train of a tensor by one singular value decomposition per core; float32, flat, core after core.

    Args:
        W: a tensor whose sizes are ``sizes``.
    """
    if len(tt_ranks) != len(sizes) + 1:
        raise AssertionError(f"there are {len(sizes)} sizes and {len(tt_ranks)} ranks; expected one rank more")
    rest, cores = np.asarray(W), []
    for k in range(len(sizes) - 1):
        left, weights, right = np.linalg.svd(rest.reshape(tt_ranks[k] * sizes[k], -1), full_matrices=False)
        kept = tt_ranks[k + 1]
        if kept > len(weights):
            raise AssertionError(f"rank {kept} between cores {k} and {k + 1} is more than the {len(weights)} that the "
                                 "sizes allow")
        cores.append(left[:, :kept].reshape(-1))
        rest = weights[:kept, None] * right[:kept]
    cores.append(rest.reshape(-1))
    return np.concatenate(cores).astype(np.float32)
