"""Models: parameters, sharing, tags, gradients, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import brew, core, model_helper, optimizer, workspace
from caffe2.python.modeling.initializers import Initializer, PseudoFP16Initializer
from caffe2.python.modeling.parameter_info import ParameterTags
from caffe2.python.modeling.parameter_sharing import ParameterSharing
from caffe2.python.optimizer_context import UseOptimizer
from netgrad.training.optimizers.build import NoParametersError


def test_parameter_sharing_follows_overrides_through_scopes():
    model = model_helper.ModelHelper("shared")

    def w(scope):
        with core.NameScope(scope):
            return str(model.create_param("w", [2], Initializer("ConstantFill")))

    with ParameterSharing({"b": "a"}), ParameterSharing({"b/shared": "b"}):
        assert w("a") == w("b") == w("b/shared") == "a/w"
        assert w("b/own") == "a/own/w"
        assert w("c") == "c/w"
    with ParameterSharing({"a": ""}):
        assert w("a") == "w"
    assert [str(p) for p in model.params] == ["a/w", "a/own/w", "c/w", "w"]


def test_scope_cannot_share_with_its_own_inside():
    with pytest.raises(AssertionError, match="'a/b', which starts with it"), ParameterSharing({"a": "a/b"}):
        pass


def test_shared_parameter_of_another_shape_is_refused():
    model = model_helper.ModelHelper("shapes")
    model.create_param("w", [2, 3], Initializer("XavierFill"))
    with pytest.raises(AssertionError, match=r"exists with shape \[2, 3\].*\[3, 2\]"):
        model.create_param("w", [3, 2], Initializer("XavierFill"))


def test_tags_sort_parameters_and_choose_optimizers():
    model = model_helper.ModelHelper("tags")
    weights = optimizer.SgdOptimizer(0.1)
    with core.NameScope("s"), UseOptimizer({"WEIGHT": weights}):
        brew.spatial_bn(model, "x", "bn", 3)
    assert [str(p) for p in model.GetParams("s")] == ["s/bn_s", "s/bn_b"]
    assert [str(p) for p in model.GetComputedParams()] == ["s/bn_rm", "s/bn_riv"]
    assert model.GetParams("t") == [] and len(model.GetAllParams()) == 4
    assert model.weights == ["s/bn_s"] and model.biases == ["s/bn_b"]
    assert model.get_param_info(model.weights[0]).optimizer is weights
    assert model.get_param_info(model.biases[0]).optimizer is None


def test_parameter_added_twice_is_refused_before_gradients_are_made():
    model = model_helper.ModelHelper("twice")
    brew.fc(model, "x", "y", 2, 2)
    model.AddParameter(model.params[0], ParameterTags.WEIGHT)
    with pytest.raises(AssertionError, match="more than once: y_w"):
        model.AddGradientOperators(["y"])
    assert not model.gradient_ops_added


def test_only_parameters_with_a_gradient_are_optimized():
    model = model_helper.ModelHelper("some")
    brew.fc(model, "x", "used", 2, 2)
    brew.fc(model, "x", "unused", 2, 2)
    with pytest.raises(RuntimeError, match="call AddGradientOperators first"):
        model.GetOptimizationParamInfo()
    model.AddGradientOperators(["used"])
    assert [info.name for info in model.GetOptimizationParamInfo()] == ["used_w", "used_b"]
    with pytest.raises(RuntimeError, match="already"):
        model.AddGradientOperators(["used"])


def test_any_blob_with_a_gradient_can_be_optimized():
    model = model_helper.ModelHelper("any", arg_scope={"use_cudnn": False})
    brew.fc(model, "x", "y", 2, 2, freeze_bias=True)
    model.AddGradientOperators(["y"])
    assert [info.name for info in model.GetOptimizationParamInfo()] == ["y_w"]
    chosen = model.GetOptimizationParamInfo(["x", core.BlobReference("y_b"), "label"])
    assert [(info.name, str(info.grad)) for info in chosen] == [("x", "x_grad"), ("y_b", "y_b_grad")]


def test_optimizer_without_parameters_says_why():
    model = model_helper.ModelHelper("empty")
    y = model.net.Relu("x", "y")
    model.AddGradientOperators([y])
    with pytest.raises(NoParametersError, match="it has no parameters"):
        optimizer.build_sgd(model, 0.1)
    stopped = model_helper.ModelHelper("stopped")
    y = stopped.net.Relu(stopped.net.StopGradient(brew.fc(stopped, "x", "h", 2, 2), "cut"), "y")
    stopped.AddGradientOperators([y])
    with pytest.raises(NoParametersError, match=r"none of its 2 parameters \('h_w', 'h_b'\) has a gradient"):
        optimizer.build_adam(stopped, 0.1)


def test_half_precision_initializer_keeps_a_float_copy():
    model = model_helper.ModelHelper("half")
    w = model.create_param("w", [3], PseudoFP16Initializer("ConstantFill", value=1.5))
    workspace.RunNetOnce(model.param_init_net)
    copy = model.get_param_info(w).blob_copy[core.DataType.FLOAT]
    assert workspace.FetchBlob(w).dtype == np.float16 and workspace.FetchBlob(copy).dtype == np.float32
    assert str(copy) == "w_fp32" and (workspace.FetchBlob(w) == 1.5).all()


def test_argument_scopes_end_even_when_the_block_raises():
    model = model_helper.ModelHelper("scope")
    with pytest.raises(KeyError), brew.arg_scope(brew.fc, weight_init=("ConstantFill", {})):
        raise KeyError
    brew.fc(model, "x", "y", 2, 2)
    assert model.param_init_net.Proto().op[0].type == "XavierFill"


def test_registered_helper_is_called_with_arguments_of_model_and_scope():
    def scaled(model, blob_in, blob_out, order="?", factor=1.0):
        return model.net.Scale(blob_in, blob_out, scale=factor), order

    assert not brew.has_helper(scaled)
    brew.Register(scaled)
    try:
        model = model_helper.ModelHelper("own", arg_scope={"order": "NHWC"})
        with brew.arg_scope([scaled], factor=3.0):
            _, order = brew.scaled(model, "x", "y")
        assert order == "NHWC" and model.net.Proto().op[0].arg[0].f == 3.0
        with pytest.raises(AttributeError, match="scaled already"):
            brew.Register(scaled)
        with pytest.raises(RuntimeError, match="first argument is the model"):
            brew.scaled("x", "y")
    finally:
        del brew._registry["scaled"]


def test_predictor_net_keeps_what_leads_from_inputs_to_outputs():
    model = model_helper.ModelHelper("whole", arg_scope={"use_cudnn": False})
    model.net.StopGradient("raw", "x")
    brew.relu(model, brew.fc(model, "x", "h", 2, 2), "h")
    brew.softmax(model, brew.fc(model, "h", "y", 2, 2), "p")
    model.net.LabelCrossEntropy(["p", "label"], "xent")
    loss = model.net.AveragedLoss("xent", "loss")
    model.AddGradientOperators([loss])
    before = model.net.Proto().SerializeToString()
    net, params = model_helper.ExtractPredictorNet(model.net.Proto(), ["x"], ["p"], renames={"x": "data", "p": "prob"})
    assert [op.type for op in net.Proto().op] == ["FC", "Relu", "FC", "Softmax"]
    assert params == ["h_w", "h_b", "y_w", "y_b"] and list(net.Proto().external_input) == ["data", *params]
    assert list(net.Proto().external_output) == ["prob"] and net.Proto().op[0].input[0] == "data"
    assert model.net.Proto().SerializeToString() == before


def test_predictor_net_refuses_what_it_cannot_compute():
    model = model_helper.ModelHelper("train", arg_scope={"use_cudnn": False})
    brew.dropout(model, brew.fc(model, "x", "h", 2, 2), "d", is_test=0)
    with pytest.raises(ValueError, match="has is_test=0"):
        model_helper.ExtractPredictorNet(model.net.Proto(), ["x"], ["d"])
    with pytest.raises(ValueError, match="no operator reads 'z'"):
        model_helper.ExtractPredictorNet(model.net.Proto(), ["z"], ["h"])


def test_complete_net_can_be_taken_apart_again():
    model = model_helper.ModelHelper("both")
    brew.fc(model, "x", "y", 2, 3)
    complete = model.GetCompleteNet()
    assert [op.type for op in complete.Proto().op] == ["XavierFill", "ConstantFill", "FC"]
    other = model_helper.ModelHelper("other")
    other.ConstructInitTrainNetfromNet(complete)
    assert [op.type for op in other.param_init_net.Proto().op] == ["XavierFill", "ConstantFill"]
    assert [op.type for op in other.net.Proto().op] == ["FC"]


@pytest.mark.parametrize("build", [
    lambda m: optimizer.build_sgd(m, 0.5),
    lambda m: optimizer.build_sgd(m, 0.2, momentum=0.8),
    lambda m: optimizer.build_sgd(m, 0.5, max_gradient_norm=1.0),
    lambda m: optimizer.build_adam(m, 0.1),
    lambda m: optimizer.build_adagrad(m, 0.5),
], ids=["sgd", "momentum", "clipped", "adam", "adagrad"])
def test_optimizer_finds_the_line_through_points(build):
    workspace.ResetWorkspace()
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    model = model_helper.ModelHelper("line", arg_scope={"use_cudnn": False})
    y = brew.fc(model, "x", "y", 3, 1)
    loss = model.net.AveragedLoss(model.net.SquaredL2Distance([y, "target"], "distance"), "loss")
    model.AddGradientOperators([loss])
    build(model)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("target", x @ np.array([[1], [-2], [0.5]], np.float32) + 0.25)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, 300)
    assert workspace.FetchBlob("loss") < 1e-3
    np.testing.assert_allclose(workspace.FetchBlob("y_w"), [[1, -2, 0.5]], atol=0.03)


@pytest.mark.parametrize("build", [
    lambda m: optimizer.build_sgd(m, 1.0),
    lambda m: optimizer.build_adagrad(m, 1.0, sparse_dedup_aggregator="sum"),
    lambda m: optimizer.build_adam(m, 0.5, sparse_dedup_aggregator="sum"),
], ids=["sgd", "adagrad", "adam"])
def test_sparse_update_changes_the_rows_that_were_read_and_no_others(build):
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper("rows")
    table = model.create_param("table", [5, 2], Initializer("ConstantFill", value=1.0))
    loss = model.net.AveragedLoss(model.net.Gather([table, "ids"], "rows"), "loss")
    model.AddGradientOperators([loss])
    build(model)
    workspace.FeedBlob("ids", np.array([3, 1, 3], np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    changed = (workspace.FetchBlob("table") != 1).all(axis=1)
    assert changed.tolist() == [False, True, False, True, False]


def test_parameter_of_the_older_form_knows_its_shape_and_source():
    from caffe2.python import schema

    model = model_helper.ModelHelper("older")
    record = model.net.set_input_record(schema.NewRecord(model.net, schema.Struct(("ids", schema.Scalar(np.int32)))))
    table = model.param_init_net.ConstantFill([], "table", shape=[5, 2])
    info = model.add_param_DEPRECATED(table, key=record.ids())
    assert (info.name, info.key, info.shape, info.size) == ("table", "ids", [5, 2], 10)
    assert model.params == [table] and model.get_param_info(table) is info
    loss = model.net.AveragedLoss(model.net.Gather([table, record.ids()], "rows"), "loss")
    model.AddGradientOperators([loss])
    assert info.grad is model.param_to_grad[table]
    assert model.add_param_DEPRECATED(core.BlobReference("given"), shape=[3], length=2).length == 2


def test_cnn_model_helper_has_the_helpers_as_methods():
    from caffe2.python import cnn

    model = cnn.CNNModelHelper(use_cudnn=False)
    model.GroupConv_Deprecated("x", "grouped", 2, 2, 3, group=2)
    model.FC_Decomp("y", "z", 4, 2, rank_approx=1)
    assert [op.type for op in model.net.Proto().op] == ["DepthSplit", "Conv", "Conv", "Concat", "MatMul", "FC"]
    with pytest.raises(AttributeError, match="FC_Sparse is no method"):
        model.FC_Sparse("x", "y", *map(core.BlobReference, "abcd"))


def test_low_rank_layer_is_the_product_of_its_factors():
    model = model_helper.ModelHelper("factors", arg_scope={"use_cudnn": False})
    brew.fc_decomp(model, "x", "y", 6, 4, rank_approx=2, bias_init=("ConstantFill", {"value": 0.5}))
    workspace.FeedBlob("x", np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    x, u, v = (workspace.FetchBlob(name) for name in ("x", "y_u", "y_v"))
    assert u.shape == (4, 2) and v.shape == (6, 2)
    np.testing.assert_allclose(workspace.FetchBlob("y"), x @ v @ u.T + 0.5, rtol=1e-4, atol=1e-5)
    assert set(model.AddGradientOperators(["y"])) >= {"y_u", "y_v", "y_b"}


def test_input_of_images_turns_them_to_the_order_of_the_model():
    class Net:
        def __init__(self):
            self.written = []

        def __getattr__(self, op_type):
            def write(blob_in, blob_out, **arguments):
                self.written.append((op_type, blob_in, blob_out, arguments))
                return tuple(blob_out) if isinstance(blob_out, list) else blob_out
            return write

    model = model_helper.ModelHelper("images")
    model.net = Net()
    assert brew.image_input(model, "reader", ["x", "label"], is_test=0) == ("x", "label")
    brew.image_input(model, "reader", ["x", "label"], is_test=0, order="NHWC")
    brew.image_input(model, "reader", ["x", "label"], is_test=0, use_gpu_transform=True)
    assert [(op, outputs) for op, _, outputs, _ in model.net.written] == [
        ("ImageInput", ["x_nhwc", "label"]), ("NHWC2NCHW", "x"), ("ImageInput", ["x", "label"]),
        ("ImageInput", ["x", "label"])]
    assert model.net.written[-1][3]["use_gpu_transform"] == 1
    with pytest.raises(AssertionError, match="image_input needs is_test="):
        brew.image_input(model, "reader", ["x", "label"])
