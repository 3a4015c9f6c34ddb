"""Building and updating deep layer models takes time in proportion to their layers."""

from __future__ import annotations

import numpy as np

from caffe2.python import layer_model_helper, layer_model_instantiator, optimizer, schema
from netgrad.runtime import inference


def deep(layers, kind):
    model = layer_model_helper.LayerModelHelper("deep", schema.Struct(("x", schema.Scalar((np.float32, (4,))))),
                                                schema.Struct(("label", schema.Scalar(np.float32))))
    model.default_optimizer = kind
    hidden = model.input_feature_schema.x
    for _ in range(layers):
        hidden = model.FC(hidden, 4)
    model.add_loss(model.BatchLRLoss(schema.Struct(
        ("label", model.trainer_extra_schema.label), ("logit", model.FC(hidden, 1)))))
    model.output_schema = schema.Struct()
    return model


def test_updates_look_at_each_parameter_once(monkeypatch):
    counted = []
    original = inference.infer_operator
    monkeypatch.setattr(inference, "infer_operator", lambda *given: counted.append(1) or original(*given))
    looks = []
    for layers in (5, 10, 20):
        model = deep(layers, optimizer.AdagradOptimizer(0.1))
        counted.clear()
        layer_model_instantiator.generate_training_nets(model)
        looks.append(len(counted))
    assert looks[0] > 0
    assert looks[2] - looks[1] <= 2 * (looks[1] - looks[0])
