"""Updates that write into their parameters and moments; the planner calls them once it has shown that nobody else
holds these.

A writer gets the inputs of some operators of one type and equal arguments, whose blobs are all different, and returns
their outputs: those in place are the inputs themselves. It returns None, and has written nothing, where it does not
serve.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrad.ops import optimizers as reference
from netgrad.runtime.backends.torch.layouts import copy_like, is_dense
from netgrad.runtime.backends.torch.products import Product

Inputs = Sequence[Sequence[Tensor]]
Outputs = Sequence[tuple[Tensor, ...]]
Writer = Callable[[Any, Inputs, Mapping[str, Any], bool], "Outputs | None"]

_FLOATS = (torch.float32, torch.float64)


def _alike(*tensors: Tensor) -> bool:
    """Whether all are dense, of one shape, layout and common float type, and on the CPU."""
    first = tensors[0]
    return first.is_cpu and first.dtype in _FLOATS and is_dense(first) and all(
        t.shape == first.shape and t.dtype == first.dtype and t.is_cpu and (
            t.stride() == first.stride() or (t.is_contiguous() and first.is_contiguous())) for t in tensors[1:])


def _numbers(tensors: Sequence[Tensor], like: Tensor) -> bool:
    """Whether each is one number, of the type of ``like``."""
    return all(t.numel() == 1 and t.dtype == like.dtype and t.is_cpu for t in tensors)


def weighted_sum(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    for X, w, g, lr in inputs:
        if not (_alike(X) and g.fits(X) if isinstance(g, Product) else _alike(X, g)) or not _numbers((w, lr), X):
            return None
    for X, w, g, lr in inputs:
        if isinstance(g, Product):
            g.add_to(X, w.item(), lr.item())
            continue
        if (number := w.item()) != 1:
            X.mul_(number)
        X.add_(g, alpha=lr.item())
    return [(X,) for X, *_ in inputs]


weighted_sum.takes = Product  # type: ignore[attr-defined]


def adam(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    *_, lr, iter = inputs[0]
    if not all(_alike(*row[:4]) and row[0].dtype == inputs[0][0].dtype for row in inputs) or not _numbers(
            [lr], inputs[0][0]):
        return None
    t = reference.iteration(xp, iter)
    beta1, beta2 = arguments["beta1"], arguments["beta2"]
    if not reference.adam_correction(t, beta1, beta2):
        return None
    steps = [torch.tensor(float(t))] * len(inputs)
    p, m, v, g = ([row[k] for row in inputs] for k in range(4))
    # torch adds epsilon to the corrected root of the second moment, this operator to the uncorrected one
    torch._fused_adam_(p, g, m, v, [], steps, lr=-lr.item(), beta1=beta1, beta2=beta2, weight_decay=0.0,
                       eps=arguments["epsilon"] / (1 - beta2 ** t) ** 0.5, amsgrad=False, maximize=False)
    return list(zip(p, m, v))


def adagrad(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    lr = inputs[0][3]
    if arguments["decay"] != 1 or not _numbers([lr], inputs[0][0]) or not all(
            _alike(*row[:3]) and row[0].dtype == inputs[0][0].dtype for row in inputs):
        return None
    p, h, g = ([row[k] for row in inputs] for k in range(3))
    torch._fused_adagrad_(p, g, h, [torch.ones(())] * len(p), lr=-lr.item(), lr_decay=0.0,
                          weight_decay=arguments["weight_decay"], eps=arguments["epsilon"], maximize=False)
    return list(zip(p, h))


def momentum(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    lr = inputs[0][2]
    if not _numbers([lr], inputs[0][0]) or not all(
            _alike(g, m, p) and g.dtype == inputs[0][0].dtype for g, m, _, p in inputs):
        return None
    rate, mu = lr.item(), arguments["momentum"]
    outputs = []
    for g, m, _, p in inputs:
        step = g if spare else torch.empty_like(g)
        if arguments["nesterov"]:
            before = m * -mu
            m.mul_(mu).add_(g, alpha=rate)
            torch.add(before, m, alpha=1 + mu, out=step)
            p.sub_(step)
        else:
            m.mul_(mu).add_(g, alpha=rate)
            p.sub_(m)
            step.copy_(m)
        outputs.append((step, m, p))
    return outputs


# ---- rows


def _table(*tables: Tensor) -> bool:
    first = tables[0]
    return first.is_cpu and first.dtype in _FLOATS and first.numel() > 0 and all(
        t.is_contiguous() and t.is_cpu and t.dtype == first.dtype for t in tables)


def _places(indices: Tensor, rows: int) -> np.ndarray | None:
    """The indices as a vector of int64; None where one is out of range."""
    if indices.dtype not in (torch.int64, torch.int32) or not indices.numel() or not indices.is_cpu:
        return None
    flat: np.ndarray = indices.reshape(-1).numpy()
    if flat.min() < 0 or flat.max() >= rows:
        return None
    return flat if flat.dtype == np.int64 else flat.astype(np.int64)


#: so many bytes of rows are worked on at a time, since all passes over them should find them in the cache
_BLOCK = 1 << 16
_scratch = threading.local()


def _blocks(places: np.ndarray, rows: int, row: int) -> Iterator[np.ndarray]:
    """Positions in blocks whose rows of so many bytes fit the cache; no place twice in a block.

    Equal places, below ``rows``, come in their order, in later blocks.
    """
    size = max(64, _BLOCK // max(1, row))
    stamps = getattr(_scratch, "stamps", None)
    if stamps is None or stamps.size < rows:
        stamps = _scratch.stamps = np.empty(rows, np.int64)
    positions = np.arange(places.size)
    left = places
    while True:
        stamps[left[::-1]] = positions[::-1]  # of equal places, the first is written last
        first = stamps.take(left) == positions
        whole = bool(first.all())
        once = positions if whole else positions[first]
        for start in range(0, once.size, size):
            yield once[start:start + size]
        if whole:
            return
        positions = positions[~first]
        left = places.take(positions)


def _as_items(array: np.ndarray) -> np.ndarray:
    """(N, ...) as a vector of items that NumPy moves fastest, where a row is as large as one; else as (N, entries)."""
    size = array.nbytes // array.shape[0]
    if size == array.itemsize:
        return array.reshape(-1)
    kind = {8: np.complex64, 16: np.complex128}.get(size)
    return array.reshape(array.shape[0], -1) if kind is None else array.view(kind).reshape(-1)


def _grad_rows(grad: Tensor, count: int, param: Tensor) -> np.ndarray | None:
    if grad.dtype != param.dtype or tuple(grad.shape) != (count, *param.shape[1:]) or not grad.is_cpu:
        return None
    rows: np.ndarray = grad.numpy()
    return rows


def sparse_adagrad(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    ((param, moment, indices, grad, lr),) = inputs
    if arguments["decay"] != 1 or not _table(param, moment) or moment.shape != param.shape or not _numbers([lr], param):
        return None
    places = _places(indices, param.shape[0])
    if places is None or (gradient := _grad_rows(grad, places.size, param)) is None:
        return None
    kind = gradient.dtype
    table, sums, gradient = map(_as_items, (param.numpy(), moment.numpy(), np.ascontiguousarray(gradient)))
    rate, epsilon = (kind.type(x) for x in (lr.item(), arguments["epsilon"]))
    decay = kind.type(arguments["weight_decay"])
    with np.errstate(all="ignore"):
        for positions in _blocks(places, param.shape[0], table.strides[0]):
            at, moved = places.take(positions), gradient.take(positions, 0)
            new_p, new_h = table.take(at, 0), sums.take(at, 0)
            g, p, h = moved.view(kind), new_p.view(kind), new_h.view(kind)
            if decay:
                g += decay * p
            h += g * g
            sums[at] = new_h
            np.sqrt(h, out=h)
            h += epsilon
            g *= rate
            g /= h
            p += g
            table[at] = new_p
    return [(param, moment)]


def rowwise_sparse_adagrad(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    ((param, moment, indices, grad, lr),) = inputs
    if not _table(param, moment) or moment.shape != param.shape[:1] or param.ndim < 2 or not _numbers([lr], param):
        return None
    places = _places(indices, param.shape[0])
    if places is None or (gradient := _grad_rows(grad, places.size, param)) is None:
        return None
    table, sums = param.numpy().reshape(param.shape[0], -1), moment.numpy()
    gradient = gradient.reshape(places.size, -1)
    rate, epsilon = (table.dtype.type(x) for x in (lr.item(), arguments["epsilon"]))
    decay = table.dtype.type(arguments["weight_decay"])
    with np.errstate(all="ignore"):
        for positions in _blocks(places, param.shape[0], table.strides[0]):
            at, g = places.take(positions), gradient.take(positions, 0)
            p, h = table.take(at, 0), sums.take(at, 0)
            if decay:
                g = g + decay * p
            h += np.einsum("ij,ij->i", g, g) / table.dtype.type(g.shape[1])
            sums[at] = h
            p += (rate / (np.sqrt(h) + epsilon))[:, None] * g
            table[at] = p
    return [(param, moment)]


def scatter_weighted_sum(xp: Any, inputs: Inputs, arguments: Mapping[str, Any], spare: bool) -> Outputs | None:
    row = inputs[0]
    if len(row) != 5:
        return None
    X, weight, indices, rows, lr = row
    if not _table(X) or not _numbers((weight, lr), X) or weight.item() != 1 or rows.dtype != X.dtype or \
            rows.numel() * X.shape[0] != indices.numel() * X.numel():
        return None
    places = _places(indices, X.shape[0])
    if places is None:
        return None
    X.index_add_(0, torch.from_numpy(places), rows.reshape(-1, *X.shape[1:]), alpha=lr.item())
    return [(X,)]


#: several operators at once, and one at a time
DENSE: dict[str, Writer] = {
    "WeightedSum": weighted_sum, "Adam": adam, "Adagrad": adagrad, "MomentumSGDUpdate": momentum}
ROWS: dict[str, Writer] = {
    "SparseAdagrad": sparse_adagrad, "RowWiseSparseAdagrad": rowwise_sparse_adagrad,
    "ScatterWeightedSum": scatter_weighted_sum}


def put_rows(table: Tensor, index: Tensor, rows: Tensor) -> None:
    """Writes rows into a table, at different places."""
    table.index_copy_(0, index.long(), rows.to(table.dtype))


def copied(tensor: Tensor, like: Any) -> Tensor:
    """A copy to be written, in the layout of a gradient if one is given."""
    return copy_like(tensor, like) if isinstance(like, Tensor) else tensor.clone(memory_format=torch.contiguous_format)


def laid_out_alike(tensor: Tensor, like: Any) -> bool:
    """Whether a tensor has the layout of its gradient, if one is given."""
    return not isinstance(like, Tensor) or tensor.stride() == like.stride() or tensor.shape != like.shape
