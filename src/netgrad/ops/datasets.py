"""Datasets of nested lists, kept as flat tensors with lengths, and reading them in batches."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.graph.arguments import Bool, Int, Strs
from netgrad.graph.declaration import In, Operator, Out, between
from netgrad.graph.example import Example, Step, Tensor
from netgrad.graph.rules import RuleFunction, forbidden
from netgrad.graph.shapes import TensorType
from netgrad.ops._axes import side_by_side
from netgrad.ops._std_shuffle import std_shuffle


class Tree:
    """How fields are nested: a field ``a:lengths`` says how long the lists are that the other fields below ``a:`` hold.

    Domain 0 is that of the examples; every lengths field opens one more.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = list(fields)
        parts = [tuple(field.split(":")) for field in fields]
        self.lengths = [k for k, p in enumerate(parts) if p[-1] in ("lengths", "size")]
        self.domain_of: list[int] = []
        for k, own in enumerate(parts):
            best, depth = 0, 0
            for domain, j in enumerate(self.lengths, 1):
                prefix = parts[j][:-1]
                if j != k and len(prefix) > depth and own[:len(prefix)] == prefix:
                    best, depth = domain, len(prefix)
            self.domain_of.append(best)

    def advance(self, columns: Sequence[Any], offsets: Sequence[int], count: int) -> list[int]:
        """How many entries of each domain belong to the next ``count`` examples."""
        sizes = [count] + [-1] * len(self.lengths)
        while -1 in sizes:
            for domain, field in enumerate(self.lengths, 1):
                outer = self.domain_of[field]
                if sizes[domain] < 0 <= sizes[outer]:
                    own = columns[field][offsets[outer]:offsets[outer] + sizes[outer]]
                    if len(own) < sizes[outer]:
                        raise ValueError(f"field {self.fields[field]!r} ends before its domain does")
                    sizes[domain] = int(own.sum())
        return sizes

    def check(self, columns: Sequence[Any]) -> int:
        """The number of examples; raises ValueError when fields of one domain differ in length."""
        if len(columns) != len(self.fields):
            raise ValueError(f"there are {len(columns)} tensors for {len(self.fields)} fields")
        if flat := [field for field, column in zip(self.fields, columns) if not column.ndim]:
            raise ValueError(f"field {flat[0]!r} is a single number, expected a row per entry")
        examples = {len(columns[k]) for k, domain in enumerate(self.domain_of) if domain == 0}
        if len(examples) != 1:
            raise ValueError(f"the outermost fields have {', '.join(map(str, sorted(examples))) or 'no'} entries: "
                             "expected one number")
        sizes = self.advance(columns, [0] * (1 + len(self.lengths)), examples.pop())
        for k, domain in enumerate(self.domain_of):
            if len(columns[k]) != sizes[domain]:
                raise ValueError(f"field {self.fields[k]!r} has {len(columns[k])} entries, but its lengths add up to "
                                 f"{sizes[domain]}")
        return sizes[0]


class Cursor:
    """A place in a dataset, which threads may share."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.offsets = [0] * (1 + len(self.tree.lengths))

    def columns(self, blobs: Sequence[Any]) -> Sequence[Any]:
        if len(blobs) != len(self.tree.fields):
            raise ValueError(f"there are {len(blobs)} tensors for the {len(self.tree.fields)} fields of the cursor")
        return blobs

    def total(self, columns: Sequence[Any]) -> int:
        return min(len(columns[k]) for k, domain in enumerate(self.tree.domain_of) if domain == 0)


class _Dataset(Operator, abstract=True):
    """What operators on datasets share."""

    host = True
    effects = {"state"}
    gradient: RuleFunction | None = forbidden("reading and writing of data has no gradient")


_CURSOR = In("cursor", "opaque")
_FIELDS = In("fields", "the dataset: a tensor per field", variadic=True, optional=True)
_NAMES = Strs("fields", (), "names of the fields, with colons between the levels", as_="names")


class CreateTreeCursor(_Dataset):
    """A cursor at the start of a dataset of these fields."""

    outputs = [Out("cursor", "opaque")]
    arguments = [_NAMES]
    example = Example({}, {"cursor": None}, {"fields": ["x"]})

    def kernel(xp: Any, *, names: Any) -> Any:
        return Cursor(Tree(names))


class ResetCursor(_Dataset):
    """Moves a cursor to the start."""

    inputs = [_CURSOR]
    example = Example(
        {},
        {},
        before=(Step("CreateTreeCursor", outputs=("cursor",), arguments={"fields": ["x"]}),),
        inputs=("cursor",))

    def kernel(xp: Any, cursor: Cursor) -> Any:
        with cursor.lock:
            cursor.reset()
        return ()


class GetCursorOffset(_Dataset):
    """Where a cursor stands: the offset in each domain."""

    inputs = [_CURSOR]
    outputs = [Out("offsets", "1-D int32: of the examples, then of each lengths field's lists")]
    gradient = None
    example = Example(
        {},
        {"offsets": [0]},
        before=(Step("CreateTreeCursor", outputs=("cursor",), arguments={"fields": ["x"]}),),
        inputs=("cursor",))

    def kernel(xp: Any, cursor: Cursor) -> Any:
        return xp.asarray(cursor.offsets, dtype=xp.int32)


class CheckDatasetConsistency(_Dataset):
    """Fails unless lengths and fields go together."""

    inputs = [In("fields", variadic=True)]
    arguments = [_NAMES]
    example = Example({"x": [1.0, 2.0]}, {}, {"fields": ["x"]})

    def kernel(xp: Any, *columns: Any, names: Any) -> Any:
        Tree(names).check(columns)
        return ()


class ReadNextBatch(_Dataset):
    """The next examples of a dataset, and moves the cursor behind them; empty tensors at the end."""

    inputs = [_CURSOR, _FIELDS]
    outputs = [Out("fields", "the batch: a tensor per field", variadic=True)]
    arguments = [Int("batch_size", 1), Bool("enforce_batch_size", False, "a smaller rest is left out")]
    example = Example(
        {"x": [1.0, 2.0, 3.0]},
        {"batch": [1.0, 2.0]},
        {"batch_size": 2},
        before=(Step("CreateTreeCursor", outputs=("cursor",), arguments={"fields": ["x"]}),),
        inputs=("cursor", "x"))

    def kernel(xp: Any, cursor: Cursor, *blobs: Any, batch_size: int, enforce_batch_size: bool) -> Any:
        columns, tree = cursor.columns(blobs), cursor.tree
        with cursor.lock:
            offsets = list(cursor.offsets)
            count = min(batch_size, cursor.total(columns) - offsets[0])
            if enforce_batch_size and count < batch_size:
                count = 0
            sizes = tree.advance(columns, offsets, count)
            cursor.offsets = [o + s for o, s in zip(offsets, sizes, strict=True)]
        return tuple(column[offsets[d]:offsets[d] + sizes[d]]
                     for column, d in zip(columns, tree.domain_of, strict=True))


class ComputeOffset(_Dataset):
    """For every example, and for the end, its offset in each domain."""

    inputs = [_CURSOR, _FIELDS]
    outputs = [Out("offsets", "(examples + 1, domains), int64")]
    example = Example(
        {"x": [1.0, 2.0]},
        {"offsets": Tensor([[0], [1], [2]], "int64")},
        before=(Step("CreateTreeCursor", outputs=("cursor",), arguments={"fields": ["x"]}),),
        inputs=("cursor", "x"))

    def kernel(xp: Any, cursor: Cursor, *blobs: Any) -> Any:
        columns = cursor.columns(blobs)
        rows = [[0] * len(cursor.offsets)]
        for _ in range(cursor.total(columns)):
            sizes = cursor.tree.advance(columns, rows[-1], 1)
            rows.append([o + s for o, s in zip(rows[-1], sizes, strict=True)])
        return xp.asarray(rows, dtype=xp.int64)


class SortAndShuffle(_Dataset):
    """An order of the examples: sorted by a field, shuffled within blocks, the batches shuffled.

    The last block stays as it is, and so do, at the end, the examples that fill no batch. The order is Caffe2's, the
    same every time, unless the operator has a random seed of its own.
    """

    inputs = [_CURSOR, _FIELDS]
    outputs = [Out("indices", "(examples,), int64")]
    arguments = [
        Int("sort_by_field_idx", 1, "the field to sort by; -1: none"), Int("batch_size", 1),
        Int("shuffle_size", 1, "of a block, in batches"),
    ]
    effects = {"random", "state"}
    gradient = None
    example = Example(
        {"x": [3, 1, 2]},
        {"indices": TensorType("int64", (3,))},
        {"sort_by_field_idx": 0, "batch_size": 1, "shuffle_size": 3},
        before=(Step("CreateTreeCursor", outputs=("cursor",), arguments={"fields": ["x"]}),),
        inputs=("cursor", "x"))

    def kernel(xp: Any, cursor: Cursor, *blobs: Any, sort_by_field_idx: int, batch_size: int, shuffle_size: int,
               op: Any) -> Any:
        columns = cursor.columns(blobs)
        total = cursor.total(columns)
        block = batch_size * shuffle_size
        if batch_size < 1 or shuffle_size < 1 or not -1 <= sort_by_field_idx < len(columns):
            raise ValueError(f"batch_size is {batch_size}, shuffle_size {shuffle_size} and sort_by_field_idx "
                             f"{sort_by_field_idx}: expected sizes of at least 1, and -1 or one of the {len(columns)} "
                             "fields")
        order = list(range(total))
        if sort_by_field_idx >= 0:
            column = columns[sort_by_field_idx]
            if len(column) != total:
                raise ValueError(f"field {cursor.tree.fields[sort_by_field_idx]!r} has {len(column)} entries, and "
                                 f"there are {total} examples: sort by a field with one value for each")
            order.sort(key=column.__getitem__)
        shuffled: Callable[[list[int]], list[int]] = std_shuffle
        if op.definition.device_option.HasField("random_seed"):
            def shuffled(items: list[int]) -> list[int]:
                return [items[k] for k in op.rng.permutation(len(items)).tolist()]
        for start in range(0, total - block if block > 1 else 0, block):
            order[start:start + block] = shuffled(order[start:start + block])
        whole = total // batch_size
        found = [order[k * batch_size:(k + 1) * batch_size] for k in shuffled(list(range(whole)))]
        return xp.asarray([*itertools.chain(*found), *order[whole * batch_size:]], dtype=xp.int64)


class ReadRandomBatch(_Dataset):
    """The next examples in a given order; the cursor moves along the order."""

    inputs = [_CURSOR, In("idx", "the order: 1-D int64"), In("offsetsmat", "as ComputeOffset gives it"), _FIELDS]
    outputs = [Out("fields", "the batch: a tensor per field", variadic=True)]
    num_inputs = between(1, None)
    arguments = [
        Int("batch_size", 1), Bool("enforce_batch_size", False, "a smaller rest is left out"),
        Bool("loop_over", False, "begin anew at the end of the order"),
    ]
    example = Example(
        {"idx": Tensor([2, 0], "int64"), "offsetsmat": Tensor([[0], [1], [2], [3]], "int64"), "x": [1.0, 2.0, 3.0]},
        {"batch": [3.0, 1.0]},
        {"batch_size": 2},
        before=(Step("CreateTreeCursor", outputs=("cursor",), arguments={"fields": ["x"]}),),
        inputs=("cursor", "idx", "offsetsmat", "x"))

    def kernel(xp: Any, cursor: Cursor, idx: Any, offsets: Any, *blobs: Any, batch_size: int, enforce_batch_size: bool,
               loop_over: bool) -> Any:
        columns = cursor.columns(blobs)
        with cursor.lock:
            start = cursor.offsets[0]
            chosen = idx[start:start + batch_size].tolist()
            if enforce_batch_size and len(chosen) < batch_size:
                chosen = []
            cursor.offsets[0] = start + batch_size
            if loop_over and cursor.offsets[0] >= len(idx):
                cursor.offsets[0] = 0
        outputs = []
        for column, domain in zip(columns, cursor.tree.domain_of, strict=True):
            pieces = [column[offsets[k, domain]:offsets[k + 1, domain]] for k in chosen]
            outputs.append(xp.concat(pieces, axis=0) if pieces else column[:0])
        return tuple(outputs)


class TrimDataset(_Dataset):
    """Leaves out examples at the end, so that their number is a multiple."""

    inputs = [In("fields", variadic=True)]
    outputs = [Out("fields", variadic=True)]
    arguments = [_NAMES, Int("multiple_of", 1)]
    inplace_required = side_by_side()
    gradient = None
    example = Example({"x": [1.0, 2.0, 3.0]}, {"x": [1.0, 2.0]}, {"fields": ["x"], "multiple_of": 2})

    def kernel(xp: Any, *columns: Any, names: Any, multiple_of: int) -> Any:
        tree = Tree(names)
        examples = tree.check(columns)
        sizes = tree.advance(columns, [0] * (1 + len(tree.lengths)), examples - examples % multiple_of)
        return tuple(column[:sizes[d]] for column, d in zip(columns, tree.domain_of, strict=True))


def _appended(xp: Any, A: Any, B: Any) -> Any:
    if A.ndim == 0 or A.size == 0:
        return B.copy()
    if A.dtype != B.dtype or A.shape[1:] != B.shape[1:]:
        raise ValueError(f"{B.dtype} {B.shape} cannot be appended to {A.dtype} {A.shape}: expected rows alike")
    return xp.concat([A, B], axis=0)


class Append(_Dataset):
    """A with the rows of B behind its own."""

    inputs = [In("A", "(rows, ...)"), In("B", "(more rows, ...)")]
    outputs = [Out("A")]
    inplace_required = {(0, 0)}
    example = Example({"A": [1.0], "B": [2.0]}, {"A": [1.0, 2.0]})

    def kernel(xp: Any, A: Any, B: Any) -> Any:
        return _appended(xp, A, B)


class AtomicAppend(_Dataset):
    """Append for several pairs at once, under a lock."""

    inputs = [In("mutex", "opaque"), In("A, then B", "as many of both", variadic=True)]
    outputs = [Out("A", variadic=True)]
    num_inputs = between(3, None)
    inplace = side_by_side(1)
    effects = {"state", "binds"}
    example = Example(
        {"A": [1.0], "B": [2.0]},
        {"A": [1.0, 2.0]},
        before=(Step("CreateMutex", outputs=("mutex_ptr",)),),
        inputs=("mutex_ptr", "A", "B"))

    def kernel(xp: Any, mutex: Any, *blobs: Any, op: Any) -> None:
        half = len(blobs) // 2
        if len(blobs) % 2 or half != op.num_outputs:
            raise ValueError(f"there are {len(blobs)} tensors for {op.num_outputs} outputs: expected A and B for each")
        with mutex:  # blobs are read and bound here: the executor does so before and after, when others may append
            joined = [_appended(xp, op.workspace.fetch_blob(name), B) for name, B in zip(op.inputs[1:], blobs[half:])]
            for name, value in zip(op.outputs, joined, strict=True):
                op.workspace.feed_blob(name, value)


class TensorVector(list[Any]):
    """Tensors, to be joined later."""


class CreateTensorVector(_Dataset):
    """An empty vector of tensors."""

    outputs = [Out("vector", "opaque")]
    example = Example({}, {"vector": None})

    def kernel(xp: Any) -> Any:
        return TensorVector()


class TensorVectorSize(_Dataset):
    """How many tensors a vector holds."""

    inputs = [In("tensor vector", "opaque")]
    outputs = [Out("size", "a scalar int32")]
    example = Example(
        {},
        {"size": 1},
        before=(Step("CreateTensorVector", outputs=("vector",)),
         Step("GivenTensorInt64Fill", outputs=("k",), arguments={"shape": [1], "values": [1]}),
         Step("CollectTensor", ("vector", "k"), ("vector",), {"num_to_collect": 5})),
        inputs=("vector",))

    def kernel(xp: Any, vector: TensorVector) -> Any:
        return xp.asarray(len(vector), dtype=xp.int32)


class ConcatTensorVector(_Dataset):
    """The tensors of a vector, joined along the first axis."""

    inputs = [In("vector of Tensor", "opaque")]
    outputs = [Out("tensor")]
    example = Example(
        {},
        {"tensor": Tensor([1], "int64")},
        before=(Step("CreateTensorVector", outputs=("vector",)),
         Step("GivenTensorInt64Fill", outputs=("k",), arguments={"shape": [1], "values": [1]}),
         Step("CollectTensor", ("vector", "k"), ("vector",), {"num_to_collect": 5})),
        inputs=("vector",))

    def kernel(xp: Any, vector: TensorVector) -> Any:
        if not vector:
            raise ValueError("the vector is empty; there is nothing to join")
        return xp.concat(list(vector), axis=0)


class CollectTensor(_Dataset):
    """Puts tensors into vectors, each vector keeping a uniform sample of ``num_to_collect`` of all it ever saw."""

    inputs = [In("vector", "opaque", variadic=True), In("tensor", variadic=True)]
    outputs = [Out("vector", variadic=True)]
    num_inputs_outputs = staticmethod(lambda inputs, outputs: inputs == 2 * outputs)
    arguments = [Int("num_to_collect", -1)]
    inplace_required = side_by_side()
    effects = {"random", "state"}
    example = Example(
        {"tensor": [1.0]},
        {"vector": None},
        {"num_to_collect": 5},
        before=(Step("CreateTensorVector", outputs=("vector",)),),
        inputs=("vector", "tensor"))

    def kernel(xp: Any, *blobs: Any, num_to_collect: int, op: Any) -> Any:
        if num_to_collect < 0:
            raise ValueError(f"num_to_collect is {num_to_collect}, expected a count")
        visited = op.state["visited"] = op.state.get("visited", 0) + 1
        half = len(blobs) // 2
        place = len(blobs[0]) if len(blobs[0]) < num_to_collect else int(op.rng.integers(0, visited))
        vectors = []
        for vector, tensor in zip(blobs[:half], blobs[half:], strict=True):
            own = TensorVector(vector)
            if place < num_to_collect:
                own[place:place + 1] = [tensor]
            vectors.append(own)
        return tuple(vectors)


class Records(list[Any]):
    """Packed examples: of each, a tuple with its part of every field."""


class PackRecords(_Dataset):
    """One record per example, with that example's part of every field."""

    inputs = [In("fields", variadic=True)]
    outputs = [Out("tensor", "opaque: the records")]
    arguments = [_NAMES]
    example = Example({"x": [1.0, 2.0]}, {"records": None}, {"fields": ["x"]})

    def kernel(xp: Any, *columns: Any, names: Any) -> Any:
        tree = Tree(names)
        examples = tree.check(columns)
        offsets = [0] * (1 + len(tree.lengths))
        records = Records()
        for _ in range(examples):
            sizes = tree.advance(columns, offsets, 1)
            records.append(tuple(column[offsets[d]:offsets[d] + sizes[d]]
                                 for column, d in zip(columns, tree.domain_of, strict=True)))
            offsets = [o + s for o, s in zip(offsets, sizes, strict=True)]
        return records


class UnPackRecords(_Dataset):
    """The fields of records that were packed."""

    inputs = [
        In("packed_tensor", "opaque: the records"),
        In("fields", "tensors that show shapes and dtypes, for the case that there are no records", variadic=True,
           optional=True),
    ]
    outputs = [Out("fields", variadic=True)]
    arguments = [_NAMES]
    example = Example(
        {},
        {"y": [1.0, 2.0]},
        {"fields": ["x"]},
        before=(Step("GivenTensorFill", outputs=("x",), arguments={"shape": [2], "values": [1.0, 2.0]}),
         Step("PackRecords", ("x",), ("records",), {"fields": ["x"]})),
        inputs=("records",))

    def kernel(xp: Any, records: Records, *like: Any, names: Any) -> Any:
        if not records:
            if len(like) != len(names):
                raise ValueError("there are no records, and no tensors that show what empty fields are like")
            return tuple(column[:0] for column in like)
        if len(records[0]) != len(names):
            raise ValueError(f"records have {len(records[0])} fields, but {len(names)} are named")
        return tuple(xp.concat(parts, axis=0) for parts in zip(*records, strict=True))
