"""Rules of gradient operators: how nets are differentiated twice.

A gradient operator of one operand computes dX = f(Z) dY, Z being what the operator read or wrote. It is linear in dY,
so that the gradient there is the operator itself with the incoming gradient G in the place of dY; the gradient of Z is
f'(Z) dY G, which `with_curvature` receives as the product dY G and expresses by operators that exist. Gradients of
products (Mul, FC, Conv) are linear in every operand: each is replaced by its gradient in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.graph.rules import Ref, Rule, RuleFunction

#: writes f'(Z) t to ``result``, given the rule, Z and t = dY G
Curvature = Callable[[Rule, Ref, Ref, Ref], None]


def scratch(op: Rule, what: str) -> Ref:
    return op.temp(f"{op.output_name(0)}_grad_{what}")


def flat(dY: int) -> RuleFunction:
    """dX = f(Z) dY with f piecewise constant: only dY, input ``dY``, has a gradient."""

    def gradient(op: Rule) -> None:
        op.emit(op.type, [op.GO(0) if k == dY else op.I(k) for k in range(op.num_inputs)], [op.GI(dY)])

    return gradient


def with_curvature(dY: int, curvature: Curvature) -> RuleFunction:
    """dX = f(Z) dY; ``curvature`` emits f'(Z) t."""
    Z = 1 - dY

    def gradient(op: Rule) -> None:
        if op.wants(dY):
            flat(dY)(op)
        if op.wants(Z):
            t = scratch(op, "product")
            op.emit("Mul", [op.GO(0), op.I(dY)], [t])
            curvature(op, op.I(Z), t, op.GI(Z))

    return gradient


def chain(*steps: tuple[str, str] | tuple[str, str, dict[str, Any]]) -> Curvature:
    """A curvature by operators in a row. Each is its type and its operands: t, Z, or r, the result so far."""

    def curvature(op: Rule, Z: Ref, t: Ref, result: Ref) -> None:
        op.copy_arguments = False
        found = t
        for k, (type, operands, *arguments) in enumerate(steps):
            last = k == len(steps) - 1
            made = result if last else scratch(op, f"step_{k}")
            refs = {"t": t, "Z": Z, "r": found}
            op.emit(type, [refs[name] for name in operands], [made], **(arguments[0] if arguments else {}))
            found = made

    return curvature


def zeros_like(op: Rule, value: Ref, what: str) -> Ref:
    """Zeros of the shape of ``value``."""
    made, copies = scratch(op, f"{what}_zeros"), op.copy_arguments
    op.copy_arguments = False
    op.emit("ConstantFill", [value], [made], value=0.0)
    op.copy_arguments = copies
    return made


def given(op: Rule, k: int, like: int) -> Ref:
    """The gradient of output k, or zeros like input ``like`` where there is none."""
    return op.GO(k) if op.has_GO(k) else zeros_like(op, op.I(like), f"output_{k}")


def linear(type: str, *operands: str, to: int) -> RuleFunction:
    """An operator that is linear in input ``to`` and whose adjoint there is one operator of the given operands."""

    def gradient(op: Rule) -> None:
        op.emit(type, [op.GO(int(name[2:])) if name.startswith("GO") else op.I(int(name[1:])) for name in operands],
                [op.GI(to)])

    return gradient


def sum_of(op: Rule, parts: list[tuple[str, list[Ref]]], result: Ref) -> None:
    """result = the sum of what operators of one output compute; nothing where there is none."""
    made = [result if len(parts) == 1 else scratch(op, f"part_{k}") for k in range(len(parts))]
    for (type, inputs), part in zip(parts, made):
        op.emit(type, inputs, [part])
    if len(parts) > 1:
        op.copy_arguments = False
        op.emit("Sum", made, [result])
        op.copy_arguments = True


def _like_bias(op: Rule, forward: str, again: Callable[[Ref, Ref, str, Ref], None]) -> Ref:
    """A value of the bias's shape: its gradient, or, where that was not asked for, sums of W."""
    if op.output_name(1):
        return op.O(1)
    made = scratch(op, "like_bias")
    if op.arg("axis_w", 1) != 1:
        again(op.I(0), op.I(1), "b", made)
        return made
    op.copy_arguments = False
    op.emit("ReduceFrontSum" if forward == "FCTransposed" else "ReduceTailSum", [op.I(1)], [made])
    op.copy_arguments = True
    return made


def of_affine(forward: str) -> RuleFunction:
    """The rule of a gradient operator (X, W, dY) -> (dW, db, dX) of ``forward``, an affine map of X by W and b.

    With no_bias there is no db, and dX may be missing.
    """

    def gradient(op: Rule) -> None:
        X, W, dY = op.I(0), op.I(1), op.I(2)
        biased = not op.arg("no_bias", 0)
        order = ["W", "b", "X"] if biased else ["W", "X"]
        of = {name: op.GO(k) for k, name in enumerate(order) if k < op.num_outputs and op.has_GO(k)}

        def again(x: Ref, w: Ref, wanted: str, result: Ref) -> None:
            """The operator itself on other operands, of which one gradient is wanted."""
            op.emit(op.type, [x, w, dY], [result if name == wanted else scratch(op, f"{wanted}_not_{name}")
                                          for name in order])

        if "W" in of and op.wants(0):
            again(X, of["W"], "X", op.GI(0))
        if "X" in of and op.wants(1):
            again(of["X"], W, "W", op.GI(1))
        if of and op.wants(2):
            none = [zeros_like(op, _like_bias(op, forward, again), "bias")] if biased else []
            parts = []
            if "W" in of or "b" in of:
                by_W = of["W"] if "W" in of else zeros_like(op, W, "W")
                parts.append((forward, [X, by_W, *([of["b"]] if "b" in of else none)]))
            if "X" in of:
                parts.append((forward, [of["X"], W, *none]))
            sum_of(op, parts, op.GI(2))

    return gradient


def of_sum(forward: str) -> RuleFunction:
    """The rule of a gradient operator (dC, A, B) -> (dA, dB) of a sum or difference, which only folds dC."""

    def gradient(op: Rule) -> None:
        op.emit(forward, [given(op, 0, like=1), given(op, 1, like=2)], [op.GI(0)])

    return gradient


def of_product(op: Rule) -> None:
    """MulGradient: dA = dC B, dB = dC A."""
    dC, A, B = op.I(0), op.I(1), op.I(2)
    if op.wants(1) and op.has_GO(1):
        op.emit(op.type, [dC, A, op.GO(1)], [op.GI(1), scratch(op, "unused_A")])
    if op.wants(2) and op.has_GO(0):
        op.emit(op.type, [dC, op.GO(0), B], [scratch(op, "unused_B"), op.GI(2)])
    if op.wants(0):
        parts = [("Mul", [op.GO(0), B])] if op.has_GO(0) else []
        sum_of(op, parts + ([("Mul", [A, op.GO(1)])] if op.has_GO(1) else []), op.GI(0))


def of_quotient(op: Rule) -> None:
    """DivGradient: dA = dC / B, dB = -dC C / B. With e = (GA - C GB) / B the gradients of dC, B and C are these:

    e; -dC e / B, which is the operator's own dB with e for C; -dC GB / B.
    """
    if op.num_inputs != 4:
        op.through_kernel()  # the short form, without A
        return
    dC, A, B, C = (op.I(k) for k in range(4))
    numerator = op.GO(0) if op.has_GO(0) else None
    e = op.GI(0)
    if op.has_GO(1):
        u = scratch(op, "C_GB")
        op.emit("Mul", [C, op.GO(1)], [u])
        op.copy_arguments = False
        difference = scratch(op, "numerator")
        op.emit("Sub", [zeros_like(op, C, "C") if numerator is None else numerator, u], [difference])
        op.copy_arguments, numerator = True, difference
        if op.wants(3):
            t, quotient = scratch(op, "dC_GB"), scratch(op, "dC_GB_B")
            op.emit("Mul", [dC, op.GO(1)], [t])
            op.emit("Div", [t, B], [quotient])
            op.copy_arguments = False
            op.emit("Negative", [quotient], [op.GI(3)])
            op.copy_arguments = True
    assert numerator is not None
    op.emit("Div", [numerator, B], [e])
    if op.wants(2):
        op.emit(op.type, [dC, A, B, e], [scratch(op, "unused_A"), op.GI(2)])


def of_softmax(op: Rule) -> None:
    """SoftmaxGradient: dX = Y (dY - sum Y dY), symmetric in dY; by Y it is G dY - G sum(Y dY) - dY sum(Y G)."""
    if op.arg("axis", 1) != 1:
        op.through_kernel()
        return
    Y, dY, G = op.I(0), op.I(1), op.GO(0)
    if op.wants(1):
        op.emit(op.type, [Y, G], [op.GI(1)])
    if op.wants(0):
        op.copy_arguments = False
        product, by_dY, by_G = scratch(op, "product"), scratch(op, "by_dY"), scratch(op, "by_G")
        op.emit("Mul", [G, dY], [product])
        for operand, other, result in ((dY, G, by_dY), (G, dY, by_G)):
            total = scratch(op, "total_dY" if operand == dY else "total_G")
            op.emit("DotProduct", [Y, operand], [total])
            op.emit("RowMul", [other, total], [result])
        rest = scratch(op, "rest")
        op.emit("Sub", [product, by_dY], [rest])
        op.emit("Sub", [rest, by_G], [op.GI(0)])


def of_squared_distance(op: Rule) -> None:
    """SquaredL2DistanceGradient: dX = (X - Y) dZ, dY = -dX."""
    GX, GY = given(op, 0, like=0), given(op, 1, like=1)
    op.emit(op.type, [GX, GY, op.I(2)], [op.GI(0), op.GI(1)])
    if op.wants(2):
        apart, moved = scratch(op, "apart"), scratch(op, "moved")
        op.emit("Sub", [op.I(0), op.I(1)], [apart])
        op.emit("Sub", [GX, GY], [moved])
        op.emit("DotProduct", [apart, moved], [op.GI(2)])


def of_dot_product(op: Rule) -> None:
    """DotProductGradient: dX = Y dZ, dY = X dZ."""
    GX, GY = given(op, 0, like=0), given(op, 1, like=1)
    op.emit(op.type, [GX, GY, op.I(2)], [op.GI(0), op.GI(1)])
    if op.wants(2):
        sum_of(op, [("DotProduct", [op.I(1), GX]), ("DotProduct", [op.I(0), GY])], op.GI(2))


def broadcast_back(op: Rule) -> None:
    """An operator that sums input 0 to a smaller shape: its gradient is laid over the input's shape again."""
    op.copy_arguments = False
    op.emit("Add", [op.GO(0), zeros_like(op, op.I(0), "input")], [op.GI(0)])


def of_label_cross_entropy(op: Rule) -> None:
    """LabelCrossEntropyGradient: dX = -dY / X at the label; that is dY v, v being its own result for dY = 1."""
    X, label, dY, G = op.I(0), op.I(1), op.I(2), op.GO(0)
    op.copy_arguments = False
    ones, v = scratch(op, "ones"), scratch(op, "slope")
    op.emit("ConstantFill", [dY], [ones], value=1.0)
    op.emit(op.type, [X, label, ones], [v])
    if op.wants(2):
        op.emit("DotProduct", [G, v], [op.GI(2)])
    if op.wants(0):
        dX, product = scratch(op, "again"), scratch(op, "product")
        op.emit(op.type, [X, label, dY], [dX])
        op.emit("Mul", [dX, v], [product])
        op.emit("Mul", [product, G], [op.GI(0)])


def of_sigmoid_cross_entropy(op: Rule) -> None:
    """SigmoidCrossEntropyWithLogitsGradient: dlogits = dY / D (sigmoid(logits) - targets), D the length of a row."""
    if op.arg("log_D_trick", 0) or op.arg("unjoined_lr_loss", 0):
        op.through_kernel()
        return
    dY, logits, targets, G = op.I(0), op.I(1), op.I(2), op.GO(0)
    op.copy_arguments = False
    if op.wants(0):
        ones, slope = scratch(op, "ones"), scratch(op, "slope")
        op.emit("ConstantFill", [dY], [ones], value=1.0)
        op.emit(op.type, [ones, logits, targets], [slope])
        op.emit("DotProduct", [G, slope], [op.GI(0)])
    if op.wants(1) or op.wants(2):
        share, weighted = scratch(op, "share"), scratch(op, "weighted")
        op.emit("ReduceBackMeanGradient", [dY, logits], [share])
        op.emit("Mul", [share, G], [weighted])
        if op.wants(1):
            sigmoid = scratch(op, "sigmoid")
            op.emit("Sigmoid", [logits], [sigmoid])
            op.emit("SigmoidGradient", [sigmoid, weighted], [op.GI(1)])
        if op.wants(2):
            op.emit("Negative", [weighted], [op.GI(2)])
