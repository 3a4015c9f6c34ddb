"""Losses of predicted numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.records import Scalar
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers._losses import label_like, weighted
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import columns_named, require
from netgrad.training.layers.tags import Tags


class BatchMSELoss(ModelLayer):
    """The mean over the batch of (label - prediction)^2 / 2.

    Its input record has ``label`` (batch,), ``prediction`` (batch, 1), and perhaps ``weight`` (batch,), by which the
    losses of examples are multiplied; no gradient flows into label and weight.
    """

    def __init__(self, model: Any, input_record: Any, name: str = "batch_mse_loss", **kwargs: Any) -> None:
        super().__init__(model, name, input_record, **kwargs)
        columns_named(self, input_record, ("label", "prediction"))
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        record = self.input_record
        label = net.ExpandDims(label_like(net, record), 1, dims=[1])
        label = net.StopGradient(label, net.NextScopedBlob("stopped_label"))
        distance = net.SquaredL2Distance([label, record.prediction()], net.NextScopedBlob("l2"))
        net.AveragedLoss(weighted(net, distance, record, "weighted_l2_distance"), self.output_schema.field_blobs())


class BatchHuberLoss(ModelLayer):
    """The mean over the batch of e^2 / 2 for errors e up to ``delta``, and delta (e - delta / 2) beyond.

    The input record is that of `BatchMSELoss`.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_huber_loss", delta: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        require(self, delta > 0, f"delta must be positive, but is {delta}")
        columns_named(self, input_record, ("label", "prediction"))
        self._delta = delta
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        record = self.input_record
        prediction = net.Squeeze(record.prediction(), net.NextScopedBlob("squeezed_prediction"), dims=[1])
        label = label_like(net, record)
        delta = net.ConstantFill(label, net.NextScopedBlob("delta"), value=self._delta, dtype=TensorProto.FLOAT)
        label = net.StopGradient(label, net.NextScopedBlob("stopped_label"))
        delta = net.StopGradient(delta, net.NextScopedBlob("stopped_delta"))
        error = net.L1Distance([label, prediction], net.NextScopedBlob("abs_error"))
        small = net.Min([error, delta], net.NextScopedBlob("min_error_delta"))
        quadratic = net.Scale(net.Sqr(small), scale=0.5)
        linear = net.Mul([net.Sub([error, small]), delta], net.NextScopedBlob("huber_linear_term"))
        loss = net.Add([quadratic, linear], net.NextScopedBlob("huber_dist"))
        net.AveragedLoss(weighted(net, loss, record, "weighted_huber_distance"), self.output_schema.field_blobs())
