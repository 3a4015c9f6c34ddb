"""Learned weights for the ids of lists: by their position, or by a score."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.graph.records import List, Scalar, Struct
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import columns_named, describe, refuse, require
from netgrad.training.layers.id_features import get_categorical_limit
from netgrad.training.layers.tags import Tags

log = logging.getLogger(__name__)


class PositionWeighted(ModelLayer):
    """A weight for each id by its position in its list; outputs ``position_weights``, float (ids,).

    There are as many weights as the lists' lengths allow, by the ``categorical_limit`` of their metadata, or as there
    are ids where nothing is known of the lengths.
    """

    def __init__(
        self, model: Any, input_record: Any, weight_optim: Any = None, name: str = "position_weights"
    ) -> None:
        super().__init__(model, name, input_record)
        _list(self, input_record)
        limit = input_record.lengths.metadata.categorical_limit if input_record.lengths.metadata else None
        if limit is None:
            limit = get_categorical_limit(input_record)
            log.warning("layer %s: nothing is known of the longest list; it has as many weights as there are ids, %s",
                        self.name, limit)
        self.shape = _positive(self, limit)
        self.pos_w = _ones(self, "pos_w", self.shape, weight_optim)
        self.output_schema = Struct(("position_weights", Scalar(
            (np.float32, self.shape), self.get_next_blob_reference("pos_w_gather"))))
        self.tags.add(Tags.HANDLE_AS_SPARSE_LAYER)

    def get_memory_usage(self) -> int:
        return self.shape

    def add_ops(self, net: Any) -> None:
        lengths = self.input_record.lengths()
        positions = net.LengthsRangeFill([lengths], lengths + "_pos_w_seq")
        net.Gather([self.pos_w, positions], self.output_schema.position_weights.field_blobs())


class BucketWeighted(ModelLayer):
    """A weight for each id by the bucket that its score falls into; outputs ``bucket_weights``, float (ids,).

    The input record is a list of ids with scores, Map(np.int64, np.float32).

    Buckets lie between ``bucket_boundaries``; without these they are the whole parts of the scores, of which there are
    ``max_score``, or as many as the metadata says. With ``hash_buckets`` bucket numbers are hashed to the weights.
    """

    def __init__(
        self, model: Any, input_record: Any, max_score: int = 0, bucket_boundaries: Sequence[float] | None = None,
        hash_buckets: bool = True, weight_optim: Any = None, name: str = "bucket_weighted",
    ) -> None:
        super().__init__(model, name, input_record)
        _list(self, input_record)
        columns_named(self, input_record, ["values:values"])
        self.bucket_boundaries = bucket_boundaries
        self.hash_buckets = hash_buckets
        if bucket_boundaries is not None:
            self.shape = len(bucket_boundaries) + 1
        else:
            self.shape = _positive(self, max_score if max_score > 0 else get_categorical_limit(input_record))
        self.bucket_w = _ones(self, "bucket_w", self.shape, weight_optim)
        self.output_schema = Struct(("bucket_weights", Scalar(
            (np.float32, self.shape), self.get_next_blob_reference("bucket_w_gather"))))
        self.tags.add(Tags.HANDLE_AS_SPARSE_LAYER)

    def get_memory_usage(self) -> int:
        return self.shape

    def add_ops(self, net: Any) -> None:
        scores = self.input_record.values()
        if self.bucket_boundaries is not None:
            buckets = net.Bucketize(scores, "buckets_int", boundaries=self.bucket_boundaries)
        else:
            buckets = net.Cast(scores, "buckets_int", to=TensorProto.INT32)
        if self.hash_buckets:
            buckets = net.IndexHash(buckets, "hashed_buckets_int", seed=0, modulo=self.shape)
        net.Gather([self.bucket_w, buckets], self.output_schema.bucket_weights.field_blobs())


def _list(layer: ModelLayer, record: Any) -> None:
    require(layer, isinstance(record, List), f"the input record must be a List, but is {describe(record)}")


def _positive(layer: ModelLayer, count: Any) -> int:
    if not count or count < 1:
        refuse(layer, f"the number of weights must be known and positive, but is {count}; the metadata of the input "
                      "record can say it, as categorical_limit")
    return int(count)


def _ones(layer: ModelLayer, param_name: str, size: int, optimizer: Any) -> Any:
    return layer.create_param(param_name=param_name, shape=[size], initializer=("ConstantFill", {"value": 1.0}),
                              optimizer=optimizer)
