"""The pass that lets updates of parameters write in place, and does those of a kind at once.

An update names its parameter and moments as inputs and outputs. The plain plan makes new arrays and binds the names to
them, which for a table of rows costs a copy of the table. A step of this pass writes into the arrays that are there, if

1. the step itself made them, in an earlier run: what a user fed or another net made, which may have holders that no
   count shows, is copied, and the copy written;
2. nobody else holds them now (`is_held_once` of the backend): no other blob, workspace, view, tape or user;
3. their names occur once among the operator's inputs.

Else copies are written, as the plain plan makes new arrays. Fetched arrays are copies; tensors that users share are of
another type, and never written.

An update in place that fails has written nothing: writers check first, and what kernels want to write into tables
(`Rows`) is written when they have returned.
"""

from __future__ import annotations

import functools
import importlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from netgrad.runtime.pending import Blobs
from netgrad.runtime.planning.draft import Draft
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.steps import Step

_NAME = "updates"

#: type -> pairs (input, output) that are written in place
_DENSE: dict[str, tuple[tuple[int, int], ...]] = {
    "WeightedSum": ((0, 0),), "Adam": ((0, 0), (1, 1), (2, 2)), "Adagrad": ((0, 0), (1, 1)),
    "MomentumSGDUpdate": ((1, 1), (3, 2))}
#: where their gradient stands among the inputs
_GRADIENTS = {"WeightedSum": 2, "Adam": 3, "Adagrad": 2, "MomentumSGDUpdate": 0}
#: those whose further outputs a writer does not make
_OUTPUTS = {"WeightedSum": 1, "Adam": 3, "Adagrad": 2, "MomentumSGDUpdate": 3}
#: inputs that the operators of a group have in common: rates, iterations
_COMMON: dict[str, tuple[int, ...]] = {"Adam": (4, 5), "Adagrad": (3,), "MomentumSGDUpdate": (2,), "WeightedSum": ()}
_FUSED = [f"{rows}SparseAdagradFusedWithSparseLengths{kind}Gradient{approx}" for rows in ("", "RowWise")
          for kind in ("Sum", "Mean", "WeightedSum") for approx in ("", "Approx")]
#: updates of rows. Their kernels put rows into each table once, by `update_rows`, as the last thing they do
_ROWS: dict[str, tuple[tuple[int, int], ...]] = {
    "SparseAdagrad": ((0, 0), (1, 1)), "RowWiseSparseAdagrad": ((0, 0), (1, 1)),
    "SparseAdam": ((0, 0), (1, 1), (2, 2)), "RowWiseSparseAdam": ((0, 0), (1, 1), (2, 2)),
    "SparseMomentumSGDUpdate": ((1, 1), (3, 2)), "SparseAdadelta": ((0, 0), (1, 1), (2, 2)),
    "SparseFtrl": ((0, 0), (1, 1)), "SparseStorm": ((0, 0), (1, 1)), "SparseWngrad": ((0, 0),),
    "RowWiseCounter": ((0, 0), (1, 1)), **dict.fromkeys(_FUSED, ((0, 0), (1, 1)))}
#: the same by a writer of the backend alone
_SCATTERS: dict[str, tuple[tuple[int, int], ...]] = {"ScatterWeightedSum": ((0, 0),)}


class Rows:
    """An ``xp`` whose `index_put` into one of some tables is written into the table when the kernel has returned.

    All that may fail has then been checked, so that a failing kernel leaves its tables as they were.
    """

    def __init__(self, xp: Any, tables: Sequence[Any], put: Callable[[Any, Any, Any], None]) -> None:
        self._xp = xp
        self._tables = tables
        self._put = put
        self._pending: list[tuple[Any, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)

    def index_put(self, target: Any, index: Any, values: Any) -> Any:
        if not any(target is table for table in self._tables):
            return self._xp.index_put(target, index, values)
        expected = (*index.shape, *target.shape[1:])
        if tuple(values.shape) != expected:
            return self._xp.index_put(target, index, values)  # says what is wrong
        self._pending.append((target, index, values))
        return target

    def write(self) -> None:
        for target, index, values in self._pending:
            self._put(target, index, values)


class Update(Fused):
    """Updates of one type, of different parameters, in place where that cannot be seen."""

    __slots__ = ("arguments", "array_type", "blobs", "gradient", "held_once", "names", "outputs", "owned", "pairs",
                 "places", "products", "refused", "spared", "write", "writers", "written", "xp")

    def __init__(self, members: Sequence[Step], positions: Sequence[int], pairs: Sequence[tuple[int, int]],
                 write: Callable[..., Any], held_once: Callable[[Any, str], bool], spared: Sequence[str],
                 writers: Any) -> None:
        super().__init__(members, positions)
        first = members[0]
        self.blobs = first.blobs
        self.array_type = first.array_type
        self.xp = first.binding.xp
        self.arguments: Mapping[str, Any] = first.binding.arguments
        self.write = write
        self.held_once = held_once
        self.pairs = tuple(pairs)
        #: blobs that may be written if they are held once: their values end here
        self.spared = tuple(spared)
        self.names = [step.inputs for step in members]
        self.outputs = [step.outputs for step in members]
        #: the blobs that are written in place, and where they stand among the inputs: (member, input)
        self.written = [step.inputs[i] for step in members for i, _ in pairs]
        self.places = [(k, i) for k in range(len(members)) for i, _ in pairs]
        #: the type of gradients that are not computed so far and that the writer takes, and where they would be
        self.products: Any = getattr(write, "takes", None) if isinstance(self.blobs, Blobs) else None
        #: what this step made of them
        self.owned: list[Callable[[], Any]] = [_nothing] * len(self.written)
        #: where the gradient, whose layout copies get, stands among the inputs
        self.gradient = _GRADIENTS.get(first.binding.type)
        self.writers = writers
        #: what the writer did not serve last, so that nothing is copied for it in vain
        self.refused: list[Any] | None = None

    def run(self) -> None:
        blobs, held_once, array_type = self.blobs, self.held_once, self.array_type
        taken = [k for k, (name, made) in enumerate(zip(self.written, self.owned))
                 if name not in blobs or made() is not blobs[name] or not held_once(blobs, name)]
        spare = bool(self.spared) and all(name in blobs and held_once(blobs, name) for name in self.spared)
        try:
            inputs = [[blobs[name] for name in names] for names in self.names] if self.products is None else [
                [self._look(name) if k == self.gradient else blobs[name] for k, name in enumerate(names)]
                for names in self.names]
        except KeyError:
            return self.run_plainly()
        for row in inputs:
            for value in row:
                if type(value) is not array_type and type(value) is not self.products:
                    return self.run_plainly()
        if self.refused is not None and self.refused == self._kinds(inputs):
            return self.run_plainly()
        gradient, writers = self.gradient, self.writers
        if gradient is not None:
            taken += [k for k, (member, i) in enumerate(self.places) if k not in taken
                      and not writers.laid_out_alike(inputs[member][i], inputs[member][gradient])]
        for k in taken:
            member, i = self.places[k]
            like = None if gradient is None else inputs[member][gradient]
            inputs[member][i] = writers.copied(inputs[member][i], like)
        results = self.write(self.xp, inputs, self.arguments, spare)
        if results is None:
            self.refused = self._kinds(inputs)
            return self.run_plainly()
        for names, row in zip(self.outputs, results):
            for name, value in zip(names, row):
                blobs[name] = value
        for k in taken:
            self.owned[k] = weakref.ref(blobs[self.written[k]])
        return None

    def without_storage(self) -> Iterator[tuple[int, int]]:
        return ((position, o) for position in self.positions for _, o in self.pairs)

    def _kinds(self, inputs: Sequence[Sequence[Any]]) -> list[Any]:
        """What tells whether the writer serves: types, shapes and devices of what would be written."""
        return [(value.dtype, value.shape, getattr(value, "device", None))
                for member, i in self.places for value in (inputs[member][i],)]

    def _look(self, name: str) -> Any:
        """What is in a blob; a gradient that is not computed so far as that."""
        blobs = self.blobs
        assert isinstance(blobs, Blobs)
        waiting = blobs.pending.get(name)
        return waiting if type(waiting) is self.products and blobs.is_pending(name) else blobs[name]


def _nothing() -> None:
    return None


def _by_kernel(binding: Any, pairs: Sequence[tuple[int, int]], put: Callable[..., None]) -> Callable[..., Any]:
    """Writes by the operator's own kernel, whose rows are put into the tables."""

    def write(xp: Any, inputs: Sequence[Sequence[Any]], arguments: Mapping[str, Any], spare: bool) -> Any:
        (row,) = inputs
        rows = Rows(xp, [row[i] for i, _ in pairs], put)
        results = binding.kernel(rows, *row, *binding.absent, **arguments)
        rows.write()
        return [results if isinstance(results, tuple) else (results,)]

    return write


def _first_that_serves(*writers: Callable[..., Any]) -> Callable[..., Any]:
    def write(*given: Any) -> Any:
        for writer in writers:
            if (results := writer(*given)) is not None:
                return results
        return None

    return write


@functools.cache
def _backend_modules(name: str) -> tuple[Any, Any]:
    package = f"netgrad.runtime.backends.{name}"
    holding = importlib.import_module(f"{package}.holding")
    return importlib.import_module(f"{package}.updates"), holding.is_held_once if holding.can_tell() else None


def apply(draft: Draft) -> None:
    """Puts `Update` steps in the place of updates: groups of dense ones of one type, updates of rows one by one."""
    writers, held_once = _backend_modules(draft.backend.name)
    if held_once is None:
        return
    for group in _groups(draft, writers.DENSE):
        type = group[0][1].binding.type
        members = [step for _, step in group]
        spared = [step.inputs[0] for k, step in group if _ends(draft, k, step)] if type == "MomentumSGDUpdate" else []
        if len(spared) < len(members):
            spared = []
        what = f"{len(members)} x {type}, written in place" if len(members) > 1 else f"{type}, written in place"
        draft.put(Update(members, [k for k, _ in group], _DENSE[type], writers.DENSE[type], held_once, spared,
                         writers), _NAME, what)
    for position in range(len(draft.entries)):
        if (step := draft.plain(position)) is None:
            continue
        type = step.binding.type
        pairs = _ROWS.get(type) or _SCATTERS.get(type)
        if pairs is None or not _in_place(step, pairs) or _placed(step):
            continue
        ways = [writers.ROWS[type]] if type in writers.ROWS else []
        if type in _ROWS and step.binding.kernel is step.binding.reference and not step.binding.takes_call:
            ways.append(_by_kernel(step.binding, pairs, writers.put_rows))
        if ways:
            draft.put(Update([step], [position], pairs, _first_that_serves(*ways), held_once, (), writers), _NAME,
                      f"{type}, rows written in place")


def _placed(step: Step) -> bool:
    """Whether the operator runs on a device of its own, to which its inputs may have to be brought."""
    option = step.binding.definition.device_option
    return option.device_type != 0 and step.backend.device(option) is not None


def _ends(draft: Draft, position: int, step: Step) -> bool:
    """Whether the gradient of a momentum update is written by the update and by nobody needed."""
    value = draft.liveness.reads[position][0]
    return value is not None and step.outputs[0] == step.inputs[0] and \
        draft.liveness.may_be_overwritten(value, position)


def _in_place(step: Step, pairs: Sequence[tuple[int, int]]) -> bool:
    inputs, outputs = step.inputs, step.outputs
    return all(i < len(inputs) and o < len(outputs) and inputs[i] and inputs[i] == outputs[o]
               and inputs.count(inputs[i]) == 1 for i, o in pairs) and "" not in inputs


def _groups(draft: Draft, writers: Mapping[str, Any]) -> Iterator[list[tuple[int, Step]]]:
    """Runs of neighbouring dense updates of one type and equal arguments, none of which sees what another wrote."""
    group: list[tuple[int, Step]] = []
    reads: set[str] = set()
    writes: set[str] = set()
    for position in range(len(draft.entries)):
        step = draft.plain(position)
        fits = step is not None and step.binding.type in writers and _serves(step)
        if group and (not fits or step is None or not _alike(group[0][1], step) or not writes.isdisjoint(step.inputs)
                      or not (reads | writes).isdisjoint(step.outputs)):
            yield group
            group, reads, writes = [], set(), set()
        if fits and step is not None:
            group.append((position, step))
            reads.update(step.inputs)
            writes.update(step.outputs)
    if group:
        yield group


def _serves(step: Step) -> bool:
    type = step.binding.type
    return _in_place(step, _DENSE[type]) and len(step.outputs) == _OUTPUTS[type] and not _placed(step) and (
        type != "WeightedSum" or len(step.inputs) == 4)


def _alike(a: Step, b: Step) -> bool:
    return a.binding.type == b.binding.type and a.binding.arguments == b.binding.arguments and all(
        a.inputs[k] == b.inputs[k] for k in _COMMON[a.binding.type])
