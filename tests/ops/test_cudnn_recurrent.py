"""Recurrent, all of whose parameters lie in one blob: PyTorch's numbers, derivatives, and what lies where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.ops.cudnn_recurrent import _GATES
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import check_gradient, evaluate

torch = pytest.importorskip("torch")

BACKENDS = pytest.mark.parametrize("backend", ["numpy", "torch"])
T, N, D, H = 4, 3, 2, 5
KINDS = [(mode, layers, both) for mode in ("lstm", "gru") for layers in (1, 2) for both in (0, 1)]


def network(mode: str, layers: int, both: int) -> tuple[Any, dict[str, np.ndarray], dict[str, Any]]:
    """PyTorch's, the operator's feeds and its arguments."""
    torch.manual_seed(0)
    made = (torch.nn.LSTM if mode == "lstm" else torch.nn.GRU)(D, H, layers, bidirectional=bool(both)).double()
    parameters = dict(made.named_parameters())
    weights = [p for name, p in parameters.items() if name.startswith("weight")]
    biases = [p for name, p in parameters.items() if name.startswith("bias")]
    states = (layers * (1 + both), N, H)
    feeds = {"x": torch.randn(T, N, D, dtype=torch.double), "h": torch.randn(states, dtype=torch.double),
             "c": torch.randn(states, dtype=torch.double),
             "w": torch.cat([p.detach().flatten() for p in weights + biases])}
    arguments = {"hidden_size": H, "rnn_mode": mode, "bidirectional": both, "input_mode": "linear",
                 "num_layers": layers}
    return made, {name: tensor.numpy() for name, tensor in feeds.items()}, arguments


OUTPUTS = ["y", "hy", "cy", "scratch", "dropout"]


@BACKENDS
@pytest.mark.parametrize(("mode", "layers", "both"), KINDS)
def test_numbers_are_pytorchs(mode: str, layers: int, both: int, backend: str) -> None:
    made, feeds, arguments = network(mode, layers, both)
    found = evaluate(operator("Recurrent", ["x", "h", "c", "w"], OUTPUTS, **arguments), feeds, backend=backend)
    x, h, c = (torch.from_numpy(feeds[name]) for name in "xhc")
    with torch.no_grad():
        y, last = made(x, (h, c) if mode == "lstm" else h)
    expected = {"y": y, **({"hy": last[0], "cy": last[1]} if mode == "lstm" else {"hy": last, "cy": c})}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("mode", "layers", "both"), KINDS)
def test_derivative(mode: str, layers: int, both: int) -> None:
    _, feeds, arguments = network(mode, layers, both)
    check_gradient(operator("Recurrent", ["x", "h", "c", "w"], OUTPUTS, **arguments), feeds, ["y"],
                   ["x", "h", "c", "w"] if mode == "lstm" else ["x", "h", "w"])


@BACKENDS
@pytest.mark.parametrize("steps", [0, 1])
def test_sequences_of_no_step_and_of_one(steps: int, backend: str) -> None:
    _, feeds, arguments = network("lstm", 2, 1)
    feeds["x"] = feeds["x"][:steps]
    ops = [operator("Recurrent", ["x", "h", "c", "w"], OUTPUTS, **arguments),
           operator("RecurrentGradient", ["x", "h", "c", "w", "scratch", "y", "y"],
                    ["dx", "dh", "dc", "dw", "d", "s"], **arguments)]
    found = evaluate(ops, feeds, backend=backend)
    assert found["y"].shape == (steps, N, 2 * H) and found["dw"].shape == feeds["w"].shape
    if not steps:
        np.testing.assert_array_equal(found["hy"], feeds["h"])
        assert not found["dw"].any()


@BACKENDS
@pytest.mark.parametrize(("mode", "layers", "both"), KINDS)
def test_every_parameter_is_where_pytorch_has_it(mode: str, layers: int, both: int, backend: str) -> None:
    made, feeds, arguments = network(mode, layers, both)
    for layer in range(layers):
        for direction in range(1 + both):
            suffix = f"l{layer}" + ("_reverse" if direction else "")
            for input_type, short in (("input", "ih"), ("recurrent", "hh")):
                for kind, long in (("w", "weight"), ("b", "bias")):
                    whole = getattr(made, f"{long}_{short}_{suffix}").detach().numpy()
                    for gate, rows in zip(_GATES[mode], np.split(whole, len(_GATES[mode]))):
                        place = {**arguments, "layer": layer * (1 + both) + direction, "input_type": input_type,
                                 "param_type": f"{gate}_{kind}"}
                        found = evaluate(operator("RecurrentParamGet", ["x", "w"], ["p"], **place), feeds,
                                         backend=backend)
                        np.testing.assert_array_equal(found["p"], rows.ravel())


@BACKENDS
def test_what_was_set_is_got_and_nothing_else_changes(backend: str) -> None:
    _, feeds, arguments = network("gru", 2, 0)
    place = {**arguments, "layer": 1, "input_type": "recurrent", "param_type": "update_gate_w"}
    value = np.arange(float(H * H)).reshape(H, H)
    ops = [operator("RecurrentParamGet", ["x", "w"], ["old"], **place),
           operator("RecurrentParamSet", ["x", "w", "p"], ["w"], **place),
           operator("RecurrentParamGet", ["x", "w"], ["new"], **place),
           operator("RecurrentParamSet", ["x", "w", "old"], ["w"], **place)]
    found = evaluate(ops, {**feeds, "p": value}, backend=backend)
    np.testing.assert_array_equal(found["new"], value.ravel())
    np.testing.assert_array_equal(found["w"], feeds["w"])


@BACKENDS
@pytest.mark.parametrize(("changes", "message"), [
    ({"rnn_mode": "tanh"}, "lstm or gru"), ({"input_mode": "skip"}, "linear"), ({"dropout": 0.5}, "dropout"),
    ({"num_layers": 0}, "positive"), ({"hidden_size": 6}, "hidden"), ({"num_layers": 3}, "hidden"),
])
def test_refusals(changes: dict[str, Any], message: str, backend: str) -> None:
    _, feeds, arguments = network("lstm", 2, 0)
    with pytest.raises(OperatorError, match=message):
        evaluate(operator("Recurrent", ["x", "h", "c", "w"], OUTPUTS, **{**arguments, **changes}), feeds,
                 backend=backend)
    with pytest.raises(OperatorError, match="weights has shape"):
        evaluate(operator("Recurrent", ["x", "h", "c", "w"], OUTPUTS, **arguments), {**feeds, "w": feeds["w"][1:]},
                 backend=backend)
