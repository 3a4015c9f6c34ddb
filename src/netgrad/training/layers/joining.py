"""Concatenating and splitting columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netgrad.graph.records import FeatureSpec, Metadata, Scalar, Tuple, from_blob_list
from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import column, refuse, require, row_shape, struct


def get_concatenated_feature_to_index(blobs_to_concat: Iterable[Any]) -> dict[Any, list[int]] | None:
    """Where the features of several columns are once these are behind one another, by the ``feature_to_index`` of
    their metadata; None if none has any."""
    found: dict[Any, list[int]] = {}
    start = 0
    for scalar in blobs_to_concat:
        specs = getattr(getattr(scalar, "metadata", None), "feature_specs", None)
        places = getattr(specs, "feature_to_index", None)
        for feature, indices in places.items() if isinstance(places, dict) else ():
            found.setdefault(feature, []).extend(start + index for index in indices)
        start += scalar.dtype.shape[0]
    return found or None


class Concat(ModelLayer):
    """The columns of a Struct behind one another along ``axis``; the batch is axis 0.

    Rows (a,), (b,) become (a + b,). With ``add_axis=1`` a new axis is made: two rows (a,) become (2, a).
    """

    def __init__(
        self, model: Any, input_record: Any, axis: int = 1, add_axis: int = 0, name: str = "concat", **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        struct(self, input_record)
        require(self, len(input_record) > 0, "the input record must have columns, but has none")
        require(self, not (axis == 0 and add_axis), "axis 0 is the batch; a new axis cannot be made there")
        self.axis = axis
        self.add_axis = add_axis
        shapes: dict[str, list[int]] = {}
        for field, scalar in input_record.fields.items():
            shape = list(column(self, scalar, f"the field {field}").dtype.shape)
            if add_axis:
                shape.insert(axis - 1, 1)
            require(self, len(shape) >= axis,
                    f"the field {field} has rows of shape {tuple(shape)}, without an axis {axis} to join along")
            shapes[field] = shape
        if axis == 0:
            self.output_schema = from_blob_list(input_record[0], [self.get_next_blob_reference("output")])
            return
        joined = [*next(iter(shapes.values()))]
        for field, shape in shapes.items():
            others = shape[:axis - 1] + shape[axis:]
            if others != joined[:axis - 1] + joined[axis:]:
                refuse(self, f"the field {field} has rows of shape {tuple(shape)}, the first field {tuple(joined)}; "
                             f"they may differ in axis {axis} alone")
        joined[axis - 1] = sum(shape[axis - 1] for shape in shapes.values())
        self.output_schema = float_rows(joined, self.get_next_blob_reference("output"))
        places = None if add_axis else get_concatenated_feature_to_index(input_record.fields.values())
        if places:
            self.output_schema.set_metadata(Metadata(feature_specs=FeatureSpec(feature_to_index=places)))

    def add_ops(self, net: Any) -> None:
        output = self.output_schema.field_blobs()[0]
        net.Concat(self.input_record.field_blobs(), [output, output + "_concat_dims"], axis=self.axis,
                   add_axis=self.add_axis)


class Split(ModelLayer):
    """A column cut along ``axis`` (the batch is axis 0) into ``num_splits`` equal parts, or into parts of the sizes in
    ``split``. The output is a Tuple, ``field_0`` and so on."""

    def __init__(
        self, model: Any, input_record: Any, num_splits: int = 1, axis: int = 1, name: str = "split",
        split: Sequence[int] | None = None, **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        self.axis = axis
        shape = row_shape(self, input_record)
        require(self, 1 <= axis <= len(shape), f"axis must be between 1 and {len(shape)}, but is {axis}")
        size = shape[axis - 1]
        if split is None:
            require(self, num_splits > 0 and size % num_splits == 0,
                    f"axis {axis} has size {size}, which cannot be cut into {num_splits} equal parts")
            sizes = [size // num_splits] * num_splits
        else:
            sizes = list(split)
            require(self, sum(sizes) == size, f"axis {axis} has size {size}, but split={sizes} makes {sum(sizes)}")
        self.split = split
        self.output_schema = Tuple(*[
            Scalar((input_record.field_type().base, (*shape[:axis - 1], part, *shape[axis:])),
                   self.get_next_blob_reference(f"output_{k}"))
            for k, part in enumerate(sizes)
        ])

    def add_ops(self, net: Any) -> None:
        net.Split(self.input_record.field_blobs(), self.output_schema.field_blobs(), split=self.split, axis=self.axis)
