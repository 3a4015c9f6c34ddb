"""Layers that map ids to a range of their own: by hashing, by division, or as they come."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph import scope
from netgrad.graph.record_values import NewRecord
from netgrad.graph.records import Metadata, Scalar, Struct, equal_schemas
from netgrad.training.layers._losses import as_type
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import column, describe, refuse, require
from netgrad.training.layers.id_features import IdList, IdScoreList
from netgrad.training.layers.tags import Tags


class SparseFeatureHash(ModelLayer):
    """Lists of ids, with or without scores, whose ids are mapped to 0 .. ``modulo`` - 1.

    They are hashed, with ``use_hashing``; else the remainder is taken, with ``use_divide_mod`` that of the quotient by
    ``divisor``.
    """

    def __init__(
        self, model: Any, input_record: Any, seed: int = 0, modulo: int | None = None, use_hashing: bool = True,
        use_divide_mod: bool = False, divisor: int | None = None, name: str = "sparse_feature_hash", **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            seed: of the hash function.
            modulo: None: the ``desired_hash_size`` of the ids' metadata, or their ``categorical_limit``.
        """
        super().__init__(model, name, input_record, **kwargs)
        require(self, not (use_hashing and use_divide_mod), "use_hashing and use_divide_mod exclude each other")
        if use_divide_mod:
            require(self, divisor is not None and divisor >= 1,
                    f"use_divide_mod needs a divisor of at least 1, but it is {divisor}")
            self.divisor = self.create_param(
                param_name="divisor", shape=[1],
                initializer=("GivenTensorInt64Fill", {"values": np.array([divisor])}), optimizer=model.NoOptim)
        self.seed = seed
        self.use_hashing = use_hashing
        self.use_divide_mod = use_divide_mod
        kind = next((kind for kind in (IdList, IdScoreList) if equal_schemas(input_record, kind)), None)
        if kind is None:
            refuse(self, "the input record must be a list of ids, List(np.int64), or of ids with scores, "
                         f"Map(np.int64, np.float32), but is {describe(input_record)}")
        self._has_scores = kind is IdScoreList
        known = self._ids(input_record).metadata or Metadata()
        self.modulo = modulo or _hash_size(known)
        if not self.modulo or self.modulo < 1:
            refuse(self, "modulo must be at least 1, but is "
                         f"{modulo or self.modulo}; without it, the ids' metadata must have a categorical_limit or a "
                         "desired_hash_size")
        with scope.NameScope(name):
            self.output_schema = NewRecord(model.net, kind)
        self._ids(self._output_schema).set_metadata(
            Metadata(self.modulo, known.expected_value, known.feature_specs))
        if input_record.lengths.metadata:
            self._output_schema.lengths.set_metadata(input_record.lengths.metadata)
        # ids come from readers, on the host
        self.tags.add(Tags.CPU_ONLY)

    def _ids(self, record: Any) -> Any:
        return record.keys if self._has_scores else record.items

    def add_ops(self, net: Any) -> None:
        given, output = self.input_record, self.output_schema
        net.Copy(given.lengths(), output.lengths())
        if self._has_scores:
            net.Copy(given.values(), output.values())
        ids, mapped = self._ids(given)(), self._ids(output)()
        if self.use_hashing:
            net.IndexHash(ids, mapped, seed=self.seed, modulo=self.modulo)
            return
        if self.use_divide_mod:
            ids = net.Div([ids, self.divisor], [net.NextScopedBlob("quotient")])
        net.Mod(ids, mapped, divisor=self.modulo, sign_follow_divisor=True)


def _hash_size(metadata: Metadata) -> Any:
    wanted = metadata.feature_specs.desired_hash_size if metadata.feature_specs else None
    return wanted or metadata.categorical_limit


class MapToRange(ModelLayer):
    """Numbers ids in the order in which training first meets them: 1, 2, ... below ``max_index``.

    Evaluation and prediction add no more; ids that training has not met are 0. Outputs ``indices``, int64, and
    ``handler``, the mapping.
    """

    def __init__(
        self, model: Any, input_record: Any, max_index: int, name: str = "map_to_range", **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        require(self, max_index > 0, f"max_index must be positive, but is {max_index}")
        column(self, input_record)
        self.max_index = max_index
        self.handler = self.create_param(
            param_name="handler", shape=[], initializer=("LongIndexCreate", {"max_elements": max_index}),
            optimizer=model.NoOptim)
        self.output_schema = Struct(
            ("indices", Scalar(np.int64, self.get_next_blob_reference("indices"))),
            ("handler", Scalar(np.void, self.handler)),
        )

    def add_train_ops(self, net: Any) -> None:
        keys = as_type(net, self.input_record, np.int64, "indices_before_mapping")
        indices = net.IndexGet([self.handler, keys], self.output_schema.indices())
        net.StopGradient(indices, indices)

    def add_eval_ops(self, net: Any) -> None:
        net.IndexFreeze(self.handler, self.handler)
        self.add_train_ops(net)

    def add_ops(self, net: Any) -> None:
        self.add_eval_ops(net)
