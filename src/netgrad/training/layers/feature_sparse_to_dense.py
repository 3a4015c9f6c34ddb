"""`FeatureSparseToDense`: columns for chosen features out of maps from feature to value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.graph.records import FeatureSpec, Metadata, Scalar, Struct, attach_metadata_to_scalars
from netgrad.training.layers.base import AccessedFeatures, ModelLayer
from netgrad.training.layers.checks import require, struct

#: kind of feature -> its output columns beside "ranges"
_COLUMNS: dict[str, list[tuple[str, Any]]] = {
    "ID_LIST": [("values", np.int64)],
    "ID_SCORE_LIST": [("ids", np.int64), ("scores", np.float32)],
    "EMBEDDING": [("values", np.float32)],
    "GENERIC_FEATURE": [("values", np.float32)],
}

#: kind of feature -> the name of the blob of ranges before features are chosen
_RANGES = {
    "ID_LIST": "id_list_ranges",
    "ID_SCORE_LIST": "id_score_list_ranges",
    "EMBEDDING": "embeddings_ranges",
    "GENERIC_FEATURE": "generics_ranges",
}


class FeatureSparseToDense(ModelLayer):
    """For each field, the features that its spec lists, in that order.

    A field of kind "FLOAT", a Map from feature id to number, becomes a matrix, float (batch, features). Other kinds,
    "ID_LIST", "ID_SCORE_LIST", "EMBEDDING", map feature ids to lists, and become a Struct: ``ranges``, int32 (batch,
    features, 2), says where (start, length) in ``values`` (``ids`` and ``scores``) the list of each feature is.
    "GENERIC_FEATURE" is such a map as serialized strings.
    """

    def __init__(
        self, model: Any, input_record: Any, input_specs: Sequence[tuple[str, FeatureSpec]],
        name: str = "feature_sparse_to_dense", default_dense_value: float | None = None, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            input_specs: (field, `FeatureSpec`) pairs with feature_type, feature_names and feature_ids.
            default_dense_value: what stands for a number that is absent, 0 or NaN.

        Raises:
            TypeError: an unknown kind.
        """
        super().__init__(model, name, input_record, **kwargs)
        default = float(default_dense_value or 0.0)
        require(self, np.isnan(default) or default == 0.0,
                f"default_dense_value is 0 or NaN, not {default_dense_value}")
        self.input_specs = input_specs
        self.default_float_value = model.global_constants["NAN" if np.isnan(default) else "ZERO"]
        self.zero_range = model.global_constants["ZERO_RANGE"]
        struct(self, input_record)
        self.output_schema = Struct(*[(field, self._output(field, spec)) for field, spec in input_specs])
        for field, spec in input_specs:
            attach_metadata_to_scalars(self._output_schema[field], Metadata(feature_specs=spec))

    def _output(self, field: str, spec: FeatureSpec) -> Any:
        require(self, field in self.input_record,
                f"input_specs names the field {field}, which the input record lacks; it has "
                f"{', '.join(self.input_record.fields)}")
        names, ids = spec.feature_names or (), spec.feature_ids or ()
        require(self, len(names) == len(ids),
                f"the spec of the field {field} has {len(names)} feature_names for {len(ids)} feature_ids")

        def scalar(what: str, dtype: Any) -> Scalar:
            return Scalar(dtype, self.get_next_blob_reference(f"{field}_{what}"))

        if spec.feature_type == "FLOAT":
            return scalar("output", (np.float32, (len(ids),)))
        if spec.feature_type not in _COLUMNS:
            raise TypeError(
                f"layer {self.name!r}: the spec of the field {field} has feature_type {spec.feature_type!r}; known are "
                f"FLOAT, {', '.join(_COLUMNS)}")
        return Struct(
            ("ranges", scalar("ranges", (np.int32, (len(ids), 2)))),
            *[(what, scalar(what, dtype)) for what, dtype in _COLUMNS[spec.feature_type]],
        )

    def add_ops(self, net: Any) -> None:
        for field, spec in self.input_specs:
            given, output = self.input_record[field], self.output_schema[field]
            if spec.feature_type == "FLOAT":
                net.SparseToDenseMask([given.keys(), given.values(), self.default_float_value, given.lengths()],
                                      [output()], mask=spec.feature_ids)
                continue
            keys, lengths, value_lengths, values = self._parts(net, spec.feature_type, given)
            ranges = net.LengthsToRanges(value_lengths, net.NextScopedBlob(_RANGES[spec.feature_type]))
            net.SparseToDenseMask([keys, ranges, self.zero_range, lengths], output.ranges(), mask=spec.feature_ids)
            # new names for the values: whoever provides the outputs in prediction provides all of them
            for (what, _), blob in zip(_COLUMNS[spec.feature_type], values, strict=True):
                net.Alias(blob, output[what]())

    def _parts(self, net: Any, kind: str, given: Any) -> tuple[Any, Any, Any, list[Any]]:
        """Feature ids, features per row, values per feature, and the values."""
        if kind == "GENERIC_FEATURE":
            lengths, keys, value_lengths, values = net.ParseGeneric(
                [given()], ["feature_lengths", "feature_ids", "value_lengths", "value_values"], feature_type_enum=1)
            return keys, lengths, value_lengths, [values]
        lists = given.values
        values = [lists.keys(), lists.values()] if kind == "ID_SCORE_LIST" else [lists.items()]
        return given.keys(), given.lengths(), lists.lengths(), values

    def get_metadata(self) -> list[tuple[dict[str, Any], list[Any], list[Any]]]:
        """(spec as a dictionary, blobs, types) of each output field."""
        result = []
        for field, spec in self.input_specs:
            said = {"type": spec.feature_type, "names": spec.feature_names, "ids": spec.feature_ids}
            if spec.feature_type == "FLOAT":
                said["cardinality"] = 1
            output = self.output_schema[field]
            result.append((said, output.field_blobs(), output.field_types()))
        return result

    def get_accessed_features(self) -> dict[str, list[AccessedFeatures]]:
        accessed: dict[str, list[AccessedFeatures]] = {}
        for field, spec in self.input_specs:
            accessed.setdefault(field, []).append(AccessedFeatures(spec.feature_type, set(spec.feature_ids)))
        return accessed
