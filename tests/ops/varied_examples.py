"""The examples of declarations, varied: other dtypes, batches of 0, 1 and 5, other sizes, negative axes, NaN.

A variation has a name that stays the same from run to run, so that Caffe2's answers to it can be kept in a file.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from netgrad.graph import registry
from netgrad.graph.arguments import Int, Ints
from netgrad.graph.declaration import Operator
from netgrad.graph.example import Quantized
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime import examples

FLOATS = ("float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool")
INTEGERS = ("int32", "int64", "uint8", "int16", "float32", "bool")
AXES = ("axis", "axes", "dim", "axis_w")
RANDOM_SHAPES = 8

Feeds = dict[str, np.ndarray]


def declarations() -> dict[str, type[Operator]]:
    """Those whose example is one operator on arrays."""
    return {d.type: d for d in sorted(registry.every(), key=lambda d: d.type)
            if registry.family_index().get(d.type) and d.example is not None and not d.example.before
            and not any(isinstance(v, Quantized) for v in (*d.example.feeds.values(), *d.example.outputs.values()))}


def resized(value: np.ndarray, axis: int, size: int) -> np.ndarray:
    """The same values over and over, or fewer of them, along one axis."""
    return np.take(value, np.arange(size) % max(1, value.shape[axis]), axis=axis) if value.shape[axis] else value


def of_dtypes(feeds: Feeds) -> Iterator[tuple[str, Feeds]]:
    """All floats, and then integers each alone and all at once, as every other dtype."""
    floats = [name for name, v in feeds.items() if v.dtype.kind == "f"]
    for dtype in FLOATS if floats else ():
        yield f"floats {dtype}", {**feeds, **{n: feeds[n].astype(dtype) for n in floats}}
    integers = [name for name, v in feeds.items() if v.dtype.kind in "iu"]
    groups = [[n] for n in integers] + ([integers] if len(integers) > 1 else [])
    for group in groups:
        for dtype in INTEGERS:
            if any(str(feeds[n].dtype) != dtype for n in group):
                yield f"{'+'.join(group)} {dtype}", {**feeds, **{n: feeds[n].astype(dtype) for n in group}}


def of_batches(feeds: Feeds) -> Iterator[tuple[str, Feeds]]:
    """No rows, one and five, of the inputs that have as many rows as the first, and of all; each input alone empty."""
    tall = [name for name, v in feeds.items() if v.ndim]
    if not tall:
        return
    rows = feeds[tall[0]].shape[0]
    alike = [name for name in tall if feeds[name].shape[0] == rows]
    for size in (0, 1, 5):
        yield f"{size} rows", {**feeds, **{n: resized(feeds[n], 0, size) for n in alike}}
        if len(alike) < len(tall):
            yield f"{size} rows of all", {**feeds, **{n: resized(feeds[n], 0, size) for n in tall}}
    yield "twice", {**feeds, **{n: np.concatenate([feeds[n], feeds[n]]) for n in tall}}
    if len(feeds) > 1:
        for name in tall:
            yield f"{name} empty", {**feeds, name: feeds[name][:0]}


def of_nan(feeds: Feeds) -> Iterator[tuple[str, Feeds]]:
    for name, value in feeds.items():
        if value.dtype.kind == "f" and value.size:
            changed = value.copy()
            changed.flat[0] = np.nan
            yield f"{name} nan", {**feeds, name: changed}


def of_random_shapes(type: str, feeds: Feeds) -> Iterator[tuple[str, Feeds]]:
    """Sizes drawn anew: equal sizes stay equal in all inputs, or one axis of one input changes, or one broadcasts."""
    draw = random.Random(zlib.crc32(type.encode()))
    sizes = sorted({n for v in feeds.values() for n in v.shape})
    for k in range(RANDOM_SHAPES if sizes else 0):
        kind = draw.randrange(4)
        made = dict(feeds)
        if kind < 2:
            new = {n: draw.choice([0, 1, 2, 3, 4, 5]) for n in sizes if kind or draw.random() < 0.5}
            for name, value in feeds.items():
                for axis, n in enumerate(value.shape):
                    value = resized(value, axis, new.get(n, n))
                made[name] = value
        else:
            name = draw.choice([n for n, v in feeds.items() if v.ndim])
            if kind == 2:
                axis = draw.randrange(feeds[name].ndim)
                made[name] = resized(feeds[name], axis, draw.choice([0, 1, 2, 3, 5]))
            else:
                made[name] = feeds[name][0] if draw.random() < 0.5 and len(feeds[name]) else feeds[name][None]
        yield f"shapes {k}", made


def arguments_with_negative_axes(declaration: type[Operator]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The axes of the example counted from the end."""
    given, feeds = declaration.example.arguments, examples.feeds(declaration.example)
    rank = max((v.ndim for v in feeds.values()), default=0)
    for argument in declaration.arguments:
        if argument.name not in AXES or not isinstance(argument, (Int, Ints)) or not rank:
            continue
        value = given.get(argument.name, argument.default)
        if isinstance(value, int):
            yield f"{argument.name} from the end", {**given, argument.name: value - rank}
        elif value:
            yield f"{argument.name} from the end", {**given, argument.name: [n - rank for n in value]}


def variations(declaration: type[Operator]) -> Iterator[tuple[str, caffe2_pb2.OperatorDef, Feeds]]:
    """Name, operator and feeds of each."""
    feeds = examples.feeds(declaration.example)
    plain = {name: value for name, value in feeds.items() if value.dtype != object}
    op = examples.operator(declaration)
    yield "as it is", op, feeds
    for kind in (of_dtypes(plain), of_batches(plain), of_nan(plain), of_random_shapes(declaration.type, plain)):
        for name, changed in kind:
            yield name, op, {**feeds, **changed}
    for name, arguments in arguments_with_negative_axes(declaration):
        yield name, CreateOperator(declaration.type, list(declaration.example.input_names),
                                   list(declaration.example.outputs), **arguments), feeds
