"""Arithmetic on two or more tensors, broadcasting, and its derivatives."""

from __future__ import annotations

import math
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import Arity, In, Operator, Out
from netgrad.graph.example import Example
from netgrad.graph.rules import Rule, emits, pass_through
from netgrad.graph.shapes import TensorType, broadcast, same_as
from netgrad.ops._broadcasting import (
    BROADCASTING,
    align,
    elementwise,
    elementwise_gradient,
    expect_like,
    expect_one_dtype,
    fold,
    laid_shape,
)
from netgrad.ops._second import of_product, of_quotient, of_sum


class Binary(Operator, abstract=True):
    """C from A and B, element by element, broadcasting by either rule."""

    inputs = [In("A", "any shape, numeric"), In("B", "dtype of A; broadcast against A")]
    outputs = [Out("C", "the broadcast shape, dtype of A")]
    arguments = BROADCASTING
    inplace = {(0, 0), (1, 0)}
    shape = broadcast()


class BinaryGradient(Operator, abstract=True):
    """dA and dB from dC, each folded to the shape of its operand."""

    inputs = [In("dC", "shape of C, numeric"), In("A"), In("B")]
    outputs = [Out("dA", "like A"), Out("dB", "like B")]
    arguments = BROADCASTING
    inplace = {(0, 0), (0, 1)}
    shape = same_as(1, 2)
    inplace_keeps_shape = False
    internal = True


class Add(Binary):
    """C = A + B."""

    gradient = emits("AddGradient", "GO0 I0 I1", "GI0 GI1")
    kernel = elementwise(lambda xp, A, B: A + B)
    example = Example(
        {"A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"C": [[2.0, 4.0, 7.0], [5.0, 7.0, 10.0]]})


class AddGradient(BinaryGradient):
    """dA = dC and dB = dC, each summed over the axes its operand was broadcast along."""

    inputs = [In("dC", "shape of C, numeric"), In("A", shape_only=True), In("B", shape_only=True)]
    shares = {(0, 0), (0, 1)}
    kernel = elementwise_gradient(lambda xp, dC, A, B: (dC, dC))
    gradient = of_sum("Add")
    example = Example(
        {"dC": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"dA": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "dB": [0.0, 0.75, 5.0]})


class Sub(Binary):
    """C = A - B."""

    gradient = emits("SubGradient", "GO0 I0 I1", "GI0 GI1")
    kernel = elementwise(lambda xp, A, B: A - B)
    example = Example(
        {"A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"C": [[0.0, 0.0, -1.0], [3.0, 3.0, 2.0]]})


_opposite = elementwise_gradient(lambda xp, dC, A, B: (dC, -dC))


class SubGradient(BinaryGradient):
    """dA = dC and dB = -dC, each summed over the axes its operand was broadcast along."""

    inputs = [In("dC", "shape of C, numeric"), In("A", shape_only=True), In("B", shape_only=True)]
    shares = {(0, 0)}
    gradient = of_sum("Sub")
    example = Example(
        {"dC": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"dA": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "dB": [0.0, -0.75, -5.0]})

    def kernel(xp: Any, dC: Any, A: Any, B: Any, *, op: Any, broadcast: bool, axis: int, axis_str: str,
               order: str) -> Any:
        if op.inputs[1] == op.inputs[2]:
            # x - x: the two add up to nothing, which infinities would turn into NaN
            dC = xp.where(xp.isfinite(dC), dC, xp.zeros_like(dC))
        return _opposite(xp, dC, A, B, broadcast=broadcast, axis=axis, axis_str=axis_str, order=order)


class Mul(Binary):
    """C = A B."""

    gradient = emits("MulGradient", "GO0 I0 I1", "GI0 GI1")
    kernel = elementwise(lambda xp, A, B: A * B)
    example = Example(
        {"A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"C": [[1.0, 4.0, 12.0], [4.0, 10.0, 24.0]]})


class MulGradient(BinaryGradient):
    """dA = dC B and dB = dC A, each summed over the axes its operand was broadcast along."""

    kernel = elementwise_gradient(lambda xp, dC, A, B: (dC * B, dC * A))
    gradient = of_product
    example = Example(
        {"dC": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"dA": [[1.0, 1.0, 8.0], [-1.0, 0.5, 12.0]], "dB": [-3.0, 2.25, 24.0]})


def _divide(xp: Any, A: Any, B: Any) -> Any:
    if xp.isdtype(A.dtype, "integral"):
        return xp.sign(A) * xp.sign(B) * (xp.abs(A) // xp.abs(B))
    return A / B


class Div(Binary):
    """C = A / B; integers are divided towards zero."""

    inplace = {(0, 0)}
    gradient = emits("DivGradient", "GO0 I0 I1 O0", "GI0 GI1")
    kernel = elementwise(_divide)
    example = Example(
        {"A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0]},
        {"C": [[1.0, 1.0, 0.75], [4.0, 2.5, 1.5]]})


class DivGradient(BinaryGradient):
    """dA = dC / B and dB = -dC C / B, each summed over the axes its operand was broadcast along.

    The short form has the inputs B, C and dC, in this order; dA has the shape of C.
    """

    inputs = [In("dC", "shape of C, numeric"), In("A", "left out in the short form", shape_only=True), In("B"),
              In("C", "the quotient", optional=True)]
    inplace = {(0, 0)}
    gradient = of_quotient
    example = Example(
        {"dC": [[1.0, 0.5, 2.0], [-1.0, 0.25, 3.0]], "A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [1.0, 2.0, 4.0],
         "C": [[1.0, 1.0, 0.75], [4.0, 2.5, 1.5]]},
        {"dA": [[1.0, 0.25, 0.5], [-1.0, 0.125, 0.75]], "dB": [3.0, -0.5625, -1.5]})

    def shape(*types: TensorType, **_: Any) -> tuple[TensorType, TensorType]:
        return (types[1], types[0]) if len(types) == 3 else (types[1], types[2])

    def shape_only(arguments: Any, count: int) -> set[int]:
        return {1} if count == 4 else set()

    def kernel(xp: Any, dC: Any, A: Any, B: Any, C: Any = None, *,
               broadcast: bool, axis: int, axis_str: str, order: str) -> Any:
        if C is None:
            B, C, dC = dC, A, B
            A = C
        return _divide_gradient(xp, dC, A, B, C, broadcast=broadcast, axis=axis, axis_str=axis_str, order=order)


_divide_gradient = elementwise_gradient(
    lambda xp, dC, A, B, C: (_divide(xp, dC, B), _divide(xp, -dC * expect_like(C, dC, "C", "dC"), B)))


class Pow(Operator):
    """Y = X ^ exponent; the exponent is the argument, or a second input that broadcasts against X."""

    inputs = [In("X", "any shape, float"), In("exponent", "dtype of X; instead of the argument", optional=True)]
    outputs = [Out("Y", "like X")]
    arguments = [Float("exponent", None, "the exponent, where there is no second input", as_="power"), *BROADCASTING]
    inplace = {(0, 0), (1, 0)}
    shape = broadcast()
    example = Example({"X": [1.0, 2.0, 3.0]}, {"Y": [1.0, 4.0, 9.0]}, {"exponent": 2.0})

    def kernel(xp: Any, X: Any, exponent: Any = None, *, power: float | None,
               broadcast: bool, axis: int, axis_str: str, order: str) -> Any:
        if exponent is not None:
            return X ** align(xp, X, exponent, broadcast, axis, axis_str, order)
        if power is None:
            raise ValueError("Pow has neither the argument exponent nor a second input: give one of them")
        return X**power

    def gradient(op: Rule) -> None:
        op.copy_arguments = False
        if op.has_arg("exponent"):
            _power_gradient(op)
        elif op.num_inputs == 2:
            _tensor_power_gradient(op)
        else:
            raise op.fail("Pow has neither the argument exponent nor a second input: give one of them")


def _power_gradient(op: Rule) -> None:
    """dX = exponent X^(exponent - 1) dY; in place, X^(exponent - 1) is a power of Y, unless Y has lost X's sign."""
    exponent = float(op.arg("exponent"))
    in_place = op.input_name(0) == op.output_name(0)
    if in_place and exponent != 0 and not op.saves and not (op.in_pass and exponent % 2 == 0):
        op.emit("Pow", [op.O(0)], [op.GI(0)], exponent=(exponent - 1) / exponent)
    else:
        op.emit("Pow", [op.I(0)], [op.GI(0)], exponent=exponent - 1)
    op.emit("Mul", [op.GI(0), op.GO(0)], [op.GI(0)])
    op.emit("Scale", [op.GI(0)], [op.GI(0)], scale=exponent)


def _tensor_power_gradient(op: Rule) -> None:
    """dX = exponent X^(exponent - 1) dY and dexponent = log(X) Y dY, the latter folded to the exponent's shape."""
    laid: dict[str, Any] = {}
    if op.has_arg("broadcast"):
        where = {"axis": op.arg("axis", -1), "axis_str": op.arg("axis_str", ""), "order": op.arg("order", "NCHW")}
        laid = {"broadcast": op.arg("broadcast"), **where}
    X, exponent, Y, dX, dexponent = op.I(0), op.I(1), op.O(0), op.GI(0), op.GI(1)
    op.emit("ConstantFill", [exponent], [dexponent], value=1.0)
    op.emit("Sub", [exponent, dexponent], [dexponent])
    op.emit("Pow", [X, dexponent], [dX], **laid)
    op.emit("Mul", [dX, op.GO(0)], [dX])
    op.emit("Mul", [dX, exponent], [dX], **laid)
    whole = op.temp(op.input_name(1) + "_grad_autogen_pre_red")
    op.emit("Log", [X], [whole])
    op.emit("Mul", [whole, Y], [whole])
    if laid:
        op.emit("Mul", [whole, op.GO(0)], [whole])
        op.emit("SumReduceLike", [whole, exponent], [dexponent], **where)
    else:
        op.emit("Mul", [whole, op.GO(0)], [dexponent])


class SumReduceLike(Operator):
    """C = A summed to the shape of B, where B lies over A by the first broadcasting rule."""

    inputs = [In("A"), In("B", "a part of A's axes", shape_only=True)]
    outputs = [Out("C", "like B")]
    shares = {(0, 0)}
    arguments = [
        Int("axis", -1, "where in A the axes of B begin; -1: so that the last axes meet"),
        Str("axis_str", "", "the same as a letter of order"), Str("order", "NCHW", "the letters of A's axes"),
    ]
    example = Example({"A": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "B": [0.0, 0.0, 0.0]}, {"C": [5.0, 7.0, 9.0]})

    def shape(A: TensorType, B: TensorType, **_: Any) -> TensorType:
        return A.with_dims(B.dims)

    def kernel(xp: Any, A: Any, B: Any, *, axis: int, axis_str: str, order: str) -> Any:
        expect_one_dtype(A, B)
        return fold(xp, A, B.shape, laid_shape(tuple(A.shape), tuple(B.shape), axis, axis_str, order))


class Nary(Operator, abstract=True):
    """Y from any number of tensors of one shape and dtype."""

    inputs = [In("X", "all of one shape and dtype", variadic=True)]
    outputs = [Out("Y", "like X_0")]
    inplace = {(0, 0)}
    shape = same_as(0)


def _alike(tensors: tuple[Any, ...]) -> None:
    for k, X in enumerate(tensors[1:], 1):
        expect_like(X, tensors[0], f"X_{k}", "X_0")
        expect_one_dtype(tensors[0], X, "X_0", f"X_{k}")


def _sum(xp: Any, *tensors: Any) -> Any:
    _alike(tensors)
    total = tensors[0]
    for X in tensors[1:]:
        total = total + X
    return total


class Sum(Nary):
    """Y = X_0 + X_1 + ..., of one shape; Y is X_0 itself where there is but one."""

    shares = {(0, 0)}
    gradient = pass_through
    kernel = _sum
    example = Example({"X0": [1.0, 5.0], "X1": [3.0, 2.0], "X2": [0.5, 0.5]}, {"Y": [4.5, 7.5]})


class SumInt(Nary):
    """Y = X_0 + X_1 + ... for integers; there is no gradient."""

    inputs = [In("X", "all of one shape, int32 or int64", variadic=True)]
    shares = {(0, 0)}
    kernel = _sum
    example = Example({"X0": [1, 5], "X1": [3, 2]}, {"Y": [4, 7]})


class Mean(Nary):
    """Y = (X_0 + X_1 + ...) / number of inputs."""

    inputs = [In("X", "all of one shape and dtype, float", variadic=True)]
    example = Example({"X0": [1.0, 5.0], "X1": [3.0, 2.0]}, {"Y": [2.0, 3.5]})

    def kernel(xp: Any, *tensors: Any) -> Any:
        return _sum(xp, *tensors) / len(tensors)

    def gradient(op: Rule) -> None:
        op.emit("MeanGradient", [op.GO(0)], [op.GI(k) for k in range(op.num_inputs)])


class MeanGradient(Operator):
    """dX_k = dY / number of outputs."""

    inputs = [In("dY", "float")]
    outputs = [Out("dX", "like dY", variadic=True)]
    inplace = {(0, 0)}
    inplace_keeps_shape = True
    internal = True
    example = Example({"dY": [1.0, 0.5]}, {"dX0": [0.5, 0.25], "dX1": [0.5, 0.25]})

    def kernel(xp: Any, dY: Any, *, op: Any) -> Any:
        part = dY / op.num_outputs
        return tuple(part + 0 if k else part for k in range(op.num_outputs))


def _extreme_gradient(op: Rule) -> None:
    every = range(op.num_inputs)
    op.emit(op.type + "Gradient", [op.O(0), op.GO(0), *map(op.I, every)], [op.GI(k) for k in every])


class ExtremeGradient(Operator, abstract=True):
    """dX_k = dY where X_k is the first of the inputs that attain the extreme, 0 elsewhere."""

    inputs = [In("Y"), In("dY", "like Y"), In("X", "all like Y", variadic=True)]
    outputs = [Out("dX", "like X", variadic=True)]
    internal = True

    def kernel(xp: Any, Y: Any, dY: Any, *tensors: Any) -> Any:
        expect_like(dY, Y)
        gradients = []
        free = xp.ones_like(Y, dtype=xp.bool)
        for X in tensors:
            attains = (expect_like(X, Y, "X", "Y") == Y) & free
            gradients.append(dY * xp.astype(attains, dY.dtype))
            free = free & ~attains
        return tuple(gradients)


class Max(Nary):
    """Y = the largest of X_0, X_1, ..., element by element."""

    gradient = _extreme_gradient
    example = Example({"X0": [1.0, 5.0], "X1": [3.0, 2.0]}, {"Y": [3.0, 5.0]})

    def kernel(xp: Any, *tensors: Any) -> Any:
        _alike(tensors)
        largest = tensors[0]
        for X in tensors[1:]:
            largest = xp.maximum(largest, X)
        return largest

    shares = {(0, 0)}


class MaxGradient(ExtremeGradient):
    """dX_k = dY where X_k is the first of the inputs that are largest, 0 elsewhere."""

    example = Example(
        {"Y": [3.0, 5.0], "dY": [1.0, 0.5], "X0": [1.0, 5.0], "X1": [3.0, 2.0]},
        {"dX0": [0.0, 0.5], "dX1": [1.0, 0.0]})


class Min(Nary):
    """Y = the smallest of X_0, X_1, ..., element by element."""

    gradient = _extreme_gradient
    example = Example({"X0": [1.0, 5.0], "X1": [3.0, 2.0]}, {"Y": [1.0, 2.0]})

    def kernel(xp: Any, *tensors: Any) -> Any:
        _alike(tensors)
        smallest = tensors[0]
        for X in tensors[1:]:
            smallest = xp.minimum(smallest, X)
        return smallest

    shares = {(0, 0)}


class MinGradient(ExtremeGradient):
    """dX_k = dY where X_k is the first of the inputs that are smallest, 0 elsewhere."""

    example = Example(
        {"Y": [1.0, 2.0], "dY": [1.0, 0.5], "X0": [1.0, 5.0], "X1": [3.0, 2.0]},
        {"dX0": [1.0, 0.0], "dX1": [0.0, 0.5]})


class WeightedSum(Operator):
    """Y = w_0 X_0 + w_1 X_1 + ..., each weight a single number in a blob."""

    inputs = [In("X", "as large as X_0, of its dtype", variadic=True), In("weight", "one element", variadic=True)]
    outputs = [Out("Y", "like X_0")]
    arguments = [Bool("grad_on_w", False, "give the weights gradients too")]
    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example(
        {"X_0": [1.0, 2.0], "weight_0": [0.5], "X_1": [3.0, 4.0], "weight_1": [2.0]},
        {"Y": [6.5, 9.0]},
        wrt=("X_0", "X_1"))

    def kernel(xp: Any, *pairs: Any) -> Any:
        arrays = [X if math.prod(X.shape) != math.prod(pairs[0].shape) else xp.reshape(X, pairs[0].shape)
                  for X in pairs[::2]]
        _alike(tuple(arrays))
        total = arrays[0] * _weight(xp, pairs[1])
        for X, weight in zip(arrays[1:], pairs[3::2], strict=True):
            total = total + X * _weight(xp, weight)
        return total

    def gradient(op: Rule) -> None:
        wanted = list(range(0, op.num_inputs, 2))
        if op.arg("grad_on_w", 0):
            wanted += range(1, op.num_inputs, 2)
        op.emit("WeightedSumGradient", [op.GO(0), *map(op.I, range(op.num_inputs))], [op.GI(k) for k in wanted])


def _weight(xp: Any, weight: Any) -> Any:
    if math.prod(weight.shape) != 1:
        raise ValueError(f"a weight has shape {tuple(weight.shape)}, expected one element")
    return xp.reshape(weight, ())


class WeightedSumGradient(Operator):
    """dX_k = w_k dY; with grad_on_w also dw_k = sum(X_k dY)."""

    inputs = [In("dY"), In("X", variadic=True), In("weight", variadic=True)]
    outputs = [Out("dX", variadic=True)]
    num_inputs = Arity(1, None, lambda count: count % 2 == 1, "an odd number")
    arguments = [Bool("grad_on_w", False)]
    internal = True
    example = Example(
        {"dY": [1.0, 0.5], "X0": [1.0, 2.0], "weight0": [0.5], "X1": [3.0, 4.0], "weight1": [2.0]},
        {"dX0": [0.5, 0.25], "dX1": [2.0, 1.0]})

    def shape_only(arguments: Any, count: int) -> set[int]:
        return set() if arguments["grad_on_w"] else set(range(1, count, 2))

    def kernel(xp: Any, dY: Any, *pairs: Any, grad_on_w: bool) -> Any:
        flows = []
        for X in pairs[::2]:
            flow = dY if math.prod(X.shape) != math.prod(dY.shape) else xp.reshape(dY, X.shape)
            expect_like(flow, X, "dY", "X")
            flows.append(flow)
        gradients = [flow * _weight(xp, weight) for flow, weight in zip(flows, pairs[1::2], strict=True)]
        if grad_on_w:
            gradients += [xp.reshape(xp.sum(X * flow), w.shape)
                          for X, flow, w in zip(pairs[::2], flows, pairs[1::2], strict=True)]
        return tuple(gradients)


class SquareRootDivide(Operator):
    """Y[i] = data[i] / sqrt(scale[i]); rows whose scale is zero are kept."""

    inputs = [In("data", "(N, ...), float"), In("scale", "(N,), not negative, float or integer")]
    outputs = [Out("Y", "like data")]
    inplace = {(0, 0)}
    shape = same_as(0)
    gradient = emits("SquareRootDivide", "GO0 I1", "GI0")
    example = Example(
        {"data": [[1.0, 2.0], [3.0, 6.0]], "scale": [4.0, 9.0]},
        {"Y": [[0.5, 1.0], [1.0, 2.0]]},
        wrt=("data",))

    def kernel(xp: Any, data: Any, scale: Any) -> Any:
        if tuple(scale.shape) != (data.shape[0],):
            raise ValueError(f"scale has shape {tuple(scale.shape)}, expected {(data.shape[0],)}, the rows of data")
        if xp.any(scale < 0):
            raise ValueError("scale holds a negative number, expected none: its square roots divide the rows")
        root = xp.sqrt(xp.astype(xp.where(scale == 0, xp.ones_like(scale), scale), data.dtype))
        return data / xp.reshape(root, (-1, *(1,) * (len(data.shape) - 1)))


class Mod(Operator):
    """Y = the remainder of X by ``divisor``, of X's sign, or of the divisor's with sign_follow_divisor."""

    inputs = [In("X", "any shape, int32 or int64")]
    outputs = [Out("Y", "like X")]
    arguments = [Int("divisor", 0, "not zero"), Bool("sign_follow_divisor", False)]
    inplace = {(0, 0)}
    shape = same_as(0)
    example = Example({"X": [5, -5, 7]}, {"Y": [2, -2, 1]}, {"divisor": 3})

    def kernel(xp: Any, X: Any, *, divisor: int, sign_follow_divisor: bool) -> Any:
        if divisor == 0:
            raise ValueError("divisor is 0, expected another integer")
        if sign_follow_divisor:
            return X % divisor
        return xp.sign(X) * (xp.abs(X) % abs(divisor))
