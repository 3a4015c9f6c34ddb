"""A classifier that is fed from a database of images, saves itself now and then, and is exported at the end."""

import os

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer, utils, workspace
from caffe2.python.predictor import mobile_exporter, predictor_exporter

CLASSES, BATCH = 3, 16


def images(count):
    """Images (1, 6, 6) of uint8 with a bright row, and which row that is."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, count).astype(np.int32)
    pixels = rng.integers(0, 80, (count, 1, 6, 6)).astype(np.uint8)
    pixels[np.arange(count), 0, labels] += 150
    return pixels, labels


def write(path, kind, pixels, labels):
    database = workspace.C.create_db(kind, path, workspace.C.Mode.write)
    transaction = database.new_transaction()
    for k, (image, label) in enumerate(zip(pixels, labels)):
        protos = caffe2_pb2.TensorProtos()
        protos.protos.extend([utils.NumpyArrayToCaffe2Tensor(image), utils.NumpyArrayToCaffe2Tensor(np.array(label))])
        transaction.put(f"{k:06}", protos.SerializeToString())
    del transaction
    database.close()


def layers(model, data):
    brew.conv(model, data, "conv", dim_in=1, dim_out=4, kernel=3)
    brew.relu(model, "conv", "conv")
    brew.fc(model, "conv", "scores", dim_in=4 * 4 * 4, dim_out=CLASSES)
    return brew.softmax(model, "scores", "softmax")


@pytest.mark.parametrize("kind", ["minidb", "lmdb"])
def test_train_save_export_and_predict(tmp_path, kind):
    pixels, labels = images(200)
    write(str(tmp_path / "train"), kind, pixels, labels)
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
        model = model_helper.ModelHelper("train", arg_scope={"order": "NCHW"})
        raw, label = model.TensorProtosDBInput([], ["raw", "label"], batch_size=BATCH, db=str(tmp_path / "train"),
                                               db_type=kind)
        data = model.Cast(raw, "data_float", to=core.DataType.FLOAT)
        data = model.StopGradient(model.Scale(data, "data", scale=1 / 256), "data")
        softmax = layers(model, data)
        cross_entropy = model.LabelCrossEntropy([softmax, label], "cross_entropy")
        loss = model.AveragedLoss(cross_entropy, "loss")
        model.AddGradientOperators([loss])
        optimizer.build_adam(model, base_learning_rate=0.02)
        model.Checkpoint(["optimizer_iteration", *model.params], [], db=str(tmp_path / "at_%03d"), db_type=kind,
                         every=20, absolute_path=True)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    losses = []
    for _ in range(40):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert np.mean(losses[-5:]) < 0.3 * np.mean(losses[:5])
    assert {"at_020", "at_040"} <= set(os.listdir(tmp_path))

    deploy = model_helper.ModelHelper("deploy", arg_scope={"order": "NCHW"}, init_params=False)
    layers(deploy, "data")
    names = [str(name) for name in deploy.params]
    predictor_exporter.save_to_db(kind, str(tmp_path / "predictor"), predictor_exporter.PredictorExportMeta(
        deploy.net, names, ["data"], ["softmax"], shapes={"data": (1, 1, 6, 6), "softmax": (1, CLASSES)}))
    nets = [net.SerializeToString() for net in mobile_exporter.Export(workspace, deploy.net, names)]
    saved = {name: workspace.FetchBlob(name) for name in names}

    workspace.ResetWorkspace()
    workspace.RunOperatorOnce(core.CreateOperator("Load", [], names, db=str(tmp_path / "at_040"), db_type=kind,
                                                  absolute_path=True))
    for name in names:
        np.testing.assert_array_equal(workspace.FetchBlob(name), saved[name])
    workspace.ResetWorkspace()
    net = predictor_exporter.prepare_prediction_net(str(tmp_path / "predictor"), kind)
    data = (pixels / 256).astype(np.float32)
    workspace.FeedBlob("data", data)
    workspace.RunNet(net)
    found = workspace.FetchBlob("softmax")
    assert (found.argmax(axis=1) == labels).mean() > 0.9
    np.testing.assert_allclose(workspace.Predictor(*nets).run([data])[0], found, rtol=1e-5)
