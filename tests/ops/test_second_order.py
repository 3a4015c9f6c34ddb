"""Every operator differentiated twice: the derivative of its gradients, by finite differences of them, in float64.

An operator that has a gradient is differentiated, as is its backward pass; so the gradient operators that the pass
holds are differentiated at the points where they are used. Those that no example's pass holds are differentiated on
their own examples. What is not is listed, with the reason.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from netgrad.autodiff import kernel_rule
from netgrad.autodiff.gradient_registry import GetBackwardPass
from netgrad.graph import registry
from netgrad.graph.declaration import Operator
from netgrad.graph.example import Quantized, TensorType
from netgrad.graph.rules import Forbidden, NoGradient
from netgrad.runtime import examples
from netgrad.runtime.numeric import check_gradient

DECLARED = {d.type: d for d in registry.every() if registry.family_index().get(d.type)}

#: operators and gradient operators whose second derivative is not checked here, and why
NOT_CHECKED = {
    **dict.fromkeys(["AsyncIf", "Do", "If", "While"], "nets: tests/autodiff/test_control_flow_higher.py"),
    **dict.fromkeys(["RecurrentNetwork", "RecurrentNetworkGradient", "rnn_internal_accumulate_gradient_input"],
                    "nets: tests/recurrent/test_recurrent_twice.py"),
    "NetVectorJacobianProduct": "carries nets: tests/autodiff/test_control_flow_higher.py",
    "CopyScope": "opaque",
    **dict.fromkeys(["Python", "PythonGradient", "PythonDLPack", "PythonDLPackGradient"], "functions in Python"),
    **dict.fromkeys(["FloatToHalf", "HalfToFloat"], "too coarse for finite differences"),
    "TTLinearGradient": "no kernel",
    "VectorJacobianProduct": "carries others: tests/autodiff/test_higher_order.py",
}
#: what their examples differentiate where they say that gradients are not those of the first order
BY = {"LambdaRankNdcg": ("scores",), "CopyRowsToTensor": ("input_tensor",), "NegateGradient": ("input",)}
YS = {"LambdaRankNdcg": ("loss",)}
#: their first gradients are no derivatives of what they compute
ONLY_SECOND = {"LambdaRankNdcg", "NegateGradient", "CopyRowsToTensor"}
#: their backward pass overwrites what its own gradient reads, as Caffe2's does
SAVED = {"Pow", "Recurrent"}


def has_gradient(d: type[Operator]) -> bool:
    return d.gradient is not None and not isinstance(d.gradient, (Forbidden, NoGradient))


def is_plain(d: type[Operator]) -> bool:
    values = () if d.example is None else (*d.example.feeds.values(), *d.example.outputs.values())
    return d.example is not None and not d.example.before and not any(isinstance(v, Quantized) for v in values)


def floats(d: type[Operator]) -> bool:
    """Whether there is something to differentiate, and something to differentiate it by."""
    kinds = [str(v.dtype if isinstance(v, TensorType) else examples.array(v).dtype)
             for v in d.example.outputs.values() if v is not None]
    return any(kind.startswith("float") for kind in kinds) and any(
        examples.array(v).dtype.kind == "f" for v in d.example.feeds.values())


TWICE = {type: d for type, d in DECLARED.items()
         if has_gradient(d) and is_plain(d) and floats(d) and type not in NOT_CHECKED}


def by(d: type[Operator]) -> list[str]:
    asked = BY.get(d.type) or d.example.wrt
    feeds = examples.feeds(d.example)
    return [x for x in asked or feeds if feeds[x].dtype.kind == "f"]


@functools.cache
def reached() -> set[str]:
    """The gradient operators that passes of examples hold."""
    found = set()
    for d in TWICE.values():
        op = examples.operator(d)
        ys = YS.get(d.type) or d.example.ys or [
            name for k, (name, v) in enumerate(d.example.outputs.items())
            if name and v is not None and d.slot(d.outputs, k).differentiable
            and (isinstance(v, TensorType) or examples.array(v).dtype.kind == "f")]
        found |= {made.type for made in GetBackwardPass([op], list(ys))[0]}
    return found


def check(d: type[Operator], backend: str) -> None:
    example, save = d.example, "save" if d.type in SAVED else "error"
    ys = YS.get(d.type) or example.ys
    op, feeds = examples.operator(d), examples.feeds(example)
    if d.type not in ONLY_SECOND:
        check_gradient(op, feeds, ys, by(d), backend=backend, order=2, overwritten=save)
        return
    given = {y: f"{y}__given" for y in ys or example.outputs}
    first, gradients = GetBackwardPass([op], dict(given))
    cotangents = {name: np.random.default_rng(1).uniform(0.5, 1.5, examples.array(example.outputs[y]).shape)
                  for y, name in given.items()}
    check_gradient([op, *first], {**feeds, **cotangents}, [str(gradients[x]) for x in by(d)], [*by(d), *cotangents],
                   backend=backend)


EVERY = list(TWICE.values())


@pytest.mark.parametrize(("declaration", "backend"), [
    pytest.param(d, ("numpy", "torch")[(k + other) % 2], id=f"{d.type}-{('numpy', 'torch')[(k + other) % 2]}",
                 marks=[pytest.mark.soak] if other else [])
    for k, d in enumerate(EVERY) for other in (0, 1)])
def test_twice(declaration: type[Operator], backend: str) -> None:
    check(declaration, backend)


ALONE = {type: d for type, d in DECLARED.items() if kernel_rule.serves(d) and type not in NOT_CHECKED
         and is_plain(d)}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_gradient_operators_that_no_example_reaches(backend: str) -> None:
    rest = {type: d for type, d in ALONE.items() if type not in reached()}
    assert rest, "all are reached: leave this test out"
    for d in rest.values():
        op, feeds = examples.operator(d), examples.feeds(d.example)
        wanted = [op.input[k] for k in kernel_rule.differentiable(op, len(op.input))]
        check_gradient(op, feeds, wrt=[x for x in dict.fromkeys(wanted) if feeds[x].dtype.kind == "f"], backend=backend)


def test_every_gradient_operator_is_differentiated_or_listed() -> None:
    internal = {type for type, d in DECLARED.items() if d.internal}
    differentiable = {type for type, d in DECLARED.items() if has_gradient(d) and (not is_plain(d) or floats(d))}
    assert internal | differentiable <= TWICE.keys() | ALONE.keys() | reached() | NOT_CHECKED.keys()
    assert NOT_CHECKED.keys() <= internal | differentiable


def test_whole_numbers_are_declared_to_have_no_derivative() -> None:
    """An index that a gradient would be computed for is found when the operator runs; better is here."""
    several = {type: d for type, d in TWICE.items() if sum(slot.differentiable for slot in d.outputs) > 1}
    for type, d in (ALONE | several).items():
        op, feeds = examples.operator(d), examples.feeds(d.example)
        if kernel_rule.why_not(d) or (d.host and type not in ALONE):
            continue
        for k in kernel_rule.differentiable(op, len(op.input)):
            assert feeds[op.input[k]].dtype.kind == "f", f"{type}: input {k} takes whole numbers: differentiable=False"
