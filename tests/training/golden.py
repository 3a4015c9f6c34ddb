"""Models that netgrad and the real Caffe2 have to build alike; `make_golden.py` asks the real one."""

from collections import namedtuple

WeightScale = namedtuple("WeightScale", "stepsize upper_bound_iter scale to_aux")


def layers(brew, core, model_helper, optimizer):
    """One of each helper, every one on the blob it fits."""
    model = model_helper.ModelHelper("layers")
    brew.conv(model, "image", "conv1", 3, 8, kernel=5, stride=1, pad=2)
    brew.conv(model, "conv1", "conv2", 8, 4, kernel=[3, 1], group=2, no_bias=1, weight_init=("MSRAFill", {}))
    brew.conv_nd(model, "image", "conv3", 3, 4, kernel=[3, 3])
    brew.conv(model, "nhwc", "conv4", 3, 4, kernel=3, order="NHWC", use_cudnn=False)
    brew.conv_transpose(model, "conv2", "deconv", 4, 2, kernel=2, stride=2)
    brew.group_conv(model, "conv1", "grouped", 8, 8, kernel=3, group=4)
    brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    brew.average_pool(model, "conv1", "pool2", kernel=2, stride=2, use_cudnn=False)
    brew.spatial_bn(model, "conv1", "bn1", 8, epsilon=1e-3, momentum=0.9, is_test=False)
    brew.spatial_bn(model, "conv1", "bn2", 8, init_scale=2.0, is_test=True)
    brew.spatial_gn(model, "conv1", "gn", 8, group=2)
    brew.instance_norm(model, "conv1", "in1", 8, epsilon=1e-3)
    brew.layer_norm(model, "rows", "ln", 12)
    brew.lrn(model, "conv1", "lrn1", size=5, alpha=1e-4, beta=0.75)
    brew.relu(model, "bn1", "bn1")
    brew.tanh(model, "bn1", "tanh1")
    brew.prelu(model, "conv1", "prelu1", num_channels=8)
    brew.fc(model, "pool1", "fc1", 128, 10, bias_init=("ConstantFill", {"value": 0.5}))
    brew.dropout(model, "fc1", "drop", ratio=0.25, is_test=0)
    brew.softmax(model, "fc1", "softmax")
    brew.softmax(model, "fc1")
    brew.fc(model, "fc1", None, 10, 4)
    brew.concat(model, ["conv1", "bn1"], "cat1")
    brew.concat(model, ["fc1", "softmax"], "cat2", axis=1)
    brew.sum(model, ["fc1", "softmax"], "sum1")
    brew.transpose(model, "conv1", "turned", axes=(0, 2, 3, 1))
    brew.accuracy(model, ["softmax", "label"], "accuracy")
    brew.iter(model, "iter")
    return model


def further_layers(brew, core, model_helper, optimizer):
    """Helpers of old and of special use."""
    model = model_helper.ModelHelper("further")
    brew.group_conv_deprecated(model, "image", "grouped", 4, 6, kernel=3, group=2, use_cudnn=False)
    brew.group_conv_deprecated(model, "nhwc", "unbiased", 4, 6, kernel=3, group=2, order="NHWC", no_bias=1, pad=1)
    brew.elementwise_linear(model, "rows", "scaled", 4)
    brew.max_pool_with_index(model, "image", "pool", kernel=2)
    brew.moments_with_running_stats(model, "image", "moments", 4)
    brew.fused_8bit_rowwise_quantized_to_float(model, "bytes", "floats")
    brew.sparse_lengths_sum_4bit_rowwise_sparse(model, ["table", "ids", "lengths", "mapping"], "sums")
    brew.batch_mat_mul(model, ["a", "b"], "c", enable_tensor_core=True, trans_b=1)
    brew.mat_mul(model, ["a", "b"], "d")
    brew.arg_min(model, "rows", "least", axis=1)
    brew.reduce_sum(model, "rows", "reduced", axes=[1], keepdims=0)
    brew.sub(model, ["a", "b"], "difference")
    model.net.AddExternalInput("condition", "x")
    branch, other = model_helper.ModelHelper("branch"), model_helper.ModelHelper("other")
    branch.net.Relu("x", "y")
    other.net.Sigmoid("x", "y")
    brew.cond(model, "condition", ["condition", "x"], branch, other)
    return model


def scopes(brew, core, model_helper, optimizer):
    """Name scopes, argument scopes, initializers, parameters that others provide."""
    model = model_helper.ModelHelper("scopes", arg_scope={"order": "NHWC", "use_cudnn": False})
    with core.NameScope("tower"):
        with brew.arg_scope([brew.fc], weight_init=("GaussianFill", {"std": 0.25})):
            brew.fc(model, "x", "a", 4, 4)
            brew.fc(model, "x", "b", 4, 4, weight_init=("ConstantFill", {"value": 3.0}))
        brew.conv(model, "image", "c", 3, 4, kernel=3)
    with core.DeviceScope(core.DeviceOption(1, 2)):
        brew.fc(model, "x", "on_gpu", 4, 4)
    external = model_helper.ModelHelper("external", init_params=False)
    brew.fc(external, "x", "given", 4, 4)
    brew.spatial_bn(external, "image", "bn", 3, is_test=True)
    model.net.AppendNet(external.net)
    return model


def classifier(brew, core, model_helper):
    model = model_helper.ModelHelper("classifier", arg_scope={"order": "NCHW", "use_cudnn": False})
    brew.conv(model, "image", "conv1", 1, 4, kernel=3)
    brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    brew.fc(model, "pool1", "fc1", 36, 8)
    brew.relu(model, "fc1", "fc1")
    brew.fc(model, "fc1", "pred", 8, 3)
    _, loss = model.net.SoftmaxWithLoss(["pred", "label"], ["softmax", "loss"])
    return model, loss


def embedding(brew, core, model_helper):
    """A table with sparse gradients beside a dense layer."""
    model = model_helper.ModelHelper("embedding", arg_scope={"use_cudnn": False})
    table = model.param_init_net.UniformFill([], "table", shape=[10, 4])
    model.AddParameter(table)
    rows = model.net.Gather([table, "ids"], "rows")
    brew.fc(model, rows, "out", 4, 1)
    loss = model.net.AveragedLoss("out", "loss")
    return model, loss


def table_alone(brew, core, model_helper):
    model = model_helper.ModelHelper("table")
    table = model.param_init_net.UniformFill([], "table", shape=[10, 4])
    model.AddParameter(table)
    return model, model.net.AveragedLoss(model.net.Gather([table, "ids"], "rows"), "loss")


def _trained(make, build):
    def model(brew, core, model_helper, optimizer):
        model, loss = make(brew, core, model_helper)
        model.AddGradientOperators([loss])
        optimizer._optimizer_instance_count.clear()
        build(model, optimizer)
        return model

    return model


def _two_optimizers(brew, core, model_helper, optimizer):
    from caffe2.python.optimizer_context import UseOptimizer

    optimizer._optimizer_instance_count.clear()
    model = model_helper.ModelHelper("two", arg_scope={"use_cudnn": False})
    with UseOptimizer({"WEIGHT": optimizer.SgdOptimizer(0.1), "BIAS": optimizer.AdamOptimizer(0.01)}):
        brew.fc(model, "x", "hidden", 4, 4)
    brew.fc(model, "hidden", "out", 4, 1)
    model.AddGradientOperators([model.net.AveragedLoss("out", "loss")])
    optimizer.build_adagrad(model, 0.5)
    return model


def half(brew, core, model_helper):
    """Parameters in half precision with copies in single precision."""
    from caffe2.python.modeling.initializers import PseudoFP16Initializer as Half

    model = model_helper.ModelHelper("half", arg_scope={"use_cudnn": False})
    brew.fc(model, "x", "y", 4, 1, WeightInitializer=Half, BiasInitializer=Half)
    return model, model.net.AveragedLoss(model.net.HalfToFloat("y", "y_float"), "loss")


def half_beside(brew, core, model_helper):
    """Parameters in single precision with copies in half precision, and some without."""
    from caffe2.python.modeling.initializers import ReversePseudoFP16Initializer as Copied

    model = model_helper.ModelHelper("beside", arg_scope={"use_cudnn": False})
    brew.fc(model, "x", "y", 4, 4, WeightInitializer=Copied)
    return model, model.net.AveragedLoss(brew.fc(model, "y", "y_spatbn", 4, 1, WeightInitializer=Copied), "loss")


def _regularized(brew, core, model_helper, optimizer):
    """Every regularizer, on the loss and after the update, of matrices and tables."""
    from caffe2.python import regularizer as r

    model = model_helper.ModelHelper("regularized")
    w = model.net.AddExternalInput("w")
    rows = core.GradientSlice(model.net.AddExternalInput("ids"), model.net.AddExternalInput("rows"))
    by = r.RegularizationBy
    for on_loss in (
        r.L1Norm(0.5), r.L2Norm(0.25), r.ElasticNet(0.5, 0.25), r.L1NormTrimmed(0.5, 2),
        r.ElasticNetL1NormTrimmed(0.5, 0.25, 3), r.LpNorm(0.5), r.LpNorm(0.5, 2.0), r.L0ApproxNorm(0.5),
        r.L0ApproxNorm(0.5, 0.25, 2), r.GroupL1Norm(0.5, [1, 3]), r.GroupL1Norm(0.5, [2, 2], 1e-8), r.LogBarrier(0.5),
        r.LogBarrier(0.5, "exp", {"gamma": 0.5}), r.BoundedGradientProjection(-1, 1),
    ):
        on_loss(model.net, model.param_init_net, w, by=by.ON_LOSS)
    for after, grad in (
        (r.LogBarrier(0.5), None), (r.LogBarrier(0.5), rows), (r.BoundedGradientProjection(-1, 1), None),
        (r.BoundedGradientProjection(-1, None, True), rows), (r.MaxNorm(2.0), rows), (r.ConstantNorm(2.0), rows),
        (r.SparseL1Norm(0.5), rows), (r.SparseL2Norm(0.5), rows), (r.L1Norm(0.5), None),
    ):
        after(model.net, model.param_init_net, w, grad, by=by.AFTER_OPTIMIZER)
    return model


def _modified(brew, core, model_helper, optimizer):
    """Every modifier of nets."""
    from caffe2.python.modeling.compute_histogram_for_blobs import ComputeHistogramForBlobs
    from caffe2.python.modeling.compute_norm_for_blobs import ComputeNormForBlobs
    from caffe2.python.modeling.compute_statistics_for_blobs import ComputeStatisticsForBlobs
    from caffe2.python.modeling.get_entry_from_blobs import GetEntryFromBlobs
    from caffe2.python.modeling.gradient_clipping import GradientClipping

    model, loss = classifier(brew, core, model_helper)
    gradients = model.AddGradientOperators([loss])
    gradients = {name: gradients[name] for name in ("conv1_w", "fc1_w", "pred_w")}
    blobs = ["fc1_w", "pred_w"]
    for modifier in (
        ComputeNormForBlobs(blobs, 2), ComputeNormForBlobs(blobs, 0, p=1, compute_averaged_norm=True),
        ComputeNormForBlobs(blobs, 2, row_index=1), ComputeHistogramForBlobs(blobs, 2),
        ComputeHistogramForBlobs(blobs, 0, 5, -1.0, 2.0, accumulate=True), ComputeStatisticsForBlobs(blobs, 2),
        GetEntryFromBlobs(blobs, 2, 1, 2), GetEntryFromBlobs(blobs, 0, 0, -1),
        GradientClipping("by_norm"), GradientClipping("by_norm", "l1_norm", 0.5, use_parameter_norm=True),
        GradientClipping("by_norm", use_parameter_norm=True, compute_norm_ratio=True, blobs_to_exclude=["fc1_w"]),
        GradientClipping("by_value", clip_max=0.5, clip_min=-0.25, blobs_to_include=["fc1_w"]),
    ):
        modifier(model.net, model.param_init_net, dict(gradients), modify_output_record=True)
    return model


def _decayed(model, optimizer):
    optimizer.add_weight_decay(model, 1e-4)
    optimizer.build_sgd(model, 0.1, policy="step", stepsize=10, gamma=0.5)


MODELS = {
    "layers": layers,
    "further_layers": further_layers,
    "regularized": _regularized,
    "modified": _modified,
    "scopes": scopes,
    "two_optimizers": _two_optimizers,
    "sgd_decayed": _trained(classifier, _decayed),
}
_BUILT = {
    "sgd": (classifier, "build_sgd", 0.1, {}),
    "sgd_momentum": (classifier, "build_sgd", 0.1, {"momentum": 0.9, "policy": "inv", "gamma": 0.1, "power": 0.5}),
    "sgd_lars": (classifier, "build_sgd", 0.1, {"lars": 0.5}),
    "sgd_clipped": (classifier, "build_sgd", 0.1, {"max_gradient_norm": 2.0, "allow_lr_injection": True}),
    "adam": (classifier, "build_adam", 0.01, {"beta1": 0.8}),
    "adagrad": (classifier, "build_adagrad", 0.01, {"epsilon": 1e-5, "output_effective_lr": True}),
    "adagrad_decayed": (classifier, "build_adagrad", 0.01, {"weight_decay": 0.1, "decay": 0.9}),
    "sparse_sgd": (embedding, "build_sgd", 0.1, {}),
    "sparse_momentum": (embedding, "build_sgd", 0.1, {"momentum": 0.9, "sparse_dedup_aggregator": "mean"}),
    "sparse_adam": (embedding, "build_adam", 0.1, {"sparse_dedup_aggregator": "sum"}),
    "sparse_adam_adaptive": (embedding, "build_adam", 0.1, {"use_lr_adaption": True}),
    "sparse_adagrad": (embedding, "build_adagrad", 0.1, {"sparse_dedup_aggregator": "sum"}),
    "adagrad_counted": (table_alone, "build_adagrad", 0.1, {"rowWise": True, "counter_halflife": 5}),
    "multi_precision": (half, "build_multi_precision_sgd", 0.1, {"momentum": 0.9}),
    "multi_precision_single": (classifier, "build_multi_precision_sgd", 0.1, {"momentum": 0.9}),
    "fp16": (half, "build_fp16_sgd", 0.1, {"momentum": 0.9, "weight_decay": 0.01}),
    "fp16_beside": (half_beside, "build_fp16_sgd", 0.1, {"nesterov": False}),
    "wngrad": (classifier, "build_wngrad", 2.0, {"output_effective_lr_and_update": True, "lars": 0.5}),
    "sparse_wngrad": (embedding, "build_wngrad", 2.0, {"moment_init": 10.0}),
    "storm": (classifier, "build_storm", 2.0, {"lars": 0.5, "max_gradient_norm": 1.0}),
    "sparse_storm": (embedding, "build_storm", 2.0, {"beta": 0.5}),
    "adadelta": (classifier, "build_adadelta", 1.0, {"decay": 0.9}),
    "sparse_adadelta": (embedding, "build_adadelta", 1.0, {"sparse_dedup_aggregator": "sum"}),
    "rms_prop": (classifier, "build_rms_prop", 0.1, {"momentum": 0.5, "allow_lr_injection": True}),
    "ftrl": (classifier, "build_ftrl", None, {"engine": None, "alpha": 1.0, "lambda1": 0.5, "lambda2": 0.0}),
    "sparse_ftrl": (embedding, "build_ftrl", None, {"engine": "", "lambda1": 0.5, "lambda2": 0.5}),
    "gftrl": (classifier, "build_gftrl", None, {"alpha": 1.0, "lambda1": 0.0, "lambda2": 0.5}),
    "yellowfin": (classifier, "build_yellowfin", 0.1, {"curv_win_width": 10}),
    "adagrad_rowwise": (table_alone, "build_adagrad", 0.1, {"rowWise": True, "sparse_dedup_aggregator": "mean"}),
    "adagrad_effective": (classifier, "build_adagrad", 0.1, {"lars": 0.5, "output_effective_lr_and_update": True}),
    "adam_rowwise": (table_alone, "build_adam", 0.1, {"rowWise": True}),
    "sparse_radam": (embedding, "build_adam", 0.1, {"enableRAdam": True}),
    "adagrad_scaled": (classifier, "build_adagrad", 0.1, {"weight_scale": WeightScale(3, 9, 0.5, True)}),
}
for _name, (_make, _build, _rate, _options) in _BUILT.items():
    _rates = () if _rate is None else (_rate,)
    MODELS[_name] = _trained(_make, lambda m, o, b=_build, r=_rates, k=_options: getattr(o, b)(m, *r, **k))
