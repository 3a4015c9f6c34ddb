"""What Caffe2's workspace and compiled module give scripts beside nets and blobs."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_nets import net, op

from caffe2.python import core
from caffe2.python import workspace as w
from netgrad.graph.shapes import TensorType
from netgrad.proto import caffe2_pb2
from netgrad.runtime import costs, devices, flags
from netgrad.runtime.compiled import GradientWrapper, OfflineTensor
from netgrad.runtime.errors import BlobError, BlobNotFound, DeviceError, NetError, NetNotFound
from netgrad.runtime.int8 import Int8Tensor
from netgrad.runtime.observers import Observer
from netgrad.runtime.workspace import Workspace


@pytest.fixture(autouse=True)
def fresh():
    w.SwitchWorkspace("default")
    w.ResetWorkspace()
    before = dict(flags._set)
    yield
    flags._set.update(before)
    w.SwitchWorkspace("default")
    w.ResetWorkspace()


def f(*shape):
    return np.ones(shape, np.float32)


# observers

def watched():
    made = core.Net("watched")
    made.Relu("x", "y")
    made.Relu("y", "y")
    w.FeedBlob("x", f(3))
    w.CreateNet(made)
    return made


def test_observers_watch_created_nets():
    made = watched()
    timer, counter, profile = map(made.AddObserver, ("TimeObserver", "RunCountObserver", "ProfileObserver"))
    w.RunNet(made, 2)
    assert made.NumObservers() == 3
    assert 0 < timer.average_time_children() < timer.average_time()
    assert counter.debug_info() == "4 operators have run."
    assert profile.counts == [2, 2] and "Relu" in profile.debug_info().splitlines()[1]
    made.RemoveObserver(timer)
    before = timer.average_time()
    w.RunNet(made)
    assert timer.average_time() == before and made.NumObservers() == 2
    with pytest.raises(NetError, match=r"does not watch"):
        made.RemoveObserver(timer)
    with pytest.raises(NetError, match=r"no observer 'Nope'; there are ProfileObserver"):
        made.AddObserver("Nope")
    with pytest.raises(NetError, match=r"measures no time"):
        counter.average_time()
    with pytest.raises(NetNotFound):
        w.C.add_observer_to_net("nowhere", "TimeObserver")


def test_errors_under_observers_are_located_once():
    w.FeedBlob("x", f(3))
    made = core.Net("bad")
    made.Relu("x", "y")
    made.Add(["x", "z"], "s")
    w.FeedBlob("z", f(2))
    w.CreateNet(made)
    made.AddObserver("TimeObserver")
    with pytest.raises(RuntimeError) as caught:
        w.RunNet(made)
    assert str(caught.value).count("enforce fail") == 1 and "operator 1 (Add)" in str(caught.value)


def test_an_observer_of_ones_own():
    seen = []

    class Names(Observer):
        def run_operator(self, position, step, run):
            run()
            seen.append((position, step.binding.type))

    Observer.kinds["Names"] = Names
    try:
        made = watched()
        made.AddObserver("Names")
        w.RunNet(made)
        assert seen == [(0, "Relu"), (1, "Relu")]
    finally:
        del Observer.kinds["Names"]


# costs

#: operator, shapes of its inputs, arguments, number of outputs -> flops and bytes written, as Caffe2 1.8.1 says
COSTS = [
    ("FC", [(2, 3), (4, 3), (4,)], {}, 1, (56, 32)),
    ("FCGradient", [(2, 3), (4, 3), (2, 4)], {}, 3, (104, 88)),
    ("Conv", [(2, 3, 8, 8), (4, 3, 3, 3), (4,)], {"kernel": 3}, 1, (15552, 1152)),
    ("ConvGradient", [(2, 3, 8, 8), (4, 3, 3, 3), (2, 4, 6, 6)], {"kernel": 3}, 3, (31392, 1984)),
    ("Relu", [(2, 3)], {}, 1, (0, 24)), ("Add", [(2, 3), (2, 3)], {}, 1, (6, 24)),
    ("Mul", [(2, 3), (3,)], {"broadcast": 1}, 1, (6, 24)), ("Sum", [(2, 3)] * 3, {}, 1, (12, 24)),
    ("BatchMatMul", [(4, 2, 3), (4, 2, 3)], {"trans_b": 1}, 1, (96, 64)),
    ("WeightedSum", [(2, 3), (1,), (2, 3), (1,)], {}, 1, (18, 24)),
]


@pytest.mark.parametrize(("type", "shapes", "arguments", "outputs", "cost"), COSTS, ids=[c[0] for c in COSTS])
def test_costs_are_caffe2s(type, shapes, arguments, outputs, cost):
    names = [f"i{k}" for k in range(len(shapes))]
    for name, shape in zip(names, shapes):
        w.FeedBlob(name, f(*shape))
    definition = core.CreateOperator(type, names, [f"o{k}" for k in range(outputs)], **arguments)
    assert w.GetOperatorCost(definition, names) == cost
    assert w.C.get_operator_cost(definition.SerializeToString(), names) == cost


def test_other_costs():
    found = costs.operator_cost(op("Sigmoid", "x", "y"), [TensorType("float64", (2, 3))])
    assert found == costs.Cost(6, 48, 48) and (found + found).flops == 12
    unknown = costs.operator_cost(op("Sigmoid", "x", "y"), [TensorType("float32", (None, 3))])
    assert unknown.flops == unknown.bytes_written == 0
    assert costs.operator_cost(op("FC", "x w b", "y"), [TensorType("float32", s) for s in ((2, 3), (4, 3), (4,))]
                               ).bytes_of_parameters == 64
    with pytest.raises(NetError, match=r"no operator of type 'Nope'"):
        w.GetOperatorCost(op("Nope"), [])


# predictor

def test_a_predictor_is_called_like_a_function():
    init = net("init", op("ConstantFill", "", "two", value=2.0))
    init.op[0].arg.add(name="shape", ints=[1])
    predict = net("predict", op("Mul", "x two", "y", broadcast=1))
    predict.external_input.extend(["x", "two"])
    predict.external_output.append("y")
    predictor = w.Predictor(w.StringifyProto(init), w.StringifyProto(predict))
    assert predictor.inputs == ["x"]
    for inputs in ([f(3)], {"x": f(3)}):
        (y,) = predictor.run(inputs)
        assert y.tolist() == [2, 2, 2]
    assert w.Blobs() == [] and w.C.nets() == []
    with pytest.raises(BlobNotFound, match=r"no blob 'z'; the net's inputs are x"):
        predictor.run({"z": f(1)})
    with pytest.raises(NetError, match=r"3 inputs; the net has 2"):
        predictor.run([f(1)] * 3)
    with pytest.raises(NetError, match=r"give a list of arrays"):
        predictor.run(f(3))


# shapes

def test_shapes_in_wire_form_and_with_unknown_dimensions():
    w.FeedBlob("x", f(2, 3))
    w.FeedBlob("w", f(4, 3))
    w.FeedBlob("b", f(4))
    layer = net("n", op("FC", "x w b", "y"), op("Relu", "y", "z"))
    found = caffe2_pb2.TensorShapes.FromString(w.C.infer_shapes_and_types_from_workspace([layer.SerializeToString()]))
    assert {s.name: list(s.dims) for s in found.shapes}["z"] == [2, 4]
    dims = {"x": [-1, 3], "w": [4, 3], "b": [4]}
    shapes, types = w.InferShapesAndTypes([layer], dims, nets_proto=True)
    assert shapes["z"] == [-1, 4] and types["z"] == caffe2_pb2.TensorProto.FLOAT
    assert w.InferShapesAndTypes([layer], {"x": [None, 3], "w": [4, 3], "b": [4]}, nets_proto=True)[0] == shapes
    wire = w.C.infer_shapes_and_types_from_map([layer.SerializeToString()], dims, {"x": 1, "w": 1, "b": 1})
    (z,) = [s for s in caffe2_pb2.TensorShapes.FromString(wire).shapes if s.name == "z"]
    assert list(z.dims) == [-1, 4] and list(z.unknown_dims) == [0]


def test_schemas_answer_caffe2s_questions():
    schema = w.C.OpSchema.get("FC")
    assert (schema.min_input, schema.max_input, schema.min_output, schema.max_output) == (3, 3, 1, 1)
    assert [a.name for a in schema.args][:2] == ["axis", "axis_w"] and schema.input_desc[0][0] == "X"
    assert schema.CalculateOutput(3) == 1 and schema.num_inputs_allowed(3) and not schema.num_outputs_allowed(2)
    assert schema.num_inputs_outputs_allowed(3, 1) and not schema.private and schema.line > 1
    assert schema.file.endswith(".py") and "FC" in schema.get_cpu_impl("FC") and schema.get_gradient_impl("FC")
    concat = w.C.OpSchema.get("Concat")
    assert concat.max_input == concat.inf and concat.CalculateOutput(4) == 2
    assert w.C.OpSchema.get("Split").CalculateOutput(1) == -1 and w.C.OpSchema.get("Nope") is None
    assert w.C.OpSchema.get("Iter").inplace_enforced(0, 0)
    shape = caffe2_pb2.TensorShape(dims=[2, 3], data_type=caffe2_pb2.TensorProto.FLOAT)
    (out,) = w.C.OpSchema.get("Relu").infer_tensor(op("Relu", "x", "y").SerializeToString(),
                                                   [shape.SerializeToString()])
    assert list(caffe2_pb2.TensorShape.FromString(out).dims) == [2, 3]


# blobs of other kinds

def test_8_bit_tensors():
    blob = Int8Tensor(np.array([0, 128, 255], np.uint8), 0.5, 128)
    w.FeedBlob("q", blob)
    assert w.FetchInt8Blob("q").scale == 0.5 and w.C.Workspace.current.fetch_int8_blob("q") is blob
    assert w.FetchInt8BlobRealVal("q").tolist() == [-64, 0, 63.5]
    with pytest.raises(BlobError, match=r"FetchInt8Blob"):
        w.FetchBlob("q")
    w.FeedBlob("x", f(1))
    with pytest.raises(AssertionError, match=r"holds no 8-bit tensor"):
        w.FetchInt8Blob("x")


def test_offline_tensors_are_opaque():
    assert w.CreateOfflineTensor("off", [2, 3], 1) and isinstance(Workspace.current.values["off"], OfflineTensor)
    assert b"OfflineTensor" in w.FetchBlob("off")


# workspaces

def test_child_workspaces_see_and_write_their_parents_blobs():
    w.FeedBlob("x", f(2))
    w.C.create_child_workspace("default", "kid")
    try:
        w.SwitchWorkspace("kid")
        assert w.Blobs() == ["x"] and w.C.local_blobs() == [] and w.FetchBlob("x").tolist() == [1, 1]
        w.FeedBlob("x", f(3))
        w.FeedBlob("own", f(1))
        w.SwitchWorkspace("default")
        assert w.FetchBlob("x").shape == (3,) and not w.HasBlob("own")
        with pytest.raises(NetError, match=r"no workspace 'nowhere'"):
            w.C.create_child_workspace("nowhere", "kid")
    finally:
        w.SwitchWorkspace("default")
        Workspace.by_name.pop("kid", None)


def test_only_shared_blobs_are_seen_under_their_names_here(ws):
    ws.feed_blob("outer", f(2))
    ws.feed_blob("secret", f(2))
    inner = Workspace(ws, {"inner": "outer", "later": "not_yet"})
    assert inner.names() == ["inner"] and inner.has_blob("inner") and not inner.has_blob("outer")
    inner.feed_blob("inner", 2 * f(2))
    inner.feed_blob("secret", f(1))
    assert ws.fetch_blob("outer").tolist() == [2, 2] and ws.fetch_blob("secret").shape == (2,)
    ws.feed_blob("not_yet", f(1))
    assert inner.names() == ["inner", "later", "secret"] and inner.values.get("nothing", 3) == 3
    with pytest.raises(BlobNotFound):
        inner.fetch_blob("outer")


# the rest of the compiled module

def test_gradients_in_wire_form():
    given = w.C.GradientWrapper()
    assert given.is_empty()
    given.dense = "y_grad"
    assert isinstance(given, GradientWrapper) and given.is_dense() and not given.is_sparse()
    ops, gradients = w.C.get_gradient_defs(op("Relu", "x", "y").SerializeToString(), [given])
    assert caffe2_pb2.OperatorDef.FromString(ops[0]).type == "ReluGradient" and gradients[0].dense == "x_grad"
    given.dense = "y_grad"
    _, gradients = w.C.get_gradient_defs(op("Gather", "table rows", "y").SerializeToString(), [given])
    assert gradients[0].is_sparse() and gradients[0].indices == "rows" and gradients[1].is_empty()


def test_random_inputs_fill_what_operators_read_first():
    layer = net("n", op("Gather", "table rows", "y"), op("Add", "y b", "z"))
    dims, types = [[[4, 2], [3]], [[3, 2]]], [["float", "int64"], ["float"]]
    w.C.fill_random_network_inputs(layer.SerializeToString(), dims, types)
    assert w.FetchBlob("table").shape == (4, 2) and w.FetchBlob("rows").dtype == np.int64 and w.RunNetOnce(layer)
    with pytest.raises(NetError, match=r"read \[2, 1\] external inputs; there are shapes for \[1\]"):
        w.C.fill_random_network_inputs(layer.SerializeToString(), [[[4, 2]]], [["float"]])


def test_small_questions():
    assert w.C.op_registry_key("Relu", "X") == "Relu_ENGINE_X" and w.C.op_registry_key("Relu", "") == "Relu"
    assert w.C.get_build_options()["BUILD_TYPE"] == "Release" and not w.IsNUMAEnabled() and w.GetNumNUMANodes() == -1
    w.FeedBlob("x", f(1))
    assert w.GetBlobNUMANode("x") == -1 and isinstance(w.GetStats(), dict)
    assert "Relu" in core._REGISTERED_OPERATORS and "Nope" not in core._REGISTERED_OPERATORS
    assert len(core._REGISTERED_OPERATORS) > 500 and sorted(core._REGISTERED_OPERATORS) == w.RegisteredOperators()
    placed = op("CopyCPUToGPU", "a", "b")
    placed.device_option.device_type = caffe2_pb2.CUDA
    inputs, outputs = w.C.infer_op_input_output_device(placed.SerializeToString())
    assert inputs == [b""] and caffe2_pb2.DeviceOption.FromString(outputs[0]).device_type == caffe2_pb2.CUDA
    w.CreateNet(net("n", op("Relu", "x", "x"), op("Relu", "x", "x")))
    assert w.C.nets() == ["n"] and w.C.delete_net("n") and w.C.nets() == []
    with pytest.raises(NetNotFound):
        w.C.delete_net("n")
    rewritten = caffe2_pb2.NetDef.FromString(w.C.ssa_rewrite(
        net("n", op("Relu", "x", "x"), op("Relu", "x", "x")).SerializeToString()))
    assert [(list(o.input), list(o.output)) for o in rewritten.op] == [(["x"], ["x_0"]), (["x_0"], ["x_1"])]


def test_operators_run_several_times_are_made_once():
    w.FeedBlob("i", np.zeros(1, np.int64))
    assert w.RunOperatorMultiple(op("Iter", "i", "i"), 5) and w.FetchBlob("i").tolist() == [5]


# flags

def test_flags_of_the_command_line():
    core.GlobalInit(["program", "--caffe2_operator_throw_if_fp_exceptions=1", "--caffe2_log_level=2", "rest"])
    w.FeedBlob("zero", 0 * f(1))
    w.FeedBlob("one", f(1))
    division = net("n", op("Div", "one zero", "q"))
    with pytest.raises(RuntimeError, match=r"\(Div\).*makes an infinity of finite inputs"):
        w.RunNetOnce(division)
    with pytest.raises(RuntimeError, match=r"makes NaN"):
        w.RunOperatorOnce(op("Div", "zero zero", "q"))
    core.GlobalInit(["program", "--caffe2_operator_throw_if_fp_exceptions", "0"])
    assert w.RunNetOnce(division) and not flags.is_set("caffe2_operator_throw_if_fp_exceptions")
    with pytest.raises(ValueError, match=r"it can be 0 or 1"):
        core.GlobalInit(["program", "--netgrad_strict_devices=perhaps"])
    with pytest.raises(KeyError, match=r"no flag 'nope'"):
        flags.set_flag("nope", True)


# devices

def on_gpu():
    placed = op("Relu", "x", "y")
    placed.device_option.device_type = caffe2_pb2.CUDA
    return placed


def test_a_gpu_that_is_not_there(caplog):
    if w.has_gpu_support:
        pytest.skip("there is a GPU")
    w.FeedBlob("x", f(2))
    assert w.RunOperatorOnce(on_gpu())
    devices.strict_devices()
    with pytest.raises(DeviceError, match=r"strict_devices forbids the CPU"):
        w.RunOperatorOnce(on_gpu())
    devices.strict_devices(False)
    assert w.RunOperatorOnce(on_gpu())


@pytest.mark.skipif(not w.has_gpu_support, reason="there is no GPU")
def test_nets_run_on_a_gpu():
    w.FeedBlob("x", -f(2), core.DeviceOption(caffe2_pb2.CUDA, 0))
    assert Workspace.current.values["x"].is_cuda
    w.RunOperatorOnce(on_gpu())
    assert Workspace.current.values["y"].is_cuda and w.FetchBlob("y").tolist() == [0, 0]
    copy = op("CopyGPUToCPU", "y", "z")
    copy.device_option.device_type = caffe2_pb2.CUDA
    w.RunOperatorOnce(copy)
    assert not Workspace.current.values["z"].is_cuda
    whole = core.Net("whole")
    whole.Relu("x", "r")
    whole.RunAllOnGPU()
    w.RunNetOnce(whole)
    assert Workspace.current.values["r"].is_cuda
