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


def _decayed(model, optimizer):
    optimizer.add_weight_decay(model, 1e-4)
    optimizer.build_sgd(model, 0.1, policy="step", stepsize=10, gamma=0.5)


MODELS = {
    "layers": layers,
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
    "adagrad_scaled": (classifier, "build_adagrad", 0.1, {"weight_scale": WeightScale(3, 9, 0.5, True)}),
}
for _name, (_make, _build, _rate, _options) in _BUILT.items():
    MODELS[_name] = _trained(_make, lambda m, o, b=_build, r=_rate, k=_options: getattr(o, b)(m, r, **k))
