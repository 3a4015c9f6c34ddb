"""Layers that leave out values while training."""

from __future__ import annotations

from typing import Any

from netgrad.graph.record_values import NewRecord
from netgrad.graph.records import equal_schemas
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import column, describe, require
from netgrad.training.layers.id_features import IdList


class Dropout(ModelLayer):
    """Sets a part of the values to 0 in training, and scales the others up; with ``dropout_for_eval`` elsewhere too."""

    def __init__(
        self, model: Any, input_record: Any, name: str = "dropout", ratio: float = 0.5, dropout_for_eval: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        column(self, input_record)
        require(self, 0 <= ratio < 1, f"ratio must be at least 0 and below 1, but is {ratio}")
        self.output_schema = input_record.clone_schema()
        self.output_schema.set_value(self.get_next_blob_reference("output"), unsafe=True)
        self.ratio = ratio
        self.dropout_for_eval = dropout_for_eval

    def _add_ops(self, net: Any, is_test: bool) -> None:
        net.Dropout(self.input_record.field_blobs(),
                    [*self.output_schema.field_blobs(), net.NextScopedBlob("d_mask")], ratio=self.ratio,
                    is_test=is_test)

    def add_train_ops(self, net: Any) -> None:
        self._add_ops(net, is_test=False)

    def add_eval_ops(self, net: Any) -> None:
        self._add_ops(net, is_test=not self.dropout_for_eval)

    def add_ops(self, net: Any) -> None:
        self.add_eval_ops(net)


class SparseDropoutWithReplacement(ModelLayer):
    """Replaces some lists of ids by a list of one given id, with one probability for each kind of net.

    A feature that is not there in prediction gets probability 1 for it: the model then sees the replacement.
    """

    def __init__(
        self, model: Any, input_record: Any, dropout_prob_train: float, dropout_prob_eval: float,
        dropout_prob_predict: float, replacement_value: int, name: str = "sparse_dropout", **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        require(self, equal_schemas(input_record, IdList),
                f"the input record must be a list of ids, List(np.int64), but is {describe(input_record)}")
        self.dropout_prob_train = float(dropout_prob_train)
        self.dropout_prob_eval = float(dropout_prob_eval)
        self.dropout_prob_predict = float(dropout_prob_predict)
        self.replacement_value = int(replacement_value)
        probabilities = {what: getattr(self, f"dropout_prob_{what}") for what in ("train", "eval", "predict")}
        for what, probability in probabilities.items():
            require(self, 0 <= probability <= 1,
                    f"dropout_prob_{what} must be between 0 and 1, but is {probability}")
        require(self, any(probabilities.values()), "all three probabilities are 0, so that it would do nothing")
        self.output_schema = NewRecord(model.net, IdList)
        for output, given in ((self.output_schema.lengths, input_record.lengths),
                              (self.output_schema.items, input_record.items)):
            if given.metadata:
                output.set_metadata(given.metadata)

    def _add_ops(self, net: Any, ratio: float) -> None:
        net.SparseDropoutWithReplacement(
            [self.input_record.items(), self.input_record.lengths()],
            [self.output_schema.items(), self.output_schema.lengths()],
            ratio=ratio, replacement_value=self.replacement_value,
        )

    def add_train_ops(self, net: Any) -> None:
        self._add_ops(net, self.dropout_prob_train)

    def add_eval_ops(self, net: Any) -> None:
        self._add_ops(net, self.dropout_prob_eval)

    def add_ops(self, net: Any) -> None:
        self._add_ops(net, self.dropout_prob_predict)
