"""Observers see the operators of a recurrent network's steps."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import model_helper, rnn_cell, workspace


@pytest.mark.parametrize("forward_only", [True, False])
def test_operators_of_steps_are_counted(forward_only):
    counts = []
    for length in (2, 3, 4):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper(name="lstm")
        model.net.AddExternalInputs("input", "hidden", "cell")
        output, *_ = rnn_cell.LSTM(
            model=model, input_blob="input", seq_lengths=None, initial_states=["hidden", "cell"], dim_in=3, dim_out=2,
            scope="lstm", forward_only=forward_only)
        loss = model.net.AveragedLoss(output, "loss")
        if not forward_only:
            model.AddGradientOperators([loss])
        workspace.RunNetOnce(model.param_init_net)
        workspace.FeedBlob("input", np.ones((length, 5, 3), np.float32))
        for state in ("hidden", "cell"):
            workspace.FeedBlob(state, np.zeros((1, 5, 2), np.float32))
        workspace.CreateNet(model.net)
        observer = model.net.AddObserver("RunCountObserver")
        workspace.RunNet(model.net)
        steps = [argument.n for op in model.net.Proto().op for argument in op.arg
                 if argument.name == ("backward_step_net" if op.is_gradient_op else "step_net")
                 and op.type.startswith("RecurrentNetwork") and (op.is_gradient_op or argument.name == "step_net")]
        expected = len(model.net.Proto().op) + length * sum(len(net.op) for net in steps)
        counts.append(int(observer.debug_info().split()[0]))
        assert counts[-1] == expected
    assert counts[0] < counts[1] < counts[2]
