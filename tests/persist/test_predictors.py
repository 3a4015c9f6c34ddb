"""Predictors in databases and as two nets: what is asked of them, and errors of ours alone when damaged."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caffe2.proto import metanet_pb2
from caffe2.python import core, workspace
from caffe2.python.predictor import mobile_exporter, predictor_exporter, predictor_py_utils, serde
from caffe2.python.predictor_constants import predictor_constants
from netgrad.persist.errors import StorageError
from netgrad.proto import FormatError, caffe2_pb2
from netgrad.runtime.errors import NetError

SAVED = Path(__file__).parent / "data" / "predictor.minidb"


def meta(**changes):
    net = core.Net("double")
    net.Mul(["x", "w"], "y")
    return predictor_exporter.PredictorExportMeta(
        **{"predict_net": net, "parameters": ["w"], "inputs": ["x"], "outputs": ["y"],
           "shapes": {"x": (2,), "y": (2,)}, **changes})


@pytest.mark.parametrize(("changes", "reason"), [
    ({"inputs": ["x", "x"]}, "named twice: x"), ({"parameters": ["w", "x"]}, "cannot be inputs as well: x"),
    ({"parameters": ["w", "y"]}, "cannot be outputs as well: y"),
])
def test_models_that_make_no_sense(changes, reason):
    with pytest.raises(ValueError, match=reason):
        meta(**changes)


def test_a_model_is_a_tuple_with_names():
    found = meta(name="m", trainer_prefix="t", parameters=[core.BlobReference("w")])
    assert found.parameters == found[1] == ["w"] and found._fields[0] == "predict_net"
    assert found.inputs_name() == "INPUTS_BLOB_TYPE_m" and found.train_plan_name() == "t_TRAIN_PLAN_TYPE_m"
    assert predictor_exporter.get_predictor_exporter_helper("m").predict_net_name() == "PREDICT_NET_TYPE_m"
    with pytest.raises(TypeError, match="predict_net is a str"):
        meta(predict_net="net")
    assert meta(predict_net=core.Plan("plan")).predict_net.name.startswith("plan")


def test_a_predictor_of_several_parts_is_saved_and_runs(ws, tmp_path):
    extra, shared = core.Net("extra"), core.Net("shared")
    extra.ConstantFill([], "z", shape=[1], value=5.0)
    shared.ConstantFill([], "u", shape=[1], value=6.0)
    model = meta(extra_init_net=extra, global_init_net=shared, net_type="dag", num_workers=3, shapes={"x": (2,)})
    with pytest.raises(ValueError, match="the shape of 'y' is not known"):
        predictor_exporter.save_to_db("minidb", str(tmp_path / "p"), model)
    workspace.FeedBlob("y", np.zeros(2, np.float32))
    with pytest.raises(NetError, match="no blob 'w' to save"):
        predictor_exporter.save_to_db("minidb", str(tmp_path / "p"), model)
    assert not (tmp_path / "p").exists()
    workspace.FeedBlob("w", np.array([2, 3], np.float32))
    predictor_exporter.save_to_db("minidb", str(tmp_path / "p"), model, chunk_size=1)
    workspace.ResetWorkspace()
    net = predictor_exporter.prepare_prediction_net(str(tmp_path / "p"), "minidb")
    assert (net.Proto().type, net.Proto().num_workers) == ("dag", 3)
    assert workspace.FetchBlob("z").tolist() == [5] and workspace.FetchBlob("u").tolist() == [6]
    workspace.FeedBlob("x", np.array([10, 10], np.float32))
    workspace.RunNet(net)
    assert workspace.FetchBlob("y").tolist() == [20, 30]


def test_devices_of_a_loaded_model(ws):
    option = core.DeviceOption(caffe2_pb2.CPU, 1)
    for found in (predictor_exporter.load_from_db(str(SAVED), "minidb", option),):
        assert all(op.device_option == option for pair in found.nets for op in pair.value.op)
    with core.DeviceScope(option):
        found = predictor_exporter.load_from_db(str(SAVED), "minidb")
    assert all(op.device_option == option for pair in found.nets for op in pair.value.op)


def test_what_is_in_a_model():
    found = metanet_pb2.MetaNetDef()
    predictor_py_utils.AddBlobs(found, "IN", ["a"])
    predictor_py_utils.AddBlobs(found, "IN", ["b"])
    predictor_py_utils.AddBlobs(found, "IN_2", ["b", "c"])
    predictor_py_utils.AddPlan(found, "plan", caffe2_pb2.PlanDef(name="p"))
    predictor_py_utils.SetBlobsOrder(found, ["a", "b"])
    predictor_exporter.set_model_info(found, "project", "class", "1")
    assert list(predictor_py_utils.GetBlobs(found, "IN")) == ["a", "b"]
    assert predictor_py_utils.GetBlobs(found, "X") == []
    assert predictor_py_utils.GetBlobsByTypePrefix(found, "IN") == ["a", "b", "c"]
    assert predictor_py_utils.GetPlan(found, "plan").name == "p" and predictor_py_utils.GetNet(found, "x") is None
    assert list(predictor_py_utils.GetBlobsOrder(found)) == ["a", "b"]
    with pytest.raises(AssertionError, match="no blobs under 'X'"):
        predictor_py_utils.ReplaceBlobs(found, "X", [])
    assert serde.deserialize_protobuf_struct(serde.serialize_protobuf_struct(found), metanet_pb2.MetaNetDef) == found


def test_the_models_id_is_passed_on(ws):
    model = meta()
    model.predict_net.arg.add(name="model_id", i=17)
    for pair in predictor_exporter.get_meta_net_def(model).nets:
        assert predictor_py_utils.GetArgumentByName(pair.value, "model_id").i == 17


def test_files_that_are_no_predictor(ws, tmp_path):
    def save(name, value):
        workspace.FeedBlob(predictor_constants.META_NET_DEF, value)
        workspace.RunOperatorOnce(core.CreateOperator(
            "Save", [predictor_constants.META_NET_DEF], [], db=str(tmp_path / name), db_type="minidb", absolute_path=1))
        return str(tmp_path / name)

    for value in (np.zeros(3, np.float32), b"\xff\xff", metanet_pb2.MetaNetDef().SerializeToString()):
        with pytest.raises((StorageError, NetError)):
            predictor_exporter.prepare_prediction_net(save("p", value), "minidb")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_predictors_give_errors_of_ours_only(ws, tmp_path, data):
    content = bytearray(SAVED.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)):]
    (tmp_path / "p").write_bytes(content)
    workspace.ResetWorkspace()
    try:
        net = predictor_exporter.prepare_prediction_net(str(tmp_path / "p"), "minidb")
        workspace.FeedBlob("data", np.zeros((2, 4), np.float32))
        workspace.RunNet(net)
    except (NetError, FormatError):
        pass


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int32", "int64", "bool", "uint8"])
def test_parameters_of_every_kind_are_in_the_initial_net(ws, dtype):
    value = np.array([[0, 1, 7], [3, 100, 1]]).astype(dtype)
    workspace.FeedBlob("w", value)
    workspace.FeedBlob("names", np.array([b"a", b"bc"], dtype=object))
    net = core.Net("n")
    net.Copy("w", "y")
    net.Copy("names", "z")
    init_net, predict_net = mobile_exporter.Export(workspace, net, ["w", core.BlobReference("names")])
    found = workspace.Predictor(init_net.SerializeToString(), predict_net.SerializeToString()).run([])
    assert found[0].dtype == value.dtype and found[0].tolist() == value.tolist() and found[1].tolist() == [b"a", b"bc"]


def test_parameters_that_no_operator_makes(ws):
    net = core.Net("n")
    net.Copy("w", "y")
    for value in (np.zeros(2, np.float16), "text"):
        workspace.FeedBlob("w", value)
        with pytest.raises(ValueError, match=r"'w' is (float16|bytes), which no operator makes"):
            mobile_exporter.Export(workspace, net, ["w"])


def test_nets_that_are_none_are_refused(ws):
    with pytest.raises(NetError, match="no NetDef"):
        workspace.Predictor(b"\xff\xff", b"")
