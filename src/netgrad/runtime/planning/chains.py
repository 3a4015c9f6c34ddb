"""The pass that runs chains of tiny operators as straight-line code on NumPy.

What an operator on a few numbers costs is not its arithmetic but calling it: PyTorch takes twice as long as NumPy to
begin. Neighbouring operators, each one function of NumPy on arrays of one shape, become one Python function without
look-ups. With torch their results stay NumPy's until somebody looks at a blob (`Blobs`), and the chain runs plainly
where its inputs are not small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.runtime.pending import Blobs
from netgrad.runtime.planning.draft import Draft
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.steps import Step

_NAME = "chains"
#: type -> how NumPy computes it from its inputs
_FORMS: dict[str, str] = {
    "Relu": "maximum({0}, zero)", "Tanh": "tanh({0})", "Exp": "exp({0})", "Log": "log({0})", "Sqrt": "sqrt({0})",
    "Sqr": "multiply({0}, {0})", "Negative": "negative({0})", "Abs": "absolute({0})", "Sin": "sin({0})",
    "Cos": "cos({0})", "Add": "add({0}, {1})", "Sub": "subtract({0}, {1})", "Mul": "multiply({0}, {1})",
    "Sum": "add({0}, {1})"}
#: arguments that change nothing here
_IDLE = frozenset({"order", "use_cudnn", "cudnn_exhaustive_search", "exhaustive_search"})
#: chains of fewer operators gain less than going over to NumPy and back costs
_SHORTEST = {"torch": 8, "numpy": 2}
#: arrays of more numbers are torch's
_LARGEST = 1024


class Chain(Fused):
    """Neighbouring operators on small arrays of one shape, as one function."""

    __slots__ = ("blobs", "compute", "inputs", "outputs", "prepare", "results", "waiting")

    def __init__(self, members: Sequence[Step], positions: Sequence[int], blobs: Blobs,
                 prepare: Callable[[Sequence[Any]], Sequence[np.ndarray] | None], finish: Any) -> None:
        super().__init__(members, positions)
        self.blobs = blobs
        self.prepare = prepare
        self.inputs, self.outputs, self.compute = _straight_line(members)
        #: what the last run made, for outputs that nobody has looked at
        self.results: Sequence[np.ndarray] = ()
        self.waiting: Mapping[str, Callable[[], Any]] | None = None if finish is None else {
            name: _Result(self, k, finish) for k, name in enumerate(self.outputs)}

    def run(self) -> None:
        blobs = self.blobs
        try:
            arrays = self.prepare([blobs[name] for name in self.inputs])
        except KeyError:
            arrays = None
        if arrays is None:
            return self.run_plainly()
        with np.errstate(all="ignore"):
            results = self.compute(*arrays)
        if self.waiting is None:
            blobs.update(zip(self.outputs, results))
            return None
        bound = dict.pop
        for name in self.outputs:
            bound(blobs, name, None)
        self.results = results
        blobs.pending.update(self.waiting)
        return None


class _Result:
    """One output of a chain, as the backend's array."""

    __slots__ = ("chain", "finish", "k")

    def __init__(self, chain: Chain, k: int, finish: Callable[[np.ndarray], Any]) -> None:
        self.chain = chain
        self.k = k
        self.finish = finish

    def __call__(self) -> Any:
        return self.finish(self.chain.results[self.k])


def _straight_line(members: Sequence[Step]) -> tuple[list[str], list[str], Callable[..., tuple[np.ndarray, ...]]]:
    """What a chain reads, what it leaves, and the function from the ones to the others."""
    variables: dict[str, str] = {}
    reads: list[str] = []
    made: dict[str, str] = {}
    lines = []
    for k, step in enumerate(members):
        operands = []
        for name in step.inputs:
            if name not in variables:
                variables[name] = f"i{len(reads)}"
                reads.append(name)
            operands.append(variables[name])
        lines.append(f"    v{k} = {_FORMS[step.binding.type].format(*operands)}")
        variables[step.outputs[0]] = made[step.outputs[0]] = f"v{k}"
    arguments = ", ".join(f"i{k}" for k in range(len(reads)))
    source = "\n".join([f"def chain({arguments}):", *lines, f"    return ({', '.join(made.values())},)"])
    functions = ("maximum", "tanh", "exp", "log", "sqrt", "multiply", "negative", "absolute", "sin", "cos", "add",
                 "subtract")
    namespace: dict[str, Any] = {name: getattr(np, name) for name in functions}
    namespace["zero"] = np.zeros((), np.float32)
    exec(compile(source, "<chain>", "exec"), namespace)
    return reads, list(made), namespace["chain"]


def _prepare_arrays(values: Sequence[Any]) -> Sequence[np.ndarray] | None:
    """The inputs, if they are arrays of one shape in single precision."""
    first = values[0]
    if type(first) is not np.ndarray or first.dtype != np.float32 or not first.ndim:
        return None
    for value in values[1:]:
        if type(value) is not np.ndarray or value.dtype != np.float32 or value.shape != first.shape:
            return None
    return values


def _ways(backend: str) -> tuple[Callable[[Sequence[Any]], Sequence[np.ndarray] | None], Any]:
    """How inputs become arrays of NumPy, and its results the backend's."""
    if backend != "torch":
        return _prepare_arrays, None
    import torch

    def prepare(values: Sequence[Any]) -> Sequence[np.ndarray] | None:
        first = values[0]
        if type(first) is not torch.Tensor or first.dtype != torch.float32 or not first.ndim or \
                first.numel() > _LARGEST or not first.is_cpu:
            return None
        for value in values[1:]:
            if type(value) is not torch.Tensor or value.dtype != torch.float32 or value.shape != first.shape or \
                    not value.is_cpu:
                return None
        return [value.detach().numpy() for value in values]

    return prepare, torch.from_numpy


def apply(draft: Draft) -> None:
    blobs = draft.workspace.values
    if not isinstance(blobs, Blobs):
        return
    prepare, finish = _ways(draft.backend.name)
    for run in _runs(draft):
        if len(run) >= _SHORTEST[draft.backend.name]:
            steps = [draft.plain(position) for position in run]
            members = [step for step in steps if step is not None]
            draft.put(Chain(members, run, blobs, prepare, finish), _NAME,
                      f"{len(run)} elementwise operators in one function, if they are tiny")


def _runs(draft: Draft) -> Iterator[list[int]]:
    run: list[int] = []
    for position in range(len(draft.entries)):
        step = draft.plain(position)
        if step is not None and _is_simple(step):
            run.append(position)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _is_simple(step: Step) -> bool:
    binding = step.binding
    form = _FORMS.get(binding.type)
    if form is None or len(step.outputs) != 1 or "" in step.inputs or binding.definition.device_option.device_type:
        return False
    return len(step.inputs) == (2 if "{1}" in form else 1) and _IDLE.issuperset(
        argument.name for argument in binding.definition.arg)
