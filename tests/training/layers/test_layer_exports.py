"""Nets of layer models stand on their own: saved, loaded and run elsewhere, their records recovered."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2
from caffe2.python import core, layer_model_helper, layer_model_instantiator, optimizer, schema, workspace
from caffe2.python.layers.tags import Tags
from caffe2.python.predictor import mobile_exporter, predictor_exporter
from netgrad.runtime.workspace import Workspace

LENGTHS = np.array([1, 2, 0, 1], np.int32)
IDS = np.array([3, 1, 4, 1], np.int64)
DENSE = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
LABEL = np.array([0, 1, 1, 0], np.float32)


def click_model():
    """Dense features and a table, joined; dropout and a loss that prediction leaves out."""
    ids = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=6))
    model = layer_model_helper.LayerModelHelper(
        "clicks", schema.Struct(("dense", schema.Scalar((np.float32, (5,)))), ("ids", schema.List(ids))),
        schema.Struct(("label", schema.Scalar(np.float32))))
    model.default_optimizer = optimizer.AdagradOptimizer(alpha=0.2)
    f = model.input_feature_schema
    hidden = model.Dropout(model.Relu(model.FC(f.dense, 4), 1))
    joined = model.Concat(schema.Struct(("hidden", hidden), ("rows", model.SparseLookup(f.ids, [3], "Sum"))))
    logit = model.FC(joined, 1, name="top")
    prediction = model.Sigmoid(logit, 1)
    model.output_schema = schema.Struct(("prediction", prediction))
    model.add_loss(model.BatchLRLoss(schema.Struct(("label", model.trainer_extra_schema.label), ("logit", logit))))
    with Tags(Tags.TRAIN_ONLY):
        model.add_metric_field("mean", model.ReduceFrontMean(prediction, 1))
    return model


def expected(values):
    hidden = np.maximum(DENSE @ values["fc/w"].T + values["fc/b"], 0)
    rows = np.stack([values["sparse_lookup/w"][part].sum(0) for part in np.split(IDS, np.cumsum(LENGTHS)[:-1])])
    return 1 / (1 + np.exp(-(np.concatenate([hidden, rows], 1) @ values["top/w"].T + values["top/b"])))


@pytest.fixture
def trained(backend):
    model = click_model()
    init, train = layer_model_instantiator.generate_training_nets(model)
    for blob, array in (("dense", DENSE), ("ids:lengths", LENGTHS), ("ids:values", IDS), ("label", LABEL)):
        workspace.FeedBlob(blob, array)
    model.store_seed(7)
    model.apply_seed(init)
    model.apply_seed(train)
    workspace.RunNetOnce(init)
    workspace.CreateNet(train)
    workspace.RunNet(train.Proto().name, num_iter=20)
    values = {str(blob): workspace.FetchBlob(str(blob)) for blob in model.params}
    return model, train, values


def test_each_net_has_the_records_and_operators_of_its_kind(backend):
    model = click_model()
    _, train = layer_model_instantiator.generate_training_nets(model)
    evaluate = layer_model_instantiator.generate_eval_net(model)
    predict = layer_model_instantiator.generate_predict_net(model)
    assert train.input_record().field_names() == ["dense", "ids:lengths", "ids:values", "label"]
    assert train.output_record().field_names() == ["prediction", "mean"]
    assert evaluate.input_record().field_names() == train.input_record().field_names()
    assert evaluate.output_record().field_names() == ["prediction"]
    assert predict.input_record().field_names() == ["dense", "ids:lengths", "ids:values"]
    assert predict.output_record().field_names() == ["prediction"]
    types = [op.type for op in predict.Proto().op]
    assert "AveragedLoss" not in types and not any("Gradient" in kind for kind in types)
    dropout = {net.Name().split("_")[0]: next(arg.i for op in net.Proto().op if op.type == "Dropout"
                                              for arg in op.arg if arg.name == "is_test")
               for net in (train, evaluate, predict)}
    assert dropout == {"train": 0, "eval": 1, "predict": 1}


def test_a_trained_model_predicts_what_its_parameters_say_in_every_form(trained, backend, tmp_path, monkeypatch):
    model, _, values = trained
    predict = layer_model_instantiator.generate_predict_net(model)
    workspace.RunNetOnce(predict)
    output = str(predict.output_record().prediction())
    wanted = expected(values)
    np.testing.assert_allclose(workspace.FetchBlob(output), wanted, rtol=1e-4, atol=1e-6)
    feeds = {"dense": DENSE, "ids:lengths": LENGTHS, "ids:values": IDS}
    needed = [name for name in predict.Proto().external_input if name not in feeds]

    init_net, predict_net = mobile_exporter.Export(workspace, predict, [name for name in needed if name in values])
    path = str(tmp_path / "clicks.minidb")
    predictor_exporter.save_to_db("minidb", path, predictor_exporter.PredictorExportMeta(
        predict_net=predict.Proto(), parameters=needed, inputs=list(feeds), outputs=[output]))

    monkeypatch.setitem(Workspace.by_name, "elsewhere", Workspace(backend=backend))
    before = workspace.CurrentWorkspace()
    workspace.SwitchWorkspace("elsewhere")
    try:
        workspace.RunNetOnce(caffe2_pb2.NetDef.FromString(init_net.SerializeToString()))
        for name, array in feeds.items():
            workspace.FeedBlob(name, array)
        workspace.RunNetOnce(caffe2_pb2.NetDef.FromString(predict_net.SerializeToString()))
        np.testing.assert_allclose(workspace.FetchBlob(output), wanted, rtol=1e-4, atol=1e-6)
        workspace.ResetWorkspace()
        loaded = predictor_exporter.prepare_prediction_net(path, "minidb")
        for name, array in feeds.items():
            workspace.FeedBlob(name, array)
        workspace.RunNet(loaded)
        np.testing.assert_allclose(workspace.FetchBlob(output), wanted, rtol=1e-4, atol=1e-6)
    finally:
        workspace.SwitchWorkspace(before)


def test_a_training_net_goes_on_after_a_trip_through_a_file(trained, backend, tmp_path):
    _, train, values = trained
    path = tmp_path / "train.pb"
    path.write_bytes(train.Proto().SerializeToString())
    again = core.Net(caffe2_pb2.NetDef.FromString(path.read_bytes()))
    workspace.CreateNet(again)
    workspace.RunNet(again.Proto().name, num_iter=5)
    moved = [name for name, value in values.items() if not np.array_equal(workspace.FetchBlob(name), value)]
    assert {"fc/w", "fc/b", "top/w", "top/b", "sparse_lookup/w"} <= set(moved)
    assert "sparse_lookup/scale_bias" not in moved


def test_training_learns(trained, backend):
    model, train, _ = trained
    predict = layer_model_instantiator.generate_predict_net(model)
    workspace.RunNetOnce(predict)
    output = str(predict.output_record().prediction())
    before = np.abs(workspace.FetchBlob(output)[:, 0] - LABEL).mean()
    workspace.RunNet(train.Proto().name, num_iter=200)
    workspace.RunNetOnce(predict)
    after = np.abs(workspace.FetchBlob(output)[:, 0] - LABEL).mean()
    assert after < 0.8 * before
