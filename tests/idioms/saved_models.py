"""A small image classifier, trained nowhere, saved as people saved them: init_net.pb and predict_net.pb."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, utils, workspace


def save_classifier(folder: Path) -> None:
    """Writes both nets; the parameters are values in the init net."""
    model = model_helper.ModelHelper(name="classifier", arg_scope={"order": "NCHW"})
    brew.conv(model, "data", "conv1", dim_in=1, dim_out=4, kernel=3, pad=1)
    brew.relu(model, "conv1", "conv1")
    brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    brew.fc(model, "pool1", "fc1", dim_in=4 * 4 * 4, dim_out=10)
    brew.relu(model, "fc1", "fc1")
    brew.fc(model, "fc1", "pred", dim_in=10, dim_out=3)
    brew.softmax(model, "pred", "prob")
    model.net.AddExternalOutput(core.BlobReference("prob"))

    rng = np.random.RandomState(0)
    init_net = caffe2_pb2.NetDef(name="classifier_init")
    for name, shape in {"conv1_w": (4, 1, 3, 3), "conv1_b": (4,), "fc1_w": (10, 64), "fc1_b": (10,),
                        "pred_w": (3, 10), "pred_b": (3,)}.items():
        op = init_net.op.add()
        op.type = "GivenTensorFill"
        op.output.append(name)
        op.arg.extend([utils.MakeArgument("shape", shape),
                       utils.MakeArgument("values", rng.randn(*shape).astype(np.float32).flatten() * 0.3)])
        init_net.external_output.append(name)
    (folder / "init_net.pb").write_bytes(init_net.SerializeToString())
    (folder / "predict_net.pb").write_bytes(model.net.Proto().SerializeToString())


def load(path: Path) -> caffe2_pb2.NetDef:
    net = caffe2_pb2.NetDef()
    net.ParseFromString(path.read_bytes())
    return net


def feed_images(n: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Noisy images of three kinds and their labels, fed as ``data`` and ``label``."""
    rng = np.random.RandomState(1)
    label = (np.arange(n) % 3).astype(np.int32)
    data = (rng.randn(n, 1, 8, 8) / 2 + rng.randn(3, 1, 8, 8)[label]).astype(np.float32)
    workspace.FeedBlob("data", data)
    workspace.FeedBlob("label", label)
    return data, label
