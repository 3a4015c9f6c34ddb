"""Losses of one positive item against several negative ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.records import Scalar
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import columns_named, require
from netgrad.training.layers.tags import Tags


class _PairwiseLoss(ModelLayer):
    """Its input record has ``pos_prediction``, (batch,) or (batch, 1), and ``neg_prediction``, a list of floats per
    row."""

    def __init__(self, model: Any, input_record: Any, name: str, **kwargs: Any) -> None:
        super().__init__(model, name, input_record, **kwargs)
        columns_named(self, input_record, ("pos_prediction", "neg_prediction:lengths", "neg_prediction:values"))
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("output"))

    def _pairs(self, net: Any) -> tuple[Any, Any]:
        """The positive prediction once for each negative one, and the negative ones."""
        negative = self.input_record.neg_prediction
        positive = net.LengthsTile([self.input_record.pos_prediction(), negative["lengths"]()],
                                   net.NextScopedBlob("pos_score_repeated"))
        if self.input_record.pos_prediction.field_type().shape:  # the negative ones have one dimension
            positive = net.FlattenToVec([positive], [net.NextScopedBlob("flat_pos_score")])
        return positive, negative["values"]()


class BPRLoss(_PairwiseLoss):
    """The sum over all pairs of -log sigmoid(positive - negative): Rendle et al., "BPR", 2009 (arXiv:1205.2618)."""

    def __init__(self, model: Any, input_record: Any, name: str = "bpr_loss", **kwargs: Any) -> None:
        super().__init__(model, input_record, name, **kwargs)

    def add_ops(self, net: Any) -> None:
        positive, negative = self._pairs(net)
        losses = net.Softplus([net.Sub([negative, positive])])
        net.ReduceFrontSum(losses, self.output_schema.field_blobs())


class MarginRankLoss(_PairwiseLoss):
    """The sum (or mean, with ``average_loss``) over all pairs of max(0, margin - (positive - negative))."""

    def __init__(
        self, model: Any, input_record: Any, name: str = "margin_rank_loss", margin: float = 0.1,
        average_loss: bool = False, **kwargs: Any,
    ) -> None:
        super().__init__(model, input_record, name, **kwargs)
        require(self, margin >= 0, f"margin must not be negative, but is {margin}")
        self._margin = margin
        self._average_loss = average_loss

    def add_ops(self, net: Any) -> None:
        positive, negative = self._pairs(net)
        ones = net.ConstantFill(negative, net.NextScopedBlob("const_1"), value=1, dtype=TensorProto.INT32)
        losses = net.MarginRankingCriterion([positive, negative, ones], net.NextScopedBlob("rank_loss"),
                                            margin=self._margin)
        (net.AveragedLoss if self._average_loss else net.ReduceFrontSum)(losses, self.output_schema.field_blobs())
