"""Comparisons, logic and bits, and choosing by a truth value."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Any_, Bool, DType, Float
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import forbidden
from netgrad.graph.shapes import ShapeError, TensorType, broadcast, same_as
from netgrad.ops._broadcasting import BROADCASTING, elementwise, expect_like, expect_one_dtype

_NO_SLOPE = forbidden("its output is a truth value and has no slope")


class Comparison(Operator, abstract=True):
    """C = whether A and B stand in a relation, element by element, broadcasting by either rule."""

    inputs = [In("A", "any shape"), In("B", "dtype of A; broadcast against A")]
    outputs = [Out("C", "the broadcast shape, bool", differentiable=False)]
    arguments = BROADCASTING
    shape = broadcast("bool")
    gradient = _NO_SLOPE


class EQ(Comparison):
    """C = (A == B)."""

    kernel = elementwise(lambda xp, A, B: A == B)
    example = Example({"A": [1.0, 2.0, 3.0], "B": [2.0, 2.0, 2.0]}, {"C": [False, True, False]})


class NE(Comparison):
    """C = (A != B)."""

    kernel = elementwise(lambda xp, A, B: A != B)
    example = Example({"A": [1.0, 2.0, 3.0], "B": [2.0, 2.0, 2.0]}, {"C": [True, False, True]})


class LT(Comparison):
    """C = (A < B)."""

    kernel = elementwise(lambda xp, A, B: A < B)
    example = Example({"A": [1.0, 2.0, 3.0], "B": [2.0, 2.0, 2.0]}, {"C": [True, False, False]})


class LE(Comparison):
    """C = (A <= B)."""

    kernel = elementwise(lambda xp, A, B: A <= B)
    example = Example({"A": [1.0, 2.0, 3.0], "B": [2.0, 2.0, 2.0]}, {"C": [True, True, False]})


class GT(Comparison):
    """C = (A > B)."""

    kernel = elementwise(lambda xp, A, B: A > B)
    example = Example({"A": [1.0, 2.0, 3.0], "B": [2.0, 2.0, 2.0]}, {"C": [False, False, True]})


class GE(Comparison):
    """C = (A >= B)."""

    kernel = elementwise(lambda xp, A, B: A >= B)
    example = Example({"A": [1.0, 2.0, 3.0], "B": [2.0, 2.0, 2.0]}, {"C": [False, True, True]})


class Logical(Comparison, abstract=True):
    """C from the truth values A and B, element by element."""

    inputs = [In("A", "any shape, bool"), In("B", "bool; broadcast against A")]
    inplace = {(0, 0)}


class And(Logical):
    """C = A and B."""

    kernel = elementwise(lambda xp, A, B: xp.logical_and(A, B))
    example = Example({"A": [True, True, False], "B": [True, False, False]}, {"C": [True, False, False]})


class Or(Logical):
    """C = A or B."""

    kernel = elementwise(lambda xp, A, B: xp.logical_or(A, B))
    example = Example({"A": [True, True, False], "B": [True, False, False]}, {"C": [True, True, False]})


class Xor(Logical):
    """C = either A or B, and not both."""

    kernel = elementwise(lambda xp, A, B: xp.logical_xor(A, B))
    example = Example({"A": [True, True, False], "B": [True, False, False]}, {"C": [False, True, False]})


class Not(Operator):
    """Y = not X."""

    inputs = [In("X", "any shape, bool")]
    outputs = [Out("Y", "like X", differentiable=False)]
    shape = same_as(0)
    gradient = _NO_SLOPE
    example = Example({"X": [True, False]}, {"Y": [False, True]})

    def kernel(xp: Any, X: Any) -> Any:
        return xp.logical_not(X)


class Bitwise(Operator, abstract=True):
    """C from the bits of A and B, element by element, broadcasting by either rule."""

    inputs = [In("A", "any shape, integer or bool"), In("B", "dtype of A; broadcast against A")]
    outputs = [Out("C", "the broadcast shape, dtype of A", differentiable=False)]
    arguments = BROADCASTING
    inplace = {(0, 0)}
    shape = broadcast()
    gradient = forbidden("bits have no slope")


class BitwiseAnd(Bitwise):
    """C = the bits that A and B share."""

    kernel = elementwise(lambda xp, A, B: A & B)
    example = Example({"A": [6, 5], "B": [3, 1]}, {"C": [2, 1]})


class BitwiseOr(Bitwise):
    """C = the bits that A or B has."""

    kernel = elementwise(lambda xp, A, B: A | B)
    example = Example({"A": [6, 5], "B": [3, 1]}, {"C": [7, 5]})


class BitwiseXor(Bitwise):
    """C = the bits in which A and B differ."""

    kernel = elementwise(lambda xp, A, B: A ^ B)
    example = Example({"A": [6, 5], "B": [3, 1]}, {"C": [5, 4]})


class Where(Operator):
    """Z = X where C is true, Y elsewhere; with broadcast_on_rows, C chooses whole rows."""

    inputs = [In("C", "shape of X, or (N,) with broadcast_on_rows; bool"), In("X", "(N, ...)"), In("Y", "like X")]
    outputs = [Out("Z", "like X")]
    arguments = [Bool("broadcast_on_rows", False, "C has one truth value for each row")]
    shape = same_as(1)
    gradient = forbidden("Caffe2 has none: multiply by the condition and by its negation, cast to float, instead")
    example = Example({"C": [True, False], "X": [1.0, 2.0], "Y": [3.0, 4.0]}, {"Z": [1.0, 4.0]})

    def kernel(xp: Any, C: Any, X: Any, Y: Any, *, broadcast_on_rows: bool) -> Any:
        expect_like(Y, X, "Y", "X")
        expect_one_dtype(X, Y, "X", "Y")
        if broadcast_on_rows:
            if tuple(C.shape) != tuple(X.shape[:1]):
                raise ShapeError(f"C has shape {tuple(C.shape)}, expected {tuple(X.shape[:1])}: one for each row of X")
            C = xp.reshape(C, (*C.shape, *(1,) * (len(X.shape) - 1)))
        else:
            expect_like(C, X, "C", "X")
        return xp.where(C, X, Y)


class IsMemberOf(Operator):
    """Y = whether X is one of the values of ``value``."""

    inputs = [In("X", "any shape; int32, int64, bool or string")]
    outputs = [Out("Y", "shape of X, bool", differentiable=False)]
    arguments = [
        Any_("value", (), "the set, a list of integers or strings"),
        DType("dtype", 0, "the type the values are read as; that of X unless given"),
    ]
    host = True
    gradient = _NO_SLOPE
    example = Example({"X": [1, 2, 3]}, {"Y": [True, False, True]}, {"value": [1, 3]})

    def shape(X: TensorType, **_: Any) -> TensorType:
        return X.with_dtype("bool")

    def kernel(xp: Any, X: Any, *, value: Any) -> Any:
        members = set(value if isinstance(value, list | tuple) else [value])
        members |= {m.encode() for m in members if isinstance(m, str)}
        flat = xp.reshape(X, (-1,)).tolist()
        return xp.reshape(xp.asarray([x in members for x in flat], dtype=xp.bool), X.shape)


class IsNaN(Operator):
    """Y = 1 where X is not a number, 0 elsewhere."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "shape of X, uint8", differentiable=False)]
    example = Example({"X": [1.0, float("nan")]}, {"Y": Tensor([0, 1], "uint8")})

    def shape(X: TensorType) -> TensorType:
        return X.with_dtype("uint8")

    def kernel(xp: Any, X: Any) -> Any:
        return xp.astype(xp.isnan(X), xp.uint8)


class ReplaceNaN(Operator):
    """Y = X, and ``value`` where X is not a number."""

    inputs = [In("X", "any shape, float")]
    outputs = [Out("Y", "like X")]
    arguments = [Float("value", 0.0)]
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = forbidden("Caffe2 has none")
    example = Example({"X": [1.0, float("nan")]}, {"Y": [1.0, -1.0]}, {"value": -1.0})

    def kernel(xp: Any, X: Any, *, value: float) -> Any:
        return xp.where(xp.isnan(X), xp.full_like(X, value), X)
