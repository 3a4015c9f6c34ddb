"""InferenceLSTM computes what torch's LSTM does, in every layout (Caffe2's own results are the same)."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import CreateOperator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.workspace import Workspace

torch = pytest.importorskip("torch")


def run(inputs, backend, **arguments):
    workspace = Workspace(backend=backend)
    names = [f"input_{k}" for k in range(len(inputs))]
    for name, value in zip(names, inputs):
        workspace.feed_blob(name, value)
    operands = list(map(BlobReference, names))
    workspace.run_operator(CreateOperator("InferenceLSTM", operands, ["y", "h", "c"], **arguments))
    return [workspace.fetch_blob(name) for name in ("y", "h", "c")]


def inputs_of(layers, both, biases, batch_first, length, dtype=np.float64):
    rng = np.random.default_rng(1)
    batch, width, hidden, ways = 2, 3, 5, 1 + both
    shapes = [(batch, length, width) if batch_first else (length, batch, width), *[(layers * ways, batch, hidden)] * 2]
    for layer in range(layers):
        for _ in range(ways):
            shapes += [(4 * hidden, hidden * ways if layer else width), (4 * hidden, hidden)]
            shapes += [(4 * hidden,)] * (2 * biases)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_like_torch(layers, both, biases, batch_first, dtype, backend):
    inputs = inputs_of(layers, both, biases, batch_first, 4, dtype)
    x, h, c, *parameters = map(torch.from_numpy, inputs)
    expected = torch.lstm(x, (h, c), parameters, biases, layers, 0.0, False, both, batch_first)
    found = run(inputs, backend, num_layers=layers, bidirectional=both, has_biases=biases, batch_first=batch_first)
    for ours, theirs in zip(found, expected):
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_no_steps_leave_the_states_as_they_were(backend):
    inputs = inputs_of(2, True, True, False, 0)
    y, h, c = run(inputs, backend, num_layers=2, bidirectional=True)
    assert y.shape == (0, 2, 10)
    np.testing.assert_array_equal(h, inputs[1])
    np.testing.assert_array_equal(c, inputs[2])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("change, message", [
    (lambda inputs: inputs[:-1], "there are 6 inputs, expected 7"),
    (lambda inputs: [inputs[0][0], *inputs[1:]], "three dimensions"),
    (lambda inputs: [inputs[0], inputs[1][:, :1], *inputs[2:]], "the hidden states"),
    (lambda inputs: [*inputs[:3], inputs[3][:, :2], *inputs[4:]], "the input matrix"),
    (lambda inputs: [*inputs[:6], inputs[6][:3]], "a bias"),
])
def test_what_does_not_fit_is_refused(change, message, backend):
    with pytest.raises(OperatorError, match=message):
        run(change(inputs_of(1, False, True, False, 2)), backend)
