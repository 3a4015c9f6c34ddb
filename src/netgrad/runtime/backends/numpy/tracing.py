"""Reverse-mode differentiation of NumPy kernels: arrays that remember how they were computed.

A kernel that runs on `Traced` arrays leaves a graph of nodes, one for each function that it called; `vector_jacobian`
walks it backwards. The rules of the functions (`netgrad.runtime.backends.numpy.traced`) are written in traced arrays
themselves, so that a derivative taken while its operands are traced is traced in its turn.

Arrays are never written: an assignment to a part of a traced array makes another array, which it holds from then on.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netgrad.runtime.errors import NoDerivative

_numbers = itertools.count()


class Node:
    """How a value was computed: from which other nodes, and how a gradient goes back to each."""

    __slots__ = ("number", "parents")

    def __init__(self, parents: Sequence[tuple[Node, Callable[[Any], Any]]] = ()) -> None:
        self.number = next(_numbers)
        self.parents = parents


class Traced:
    """An array with the node that computed it; None: a constant."""

    __slots__ = ("node", "value")
    #: NumPy's arrays leave arithmetic with these to them
    __array_ufunc__ = None

    def __init__(self, value: Any, node: Node | None = None) -> None:
        self.value: np.ndarray = np.asarray(value)
        self.node = node

    def now(self) -> Traced:
        """What it holds now, whatever is assigned to it later."""
        return Traced(self.value, self.node)

    def copy(self) -> Traced:
        return self.now()

    # what kernels ask of an array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def device(self) -> Any:
        return getattr(self.value, "device", None)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self.value)))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.constant("int"))

    def __index__(self) -> int:
        return int(self.constant("int").__index__())

    def __float__(self) -> float:
        return float(self.constant("float"))

    def item(self) -> Any:
        return self.constant("a number").item()

    def tolist(self) -> Any:
        return self.constant("a list").tolist()

    def constant(self, what: str) -> np.ndarray:
        """The bare array; raises `NoDerivative` where that would lose a derivative without a word."""
        if self.node is not None and self.value.dtype.kind == "f":
            raise NoDerivative(f"its kernel turns a tensor that a derivative goes by into {what}, where it cannot be "
                               "followed; give it a gradient rule by hand")
        return self.value

    def __repr__(self) -> str:
        return f"Traced({self.value!r})"

    if TYPE_CHECKING:  # arithmetic comes with the rules, from `netgrad.runtime.backends.numpy.traced`

        def __add__(self, other: Any) -> Traced: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __getitem__ = __add__

        def __neg__(self) -> Traced: ...


def computed(value: Any, *parents: tuple[Any, Callable[[Traced], Any]]) -> Traced:
    """A value with a node, if one of what it was computed from has one. Only floating-point values have derivatives."""
    value = np.asarray(value)
    edges = [(parent.node, back) for parent, back in parents if isinstance(parent, Traced) and parent.node is not None]
    return Traced(value, Node(edges) if edges and value.dtype.kind == "f" else None)


def bare(x: Any) -> Any:
    """The NumPy array of a traced one, also in lists and tuples."""
    if isinstance(x, Traced):
        return x.value
    if isinstance(x, (list, tuple)):
        return type(x)(bare(part) for part in x)
    return x


def gradients(outputs: Sequence[tuple[Traced, Traced]], leaves: Sequence[Node]) -> list[Traced | None]:
    """The gradients of leaves, given those of outputs: pairs (output, its gradient). None where nothing flows."""
    found: dict[int, Traced] = {}
    waiting: list[tuple[int, Node]] = []
    least = min((leaf.number for leaf in leaves), default=0)
    ends = {leaf.number for leaf in leaves}

    def add(node: Node, gradient: Traced) -> None:
        if node.number < least:
            return  # made before the leaves: depends on none of them
        if node.number in found:
            found[node.number] = found[node.number] + gradient
        else:
            found[node.number] = gradient
            heapq.heappush(waiting, (-node.number, node))

    for output, gradient in outputs:
        if output.node is not None:
            add(output.node, gradient)
    while waiting:
        number, node = heapq.heappop(waiting)
        if node.number in ends:
            continue
        gradient = found.pop(-number)
        for parent, back in node.parents:
            add(parent, back(gradient))
    return [found.get(leaf.number) for leaf in leaves]


def vector_jacobian(function: Callable[[Any, list[Any]], tuple[Any, ...]], inputs: Sequence[Any], by: Sequence[int],
                    cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """See `netgrad.runtime.backends.Backend.vector_jacobian`."""
    from netgrad.runtime.backends.numpy.traced import XP, astype

    nested = any(isinstance(x, Traced) for x in (*inputs, *cotangents))
    own = [x.now() if isinstance(x, Traced) else None if x is None else Traced(x) for x in inputs]
    for k in by:
        x = own[k]
        assert x is not None
        own[k] = Traced(x.value, Node([(x.node, lambda g: g)] if x.node is not None else ()))
    outputs = function(XP, own)
    pairs = [(y.now() if isinstance(y, Traced) else Traced(y), g if isinstance(g, Traced) else Traced(g))
             for y, g in zip(outputs, cotangents, strict=False) if g is not None]
    leaves = [own[k] for k in by]
    found = gradients(pairs, [leaf.node for leaf in leaves])  # type: ignore[union-attr,misc]
    made = [Traced(np.zeros_like(leaf.value)) if g is None else astype(g, leaf.dtype)  # type: ignore[union-attr]
            for leaf, g in zip(leaves, found, strict=True)]
    return tuple(made) if nested else tuple(g.value for g in made)
