"""What layers demand of their input records; messages name the layer, the field, what is there and what is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from netgrad.graph.records import Field, Scalar, Struct


class LayerError(AssertionError, ValueError):
    """A layer cannot be made of what it is given."""


def refuse(layer: Any, problem: str) -> NoReturn:
    """Raises `LayerError` for a layer."""
    raise LayerError(f"layer {layer.name!r} ({type(layer).__name__}): {problem}")


def require(layer: Any, condition: Any, problem: str) -> None:
    if not condition:
        refuse(layer, problem)


def describe(field: Any) -> str:
    """A field in a few words: ``a Scalar of float32 (4,)``, ``a Struct of a, b``."""
    if isinstance(field, Scalar):
        return f"a Scalar of {field.dtype.base} {field.dtype.shape}"
    if isinstance(field, Field):
        return f"a {type(field).__name__} of {', '.join(field.field_names()) or 'nothing'}"
    return f"{field!r}, a {type(field).__name__}"


def column(layer: Any, field: Any, name: str = "the input record") -> Scalar:
    """The field, which has to be a single column."""
    if not isinstance(field, Scalar):
        refuse(layer, f"{name} must be a Scalar, but is {describe(field)}")
    return field


def row_shape(layer: Any, field: Any, name: str = "the input record") -> tuple[int, ...]:
    """The shape of one row of a column, which must be known and have at least one dimension."""
    shape = column(layer, field, name).dtype.shape
    if not shape:
        refuse(
            layer,
            f"{name} must say the shape of a row, as in schema.Scalar((np.float32, (4,))), but is {describe(field)}",
        )
    if any(size <= 0 for size in shape):
        refuse(layer, f"every dimension of {name} must be positive, but it is {describe(field)}")
    return shape  # type: ignore[no-any-return]


def vector_size(layer: Any, field: Any, name: str = "the input record") -> int:
    """The size of the rows of a column, which must be vectors."""
    shape = row_shape(layer, field, name)
    if len(shape) != 1:
        refuse(layer, f"the rows of {name} must be vectors, as of schema.Scalar((np.float32, (4,))), but it is "
                      f"{describe(field)}")
    return shape[0]


def struct(layer: Any, field: Any, name: str = "the input record") -> Struct:
    if not isinstance(field, Struct):
        refuse(layer, f"{name} must be a Struct, but is {describe(field)}")
    return field


def columns_named(layer: Any, record: Any, names: Iterable[str]) -> None:
    """Requires these columns (``neg_prediction:lengths`` is one within a list) in the input record."""
    present = set(record.field_names()) if isinstance(record, Field) else set()
    missing = [name for name in names if name not in present]
    if missing:
        refuse(layer, f"the input record lacks the field {', '.join(missing)}; it is {describe(record)}")


def fields_named(layer: Any, record: Any, *names: str) -> None:
    """Requires these fields, of any kind, in the input record."""
    missing = [name for name in names if name not in struct(layer, record)]
    if missing:
        refuse(layer, f"the input record lacks the field {', '.join(missing)}; it is {describe(record)}")
