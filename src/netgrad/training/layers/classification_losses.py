"""Losses of predicted classes, and smoothed labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.graph.records import Scalar, Struct
from netgrad.training.layers._losses import as_type, float_weights
from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import column, columns_named, refuse, require
from netgrad.training.layers.tags import Tags


class BatchSoftmaxLoss(ModelLayer):
    """Softmax with cross entropy; outputs ``softmax`` (batch, classes) and ``loss``, a number.

    Its input record has ``prediction`` (batch, classes); ``label``, class numbers (batch,), or with ``label_prob``
    probabilities (batch, classes); and perhaps ``weight``.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_softmax_loss", label_smoothing_matrix: Any = None,
        label_prob: bool = False, scale: float = 1.0, average_by_batch_size: bool = False, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            label_smoothing_matrix: (classes, classes); row i has the probabilities that stand for label i.
            scale: multiplies the loss.
            average_by_batch_size: divide by the batch size, not by the sum of the weights.
        """
        super().__init__(model, name, input_record, **kwargs)
        columns_named(self, input_record, ("label", "prediction"))
        self.label_prob = label_prob
        self.scale = scale
        self.average_by_batch_size = average_by_batch_size
        self.label_smoothing_matrix: Any = None
        if label_smoothing_matrix is not None:
            matrix = _square(self, label_smoothing_matrix)
            self.label_smoothing_matrix = model.add_global_constant(
                f"{self.name}_label_smoothing_matrix", array=matrix, dtype=np.dtype(np.float32))
            self.label_dim = model.add_global_constant(
                f"{self.name}_label_dim", array=len(matrix), dtype=np.dtype(np.int64))
            self.label_prob = True
        self.output_schema = Struct(
            ("softmax", Scalar(input_record.prediction.field_type(), self.get_next_blob_reference("softmax"))),
            ("loss", Scalar(np.float32, self.get_next_blob_reference("loss"))),
        )

    def add_ops(self, net: Any) -> None:
        record = self.input_record
        if self.label_smoothing_matrix is not None:
            label = net.NextScopedBlob("smoothed_label")
            _smooth(net, record.label, self.label_dim, self.label_smoothing_matrix, label)
        elif self.label_prob:
            label = record.label()
        else:
            label = as_type(net, record.label, np.int32, "int32_label")
        inputs = [record.prediction(), label]
        if "weight" in record:
            inputs.append(float_weights(net, record.weight))
        net.SoftmaxWithLoss(inputs, self.output_schema.field_blobs(), label_prob=self.label_prob, scale=self.scale,
                            average_by_batch_size=self.average_by_batch_size)


class BatchSigmoidCrossEntropyLoss(ModelLayer):
    """The mean over the batch of the cross entropy of several independent labels, ``prediction`` being their logits."""

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_sigmoid_cross_entropy_loss", **kwargs: Any
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        columns_named(self, input_record, ("label", "prediction"))
        shapes = [input_record[field].field_type().shape for field in ("prediction", "label")]
        require(self, shapes[0] == shapes[1],
                f"the fields prediction and label must have rows of one shape, but have {shapes[0]} and {shapes[1]}")
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = float_rows((), self.get_next_blob_reference("loss"))

    def add_ops(self, net: Any) -> None:
        losses = net.SigmoidCrossEntropyWithLogits(
            [self.input_record.prediction(), self.input_record.label()], net.NextScopedBlob("sigmoid_cross_entropy"))
        net.AveragedLoss(losses, self.output_schema.field_blobs())


class LabelSmooth(ModelLayer):
    """Labels as probabilities that keep some doubt.

    Args (beside the model):
        label: the column of labels.
        smooth_matrix: two numbers, the probabilities that stand for a label below and above 0.5; or (classes, classes)
            with the probabilities that stand for each class. The output has rows (1,) or (classes,).
    """

    def __init__(self, model: Any, label: Any, smooth_matrix: Any, name: str = "label_smooth", **kwargs: Any) -> None:
        super().__init__(model, name, label, **kwargs)
        self.label = column(self, label, "the label")
        numbers = np.array(smooth_matrix).astype(np.float32).flatten()
        self.binary_prob_label = numbers.size == 2
        self.smooth_matrix: Any = numbers
        self.dim = 1
        if not self.binary_prob_label:
            self.dim = math.isqrt(numbers.size)
            if self.dim**2 != numbers.size or not self.dim:
                refuse(self, f"smooth_matrix must be two numbers or a square matrix, but has {numbers.size} numbers")
            self.smooth_matrix = model.add_global_constant(
                f"{self.name}_label_smooth_matrix", array=numbers.reshape((self.dim, self.dim)),
                dtype=np.dtype(np.float32))
            self.len = model.add_global_constant(f"{self.name}_label_dim", array=self.dim, dtype=np.dtype(np.int64))
        self.output_schema = float_rows((self.dim,), self.get_next_blob_reference("smoothed_label"))

    def add_ops(self, net: Any) -> None:
        if self.binary_prob_label:
            label = as_type(net, self.label, np.float32, "float32_label")
            low, high = self.smooth_matrix
            net.StumpFunc(label, self.output_schema(), threshold=0.5, low_value=low, high_value=high)
        else:
            _smooth(net, self.label, self.len, self.smooth_matrix, self.output_schema())


def _square(layer: ModelLayer, matrix: Any) -> Any:
    array = np.array(matrix).astype(np.float32)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        refuse(layer, f"label_smoothing_matrix must be a square matrix, but has shape {array.shape}")
    return array


def _smooth(net: Any, label: Any, classes: Any, matrix: Any, output: Any) -> None:
    """Writes the rows of a matrix that the labels choose."""
    label = as_type(net, label, np.int64, "int64_label")
    one_hot = net.OneHot([label, classes], [net.NextScopedBlob("one_hot_label")])
    net.MatMul([one_hot, matrix], output)
