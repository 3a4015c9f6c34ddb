"""A linear-chain conditional random field: its loss, and the best path.

Source: Lample et al. 2016, https://arxiv.org/abs/1603.01360. One sequence at a time: predictions are (T, classes). Two
classes are added, for the beginning and the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.blob import ScopedBlobReference
from netgrad.proto import caffe2_pb2
from netgrad.recurrent.network import recurrent_net
from netgrad.training import brew
from netgrad.training.model_helper import ModelHelper

#: the score of what cannot be
_LOW = -1000.0
_STEP = "crf_net"
_INT32 = caffe2_pb2.TensorProto.INT32


class CRFWithLoss:
    """A conditional random field on top of a model's predictions.

    Args:
        model: where the operators go; the transitions are among its parameters.
        num_classes: without the two that are added.
        transitions_blob: (classes + 2, classes + 2), the score of going from one class to another; uniform random
            values to begin with unless given.
    """

    def __init__(self, model: Any, num_classes: int, transitions_blob: Any = None) -> None:
        self.model = model
        self.num_classes = num_classes
        self.num_classes_padded = num_classes + 2
        if not transitions_blob:
            size = self.num_classes_padded
            transitions_blob = model.param_init_net.UniformFill(
                [], [ScopedBlobReference("crf_transitions")], shape=[size, size], min=-1.0, max=1.0)
        self.transitions = transitions_blob
        model.params.append(transitions_blob)

    def crf_loss(self, predictions: Any, labels: Any, seq_lengths: Any = None) -> Any:
        """The negative log likelihood of the labels, a scalar: the score of all paths less that of the labels' path.

        Args:
            predictions: (T, classes), the score of each class.
            labels: (T,) integers.
            seq_lengths: without effect.
        """
        net, init_net = self.model.net, self.model.param_init_net
        transitions = net.Copy(self.transitions, ScopedBlobReference("transitions_snapshot"))
        unary = self._gather_entries_sum(predictions, labels, self.num_classes)
        predictions = self.pad_predictions(predictions, init_net, net, self.num_classes)
        labels = self.pad_labels(labels, init_net, net, self.num_classes)
        binary = self._path_binary_scores(labels, transitions, seq_lengths)
        path = net.Add([binary, unary], ScopedBlobReference("path_total"))
        zero = init_net.ConstantFill([], shape=[1], value=0)
        first = net.Gather([predictions, zero], ScopedBlobReference("rnn_initial"), dense_gradient=True)
        rest, _ = net.RemovePadding([predictions], padding_width=1, end_padding_width=0, outputs=2)
        rest = net.ExpandDims([rest], ScopedBlobReference("rnn_input_data"), dims=[1])
        transitions = net.Copy(transitions, ScopedBlobReference("transitions_copy"))
        every = self._crf_forward(rest, first, transitions)
        return net.Sub([every, path], ScopedBlobReference("crf_loss"))

    def _path_binary_scores(self, labels: Any, transitions: Any, seq_lengths: Any = None) -> Any:
        """The sum of the transitions along the labels."""
        net = self.model.net
        columns, _ = net.RemovePadding([labels], outputs=2, padding_width=1, end_padding_width=0)
        rows, _ = net.RemovePadding([labels], outputs=2, padding_width=0, end_padding_width=1)
        width = net.ConstantFill([rows], value=self.num_classes_padded)
        flat_ids = net.Add([net.Mul([rows, width]), columns])
        entries = net.Gather([net.FlattenToVec([transitions]), flat_ids], dense_gradient=True)
        return self.model.ReduceFrontSum(entries)

    def _gather_entries_sum(self, in_data: Any, indices: Any, index_size: int) -> Any:
        """The sum over the rows of the entry that each row's index picks."""
        net = self.model.net
        indices = net.Cast([indices], to="int64")
        size = self.model.param_init_net.ConstantFill([], shape=[1], value=index_size)
        picked = net.FlattenToVec(net.OneHot([indices, size]))
        return net.ReduceFrontSum([net.DotProduct([picked, net.FlattenToVec(in_data)])])

    def _crf_forward(self, input_blob: Any, initial_state: Any, transitions_copy: Any, seq_lengths: Any = None) -> Any:
        """The score of all paths: the logarithm of the sum of the exponentials of each path's."""
        net = self.model.net
        last = self.build_crf_net(input_blob, initial_state, transitions_copy)
        last, _ = net.Reshape([last], outputs=2, shape=(self.num_classes_padded,))
        segment = self.model.param_init_net.ConstantFill([], value=0, shape=[self.num_classes_padded], dtype=_INT32)
        score = net.SortedSegmentRangeLogSumExp([last, segment])
        score, _ = net.Reshape(score, outputs=2, shape=())
        return score

    def build_crf_net(self, input_blob: Any, initial_state: Any, transitions: Any) -> Any:
        """The scores of all paths that end in each class, after the last step: a RecurrentNetwork.

        Args:
            input_blob: (T, 1, classes + 2).
            initial_state: (1, classes + 2).
            transitions: (classes + 2, classes + 2).
        """
        size = self.num_classes_padded
        step = ModelHelper(name="crf_step", param_model=self.model)
        input_t, before, _ = step.net.AddExternalInputs(
            ScopedBlobReference("input_t"), ScopedBlobReference("cell_t_prev"), transitions)
        segment = step.param_init_net.ConstantFill(
            [], [_inside("zero_segment_id")], value=0, shape=[size], dtype=_INT32)
        step.param_init_net.AddExternalOutput(segment)
        column = brew.transpose(step, before, [_inside("prev_transpose")], axes=(0, 2, 1))
        before_tiled = step.net.Tile(column, [_inside("prev_tiled")], tiles=size, axis=2)
        input_tiled = step.net.Tile(input_t, [_inside("input_t_tiled")], tiles=size, axis=1)
        both = step.net.Add([before_tiled, input_tiled], [_inside("input_with_prev")])
        scores = step.net.Add([both, transitions], [_inside("prev_with_transitions")], broadcast=1, use_grad_hack=1)
        scores, _ = step.net.Reshape(
            scores, [_inside("all_with_transitions_reshaped"), _inside("all_with_transitions_orig")],
            shape=(size, size))
        after = step.net.SortedSegmentRangeLogSumExp([scores, segment], [_inside("cell_t")])
        step.net.AddExternalOutputs(after)
        return recurrent_net(
            net=self.model.net, cell_net=step.net, inputs=[(input_t, input_blob)],
            initial_cell_inputs=[(before, initial_state)], links={before: after}, scope=_STEP,
            outputs_with_grads=(1,))[1]

    def update_predictions(self, classes: Any) -> Any:
        """Predictions (T, classes) in which the class on the best path has each row's best score, by a Python operator.

        `crf_update_predictions` does the same by operators alone.
        """
        padded = self.pad_predictions(classes, self.model.param_init_net, self.model.net, self.num_classes)
        return self.model.net.Python(_update_predictions)(
            [padded, self.transitions], ScopedBlobReference("post_crf_classes"))

    @staticmethod
    def pad_labels(labels: Any, init_net: Any, net: Any, num_classes: int) -> Any:
        """Labels with those of the beginning and the end, (T + 2,) int64."""
        begin = init_net.ConstantFill([], shape=[1], value=num_classes)
        end = init_net.ConstantFill([], shape=[1], value=num_classes + 1)
        labels = net.Cast([labels], to="int64")
        return net.Concat([begin, labels, end], axis=0, outputs=2)[0]

    @staticmethod
    def pad_predictions(predictions: Any, init_net: Any, net: Any, num_classes: int) -> Any:
        """Predictions with rows and columns for the beginning and the end, (T + 2, classes + 2)."""
        shape = [1, num_classes + 2]
        begin, end = (np.array([[_LOW] * num_classes + pair], dtype=np.float32) for pair in ([0, _LOW], [_LOW, 0]))
        begin = init_net.GivenTensorFill([], "b_scores", shape=shape, values=begin)
        end = init_net.GivenTensorFill([], "e_scores", shape=shape, values=end)
        zero = net.ConstantFill([], shape=[1], value=0)
        length = net.Gather([net.Shape([predictions]), zero])
        length = net.Cast(length, to="int32")
        column = net.ConstantFill([net.LengthsRangeFill(length)], value=_LOW)
        column = net.ExpandDims(column, dims=[1])
        wider, _ = net.Concat([predictions, column, column], outputs=2, axis=1)
        return net.Concat([begin, wider, end], outputs=2, axis=0)[0]


def _inside(name: str) -> str:
    return f"{_STEP}/{name}"


def _update_predictions(inputs: Any, outputs: Any) -> None:
    """Swaps, in each row, the best score with that of the class on the best path (Viterbi)."""
    predictions = np.array(inputs[0].data)
    best = viterbi_path(predictions, np.asarray(inputs[1].data))
    rows = np.arange(len(predictions))
    highest = predictions.argmax(axis=1)
    chosen = predictions[rows, best].copy()
    predictions[rows, best] = predictions[rows, highest]
    predictions[rows, highest] = chosen
    result = predictions[1:-1, :-2]
    outputs[0].reshape(result.shape)
    outputs[0].data[...] = result


def viterbi_path(predictions: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """The path with the highest score, (T,): of each step's class and of going from each to the next."""
    score = predictions[0]
    came_from = []
    for row in predictions[1:]:
        through = score[:, None] + transitions
        came_from.append(through.argmax(axis=0))
        score = row + through.max(axis=0)
    path = [int(score.argmax())]
    for origin in reversed(came_from):
        path.append(int(origin[path[-1]]))
    return np.array(path[::-1])


def crf_update_predictions(model: Any, crf_with_loss: CRFWithLoss, classes: Any) -> Any:
    """Predictions in which the class on the best path has each row's best score: see `apply_crf`."""
    return apply_crf(model.param_init_net, model.net, crf_with_loss.transitions, classes, crf_with_loss.num_classes)


def apply_crf(init_net: Any, net: Any, transitions: Any, predictions: Any, num_classes: int) -> Any:
    """Predictions (T, classes) in which the class on the best path has each row's best score."""
    padded = CRFWithLoss.pad_predictions(predictions, init_net, net, num_classes)
    swapped = net.SwapBestPath([padded, net.ViterbiPath([padded, transitions])])
    inner = net.RemovePadding([swapped], padding_width=1, end_padding_width=1)
    starts = net.GivenTensorIntFill([], shape=[2], values=np.array([0, 0], dtype=np.int32))
    ends = net.GivenTensorIntFill([], shape=[2], values=np.array([-1, -3], dtype=np.int32))
    return net.Slice([inner, starts, ends])
