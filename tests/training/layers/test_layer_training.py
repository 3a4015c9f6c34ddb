"""What layer models learn is what they learn on Caffe2, from the same parameters and data."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

from caffe2.python import layer_model_helper, layer_model_instantiator, optimizer, workspace

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("layer_training", HERE / "layer_training.py")
layer_training = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layer_training)
RECORDED = json.loads((HERE / "layer_training.json").read_text())


@pytest.mark.parametrize("name", layer_training.TRAINED)
def test_a_layer_model_learns_what_it_learns_on_caffe2(name, layer_models, backend):
    make = getattr(layer_models, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = layer_models.build(make, layer_model_helper, optimizer)
        nets = layer_models.nets(model, layer_model_instantiator)
    trained, losses = layer_training.train(make, model, nets, workspace)
    recorded = RECORDED[name]
    np.testing.assert_allclose(losses, recorded["losses"], rtol=2e-5, atol=1e-6)
    assert sorted(trained) == sorted(recorded["trained"])
    for param, expected in recorded["trained"].items():
        np.testing.assert_allclose(np.ravel(trained[param][:4]), expected, rtol=1e-4, atol=1e-6, err_msg=param)
