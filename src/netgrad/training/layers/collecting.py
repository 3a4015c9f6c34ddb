"""Layers that keep some of the rows they have seen. They are not to run in several threads at once."""

from __future__ import annotations

from typing import Any

from netgrad.graph.records import Scalar, Struct, from_blob_list
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import column, fields_named, require


def _state(layer: ModelLayer, param_name: str, shape: Any, *initializer: Any) -> Any:
    return layer.create_param(param_name=param_name, shape=shape, initializer=initializer,
                              optimizer=layer.model.NoOptim)


class LastNWindowCollector(ModelLayer):
    """Keeps the last ``num_to_collect`` rows of a column; records of several are packed first (PackRecords).

    Outputs ``last_n``, the rows, and ``num_visited`` and ``mutex`` for whoever reads them.
    """

    def __init__(
        self, model: Any, input_record: Any, num_to_collect: int, name: str = "last_n_window_collector", **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        require(self, num_to_collect > 0, f"num_to_collect must be positive, but is {num_to_collect}")
        column(self, input_record)
        self.num_to_collect = num_to_collect
        self.last_n = _state(self, "last_n", [0], "ConstantFill", {})
        self.next_blob = _state(self, "next", [], "ConstantFill", {"value": 0, "dtype": TensorProto.INT32})
        self.mutex = _state(self, "mutex", [], "CreateMutex")
        self.num_visited_blob = _state(self, "num_visited", [], "ConstantFill",
                                       {"value": 0, "dtype": TensorProto.INT64})
        self.output_schema = Struct(
            ("last_n", from_blob_list(input_record, [self.last_n])),
            ("num_visited", Scalar(blob=self.num_visited_blob)),
            ("mutex", Scalar(blob=self.mutex)),
        )

    def add_ops(self, net: Any) -> None:
        net.LastNWindowCollector(
            [self.last_n, self.next_blob, self.input_record(), self.mutex, self.num_visited_blob],
            [self.last_n, self.next_blob, self.num_visited_blob], num_to_collect=self.num_to_collect,
        )


class ReservoirSampling(ModelLayer):
    """Keeps ``num_to_collect`` of all rows seen, every one with the same probability.

    The input record has ``data``, a column, and perhaps ``object_id``, by which each object is kept once. Outputs
    ``reservoir``, the rows, ``num_visited`` and ``mutex``.
    """

    def __init__(
        self, model: Any, input_record: Any, num_to_collect: int, name: str = "reservoir_sampling", **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        require(self, num_to_collect > 0, f"num_to_collect must be positive, but is {num_to_collect}")
        fields_named(self, input_record, "data")
        column(self, input_record.data, "the field data")
        self.num_to_collect = num_to_collect
        self.reservoir = _state(self, "reservoir", [0], "ConstantFill")
        self.num_visited_blob = _state(self, "num_visited", [], "ConstantFill",
                                       {"value": 0, "dtype": TensorProto.INT64})
        self.mutex = _state(self, "mutex", [], "CreateMutex")
        self.extra_input_blobs: list[Any] = []
        self.extra_output_blobs: list[Any] = []
        if "object_id" in input_record:
            places = _state(self, "object_to_pos", None, "CreateMap",
                            {"key_dtype": TensorProto.INT64, "value_dtype": TensorProto.INT32})
            objects = _state(self, "pos_to_object", [0], "ConstantFill", {"value": 0, "dtype": TensorProto.INT64})
            self.extra_input_blobs = [column(self, input_record.object_id, "the field object_id")(), places, objects]
            self.extra_output_blobs = [places, objects]
        self.output_schema = Struct(
            ("reservoir", from_blob_list(input_record.data, [self.reservoir])),
            ("num_visited", Scalar(blob=self.num_visited_blob)),
            ("mutex", Scalar(blob=self.mutex)),
        )

    def add_ops(self, net: Any) -> None:
        net.ReservoirSampling(
            [self.reservoir, self.num_visited_blob, self.input_record.data(), self.mutex, *self.extra_input_blobs],
            [self.reservoir, self.num_visited_blob, *self.extra_output_blobs], num_to_collect=self.num_to_collect,
        )
