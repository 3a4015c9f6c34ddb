"""Optimizers, regularizers, modifiers of nets: what they refuse, what they leave alone, and what is unlike Caffe2."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import brew, core, model_helper, optimizer, regularizer, workspace
from caffe2.python.modeling.compute_histogram_for_blobs import ComputeHistogramForBlobs
from caffe2.python.modeling.compute_norm_for_blobs import ComputeNormForBlobs
from caffe2.python.modeling.compute_statistics_for_blobs import ComputeStatisticsForBlobs
from caffe2.python.modeling.get_entry_from_blobs import GetEntryFromBlobs
from caffe2.python.modeling.gradient_clipping import GradientClipping
from caffe2.python.modeling.initializers import Initializer, PseudoFP16Initializer, ReversePseudoFP16Initializer
from caffe2.python.modeling.parameter_info import ParameterInfo
from caffe2.python.normalizer import BatchNormalizer, LayerNormalizer, Normalizer
from caffe2.python.normalizer_context import NormalizerContext, UseNormalizer
from caffe2.python.optimizer_context import UseOptimizer

OPTIMIZERS = {
    "SgdOptimizer": {}, "MultiPrecisionSgdOptimizer": {}, "FP16SgdOptimizer": {}, "AdagradOptimizer": {},
    "WngradOptimizer": {}, "StormOptimizer": {}, "AdadeltaOptimizer": {}, "FtrlOptimizer": {}, "GFtrlOptimizer": {},
    "AdamOptimizer": {}, "YellowFinOptimizer": {}, "RmsPropOptimizer": {},
}
DENSE_ONLY = ["FP16SgdOptimizer", "GFtrlOptimizer", "YellowFinOptimizer", "RmsPropOptimizer"]


@pytest.fixture(autouse=True)
def _fresh():
    workspace.ResetWorkspace()


def _dense(name="dense", **fc):
    model = model_helper.ModelHelper(name, arg_scope={"use_cudnn": False})
    y = brew.fc(model, "x", "y", 3, 2, **fc)
    loss = model.net.AveragedLoss(model.net.SquaredL2Distance([y, "target"], "distance"), "loss")
    model.AddGradientOperators([loss])
    return model


def _sparse():
    model = model_helper.ModelHelper("sparse")
    table = model.param_init_net.UniformFill([], "table", shape=[5, 3])
    model.AddParameter(table)
    model.AddGradientOperators([model.net.AveragedLoss(model.net.Gather([table, "ids"], "rows"), "loss")])
    return model


def _run(model, steps=1):
    rng = np.random.default_rng(0)
    workspace.FeedBlob("x", rng.normal(size=(4, 3)).astype(np.float32))
    workspace.FeedBlob("target", rng.normal(size=(4, 2)).astype(np.float32))
    workspace.FeedBlob("ids", np.array([3, 1, 3], np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net, overwrite=True)
    workspace.RunNet(model.net, steps)


# ---- what all optimizers have in common


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_frozen_parameters_get_no_update(name):
    model = model_helper.ModelHelper("frozen", arg_scope={"use_cudnn": False})
    h = model.net.StopGradient(brew.fc(model, "x", "frozen", 3, 3), "cut")
    loss = model.net.AveragedLoss(brew.fc(model, h, "y", 3, 2), "loss")
    model.AddGradientOperators([loss])
    optimizer._build(model, getattr(optimizer, name)())
    _run(model, 0)
    before = {p: workspace.FetchBlob(p) for p in ("frozen_w", "frozen_b", "y_w", "y_b")}
    workspace.RunNet(model.net, 2)
    changed = {p for p, value in before.items() if not np.array_equal(value, workspace.FetchBlob(p))}
    assert changed == {"y_w", "y_b"}
    assert not any("frozen" in name for op in model.net.Proto().op for name in op.output if name.endswith("_grad"))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_scale_learning_rate_scales_what_the_rate_is_called(name):
    made = getattr(optimizer, name)()
    rate = next(r for r in ("base_learning_rate", "alpha", "lr") if hasattr(made, r))
    before = getattr(made, rate)
    made.scale_learning_rate(0.25)
    assert getattr(made, rate) == before * 0.25


@pytest.mark.parametrize("name", DENSE_ONLY)
def test_optimizer_without_a_sparse_update_says_so(name):
    with pytest.raises(AssertionError, match=rf"{name}: the gradient of 'table' is sparse.*UseOptimizer"):
        optimizer._build(_sparse(), getattr(optimizer, name)())


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n not in DENSE_ONLY])
def test_sparse_update_leaves_other_rows_alone(name):
    model = _sparse()
    optimizer._build(model, getattr(optimizer, name)())
    _run(model, 0)
    before = workspace.FetchBlob("table")
    workspace.RunNet(model.net, 2)
    after = workspace.FetchBlob("table")
    np.testing.assert_array_equal(after[[0, 2, 4]], before[[0, 2, 4]])
    assert (after[[1, 3]] != before[[1, 3]]).all()


@pytest.mark.parametrize("name", ["SgdOptimizer", "MultiPrecisionSgdOptimizer", "FP16SgdOptimizer"])
def test_negative_rate_is_refused_and_zero_writes_nothing(name):
    model = _dense()
    operators = len(model.net.Proto().op)
    optimizer._build(model, getattr(optimizer, name)(base_learning_rate=0))
    assert len(model.net.Proto().op) == operators
    with pytest.raises(AssertionError, match=f"{name}: the base learning rate is positive"):
        optimizer._build(_dense("other"), getattr(optimizer, name)(base_learning_rate=-1))


@pytest.mark.parametrize("name", ["YellowFinOptimizer", "RmsPropOptimizer"])
def test_rate_has_to_be_positive(name):
    with pytest.raises(AssertionError, match="must be positive, found 0"):
        optimizer._build(_dense(), getattr(optimizer, name)(alpha=0))


@pytest.mark.parametrize("name", ["AdagradOptimizer", "SgdOptimizer", "WngradOptimizer", "StormOptimizer"])
def test_negative_offset_of_lars_is_refused(name):
    with pytest.raises(AssertionError, match="offset of LARS is at least 0, not -1"):
        optimizer._build(_dense(), getattr(optimizer, name)(lars=-1))


def test_optimizer_wants_a_gradient():
    model = model_helper.ModelHelper("bare")
    w = core.BlobReference("w")
    with pytest.raises(AssertionError, match="for a blob, give grad= too"):
        optimizer.SgdOptimizer()(model.net, model.param_init_net, "w")
    with pytest.raises(AssertionError, match="'w' has no gradient; call AddGradientOperators"):
        optimizer.SgdOptimizer()(model.net, model.param_init_net, ParameterInfo(None, w))


def test_parameters_choose_their_optimizers():
    model = model_helper.ModelHelper("choice", arg_scope={"use_cudnn": False})
    with UseOptimizer({"WEIGHT": optimizer.FtrlOptimizer(), "BIAS": optimizer.YellowFinOptimizer()}):
        brew.fc(model, "x", "h", 3, 3)
    loss = model.net.AveragedLoss(brew.fc(model, "h", "y", 3, 2), "loss")
    model.AddGradientOperators([loss])
    optimizer.build_rms_prop(model, 0.1)
    updates = {op.output[-1] if op.type == "MomentumSGDUpdate" else op.output[0]: op.type for op in model.net.Proto().op
               if op.type in ("Ftrl", "YellowFin", "MomentumSGDUpdate")}
    assert updates == {"h_w": "Ftrl", "h_b": "YellowFin", "y_w": "MomentumSGDUpdate", "y_b": "MomentumSGDUpdate"}


# ---- half precision


def test_half_precision_is_updated_by_formula():
    model = model_helper.ModelHelper("half")
    for name, initializer in (("w", PseudoFP16Initializer), ("v", ReversePseudoFP16Initializer)):
        model.create_param(name, [3], initializer("GivenTensorFill", values=[1.0, 2.0, 3.0]))
    w, v = (model.get_param_info(core.BlobReference(name)) for name in ("w", "v"))
    w.grad, v.grad = core.BlobReference("w_grad"), core.BlobReference("v_grad")
    model.net.AddExternalInput("w_grad", "v_grad")
    options = {"momentum": 0.5, "nesterov": False, "weight_decay": 0.25}
    for info in (w, v):
        optimizer.FP16SgdOptimizer(0.5, **options)(model.net, model.param_init_net, info)
    grad = np.array([1, -1, 0.5], np.float16)
    workspace.FeedBlob("w_grad", grad)
    workspace.FeedBlob("v_grad", grad)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    expected = np.array([1.0, 2.0, 3.0]) - 0.5 * (grad + 0.25 * np.array([1.0, 2.0, 3.0]))
    for blob in ("w", "v_fp16"):
        found = workspace.FetchBlob(blob)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_array_equal(workspace.FetchBlob("v"), [1.0, 2.0, 3.0])


def test_copies_of_another_type_are_refused():
    model = model_helper.ModelHelper("copies")
    info = ParameterInfo(None, core.BlobReference("w"), grad=core.BlobReference("w_grad"),
                         blob_copy={core.DataType.DOUBLE: core.BlobReference("w_double")})
    with pytest.raises(AssertionError, match="none of them float or float16"):
        optimizer.FP16SgdOptimizer()(model.net, model.param_init_net, info)


def test_small_steps_are_kept_in_single_precision():
    model = model_helper.ModelHelper("steps")
    w = model.create_param("w", [1], PseudoFP16Initializer("ConstantFill", value=1.0))
    info = model.get_param_info(w)
    info.grad = model.param_init_net.GivenTensorFill([], "g", shape=[1], values=[1.0])
    info.grad = model.param_init_net.FloatToHalf(info.grad, "w_grad")
    optimizer.MultiPrecisionSgdOptimizer(1e-4)(model.net, model.param_init_net, info)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, 20)  # each of which float16 would round away
    assert workspace.FetchBlob("w")[0] == np.float16(1 - 20e-4)


# ---- averages


def test_stochastic_weight_average_is_the_mean_and_feeds_back():
    model = _dense()
    optimizer.build_adagrad(model, 0.5, swa_options={
        "swa_avg_start_it": 3, "swa_avg_end_it": 7, "swa_feedback_start_it": 6, "swa_feedback_step": 2,
        "swa_feedback_end_it": 6})
    plain = _dense("plain")
    optimizer.build_adagrad(plain, 0.5)
    _run(plain, 0)
    start, history = workspace.FetchBlob("y_w"), []
    for _ in range(5):
        workspace.RunNet(plain.net)
        history.append(workspace.FetchBlob("y_w"))
    workspace.ResetWorkspace()
    _run(model, 0)
    workspace.FeedBlob("y_w", start)
    workspace.RunNet(model.net, 5)
    np.testing.assert_allclose(workspace.FetchBlob("y_w"), history[-1], rtol=1e-6)
    np.testing.assert_allclose(workspace.FetchBlob("y_w_swa"), np.mean(history[2:5], 0), rtol=1e-5)
    workspace.RunNet(model.net)
    np.testing.assert_array_equal(workspace.FetchBlob("y_w"), workspace.FetchBlob("y_w_swa"))
    workspace.RunNet(model.net)
    average = workspace.FetchBlob("y_w_swa")
    assert (workspace.FetchBlob("y_w") != average).any()
    workspace.RunNet(model.net)
    np.testing.assert_array_equal(workspace.FetchBlob("y_w_swa"), average)


@pytest.mark.parametrize("make", [_dense, _sparse], ids=["dense", "sparse"])
def test_moving_average_follows_the_parameter(make):
    model = make()
    made = optimizer.build_adagrad(model, 0.5, ema_options={"ema_start": 2, "ema_step": 2, "ema_alpha": 0.75})
    name = str(model.params[0])
    assert f"{name}_ema" in map(str, made.get_auxiliary_parameters().local)
    _run(model, 0)
    history = [workspace.FetchBlob(name)]
    for _ in range(5):
        workspace.RunNet(model.net)
        history.append(workspace.FetchBlob(name))
    np.testing.assert_allclose(workspace.FetchBlob(f"{name}_ema"), 0.75 * history[2] + 0.25 * history[4], rtol=1e-5)
    np.testing.assert_array_equal(workspace.FetchBlob(name), history[5])


def test_options_of_averages_are_checked():
    with pytest.raises(ValueError, match="swa_options has no avg_start; it may have swa_avg_start_it"):
        optimizer.AdagradOptimizer(swa_options={"avg_start": 3})
    with pytest.raises(ValueError, match="no release of Caffe2 had"):
        optimizer.AdagradOptimizer(pruning_options={"mask_tensor": np.ones(3)})
    model = _dense()
    optimizer.build_adagrad(model, 0.5, ema_options={"ema_alpha": 1.5})
    with pytest.raises(RuntimeError, match=r"'ema_alpha' must lie between 0 and 1, found 1.5"):
        _run(model)


# ---- clipping


def test_threshold_of_clipping_is_the_same_on_every_run():
    """Caffe2 multiplies it by the parameter's norm on each run anew."""
    model = model_helper.ModelHelper("clip")
    model.net.AddExternalInput("w", "g")
    GradientClipping("by_norm", clip_threshold=0.5, use_parameter_norm=True)(model.net, grad_map={"w": "g"})
    w, g = np.array([3.0, 4.0], np.float32), np.array([6.0, 8.0], np.float32)
    workspace.FeedBlob("w", w)
    workspace.FeedBlob("g", g)
    workspace.CreateNet(model.net)
    for _ in range(3):
        workspace.FeedBlob("g", g)
        workspace.RunNet(model.net)
        np.testing.assert_allclose(workspace.FetchBlob("g"), [1.5, 2.0], rtol=1e-6)


def test_clipping_leaves_the_callers_map_and_sparse_gradients_alone():
    model = _sparse()
    gradients = {"table": model.param_to_grad["table"]}
    operators = len(model.net.Proto().op)
    GradientClipping("by_norm")(model.net, grad_map=gradients)
    assert len(model.net.Proto().op) == operators
    GradientClipping("by_value", blobs_to_exclude=["table"])(model.net, grad_map=gradients)
    assert list(gradients) == ["table"]


def test_clipping_names_what_is_wrong():
    with pytest.raises(AssertionError, match=r"grad_clip_method is one of .*by_norm.*, not 'by_luck'"):
        GradientClipping("by_luck")
    with pytest.raises(AssertionError, match=r"clip_norm_type is one of .*, not 'l3_norm'"):
        GradientClipping("by_norm", clip_norm_type="l3_norm")
    with pytest.raises(AssertionError, match=r"clip_norm_type is one of .*, not None"):
        GradientClipping("by_norm", clip_norm_type=None)
    assert GradientClipping("by_value", clip_norm_type=None).clip_max == 1
    model = _dense()
    with pytest.raises(AssertionError, match="give grad_map="):
        GradientClipping("by_norm")(model.net)
    gradients = {"y_w": model.param_to_grad["y_w"]}
    with pytest.raises(ValueError, match="'z' is not defined in net 'dense"):
        GradientClipping("by_norm", blobs_to_include=["z"])(model.net, grad_map=gradients)
    with pytest.raises(KeyError, match="'y_b' has no gradient in grad_map"):
        GradientClipping("by_norm", blobs_to_include=["y_b"])(model.net, grad_map=gradients)


# ---- numbers to look at


def test_reports_compute_what_they_say():
    net = core.Net("reports")
    net.AddExternalInput("x")
    x = np.arange(-3, 9, dtype=np.float32).reshape(3, 4)
    workspace.FeedBlob("x", x)
    for modifier in (ComputeNormForBlobs(["x"], 0, p=1), ComputeNormForBlobs(["x"], 0, row_index=0),
                     ComputeNormForBlobs(["x"], 0, compute_averaged_norm=True),
                     ComputeHistogramForBlobs(["x"], 0, num_buckets=2, lower_bound=0, upper_bound=4),
                     ComputeStatisticsForBlobs(["x"], 0), GetEntryFromBlobs(["x"], 0, 1, 2),
                     GetEntryFromBlobs(["x"], 0, 2, -1)):
        modifier(net, modify_output_record=True)
    workspace.RunNetOnce(net)
    record = net.output_record()
    found = {name: workspace.FetchBlob(record[name]()) for name in record.field_names()}
    expected = {
        "x_l1_norm": [np.abs(x).sum()], "x_row_0_l2_norm": [(x[0] ** 2).sum()],
        "x_averaged_l2_norm": [(x ** 2).mean()], "x_curr_normalized_hist": [3 / 12, 2 / 12, 2 / 12, 5 / 12],
        "x_summary": [-3, 8, x.mean(), x.std(ddof=1)], "x_1_2": [[x[1, 2]]], "x_2_all": x[2:],
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("make", [
    lambda: ComputeNormForBlobs(["z"], 1), lambda: ComputeHistogramForBlobs(["z"], 1),
    lambda: ComputeStatisticsForBlobs(["z"], 1), lambda: GetEntryFromBlobs(["z"], 1)])
def test_report_of_a_blob_that_is_not_there_says_so(make):
    with pytest.raises(AssertionError, match="blob 'z' is not defined in net 'empty"):
        make()(core.Net("empty"))


def test_reports_refuse_numbers_out_of_range():
    with pytest.raises(ValueError, match="row_index is at least 0, not -1"):
        ComputeNormForBlobs(["x"], 1, row_index=-1)
    with pytest.raises(AssertionError, match="num_buckets must be positive, found 0"):
        ComputeHistogramForBlobs(["x"], 1, num_buckets=0)
    with pytest.raises(ValueError, match="i1 is a row from 0"):
        GetEntryFromBlobs(["x"], 1, -1)(core.Net("rows"))


# ---- regularizers and normalizers


@pytest.mark.parametrize(("name", "args", "value"), [
    ("L1Norm", (0.5,), lambda w: 0.5 * np.abs(w).sum()),
    ("L2Norm", (0.5,), lambda w: 0.5 * (w ** 2).sum()),
    ("ElasticNet", (0.5, 0.25), lambda w: 0.5 * np.abs(w).sum() + 0.25 * (w ** 2).sum()),
    ("L1NormTrimmed", (0.5, 2), lambda w: 0.5 * np.sort(np.abs(w), 1)[:, :-2].sum()),
    ("LpNorm", (0.5, 3.0), lambda w: 0.5 * (((w ** 2).sum(0) ** 1.5).sum()) ** (1 / 3)),
    ("L0ApproxNorm", (0.5, 1.5, 1), lambda w: 0.5 * max(0, np.minimum(np.sqrt((w ** 2).sum(0)), 1.5).sum() / 1.5 - 1)),
    ("GroupL1Norm", (0.5, [1, 3]),
     lambda w: 0.5 * (np.sqrt((w[:, :1] ** 2).sum()) + np.sqrt(3 * (w[:, 1:] ** 2).sum()))),
    ("LogBarrier", (0.5,), lambda w: -0.25 * np.log(np.maximum(w, 1e-9)).sum()),
])
def test_regularizer_on_the_loss_is_what_its_formula_says(name, args, value):
    net, init = core.Net("loss"), core.Net("init")
    w = net.AddExternalInput("w")
    added = getattr(regularizer, name)(*args)(net, init, w, by=regularizer.RegularizationBy.ON_LOSS)
    matrix = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
    workspace.FeedBlob("w", matrix)
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob(added).reshape(()), value(matrix.astype(np.float64)), rtol=1e-4)


@pytest.mark.parametrize(("name", "args", "words"), [
    ("L1Norm", (-1,), "at least 0, not -1"), ("L2Norm", (float("nan"),), "at least 0, not nan"),
    ("LpNorm", (0,), "reg_lambda must be positive, found 0"), ("LpNorm", (1, 0), "p_value must be positive, found 0"),
    ("L0ApproxNorm", (1, 0), "alpha must be positive"), ("L0ApproxNorm", (1, 1, -1), "budget is at least 0"),
    ("L1NormTrimmed", (1, 0), "an integer from 1 on, not 0"), ("L1NormTrimmed", (1, 1.5), "not 1.5"),
    ("SparseLpNorm", (3, 1), "p is 1 or 2, not 3"), ("SparseL1Norm", (0,), "SparseL1Norm: reg_lambda must be positive"),
    ("LogBarrier", (0,), "reg_lambda must be positive"), ("GroupL1Norm", (1, 3), "groups is a list"),
    ("BoundedGradientProjection", (2, 1), r"nothing lies in \[2, 1\]"),
    ("BoundedGradientProjection", (1, 1, True), r"nothing lies in \(1, 1\]"),
    ("BoundedGradientProjection", (None, None, False, False, 0), "epsilon must be positive"),
])
def test_regularizer_refuses_what_makes_no_sense(name, args, words):
    with pytest.raises(AssertionError, match=words):
        getattr(regularizer, name)(*args)


@pytest.mark.parametrize("name", ["MaxNorm", "ConstantNorm", "SparseL1Norm", "SparseL2Norm"])
def test_regularizer_of_rows_wants_a_sparse_gradient(name):
    net, init = core.Net("dense"), core.Net("init")
    after = regularizer.RegularizationBy.AFTER_OPTIMIZER
    made = getattr(regularizer, name)(0.5)
    w = net.AddExternalInput("w")
    with pytest.raises(NotImplementedError, match=f"{name} changes the rows.*the gradient of 'w' is dense"):
        made(net, init, w, core.BlobReference("w_grad"), by=after)
    assert made(net, init, w, by=regularizer.RegularizationBy.ON_LOSS) is None


def test_regularizer_wants_to_know_when():
    net = core.Net("when")
    with pytest.raises(AssertionError, match=r"by= is RegularizationBy.ON_LOSS or .*, not None"):
        regularizer.L1Norm(1)(net, net, net.AddExternalInput("w"))
    with pytest.raises(AssertionError, match="a parameter is a BlobReference, not 'w'"):
        regularizer.L1Norm(1)(net, net, "w", by="on_loss")


def test_normalizers_call_the_layers_of_a_model():
    class Model:
        def __getattr__(self, name):
            return lambda param, **options: (name, param, options)

    assert BatchNormalizer(0.1)(Model(), "x") == ("BatchNormalization", "x", {"momentum": 0.1, "scale_init_value": 1.0})
    assert LayerNormalizer(1e-3, False, 2)(Model(), "x") == (
        "LayerNormalization", "x", {"epsilon": 1e-3, "use_layer_norm_op": False, "scale_init_value": 2.0})
    with pytest.raises(NotImplementedError, match=r"Normalizer defines no _run"):
        Normalizer()(Model(), "x")
    with UseNormalizer({"BATCH": (batch := BatchNormalizer(0.1))}):
        assert NormalizerContext.current().get_normalizer("BATCH") is batch
        with pytest.raises(AssertionError, match=r"no normalizer is given for 'LAYER'; known are \['BATCH'\]"):
            NormalizerContext.current().get_normalizer("LAYER")
    assert not NormalizerContext.current().has_normalizer("BATCH")


@pytest.mark.parametrize("aggregator", ["sum", "mean"])
@pytest.mark.parametrize("build", [optimizer.build_sgd, optimizer.build_adagrad, optimizer.build_adam])
def test_repeated_indices_of_any_shape_are_joined(build, aggregator):
    """Words of sentences side by side, (T, N), move a table as the same words in one row do."""
    tables = []
    for ids in (np.array([[3, 1, 3], [0, 3, 1]]), np.array([3, 1, 3, 0, 3, 1])):
        workspace.ResetWorkspace()
        model = model_helper.ModelHelper("words")
        table = model.create_param("table", [5, 2], Initializer("GivenTensorFill", values=1 + np.arange(10.0)))
        square = model.net.Sqr(model.net.Gather([table, "ids"], "rows"), "squares")
        model.AddGradientOperators([model.net.AveragedLoss(square, "loss")])
        build(model, base_learning_rate=0.1, sparse_dedup_aggregator=aggregator)
        workspace.FeedBlob("ids", ids)
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        workspace.RunNet(model.net, 3)
        tables.append(workspace.FetchBlob("table"))
    np.testing.assert_array_equal(*tables)
    moved = tables[0] != 1 + np.arange(10).reshape(5, 2)
    assert moved.all(axis=1).tolist() == [True, True, False, True, False]
