"""The functions of the array API on traced arrays, each with the rule by which gradients go back through it.

A rule receives the gradient of the result and returns that of an operand, both traced; so rules are differentiable, and
derivatives of any order come from the same table. Functions that are in no table, and whose operands are constants, are
those of NumPy; a derivative that would have to go through one is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netgrad.runtime.backends.numpy.namespace import Namespace
from netgrad.runtime.backends.numpy.tracing import Traced, bare, computed
from netgrad.runtime.errors import NoDerivative

_numpy = Namespace()

#: functions whose results do not depend differentiably on their operands
_CONSTANT = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "can_cast", "ceil", "count_nonzero", "dtype_name", "dtype_of",
    "empty_like", "equal", "finfo", "floor", "full_like", "greater", "greater_equal", "iinfo", "isdtype", "isfinite",
    "isinf", "isnan", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "nonzero",
    "not_equal", "ones_like", "result_type", "round", "searchsorted", "sign", "signbit", "trunc", "zeros_like",
})


def traced(x: Any) -> Traced:
    """What an operand holds now."""
    return x.now() if isinstance(x, Traced) else Traced(x)


def _like(x: Any, other: Any) -> Traced:
    """An operand beside another one: Python's numbers take its dtype."""
    if isinstance(x, (bool, int, float)) and isinstance(other, Traced):
        kind = other.dtype if not isinstance(x, float) or other.dtype.kind == "f" else np.dtype(float)
        return Traced(np.asarray(x, dtype=kind))
    return traced(x)


def fold(g: Traced, shape: tuple[int, ...]) -> Traced:
    """The gradient of an operand that was broadcast: summed over the axes that it spanned."""
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    axes = (*range(extra), *(extra + k for k, n in enumerate(shape) if n == 1 and g.shape[extra + k] != 1))
    return reshape(sum_(g, axis=axes) if axes else g, shape)


# ---- elementwise


def _binary(function: Callable[..., Any], by_first: Callable[..., Any], by_second: Callable[..., Any],
            ) -> Callable[[Any, Any], Traced]:
    """``by_first(g, a, b, y)`` is the gradient of the first operand before folding."""

    def call(a: Any, b: Any) -> Traced:
        a, b = _like(a, b), _like(b, a)
        with np.errstate(all="ignore"):
            y = Traced(function(a.value, b.value))
        made = computed(y.value, (a, lambda g: fold(by_first(g, a, b, made), a.shape)),
                        (b, lambda g: fold(by_second(g, a, b, made), b.shape)))
        return made

    return call


def _tie(g: Traced, a: Traced, b: Traced, wins: Callable[[Any, Any], Any]) -> Traced:
    """The share of an operand that is the chosen one; in a tie both have half."""
    share = np.where(a.value == b.value, 0.5, wins(a.value, b.value)).astype(g.dtype)
    return g * Traced(share)


add = _binary(np.add, lambda g, a, b, y: g, lambda g, a, b, y: g)
subtract = _binary(np.subtract, lambda g, a, b, y: g, lambda g, a, b, y: -g)
multiply = _binary(np.multiply, lambda g, a, b, y: g * b, lambda g, a, b, y: g * a)
divide = _binary(np.true_divide, lambda g, a, b, y: g / b, lambda g, a, b, y: -g * y / b)
maximum = _binary(np.maximum, lambda g, a, b, y: _tie(g, a, b, np.greater),
                  lambda g, a, b, y: _tie(g, b, a, np.greater))
minimum = _binary(np.minimum, lambda g, a, b, y: _tie(g, a, b, np.less),
                  lambda g, a, b, y: _tie(g, b, a, np.less))
atan2 = _binary(np.arctan2, lambda g, a, b, y: g * b / (a * a + b * b), lambda g, a, b, y: -g * a / (a * a + b * b))


def _safe_log(a: Traced) -> Traced:
    """log a where a is positive, 0 elsewhere: how the limit of a ** b log a is taken at 0."""
    positive = a.value > 0
    return where(positive, log(where(positive, a, Traced(np.ones_like(a.value)))), Traced(np.zeros_like(a.value)))


pow_: Callable[[Any, Any], Traced] = _binary(
    np.power,
    lambda g, a, b, y: where(b.value == 0, Traced(np.zeros_like(g.value)), g * b * pow_(a, b - 1)),
    lambda g, a, b, y: g * y * _safe_log(a))


def _unary(function: Callable[..., Any], slope: Callable[[Traced, Traced], Any]) -> Callable[[Any], Traced]:
    """``slope(x, y)`` is dy/dx."""

    def call(x: Any) -> Traced:
        x = traced(x)
        with np.errstate(all="ignore"):
            made = computed(function(x.value), (x, lambda g: g * slope(x, made)))
        return made

    return call


negative = _unary(np.negative, lambda x, y: -1.0)
exp = _unary(np.exp, lambda x, y: y)
log = _unary(np.log, lambda x, y: 1 / x)
sqrt = _unary(np.sqrt, lambda x, y: 0.5 / y)
sin = _unary(np.sin, lambda x, y: cos(x))
cos: Callable[[Any], Traced] = _unary(np.cos, lambda x, y: -sin(x))
sinh = _unary(np.sinh, lambda x, y: cosh(x))
cosh: Callable[[Any], Traced] = _unary(np.cosh, lambda x, y: sinh(x))
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "negative": negative, "positive": _unary(np.positive, lambda x, y: 1.0), "exp": exp, "log": log, "sqrt": sqrt,
    "sin": sin, "cos": cos, "sinh": sinh, "cosh": cosh,
    "expm1": _unary(np.expm1, lambda x, y: y + 1), "log1p": _unary(np.log1p, lambda x, y: 1 / (1 + x)),
    "log2": _unary(np.log2, lambda x, y: 1 / (x * math.log(2))),
    "log10": _unary(np.log10, lambda x, y: 1 / (x * math.log(10))),
    "abs": _unary(np.abs, lambda x, y: Traced(np.sign(x.value))), "square": _unary(np.square, lambda x, y: 2 * x),
    "reciprocal": _unary(np.reciprocal, lambda x, y: -y * y),
    "tan": _unary(np.tan, lambda x, y: 1 + y * y), "tanh": _unary(np.tanh, lambda x, y: 1 - y * y),
    "asin": _unary(np.arcsin, lambda x, y: 1 / sqrt(1 - x * x)),
    "acos": _unary(np.arccos, lambda x, y: -1 / sqrt(1 - x * x)),
    "atan": _unary(np.arctan, lambda x, y: 1 / (1 + x * x)),
    "asinh": _unary(np.arcsinh, lambda x, y: 1 / sqrt(1 + x * x)),
    "acosh": _unary(np.arccosh, lambda x, y: 1 / sqrt(x * x - 1)),
    "atanh": _unary(np.arctanh, lambda x, y: 1 / (1 - x * x)),
    "erf": _unary(_numpy.erf, lambda x, y: 2 / math.sqrt(math.pi) * exp(-x * x)),
    "add": add, "subtract": subtract, "multiply": multiply, "divide": divide, "maximum": maximum, "minimum": minimum,
    "pow": pow_, "atan2": atan2,
}


def where(condition: Any, a: Any, b: Any) -> Traced:
    a, b = _like(a, b), _like(b, a)
    chosen = np.asarray(bare(condition), dtype=bool)

    def part(mask: np.ndarray, x: Traced) -> Callable[[Traced], Traced]:
        return lambda g: fold(where(mask, g, Traced(np.zeros((), g.dtype))), x.shape)

    return computed(np.where(chosen, a.value, b.value), (a, part(chosen, a)), (b, part(~chosen, b)))


def clip(x: Any, min: Any = None, max: Any = None) -> Traced:
    if isinstance(min, Traced) or isinstance(max, Traced):
        x = x if min is None else maximum(x, min)
        return traced(x) if max is None else minimum(x, max)
    x = traced(x)
    inside = np.ones(x.shape, bool)
    if min is not None:
        inside &= x.value >= min
    if max is not None:
        inside &= x.value <= max
    return computed(_numpy.clip(x.value, min, max), (x, lambda g: g * Traced(inside.astype(g.dtype))))


def astype(x: Any, dtype: Any, **options: Any) -> Traced:
    x = traced(x)
    return x if x.dtype == dtype else computed(x.value.astype(dtype), (x, lambda g: astype(g, x.dtype)))


# ---- reductions


def _axes(x: Traced, axis: Any) -> tuple[int, ...]:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(int(a) % x.ndim for a in axes)


def _spread(g: Traced, x: Traced, axes: tuple[int, ...], shape: tuple[int, ...] | None = None) -> Traced:
    """A reduced gradient laid over the shape again from which it was reduced."""
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    return broadcast_to(reshape(g, kept), shape or x.shape)


def sum_(x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Traced:
    x = traced(x)
    if dtype is not None and x.dtype != np.dtype(dtype):
        x = astype(x, dtype)
    axes = _axes(x, axis)
    value = _numpy.sum(x.value, axis=axes, keepdims=keepdims, dtype=dtype)
    return computed(value, (x, lambda g: _spread(g, x, axes)))


def mean(x: Any, *, axis: Any = None, keepdims: bool = False) -> Traced:
    x = traced(x)
    return sum_(x, axis=axis, keepdims=keepdims) / float(math.prod(x.shape[a] for a in _axes(x, axis)))


def _extreme(function: Callable[..., Any]) -> Callable[..., Traced]:
    def call(x: Any, *, axis: Any = None, keepdims: bool = False) -> Traced:
        x = traced(x)
        axes = _axes(x, axis)
        whole = function(x.value, axis=axes, keepdims=True)
        hits = x.value == whole
        share = hits / np.maximum(hits.sum(axis=axes, keepdims=True), 1)  # equal ones share
        value = whole if keepdims else function(x.value, axis=axes)
        return computed(value, (x, lambda g: _spread(g, x, axes) * Traced(share.astype(g.dtype))))

    return call


def prod(x: Any, *, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Traced:
    x = traced(x)
    if x.node is not None and not np.all(x.value):
        raise NoDerivative("its kernel takes a product that holds a zero, whose derivative is not written; give it a "
                           "gradient rule by hand")
    axes = _axes(x, axis)
    value = _numpy.prod(x.value, axis=axes, keepdims=keepdims)
    made = computed(value, (x, lambda g: _spread(g * made, x, axes) / x))
    return made


def cumulative_sum(x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Traced:
    x = traced(x)
    value = _numpy.cumulative_sum(x.value, axis=axis, dtype=dtype, include_initial=include_initial)
    along = 0 if axis is None else axis % x.ndim

    def back(g: Traced) -> Traced:
        g = flip(cumulative_sum(flip(g, axis=along), axis=along), axis=along)
        return g[(slice(None),) * along + (slice(1, None),)] if include_initial else g

    return computed(value, (x, back))


# ---- shapes


def reshape(x: Any, shape: Sequence[int], **options: Any) -> Traced:
    x = traced(x)
    return computed(np.reshape(x.value, shape), (x, lambda g: reshape(g, x.shape)))


def permute_dims(x: Any, axes: Sequence[int]) -> Traced:
    x = traced(x)
    back = tuple(int(k) for k in np.argsort([a % x.ndim for a in axes])) if x.ndim else ()
    return computed(np.transpose(x.value, axes), (x, lambda g: permute_dims(g, back)))


def moveaxis(x: Any, source: Any, destination: Any) -> Traced:
    x = traced(x)
    return computed(np.moveaxis(x.value, source, destination), (x, lambda g: moveaxis(g, destination, source)))


def matrix_transpose(x: Any) -> Traced:
    x = traced(x)
    return computed(np.swapaxes(x.value, -1, -2), (x, matrix_transpose))


def expand_dims(x: Any, *, axis: int = 0) -> Traced:
    x = traced(x)
    return reshape(x, np.expand_dims(x.value, axis).shape)


def squeeze(x: Any, axis: Any) -> Traced:
    x = traced(x)
    return reshape(x, np.squeeze(x.value, axis).shape)


def broadcast_to(x: Any, shape: Sequence[int]) -> Traced:
    x = traced(x)
    return computed(np.broadcast_to(x.value, tuple(shape)), (x, lambda g: fold(g, x.shape)))


def flip(x: Any, *, axis: Any = None) -> Traced:
    x = traced(x)
    return computed(np.flip(x.value, axis), (x, lambda g: flip(g, axis=axis)))


def tile(x: Any, repetitions: Sequence[int]) -> Traced:
    x = traced(x)
    rank = max(x.ndim, len(repetitions))
    times = (1,) * (rank - len(repetitions)) + tuple(int(r) for r in repetitions)
    sizes = (1,) * (rank - x.ndim) + x.shape
    split = tuple(n for pair in zip(times, sizes, strict=True) for n in pair)
    once = tuple(n for size in sizes for n in (1, size))
    return reshape(broadcast_to(reshape(x, once), split), tuple(t * s for t, s in zip(times, sizes, strict=True)))


def concat(arrays: Sequence[Any], *, axis: int | None = 0) -> Traced:
    parts = [traced(x) for x in arrays]
    if axis is None:
        parts, axis = [reshape(x, (-1,)) for x in parts], 0
    value = np.concatenate([x.value for x in parts], axis=axis)
    along = axis % value.ndim
    edges, start = [], 0
    for x in parts:
        key = (slice(None),) * along + (slice(start, start + x.shape[along]),)
        edges.append((x, lambda g, key=key: g[key]))
        start += x.shape[along]
    return computed(value, *edges)


def stack(arrays: Sequence[Any], *, axis: int = 0) -> Traced:
    parts = [traced(x) for x in arrays]
    along = axis % (parts[0].ndim + 1)
    return concat([reshape(x, (*x.shape[:along], 1, *x.shape[along:])) for x in parts], axis=along)


def repeat(x: Any, repeats: Any, *, axis: int | None = None) -> Traced:
    x = traced(x)
    places = np.repeat(np.arange(x.size if axis is None else x.shape[axis]), np.asarray(bare(repeats)))
    return take(reshape(x, (-1,)) if axis is None else x, places, axis=axis or 0)


# ---- indexing


def _is_basic(key: Any) -> bool:
    return all(part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice))
               for part in (key if isinstance(key, tuple) else (key,)))


def getitem(x: Traced, key: Any) -> Traced:
    x, key = x.now(), bare(key)
    return computed(x.value[key], (x, lambda g: put(g, key, x.shape)))


def put(values: Any, key: Any, shape: tuple[int, ...]) -> Traced:
    """The adjoint of `getitem`: zeros, to which values are added at a key."""
    values = traced(values)
    out = np.zeros(shape, values.dtype)
    if _is_basic(key):
        out[key] = values.value
    else:
        np.add.at(out, key, values.value)
    return computed(out, (values, lambda g: getitem(g, key)))


def setitem(x: Traced, key: Any, values: Any) -> None:
    before, values, key = x.now(), _like(values, x), bare(key)
    value = np.array(before.value)
    value[key] = values.value
    after = computed(value, (before, lambda g: _without(g, key)),
                     (values, lambda g: fold(getitem(g, key), values.shape)))
    x.value, x.node = after.value, after.node


def _without(g: Traced, key: Any) -> Traced:
    rest = np.ones(g.shape, g.dtype)
    rest[key] = 0
    return g * Traced(rest)


def take(x: Any, indices: Any, *, axis: int = 0) -> Traced:
    x = traced(x)
    index = np.asarray(bare(indices))
    return getitem(x, (slice(None),) * (axis % x.ndim) + (index,))


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Traced:
    x, index = traced(x), np.asarray(bare(indices))
    along = axis % x.ndim
    shape = list(np.broadcast_shapes((*x.shape[:along], 1, *x.shape[along + 1:]),
                                     (*index.shape[:along], 1, *index.shape[along + 1:])))
    shape[along] = index.shape[along]
    x = broadcast_to(x, (*shape[:along], x.shape[along], *shape[along + 1:]))
    key = list(np.indices(shape, sparse=True))
    key[along] = np.broadcast_to(index, shape)
    return getitem(x, tuple(key))


def scatter_add(target: Any, index: Any, values: Any) -> Traced:
    target, values, index = traced(target), traced(values), np.asarray(bare(index))
    return computed(_numpy.scatter_add(target.value, index, values.value), (target, lambda g: g),
                    (values, lambda g: astype(getitem(g, (index,)), values.dtype)))


def index_put(target: Any, index: Any, values: Any) -> Traced:
    target, values, index = traced(target), traced(values), np.asarray(bare(index))
    last = np.zeros(target.shape[:1], np.int64)
    last[index] = np.arange(index.size).reshape(index.shape)
    wins = (last[index] == np.arange(index.size).reshape(index.shape)).reshape(index.shape + (1,) * (target.ndim - 1))
    return computed(_numpy.index_put(target.value, index, values.value), (target, lambda g: _without(g, (index,))),
                    (values, lambda g: getitem(g, (index,)) * Traced(wins.astype(g.dtype))))


def sort(x: Any, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Traced:
    x = traced(x)
    return take_along_axis(x, _numpy.argsort(x.value, axis=axis, descending=descending, stable=stable), axis)


# ---- products


def matmul(a: Any, b: Any) -> Traced:
    a, b = traced(a), traced(b)
    if a.ndim == 1:
        return squeeze(matmul(expand_dims(a, axis=0), b), -2 if b.ndim > 1 else 0)
    if b.ndim == 1:
        return squeeze(matmul(a, expand_dims(b, axis=1)), -1)
    return computed(np.matmul(a.value, b.value), (a, lambda g: fold(matmul(g, matrix_transpose(b)), a.shape)),
                    (b, lambda g: fold(matmul(matrix_transpose(a), g), b.shape)))


def einsum(equation: str, *operands: Any) -> Traced:
    arrays = [traced(x) for x in operands]
    terms, arrow, result = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    if not arrow or "." in equation or any(len(set(term)) < len(term) for term in letters):
        raise NoDerivative(f"the derivative of einsum {equation!r} is not written; name the result's axes, and none "
                           "twice in one operand")

    def back(k: int) -> Callable[[Traced], Traced]:
        others = [(letters[j], arrays[j]) for j in range(len(arrays)) if j != k]
        known = set(result).union(*(term for term, _ in others))
        alone = "".join(c for c in letters[k] if c not in known)

        def by(g: Traced) -> Traced:
            ones = [(alone, Traced(np.ones([arrays[k].shape[letters[k].index(c)] for c in alone], g.dtype)))] \
                if alone else []
            rest = [(result, g), *others, *ones]
            return einsum(",".join(term for term, _ in rest) + "->" + letters[k], *(x for _, x in rest))

        return by

    return computed(_numpy.einsum(equation, *(x.value for x in arrays)), *((x, back(k)) for k, x in enumerate(arrays)))


def asarray(x: Any, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Traced:
    if isinstance(x, Traced):
        return astype(x, dtype) if dtype is not None and x.dtype != np.dtype(dtype) else x.now()
    if isinstance(x, (list, tuple)) and any(isinstance(part, Traced) for part in x):
        made = stack([asarray(part) for part in x])
        return made if dtype is None else astype(made, dtype)
    return Traced(np.array(x, dtype=dtype))


def _same(x: Any, *rest: Any, **options: Any) -> Traced:
    return traced(x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **_ELEMENTWISE, "where": where, "clip": clip, "astype": astype, "sum": sum_, "mean": mean, "max": _extreme(np.max),
    "min": _extreme(np.min), "prod": prod, "cumulative_sum": cumulative_sum, "reshape": reshape,
    "permute_dims": permute_dims, "moveaxis": moveaxis, "matrix_transpose": matrix_transpose,
    "expand_dims": expand_dims, "squeeze": squeeze, "broadcast_to": broadcast_to, "flip": flip, "tile": tile,
    "concat": concat, "stack": stack, "repeat": repeat, "take": take, "take_along_axis": take_along_axis,
    "scatter_add": scatter_add, "index_put": index_put, "sort": sort, "matmul": matmul, "einsum": einsum,
    "asarray": asarray, "ascontiguous": _same,
}


def _constant(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy without a rule: its results are constants, which is refused where it would be wrong."""

    def wrapped(x: Any) -> Any:
        if isinstance(x, (np.ndarray, np.generic)):
            return Traced(x)
        if isinstance(x, tuple):
            parts = [wrapped(part) for part in x]
            return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
        return x

    def call(*operands: Any, **options: Any) -> Any:
        if name not in _CONSTANT:
            for x in (*operands, *options.values()):
                for part in x if isinstance(x, (list, tuple)) else (x,):
                    if isinstance(part, Traced) and part.node is not None and part.dtype.kind == "f":
                        raise NoDerivative(f"its kernel calls {name}, through which derivatives cannot be followed; "
                                           "give it a gradient rule by hand")
        return wrapped(function(*(bare(x) for x in operands), **{k: bare(x) for k, x in options.items()}))

    return call


class TracingNamespace:
    """``xp`` on traced arrays."""

    def __getattr__(self, name: str) -> Any:
        found: Any = _FUNCTIONS.get(name)
        if found is None:
            found = getattr(_numpy, name)
            if callable(found) and not isinstance(found, type):
                found = _constant(name, found)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return "<xp: NumPy, traced>"

    @staticmethod
    def to_numpy(x: Any) -> np.ndarray:
        return x.constant("an array outside of xp") if isinstance(x, Traced) else np.asarray(x)

    @staticmethod
    def from_numpy(a: Any, like: Any = None) -> Traced:
        return Traced(a)


XP = TracingNamespace()


def _methods() -> None:
    """Gives traced arrays their operators."""
    pairs = {"add": add, "sub": subtract, "mul": multiply, "truediv": divide, "pow": pow_, "matmul": matmul}
    for name, function in pairs.items():
        setattr(Traced, f"__{name}__", lambda a, b, f=function: f(a, b))
        setattr(Traced, f"__r{name}__", lambda a, b, f=function: f(b, a))
    for name in ("lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "xor", "mod", "floordiv"):
        plain = getattr(operator, name)
        method = name.rstrip("_")
        setattr(Traced, f"__{method}__", lambda a, b, f=plain: _whole(f, a, b))
        if method in ("and", "or", "xor", "mod", "floordiv"):
            setattr(Traced, f"__r{method}__", lambda a, b, f=plain: _whole(f, b, a))
    for name, found in {"__neg__": negative, "__abs__": _ELEMENTWISE["abs"], "__getitem__": getitem,
                        "__setitem__": setitem, "__invert__": lambda x: Traced(~x.value),
                        "__hash__": object.__hash__, "T": property(matrix_transpose), "mT": property(matrix_transpose),
                        }.items():
        setattr(Traced, name, found)


def _whole(function: Callable[..., Any], a: Any, b: Any) -> Traced:
    """Comparisons and arithmetic of whole numbers, whose results are constants."""
    found = np.asarray(function(bare(a), bare(b)))
    if found.dtype.kind == "f":
        for x in (a, b):
            if isinstance(x, Traced):
                x.constant(f"the result of {function.__name__}")
    return Traced(found)


_methods()
