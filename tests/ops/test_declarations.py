"""Every declaration: complete, agreeing with Caffe2's schema, and true of what its kernel does.

The examples that declarations carry are run on both backends, differentiated numerically, and broken in every way that
an input can be. The lists below name what falls short; they may only shrink.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.graph import registry
from netgrad.graph.declaration import Operator
from netgrad.graph.example import Quantized, TensorType
from netgrad.graph.rules import Forbidden, NoGradient
from netgrad.runtime import backends, contract, examples, random
from netgrad.runtime.errors import KernelError, OperatorError
from netgrad.runtime.numeric import check_gradient

BACKENDS = ["numpy", "torch"]
SCHEMAS = {row[0]: row for row in (line.split("\t") for line in
           (Path(__file__).parent / "data" / "schemas.tsv").read_text().splitlines())}
DECLARED = {d.type: d for d in registry.every() if registry.family_index().get(d.type)}
SHOWN = {type: d for type, d in DECLARED.items() if d.example is not None}
ALONE = {type: d for type, d in SHOWN.items() if not d.example.before
         and not any(isinstance(v, Quantized) for v in (*d.example.feeds.values(), *d.example.outputs.values()))}

#: they run nets, call back into Python, read files, kill the process or fail on purpose; each has a test of its own
NO_EXAMPLE_NEEDED = {
    "AsyncIf", "Checkpoint", "CopyScope", "Crash", "CreateDB", "CreateScope", "CreateTextFileReader", "DBExists", "Do",
    "Fail", "Free", "GetAllBlobNames", "GetGPUMemoryUsage", "HasScope", "If", "ImageInput", "Load", "LogFatal",
    "NetVectorJacobianProduct", "ONNXWhile", "Python", "PythonDLPack", "PythonDLPackGradient",
    "PythonGradient", "RecurrentNetwork", "RecurrentNetworkBlobFetcher", "RecurrentNetworkGradient", "Save", "Snapshot",
    "TensorProtosDBInput", "TextFileReaderRead",
    "ThrowChildThreadException", "ThrowException", "VectorJacobianProduct",
    "While", "rnn_internal_accumulate_gradient_input",
    "rnn_internal_apply_link",
}
#: no kernel yet, by family
LACKING_KERNEL = {
    # communication
    "Allgather", "Allreduce", "Barrier", "Broadcast", "CloneCommonWorld", "CreateCommonWorld", "DestroyCommonWorld",
    "FileStoreHandlerCreate", "NCCLAllGather", "NCCLAllreduce", "NCCLBroadcast", "NCCLReduce", "NCCLReduceScatter",
    "ReceiveTensor", "Reduce", "ReduceScatter", "SendTensor", "StoreAdd", "StoreGet", "StoreSet", "StoreWait",
}
#: declared in Caffe2 and never written there, or only for engines and accelerators that are gone
NO_KERNEL_NEEDED = {"Onnxifi", "TTLinearGradient"}

#: Caffe2's schema allows any number, its kernel does not
STRICTER_COUNTS = {
    "Allreduce", "Broadcast", "ColwiseMaxGradient", "DequeueBlobs", "EnqueueBlobs", "LengthsPartition", "Partition",
    "ReduceScatter", "SafeDequeueBlobs", "SafeEnqueueBlobs", "SparseDropoutWithReplacement",
    "UnsafeCoalesce",
}
#: arguments that its C++ class reads through a base class or a helper, which mean nothing for the operator
UNREAD_ARGUMENTS = {"axis", "axis_str", "broadcast", "order", "average", "(optional)"}


def every(declarations: dict[str, type[Operator]]) -> Any:
    return pytest.mark.parametrize("declaration", declarations.values(), ids=declarations.keys())


# ---- complete


@every(DECLARED)
def test_is_complete(declaration: type[Operator]) -> None:
    assert (declaration.__doc__ or "").strip(), "no docstring"
    assert declaration.__doc__ != Operator.__doc__
    for slot in (*declaration.inputs, *declaration.outputs):
        assert slot.name, "an input or output without a name"
    assert declaration.gradient is not None or recorded_gradient(declaration) in ("unregistered", None) \
        or not declaration.outputs, "no gradient rule, and no word on why"


def recorded_gradient(declaration: type[Operator]) -> str | None:
    return SCHEMAS[declaration.type][6] if declaration.type in SCHEMAS else None


def test_what_lacks_a_kernel_or_an_example_is_known() -> None:
    without = {type for type, d in DECLARED.items()
               if d.kernel is None and not any(t == type for t, _ in backends.get("torch").overrides.every())}
    assert without == LACKING_KERNEL | NO_KERNEL_NEEDED
    assert {type for type, d in DECLARED.items() if d.kernel is not None and d.example is None} == NO_EXAMPLE_NEEDED


# ---- like Caffe2's schema


def counts(text: str) -> set[int] | None:
    if text == "?":
        return None
    if text.startswith("only "):
        return {int(n) for n in text[5:].split(",") if n}
    least, dash, most = text.partition("-")
    return set(range(int(least), int(most or (10 if dash else least)) + 1)) & set(range(11))


def pairs(text: str) -> set[tuple[int, int]]:
    return {(int(i), int(o)) for i, _, o in (pair.partition(":") for pair in text.split())}


@every({type: d for type, d in DECLARED.items() if type in SCHEMAS})
def test_counts_are_caffe2s(declaration: type[Operator]) -> None:
    row = SCHEMAS[declaration.type]
    for text, arity in ((row[1], declaration.num_inputs), (row[2], declaration.num_outputs)):
        allowed = counts(text)
        assert arity is not None
        found = {n for n in range(11) if n in arity}
        stricter = declaration.type in STRICTER_COUNTS and text == "0-"
        assert allowed is None or found == allowed or (stricter and found)


@every({type: d for type, d in DECLARED.items() if type in SCHEMAS})
def test_in_place_rules_are_caffe2s(declaration: type[Operator]) -> None:
    _, _, _, allowed, required, _, _ = SCHEMAS[declaration.type]
    assert {p for p in declaration.inplace_required if max(p) < 8} == {p for p in pairs(required) if max(p) < 8}
    if allowed == "all":
        assert (-1, -1) in declaration.inplace
    else:
        found = {(i, o) for i in range(8) for o in range(8) if declaration.may_be_inplace(i, o)}
        assert found == {p for p in pairs(allowed) | pairs(required) if max(p) < 8}


@every({type: d for type, d in DECLARED.items() if type in SCHEMAS})
def test_arguments_are_caffe2s(declaration: type[Operator]) -> None:
    names = set(SCHEMAS[declaration.type][5].split())
    assert names - {a.name for a in declaration.arguments} <= UNREAD_ARGUMENTS


# ---- true


@pytest.mark.parametrize("backend", BACKENDS)
@every(SHOWN)
def test_example(declaration: type[Operator], backend: str) -> None:
    assert list(examples.differences(declaration, backend)) == []


@pytest.mark.parametrize("backend", BACKENDS)
@every(ALONE)
def test_contract(declaration: type[Operator], backend: str) -> None:
    """It writes into no input, shares storage as declared, and makes the shapes and dtypes that are inferred."""
    assert contract.violations(examples.operator(declaration), examples.feeds(declaration.example), backend) == []


def differentiable() -> dict[str, type[Operator]]:
    return {type: d for type, d in ALONE.items()
            if d.gradient is not None and not isinstance(d.gradient, (Forbidden, NoGradient)) and d.example.wrt != ()
            and any(examples.array(v).dtype.kind == "f" for v in d.example.feeds.values())
            and not any(isinstance(v, TensorType) for v in d.example.outputs.values())
            and any(v is not None and examples.array(v).dtype.kind == "f" for v in d.example.outputs.values())}


@every(differentiable())
def test_gradient(declaration: type[Operator]) -> None:
    example = declaration.example
    check_gradient(examples.operator(declaration), examples.feeds(example), ys=example.ys, wrt=example.wrt)


# ---- on broken inputs: a result, or one clear error


def broken(feeds: dict[str, np.ndarray]) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    for name, value in feeds.items():
        if value.dtype == object:
            continue
        yield f"{name} of higher rank", {**feeds, name: value[None]}
        if value.ndim:
            yield f"{name} longer", {**feeds, name: np.concatenate([value, value[..., -1:]], axis=-1)}
            yield f"{name} empty", {**feeds, name: value[:0]}
        wrong = {"f": [np.nan], "i": [10**6, -7]}.get(value.dtype.kind, []) if value.size else []
        for number in wrong:
            changed = value.copy()
            changed.flat[0] = number
            yield f"{name} with {number}", {**feeds, name: changed}
    yield "all empty", {n: v[:0] if v.ndim and v.dtype != object else v for n, v in feeds.items()}


def outcome(declaration: type[Operator], feeds: dict[str, np.ndarray], backend: str) -> tuple[str, Any]:
    from netgrad.runtime.workspace import Workspace

    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    try:
        with random.seeded(0):
            workspace.run_operator(examples.operator(declaration))
    except KernelError as error:
        return ("unclear" if error.__cause__ is not None else "refused"), str(error)
    except OperatorError as error:
        return "refused", str(error)
    kept = (name for name, expected in declaration.example.outputs.items() if name and expected is not None)
    return "computed", {name: workspace.fetch_blob(name) for name in kept}


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, bytes) or a.dtype == object:
        return bool(np.all(a == b))
    return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a.astype(np.float64), b.astype(np.float64), 1e-3,
                                                                      1e-5, equal_nan=True)


@every(ALONE)
def test_broken_inputs(declaration: type[Operator]) -> None:
    unclear, different = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for what, feeds in broken(examples.feeds(declaration.example)):
            found = [outcome(declaration, feeds, backend) for backend in BACKENDS]
            unclear += [f"{what}: {message}" for kind, message in found if kind == "unclear"]
            kinds = {kind for kind, _ in found}
            if kinds == {"computed", "refused"}:
                different.append(f"{what}: one backend computes, the other refuses")
            elif kinds == {"computed"} and "random" not in declaration.effects:
                (_, first), (_, second) = found
                different += [f"{what}: {name} differs" for name in first if not alike(first[name], second[name])]
    assert not unclear
    assert not different
