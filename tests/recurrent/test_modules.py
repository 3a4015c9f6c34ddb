"""Caffe2's modules of recurrent networks: every name stands for something, and cells of one's own work."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import attention, core, crf, crf_predict, gru_cell, recurrent, rnn_cell, workspace
from caffe2.python.model_helper import ModelHelper


@pytest.mark.parametrize("module", [attention, crf, crf_predict, gru_cell, recurrent, rnn_cell],
                         ids=lambda module: module.__name__)
def test_every_name_has_an_owner(module):
    assert all(hasattr(module, name) for name in module.__dict__["_owners"])


class Decay(rnn_cell.RNNCell):
    def apply_override(self, model, input_t, seq_lengths, states, timestep):
        return [model.net.Add([model.net.Scale(states[0], "half", scale=0.5), input_t], "sum")]

    def get_state_names_override(self):
        return ["sum"]

    def get_output_dim(self):
        return 1


@pytest.mark.parametrize("unrolled", [False, True])
def test_a_cell_of_ones_own(unrolled):
    workspace.ResetWorkspace()
    model = ModelHelper("model")
    cell = Decay("decay")
    if unrolled:
        cell = rnn_cell.UnrolledCell(cell, 3)
    output, states = cell.apply_over_sequence(model, "data", None, ["first"])
    workspace.FeedBlob("data", np.ones((3, 1, 1), dtype=np.float32))
    workspace.FeedBlob("first", np.full((1, 1, 1), 4, dtype=np.float32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob(output).ravel().tolist() == [3, 2.5, 2.25]
    assert workspace.FetchBlob(states[1]).ravel().tolist() == [2.25]


def test_cells_say_what_is_missing():
    model = ModelHelper("model")
    with pytest.raises(ValueError, match="no initializer"):
        Decay("decay").apply_over_sequence(model, "data")
    with pytest.raises(ValueError, match="decay/sum; 2 first values were given"):
        Decay("decay").apply_over_sequence(model, "data", None, ["a", "b"])
    with pytest.raises(RuntimeError, match="unknown activation function 'exp'"):
        rnn_cell.BasicRNNCell(1, 1, 0.0, False, activation="exp")
    with pytest.raises(TypeError, match="not as 3, a int"):
        Decay("decay").apply(model, 3, None, ["a"], "t")
    with pytest.raises(AssertionError, match="one input sequence, not 2"):
        recurrent.recurrent_net(model.net, core.Net("step"), [("a", "b"), ("c", "d")], [], {})


def test_layers_whose_lengths_are_masked_have_gradients():
    workspace.ResetWorkspace()
    model = ModelHelper("model")
    results = rnn_cell.BasicRNN(model, "data", "lengths", ["first"], 2, 2, "rnn", activation="tanh")
    found = model.AddGradientOperators([model.net.SumElements(results[0], "loss")])
    for name, shape in {"data": (3, 2, 2), "first": (1, 2, 2)}.items():
        workspace.FeedBlob(name, np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    workspace.FeedBlob("lengths", np.array([0, 2], dtype=np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    np.testing.assert_array_equal(workspace.FetchBlob(results[0])[:, 0], workspace.FetchBlob("first")[[0, 0, 0], 0])
    gradient = workspace.FetchBlob(found["data"])
    assert not gradient[:, 0].any() and not gradient[2, 1].any() and gradient[:2, 1].all()


def test_parameters_of_a_layer_are_set_by_gate():
    workspace.ResetWorkspace()
    model = ModelHelper("model")
    *_, parameters = rnn_cell.LSTM(model, "data", None, ["h0", "c0"], 3, 2, "rnn", return_params=True)
    workspace.RunNetOnce(model.param_init_net)
    names = rnn_cell.GetLSTMParamNames()
    values = {part: {name: np.full((2, width), k) for k, name in enumerate(names["weights"])}
              | {name: np.full(2, -k) for k, name in enumerate(names["biases"])}
              for part, width in (("input", 3), ("recurrent", 2))}
    rnn_cell.InitFromLSTMParams(parameters, values)
    assert workspace.FetchBlob("rnn/gates_t_w")[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert workspace.FetchBlob("rnn/i2h_b").tolist() == [0, 0, -1, -1, -2, -2, -3, -3]


def test_cudnn_layers_are_nets_like_others():
    model = ModelHelper("model")
    output, _, _, (extractor, blobs) = rnn_cell.cudnn_LSTM(
        model, "data", ("h0", "c0"), 3, 2, "rnn", num_layers=2, return_params=True)
    assert str(output) == "rnn/lstm_output" and model.net.Proto().op[-1].type == "Recurrent"
    assert model.get_param_info(model.params[0]).shape == [4 * (6 + 4 + 4) + 4 * (4 + 4 + 4)]
    assert len(extractor.Proto().op) == 32 and str(blobs["input"]["cell_w"][1]) == "rnn/lstm_input_cell_w_1"
