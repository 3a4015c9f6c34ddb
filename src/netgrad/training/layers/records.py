"""Layers of whole records: gathering rows, choosing by the kind of net, merging lists of ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.record_values import NewRecord
from netgrad.graph.records import List, Metadata, Scalar, Struct, equal_schemas
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import InstantiationContext, ModelLayer
from netgrad.training.layers.checks import column, describe, fields_named, refuse, require, struct
from netgrad.training.layers.id_features import IdList, get_categorical_limit


class GatherRecord(ModelLayer):
    """The rows ``indices`` of all columns of ``record``; lists, also within lists, are taken whole.

    For rows 0 and 2, lengths [0, 1, 2, 3] with items [0, 1, 2, 3, 4, 5] become [0, 2] with [1, 2].
    """

    def __init__(self, model: Any, input_record: Any, name: str = "gather_record", **kwargs: Any) -> None:
        super().__init__(model, name, input_record, **kwargs)
        fields_named(self, input_record, "indices", "record")
        self._indices = column(self, input_record.indices, "the field indices")()
        self.output_schema = NewRecord(model.net, input_record.record.clone_schema())

    def add_ops(self, net: Any) -> None:
        self._gather(net, self.input_record.record, None, self.output_schema)

    def _gather(self, net: Any, field: Any, lengths: Any, output: Any) -> None:
        """Writes the gathering of a field that lies within lists of these lengths (None: within none)."""
        if isinstance(field, Scalar):
            if lengths is None:
                net.Gather([field(), self._indices], output())
            else:
                net.LengthsGather([field(), lengths, self._indices], output())
        elif isinstance(field, Struct):
            for name, child in field.get_children():
                self._gather(net, child, lengths, output[name])
        elif isinstance(field, List):
            self._gather(net, field.lengths, lengths, output.lengths)
            self._gather(net, field._items, self._total_lengths(net, field.lengths, lengths), output._items)
        else:
            refuse(self, f"rows cannot be gathered of {describe(field)}")

    def _total_lengths(self, net: Any, field: Any, outer: Any) -> Any:
        """The number of innermost values per row."""
        lengths = field()
        if outer is None:
            return lengths
        as_float = net.Cast(lengths, net.NextScopedBlob(f"{lengths}_float"), to=TensorProto.FLOAT)
        total = net.LengthsSum([as_float, outer], net.NextScopedBlob(f"{lengths}_nested_float"))
        return net.Cast(total, net.NextScopedBlob(f"{lengths}_nested"), to=TensorProto.INT32)


class SelectRecordByContext(ModelLayer):
    """One field of the input record in each kind of net: that called after it ("training", "eval", "prediction",
    "accumulate_pred"), or a default.

    All fields are alike, and the output has the same blobs in all nets: aliases of the chosen ones, or copies.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "select_record_by_context", check_field_metas: bool = True,
        use_copy: bool = False, default_output_record_field: Any = None, **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        struct(self, input_record)
        require(self, len(input_record) > 1, f"there must be several fields to choose from, not {len(input_record)}")
        self.use_copy = use_copy
        self.default_output_record = (
            None if default_output_record_field is None else input_record[default_output_record_field]
        )
        first, *others = input_record.fields.items()
        for field, record in others:
            require(self, equal_schemas(record, first[1], check_field_metas=check_field_metas),
                    f"the fields must be alike, but {field} differs from {first[0]}:\n{record!r}\n{first[1]!r}")
        self.output_schema = NewRecord(model.net, first[1])

    def _select(self, net: Any, context: str) -> None:
        chosen = self.input_record.get(context, self.default_output_record)
        if chosen is None:
            refuse(self, f"there is no field {context!r} and no default_output_record_field, but a net of that kind "
                         "is generated")
        write = net.Copy if self.use_copy else net.Alias
        for blob, output in zip(chosen.field_blobs(), self.output_schema.field_blobs(), strict=True):
            write(blob, output)

    def add_ops(self, net: Any) -> None:
        self._select(net, InstantiationContext.PREDICTION)

    def add_eval_ops(self, net: Any) -> None:
        self._select(net, InstantiationContext.EVAL)

    def add_train_ops(self, net: Any) -> None:
        self._select(net, InstantiationContext.TRAINING)

    def add_ops_to_accumulate_pred(self, net: Any) -> None:
        self._select(net, InstantiationContext.ACCUMULATE_PRED)


class MergeIdLists(ModelLayer):
    """One list of ids per row, each id once, of several. The input record has lists of ids with known limits."""

    def __init__(self, model: Any, input_record: Any, name: str = "merged") -> None:
        super().__init__(model, name, input_record)
        lists: dict[str, Any] = struct(self, input_record).fields
        for field, record in lists.items():
            require(self, equal_schemas(record, IdList),
                    f"the field {field} must be a list of ids, List(np.int64), but is {describe(record)}")
            require(self, record.items.metadata is not None and record.items.metadata.categorical_limit is not None,
                    f"the ids of the field {field} must have a categorical_limit in their metadata")
        limit = max(get_categorical_limit(record) for record in lists.values())
        self.output_schema = NewRecord(model.net, List(Scalar(
            np.int64, blob=model.net.NextBlob(name), metadata=Metadata(categorical_limit=limit))))

    def add_ops(self, net: Any) -> None:
        net.MergeIdLists(self.input_record.field_blobs(), self.output_schema.field_blobs())
