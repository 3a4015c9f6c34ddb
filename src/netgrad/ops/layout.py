"""Shape and layout: reshaping, slicing, joining, transposing, tiling."""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Ints
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.rules import Rule
from netgrad.graph.shapes import TensorType


class Slice(Operator):
    """Y = X[starts[0]:ends[0], starts[1]:ends[1], ...]; an end of -1 is the last place inclusive, -2 the one before."""

    inputs = [In("X"), In("starts", "1-D int, instead of the argument", optional=True), In("ends", optional=True)]
    outputs = [Out("Y")]
    num_inputs = counts(1, 3)
    arguments = [Ints("starts", (), as_="starts_argument"), Ints("ends", (), as_="ends_argument")]

    def shape(X: TensorType, *given: TensorType, starts_argument: Any, ends_argument: Any) -> TensorType:
        if given or X.dims is None:
            return X.with_dims(None if X.rank is None else (None,) * X.rank)
        dims = list(X.dims)
        for axis, (start, end) in enumerate(zip(starts_argument, ends_argument, strict=True)):
            size = dims[axis]
            if size is not None:
                dims[axis] = max(0, min(size, end if end >= 0 else size + 1 + end) - (start if start >= 0 else size + start))
        return X.with_dims(dims)

    def gradient(op: Rule) -> None:
        op.emit("SliceGradient", [*map(op.I, range(op.num_inputs)), op.GO(0)], [op.GI(0)])
