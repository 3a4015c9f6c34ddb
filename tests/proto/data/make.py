"""Writes the files of this folder with the real Caffe2: ``python make.py`` where torch 1.8.1 is installed."""

import functools
import json
import os
import pickle
import sys

import numpy as np

from caffe2.proto import (
    caffe2_legacy_pb2,
    caffe2_pb2,
    hsm_pb2,
    metanet_pb2,
    predictor_consts_pb2,
    prof_dag_pb2,
    torch_pb2,
)
from caffe2.python import core, utils, workspace
from caffe2.python.predictor import predictor_py_utils

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from descriptor_table import numbers  # noqa: E402

MODULES = (caffe2_pb2, caffe2_legacy_pb2, hsm_pb2, metanet_pb2, predictor_consts_pb2, prof_dag_pb2, torch_pb2)


def save(name, message):
    with open(os.path.join(HERE, name), "wb") as file:
        file.write(str(message).encode() if name.endswith("txt") else message.SerializeToString())


@functools.lru_cache
def every_argument():
    """A net whose operators carry an argument of every kind, built as a program would."""
    body = core.Net("body")
    body.Relu(["x"], ["y"])
    net = core.Net("every_argument")
    x, w, b = net.AddExternalInput("x", "w", "b")
    net.FC([x, w, b], "fc", axis=1, engine="DNNLOWP")
    net.LeakyRelu("fc", "leaky", alpha=0.1)
    net.Conv(["image", "kernel"], "conv", kernels=[3, 3], order="NCHW", shared_buffer=True)
    net.GivenTensorFill([], "filled", shape=[3], values=[0.1, -2.5, 1e-30])
    net.GivenTensorStringFill([], "words", shape=[2], values=["caf\u00e9", "b\x00c"])
    net.ConstantFill([], "large", shape=[2, 0], value=2**40, dtype=core.DataType.INT64)
    net.If(["condition"], ["y"], then_net=body.Proto())
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 1, random_seed=7, extra_info=["note"])):
        net.Copy("fc", "copied", control_input=["leaky"])
    op = core.CreateOperator("Custom", ["leaky"], ["z"], name="last", debug_info="line 1")
    op.arg.extend(
        [
            caffe2_pb2.Argument(name="tensor", t=utils.NumpyArrayToCaffe2Tensor(np.array([[1, 2]], np.int32), "t")),
            caffe2_pb2.Argument(name="tensors", tensors=[utils.NumpyArrayToCaffe2Tensor(np.float32([0.3]))]),
            caffe2_pb2.Argument(name="nets", nets=[body.Proto(), body.Proto()]),
            caffe2_pb2.Argument(name="bytes", s=b"\xff\x00\n\"'"),
            caffe2_pb2.Argument(
                name="quantized",
                qtensors=[
                    caffe2_pb2.QTensorProto(
                        dims=[2], precision=8, scale=0.1, bias=-1.0, is_signed=False, data=[3, 250]
                    ),
                ],
            ),
        ]
    )
    op.domain, op.op_version, op.is_gradient_op = "caffe2", 2, True
    net.Proto().op.extend([op])
    net.Proto().type, net.Proto().num_workers = "dag", 4
    net.Proto().arg.extend([utils.MakeArgument("rate", float("inf")), utils.MakeArgument("none", float("nan"))])
    part = net.Proto().partition_info.add(name="part", device_id=[0, 1])
    part.backend_options.add(backend_name="b").option.add(key="k", val="v")
    net.Proto().external_output.append("z")
    return net


@functools.lru_cache
def backward():
    """A net with its backward pass."""
    net = core.Net("backward")
    net.FC(["x", "w", "b"], "fc")
    net.AveragedLoss(net.Sqr("fc", "squared"), "loss")
    net.AddGradientOperators(["loss"])
    return net


@functools.lru_cache
def plan():
    steps = [
        core.execution_step("setup", [backward()], num_iter=3),
        core.execution_step(
            "loop",
            [core.execution_step("inner", [every_argument()], report_net=backward(), report_interval=5)],
            concurrent_substeps=True,
            should_stop_blob=core.BlobReference("stop"),
            only_once=True,
            create_workspace=True,
            num_concurrent_instances=2,
        ),
    ]
    made = core.Plan("plan")
    for step in steps:
        made.AddStep(step)
    return made.Proto()


def model():
    consts = predictor_consts_pb2.PredictorConsts()
    meta = metanet_pb2.MetaNetDef()
    meta.modelInfo.project, meta.modelInfo.modelClass = "project", "class"
    predictor_py_utils.AddBlobs(meta, consts.PARAMETERS_BLOB_TYPE, ["w", "b"])
    predictor_py_utils.AddBlobs(meta, consts.INPUTS_BLOB_TYPE, ["x"])
    predictor_py_utils.AddNet(meta, consts.PREDICT_NET_TYPE, backward().Proto())
    predictor_py_utils.AddPlan(meta, consts.TRAIN_PLAN_TYPE, plan())
    meta.applicationSpecificInfo.add(key="key", value="value")
    shape = meta.tensorBoundShapes.shapes.add(name="x", dim_type=[2, 1])
    shape.shape.dims.extend([16, 3])
    return meta


def saved(array):
    """The BlobProto that the core writes for an array."""
    workspace.FeedBlob("blob", array)
    return caffe2_pb2.BlobProto.FromString(workspace.SerializeBlob("blob"))


def tensors():
    """One tensor of every type that the core takes, and one that Python packs."""
    dtypes = (np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.uint16, np.int16, np.float16, bool)
    made = caffe2_pb2.TensorProtos()
    made.protos.extend([saved(np.array([[0, 1, 2], [3, 4, 100]]).astype(dtype)).tensor for dtype in dtypes])
    made.protos.extend([saved(np.array([b"a", b"\xff\x00"], object)).tensor])
    made.protos.extend([utils.NumpyArrayToCaffe2Tensor(np.float32([0.1, -3e38]), "t")])
    return made


if __name__ == "__main__":
    with open(os.path.join(HERE, "numbers.json"), "w") as file:
        json.dump([numbers(module) for module in MODULES], file, indent=None, separators=(",", ":"))
        file.write("\n")
    for stem, message in {
        "every_argument": every_argument().Proto(),
        "backward": backward().Proto(),
        "plan": plan(),
        "model": model(),
        "tensors": tensors(),
        "blob": saved(np.float16([[1.5, -2], [0, 65504]])),
    }.items():
        save(stem + ".pb", message)
        save(stem + ".pbtxt", message)
    with open(os.path.join(HERE, "backward.pickle"), "wb") as file:
        pickle.dump(backward().Proto(), file, protocol=2)
