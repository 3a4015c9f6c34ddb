"""cuDNN's long short-term memory: nets that hold its operators, and the parameters of either kind."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from netgrad.graph.net import Net
from netgrad.graph.scope import NameScope
from netgrad.training.initializers import Initializer
from netgrad.training.parameters import ParameterTags

_GATES = ("input_gate", "forget_gate", "output_gate", "cell")


def GetLSTMParamNames() -> dict[str, list[str]]:
    """Names of the parameters of a long short-term memory, gate by gate."""
    return {"weights": [f"{gate}_w" for gate in _GATES], "biases": [f"{gate}_b" for gate in _GATES]}


def InitFromLSTMParams(lstm_pblobs: Mapping[str, Mapping[str, Any]], param_values: Mapping[str, Any]) -> None:
    """Sets the parameters of a layer in the current workspace.

    Args:
        lstm_pblobs: what ``LSTM(..., return_params=True)`` returned last: "input" and "recurrent" -> blobs.
        param_values: "input" and "recurrent" -> values by the names of `GetLSTMParamNames`.
    """
    from netgrad.runtime.workspace import Workspace

    workspace = Workspace.current
    for part, values in param_values.items():
        for kind, names in GetLSTMParamNames().items():
            blob = lstm_pblobs[part][kind]
            joined = np.concatenate([np.asarray(values[name]).reshape(-1) for name in names])
            workspace.feed_blob(blob, joined.reshape(workspace.fetch_blob(blob).shape).astype(np.float32))


def cudnn_LSTM(
    model: Any, input_blob: Any, initial_states: tuple[Any, Any], dim_in: int, dim_out: int, scope: str,
    recurrent_params: Mapping[str, Any] | None = None, input_params: Mapping[str, Any] | None = None,
    num_layers: int = 1, return_params: bool = False,
) -> tuple[Any, ...]:
    """A long short-term memory by the operator Recurrent, all of whose parameters lie in one blob.

    Args:
        input_blob: (T, N, dim_in); it has to exist when the init net runs.
        initial_states: hidden state and cell.
        recurrent_params, input_params: name of a parameter (see `GetLSTMParamNames`) -> blob with its value; uniform
            random values unless given.
        return_params: return a net, too, that takes the parameters apart, and part -> name -> layer -> blob.

    Returns:
        Output, last hidden state, last cell, and what `return_params` asks for.
    """
    given = {"input": input_params or {}, "recurrent": recurrent_params or {}}
    names = GetLSTMParamNames()
    sizes = {"input": [dim_in * dim_out] + [dim_out * dim_out] * (num_layers - 1),
             "recurrent": [dim_out * dim_out] * num_layers}
    total = 4 * sum(size + dim_out for part in sizes.values() for size in part)
    arguments = {"hidden_size": dim_out, "rnn_mode": "lstm", "bidirectional": 0, "dropout": 1.0, "input_mode": "linear",
                 "num_layers": num_layers, "engine": "CUDNN"}
    with NameScope(scope):
        weights = model.create_param("lstm_weight", shape=[total], initializer=Initializer("UniformFill"),
                                     tags=ParameterTags.WEIGHT)
        extractor = Net("lstm_param_extractor")
        extractor.AddExternalInputs([input_blob, weights])
        extracted: dict[str, dict[str, dict[int, Any]]] = {"input": {}, "recurrent": {}}
        for part in ("input", "recurrent"):
            for name in names["weights"] + names["biases"]:
                for layer in range(num_layers):
                    size = sizes[part][layer] if name in names["weights"] else dim_out
                    values = given[part][name] if name in given[part] else model.param_init_net.UniformFill(
                        [], f"lstm_init_{part}_{name}_{layer}", shape=[size])
                    place = {"layer": layer, "input_type": part, "param_type": name, **arguments}
                    model.param_init_net.RecurrentParamSet([input_blob, weights, values], weights, **place)
                    extracted[part].setdefault(name, {})[layer] = extractor.RecurrentParamGet(
                        [input_blob, weights], [f"lstm_{part}_{name}_{layer}"], **place)
        hidden, cell = initial_states
        output, hidden, cell, scratch, dropout = model.net.Recurrent(
            [input_blob, hidden, cell, weights],
            ["lstm_output", "lstm_hidden_output", "lstm_cell_output", "lstm_rnn_scratch", "lstm_dropout_states"],
            seed=random.randint(0, 100000), **arguments)
        model.net.AddExternalOutputs(hidden, cell, scratch, dropout)
    return (output, hidden, cell, (extractor, extracted)) if return_params else (output, hidden, cell)
