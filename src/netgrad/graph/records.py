"""Records: trees of named blobs (or arrays, or just types) that describe structured data column by column.

A `Scalar` is one column, a `List` a column of lengths beside its values, a `Struct` named fields side by side. The
name of a column joins the names on its path by colons: ``clicks:values:item``.
"""

from __future__ import annotations

import logging
from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from netgrad.graph.blob import BlobReference

logger = logging.getLogger(__name__)

FIELD_SEPARATOR = ":"

FeatureSpec = namedtuple(
    "FeatureSpec",
    ["feature_type", "feature_names", "feature_ids", "feature_is_request_only", "desired_hash_size",
     "feature_to_index"],
    defaults=(None, None, None, None, None, None),
)


class Metadata(namedtuple("Metadata", ["categorical_limit", "expected_value", "feature_specs"],
                          defaults=(None, None, None))):
    """What is known of a column's values.

    Attributes:
        categorical_limit: for non-negative integers, the largest value possible plus one (the size of an
            embedding table).
        expected_value: the average to expect.
        feature_specs: what the features in the column are, a `FeatureSpec`.
    """

    __slots__ = ()


def _join_field_name(prefix: str, suffix: str) -> str:
    return f"{prefix}{FIELD_SEPARATOR}{suffix}" if prefix and suffix else prefix or suffix


def _normalize_field(field_or_type_or_blob: Any, keep_blobs: bool = True) -> Any:
    """A field that belongs to nobody yet: a copy of a field, or a `Scalar` of a type, or one of a blob."""
    if isinstance(field_or_type_or_blob, Field):
        return field_or_type_or_blob.clone(keep_blobs=keep_blobs)
    if isinstance(field_or_type_or_blob, (type, np.dtype)):
        return Scalar(dtype=field_or_type_or_blob)
    return Scalar(blob=field_or_type_or_blob)


class Field:
    """A node of a record. Fields are immutable once built, but for `Scalar.set` and metadata."""

    _parent: tuple[Field | None, int]

    def __init__(self, children: Iterable[Field]) -> None:
        self._parent = (None, 0)
        self._field_offsets = [0]
        for child in children:
            self._field_offsets.append(self._field_offsets[-1] + len(child.field_names()))

    def _named_children(self) -> list[tuple[str, Field]]:
        """The fields below, and what their columns are prefixed with."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its fields are")

    def field_names(self) -> list[str]:
        """The names of the columns."""
        return [_join_field_name(name, below)
                for name, child in self._named_children() for below in child.field_names()]

    def all_scalars(self) -> list[Scalar]:
        """The columns, in the order of their names."""
        return [scalar for _, child in self._named_children() for scalar in child.all_scalars()]

    def field_types(self) -> list[np.dtype[Any]]:
        """The NumPy dtypes of the columns."""
        return [scalar.dtype for scalar in self.all_scalars()]

    def field_metadata(self) -> list[Metadata | None]:
        return [scalar.metadata for scalar in self.all_scalars()]

    def field_blobs(self) -> list[Any]:
        """The blobs or arrays of the columns; raises AssertionError where a column has none."""
        return [scalar.get() for scalar in self.all_scalars()]

    def has_blobs(self) -> bool:
        """Whether every column has a blob or array."""
        return all(scalar._blob is not None for scalar in self.all_scalars())

    def clone(self, keep_blobs: bool = True) -> Any:
        """A copy, with or without the columns' blobs."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is copied")

    def clone_schema(self) -> Any:
        """A copy without blobs."""
        return self.clone(keep_blobs=False)

    def _set_parent(self, parent: Field, relative_id: int) -> None:
        self._parent = (parent, relative_id)

    def _child_base_id(self, child_index: int | None = None) -> int:
        """The position of the first column of a child, or of this field itself, in the whole record."""
        parent, own = self._parent
        position = 0 if child_index is None else self._field_offsets[child_index]
        return position if parent is None else position + parent._child_base_id(own)

    def slice(self) -> slice:
        """The positions of this field's columns in the whole record, to index a list of all columns with."""
        first = self._child_base_id()
        return slice(first, first + len(self.field_names()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Field) and (
            self.field_names(), self.field_types(), self.field_metadata()
        ) == (other.field_names(), other.field_types(), other.field_metadata())

    __hash__ = None  # type: ignore[assignment]

    def _lines(self, label: str, indent: int) -> list[str]:
        head = "  " * indent + label + type(self).__name__
        below = [line for name, child in self._named_children() for line in child._lines(f"{name or '_'}=", indent + 1)]
        return [f"{head}(", *below, "  " * indent + ")"] if below else [f"{head}()"]

    def __repr__(self) -> str:
        return "\n".join(self._lines("", 0)) + "\n"


class List(Field):
    """Lists of varying length: a column ``lengths`` and the field of the values, all lists behind one another.

    Where the values are a `Struct`, its fields are attributes of the list too; else ``items`` is the field of the
    values.
    """

    lengths: Scalar
    _items: Field

    def __init__(self, values: Any, lengths_blob: Any = None) -> None:
        self.lengths = _column(np.int32, lengths_blob)
        self._items = _normalize_field(values)
        children = [child for _, child in self._named_children()]
        for k, child in enumerate(children):
            child._set_parent(self, k)
        super().__init__(children)

    def _named_children(self) -> list[tuple[str, Field]]:
        return [("lengths", self.lengths), ("values", self._items)]

    def clone(self, keep_blobs: bool = True) -> Any:
        return type(self)(self._items.clone(keep_blobs), self.lengths.clone(keep_blobs))

    def __getattr__(self, item: str) -> Any:
        items = self.__dict__.get("_items")
        if items is None or item.startswith("__"):
            raise AttributeError(item)
        if isinstance(items, Struct):
            return getattr(items, item)
        if item in ("value", "items"):
            return items
        raise AttributeError(f"the list has no field {item!r}")

    def __getitem__(self, item: str) -> Field:
        name, _, below = item.partition(FIELD_SEPARATOR)
        field = dict(self._named_children()).get(name)
        if field is None or (below and not isinstance(field, (List, Struct))):
            raise KeyError(f"the list has no field {item!r}")
        return field[below] if below else field  # type: ignore[index]


class ListWithEvicted(List):
    """A `List` with one column more, ``_evicted_values``: what a cache of limited size threw out."""

    _evicted_values: Scalar

    def __init__(self, values: Any, lengths_blob: Any = None, evicted_values: Any = None) -> None:
        self._evicted_values = _column(np.int64, evicted_values)
        super().__init__(values, lengths_blob=lengths_blob)

    def _named_children(self) -> list[tuple[str, Field]]:
        return [*super()._named_children(), ("_evicted_values", self._evicted_values)]

    def clone(self, keep_blobs: bool = True) -> Any:
        return type(self)(self._items.clone(keep_blobs), self.lengths.clone(keep_blobs),
                          self._evicted_values.clone(keep_blobs))


class Struct(Field):
    """Named fields side by side, which are its attributes: ``Struct(("a", Scalar()), ("b:c", Scalar())).b.c``."""

    fields: dict[str, Field]

    def __init__(self, *fields: tuple[str, Any]) -> None:
        """Makes a record of (name, field) pairs.

        A name with colons makes structs within; pairs that lead into one struct are merged. A field may be given as a
        type or a blob, for a `Scalar`.

        Raises:
            ValueError: a name occurs twice.
        """
        merged: dict[str, Field] = {}
        for pair in fields:
            if len(pair) != 2 or not pair[0]:
                raise AssertionError(f"a Struct is made of pairs (name, field), not of {pair!r}")
            name, _, below = pair[0].partition(FIELD_SEPARATOR)
            if name == "lengths":
                raise AssertionError("a Struct may have no field named 'lengths', which is a List's")
            field = Struct((below, pair[1])) if below else _normalize_field(pair[1])
            present = merged.get(name)
            if present is None:
                merged[name] = field
            elif isinstance(present, Struct) and isinstance(field, Struct):
                merged[name] = present + field
            else:
                raise ValueError(f"the field {name!r} occurs twice")
        self.fields = merged
        for k, field in enumerate(merged.values()):
            field._set_parent(self, k)
        super().__init__(merged.values())
        self._frozen = True

    def _named_children(self) -> list[tuple[str, Field]]:
        return list(self.fields.items())

    def get_children(self) -> list[tuple[str, Field]]:
        """(name, field) pairs."""
        return self._named_children()

    def clone(self, keep_blobs: bool = True) -> Any:
        return type(self)(*[(name, field.clone(keep_blobs)) for name, field in self.fields.items()])

    def _get_field_by_nested_name(self, nested_name: str) -> Field | None:
        name, _, below = nested_name.partition(FIELD_SEPARATOR)
        field = self.fields.get(name)
        if not below or field is None:
            return field
        try:
            return field[below]  # type: ignore[index,no-any-return]
        except (KeyError, TypeError):
            return None

    def __contains__(self, item: str) -> bool:
        return self._get_field_by_nested_name(item) is not None

    def __len__(self) -> int:
        return len(self.fields)

    def __getitem__(self, item: Any) -> Any:
        """A field by name ("a", "a:b") or position, or a Struct of several, by a list or tuple of these."""
        if isinstance(item, (list, tuple)):
            names = list(self.fields)
            return Struct(*[(names[k] if isinstance(k, int) else k, self[k]) for k in item])
        if isinstance(item, int):
            return list(self.fields.values())[item]
        field = self._get_field_by_nested_name(item)
        if field is None:
            raise KeyError(f"the record has no field {item!r}; it has {', '.join(self.fields) or 'none'}")
        return field

    def get(self, item: str, default_value: Any) -> Any:
        """The field of that name, or the default."""
        return getattr(self, item, default_value)

    def __getattr__(self, item: str) -> Any:
        fields = self.__dict__.get("fields")
        if fields is None or item not in fields:
            raise AttributeError(item)
        return fields[item]

    def __setattr__(self, key: str, value: Any) -> None:
        if self.__dict__.get("_frozen") and not key.startswith("_"):
            raise TypeError(f"fields of a Struct cannot be assigned; make a new one to replace {key!r}")
        super().__setattr__(key, value)

    def __add__(self, other: Any) -> Struct:
        """The fields of both; structs of one name are merged.

        Raises:
            TypeError: a name is in both and one of the two is no Struct.
        """
        if not isinstance(other, Struct):
            return NotImplemented
        merged = dict(self.fields)
        for name, field in other.fields.items():
            mine = merged.get(name)
            if mine is None:
                merged[name] = field
            elif isinstance(mine, Struct) and isinstance(field, Struct):
                merged[name] = mine + field
            else:
                raise TypeError(f"the field {name!r} is a {type(mine).__name__} and a {type(field).__name__}; only two "
                                "Structs can be merged")
        return Struct(*merged.items())

    def __sub__(self, other: Any) -> Struct:
        """The fields that ``other`` does not have; structs that become empty vanish.

        Raises:
            TypeError: a name stands for fields of two kinds.
        """
        if not isinstance(other, Struct):
            return NotImplemented
        rest = dict(self.fields)
        for name, field in other.fields.items():
            mine = rest.get(name)
            if mine is None:
                continue
            if type(mine) is not type(field):
                raise TypeError(f"the field {name!r} is a {type(mine).__name__} here and a "
                                f"{type(field).__name__} there")
            left = mine - field if isinstance(mine, Struct) else None
            if left:
                rest[name] = left
            else:
                del rest[name]
        return Struct(*rest.items())


class Scalar(Field):
    """One column: a dtype and shape of its entries, and a blob or array that holds them.

    ``Scalar(np.float64)`` is a vector of numbers, one per row; ``Scalar((np.int32, 5))`` a matrix with five numbers
    per row; ``Scalar()`` has unknown (void) type. Structured dtypes are several columns: see `from_dtype`.
    """

    dtype: np.dtype[Any]

    def __init__(self, dtype: Any = None, blob: Any = None, metadata: Metadata | None = None) -> None:
        self._metadata: Metadata | None = None
        self.set(dtype, blob, metadata, unsafe=True)
        super().__init__([])

    def field_names(self) -> list[str]:
        return [""]

    def field_type(self) -> np.dtype[Any]:
        return self.dtype

    def all_scalars(self) -> list[Scalar]:
        return [self]

    def clone(self, keep_blobs: bool = True) -> Any:
        return Scalar(self._original_dtype, self._blob if keep_blobs else None, self._metadata)

    def get(self) -> Any:
        """The blob or array; raises AssertionError if there is none."""
        if self._blob is None:
            raise AssertionError("this field has no blob yet; NewRecord(net, schema) gives it one")
        return self._blob

    def __call__(self) -> Any:
        return self.get()

    @property
    def metadata(self) -> Metadata | None:
        return self._metadata

    def set_metadata(self, value: Metadata) -> None:
        if not isinstance(value, Metadata):
            raise AssertionError(f"metadata must be a Metadata, not {value!r}")
        self._metadata = value
        self._validate_metadata()

    def _validate_metadata(self) -> None:
        if self._metadata is not None and self._metadata.categorical_limit is not None \
                and not np.issubdtype(self.dtype, np.integer):
            raise AssertionError(f"categorical_limit is for integers, but the field is {self.dtype}")

    def set_value(self, blob: Any, throw_on_type_mismatch: bool = False, unsafe: bool = False) -> None:
        """Sets the blob or array and keeps the type.

        Raises:
            AssertionError: with ``throw_on_type_mismatch``, what is given is no array of that type.
        """
        if throw_on_type_mismatch and self.dtype.base != np.void:
            found = blob.dtype.base if isinstance(blob, np.ndarray) else type(blob).__name__
            if found != self.dtype.base:
                raise AssertionError(f"expected an array of {self.dtype.base}, found {found}")
        self.set(dtype=self._original_dtype, blob=blob, unsafe=unsafe)

    def set(self, dtype: Any = None, blob: Any = None, metadata: Metadata | None = None, unsafe: bool = False) -> None:
        """Sets type, value and metadata of a field that nobody uses yet, which ``unsafe`` affirms.

        Args:
            dtype: anything NumPy takes, or (type, shape of one entry); void if absent.
            blob: a `BlobReference`, or what becomes an array of that type. Strings are refused: wrap them in one of
                the two.

        Raises:
            ValueError: the blob is a string.
            TypeError: the type is void with a shape.
        """
        if not unsafe:
            logger.warning("fields are shared; set a Scalar only while nobody else has it, and say unsafe=True")
        if isinstance(blob, str):
            raise ValueError(f"a string, {blob!r}, may be a blob's name or a value: write BlobReference({blob!r}) or "
                             f"np.array({blob!r})")
        self._original_dtype = dtype
        if isinstance(dtype, tuple):
            if dtype[0] == np.void:
                raise TypeError(f"the type {dtype} of blob {blob} is void; give what computes it a type")
            # NumPy takes (type, 1) for the type alone
            dtype = np.dtype((dtype[0], (1,) if isinstance(dtype[1], int) and dtype[1] == 1 else dtype[1]))
        elif dtype is not None:
            dtype = np.dtype(dtype)
        if blob is not None and not isinstance(blob, BlobReference):
            blob, dtype = _as_column(blob, dtype)
        if dtype is None:
            dtype = np.dtype(np.void)
        if dtype.fields:
            raise AssertionError(f"{dtype} is several columns; from_dtype makes a Struct of it")
        self.dtype = dtype
        self._blob = blob
        if metadata is not None:
            self.set_metadata(metadata)
        self._validate_metadata()

    def set_type(self, dtype: Any) -> None:
        self._original_dtype = dtype
        self.dtype = np.dtype(np.void if dtype is None else dtype)
        self._validate_metadata()

    def id(self) -> int:
        """The position of this column in the whole record."""
        return self._child_base_id()

    def _lines(self, label: str, indent: int) -> list[str]:
        return ["  " * indent + f"{label}Scalar({self.dtype!r}, {self._blob!r}, {self._metadata!r})"]


def _column(dtype: Any, blob: Any) -> Scalar:
    """The column of that type for a blob, or a copy of one that is given."""
    if isinstance(blob, Field):
        if not isinstance(blob, Scalar):
            raise AssertionError(f"expected a Scalar, found a {type(blob).__name__}")
        return blob.clone()  # type: ignore[no-any-return]
    return Scalar(dtype, blob)


def _as_column(value: Any, dtype: np.dtype[Any] | None) -> tuple[np.ndarray[Any, Any], np.dtype[Any] | None]:
    """A value as an array of a type, and the type with the shape of one entry."""
    given_as_array = isinstance(value, np.ndarray)
    if dtype is None or dtype == np.void:
        if not given_as_array:
            raise AssertionError(f"the value {value!r} is neither a blob nor an array, and no dtype is given")
        array = value
    else:
        array = np.array(value, dtype=dtype.base)
        if array.size == 0 and not given_as_array:
            array = array.reshape((0, *dtype.shape))
    if array.ndim == 0 and not given_as_array:
        array = array.reshape((1,))
    if array.ndim > 1 and dtype is not None and dtype.base != np.void:
        dtype = np.dtype((dtype.base, array.shape[1:]))
    return array, dtype


def Map(keys: Any, values: Any, keys_name: str = "keys", values_name: str = "values", lengths_blob: Any = None) -> List:
    """A list of (key, value) structs."""
    return List(Struct((keys_name, keys), (values_name, values)), lengths_blob=lengths_blob)


def MapWithEvicted(
    keys: Any, values: Any, keys_name: str = "keys", values_name: str = "values", lengths_blob: Any = None,
    evicted_values: Any = None,
) -> ListWithEvicted:
    """A `Map` with a column of evicted values."""
    return ListWithEvicted(Struct((keys_name, keys), (values_name, values)), lengths_blob=lengths_blob,
                           evicted_values=evicted_values)


def NamedTuple(name_prefix: str, *fields: Any) -> Struct:
    """A struct with fields ``prefix_0``, ``prefix_1``, ..."""
    return Struct(*[(f"{name_prefix}_{k}", field) for k, field in enumerate(fields)])


def Tuple(*fields: Any) -> Struct:
    """A struct with fields ``field_0``, ``field_1``, ..."""
    return NamedTuple("field", *fields)


def RawTuple(num_fields: int, name_prefix: str = "field") -> Struct:
    """A tuple of columns of unknown type."""
    if not isinstance(num_fields, int) or num_fields < 0:
        raise AssertionError(f"a tuple has a whole number of fields, not {num_fields!r}")
    return NamedTuple(name_prefix, *([np.void] * num_fields))


def from_dtype(dtype: Any, _outer_shape: tuple[int, ...] = ()) -> Field:
    """The record of a NumPy dtype: a `Scalar`, or a `Struct` of a structured one."""
    own = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
    shape = (*_outer_shape, *own.shape)
    if not own.base.fields:
        return Scalar(np.dtype((own.base, shape)))
    return Struct(*[(name, from_dtype(own.base.fields[name][0], shape)) for name in own.base.names or ()])


def from_column_list(
    col_names: Sequence[str], col_types: Sequence[Any] | None = None, col_blobs: Sequence[Any] | None = None,
    col_metadata: Sequence[Any] | None = None,
) -> Field:
    """The record with these columns, whose names say where they belong; the inverse of `Field.field_names`.

    Raises:
        ValueError: a name occurs twice, or is a column and a group of columns.
    """
    count = len(col_names)
    columns = []
    for what, given in (("col_types", col_types), ("col_blobs", col_blobs), ("col_metadata", col_metadata)):
        if given is not None and len(given) != count:
            raise AssertionError(f"{what} has {len(given)} entries for {count} columns")
        columns.append(given if given is not None else [None] * count)
    tree: dict[str, Any] = {}
    for name, dtype, blob, metadata in zip(col_names, *columns, strict=True):
        *path, last = name.split(FIELD_SEPARATOR)
        node = tree
        for part in path:
            node = node.setdefault(part, {})
            if isinstance(node, Scalar):
                break
        if isinstance(node, Scalar) or last in node:
            raise ValueError(f"the column {name!r} occurs twice, or is a group of columns too")
        node[last] = Scalar(dtype, blob, metadata)
    return _field_of(tree)


def _field_of(node: Any) -> Field:
    if isinstance(node, Field):
        return node
    fields = {name: _field_of(below) for name, below in node.items()}
    match sorted(fields):
        case ["lengths", "values"]:
            return List(fields["values"], lengths_blob=fields["lengths"])
        case ["_evicted_values", "lengths", "values"]:
            return ListWithEvicted(fields["values"], fields["lengths"], fields["_evicted_values"])
        case ["keys", "lengths", "values"]:
            return Map(fields["keys"], fields["values"], lengths_blob=fields["lengths"])
    return Struct(*fields.items())


def from_blob_list(schema: Field, values: Any, throw_on_type_mismatch: bool = False) -> Any:
    """A record like ``schema`` whose columns are these blobs or arrays, in order."""
    if not isinstance(schema, Field):
        raise AssertionError(f"the schema must be a Field, not {schema!r}")
    if isinstance(values, BlobReference):
        values = [values]
    record = schema.clone_schema()
    scalars = record.all_scalars()
    if len(scalars) != len(values):
        raise AssertionError(f"the record has {len(scalars)} columns, {schema.field_names()}, but {len(values)} "
                             f"values are given")
    for scalar, value in zip(scalars, values, strict=True):
        scalar.set_value(value, throw_on_type_mismatch, unsafe=True)
    return record


def as_record(value: Any) -> Field:
    """A record of lists, tuples and dictionaries of blobs: dictionaries and lists of (name, value) become structs."""
    if isinstance(value, Field):
        return value
    if isinstance(value, dict):
        return Struct(*[(name, as_record(below)) for name, below in value.items()])
    if isinstance(value, (list, tuple)):
        if all(isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) for entry in value):
            return Struct(*[(name, as_record(below)) for name, below in value])
        return Tuple(*[as_record(entry) for entry in value])
    field: Field = _normalize_field(value)
    return field


def is_schema_subset(schema: Field, original_schema: Field) -> bool:
    """Whether all columns of the first are columns of the second, by name."""
    return set(schema.field_names()) <= set(original_schema.field_names())


def equal_schemas(
    schema: Field, original_schema: Field, check_field_names: bool = True, check_field_types: bool = True,
    check_field_metas: bool = False,
) -> bool:
    """Whether two records agree in what is to be checked."""
    for field in (schema, original_schema):
        if not isinstance(field, Field):
            raise AssertionError(f"expected a Field, found {field!r}")
    return ((not check_field_names or schema.field_names() == original_schema.field_names())
            and (not check_field_types or schema.field_types() == original_schema.field_types())
            and (not check_field_metas or schema.field_metadata() == original_schema.field_metadata()))


def schema_check(schema: Any, previous: Field | None = None) -> Field:
    """The record of a value; raises AssertionError if it differs from the previous one."""
    record = as_record(schema)
    if previous is not None and not equal_schemas(record, previous):
        raise AssertionError(f"the record has changed from\n{previous!r}to\n{record!r}")
    return record


def attach_metadata_to_scalars(field: Field, metadata: Metadata) -> None:
    """Gives every column this metadata."""
    for scalar in field.all_scalars():
        scalar.set_metadata(metadata)
