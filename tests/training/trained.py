"""Trainings that netgrad and the real Caffe2 have to end alike; `make_trained.py` asks the real one.

Each is 50 steps from given parameters on given data. What is compared is every parameter and everything that the
optimizer keeps beside it.
"""

from collections import namedtuple

import numpy as np

STEPS = 50
RATE = 0.05

WeightScale = namedtuple("WeightScale", "stepsize upper_bound_iter scale to_aux")

Training = namedtuple("Training", "model build")


class Caffe2:
    """The modules, whichever they are."""

    def __init__(self):
        from caffe2.python import brew, core, model_helper, optimizer, workspace

        self.brew, self.core, self.optimizer, self.workspace = brew, core, optimizer, workspace
        self.ModelHelper = model_helper.ModelHelper


def given(model, name, value):
    """A parameter that starts from a value."""
    blob = model.param_init_net.GivenTensorFill([], name, shape=list(value.shape), values=value.flatten().tolist())
    model.AddParameter(blob, "WEIGHT" if value.ndim == 2 else "BIAS")
    return blob


def squared_error(c, model, prediction):
    distance = model.net.SquaredL2Distance([prediction, "target"], "distance")
    return model.net.AveragedLoss(distance, "loss")


def dense(c, model, random):
    """Two layers."""
    weights = [given(model, name, random.uniform(-0.6, 0.6, shape).astype(np.float32))
               for name, shape in (("w1", (6, 4)), ("b1", (6,)), ("w2", (2, 6)), ("b2", (2,)))]
    hidden = model.net.Tanh(model.net.FC(["x", weights[0], weights[1]], "hidden"), "hidden_tanh")
    loss = squared_error(c, model, model.net.FC([hidden, weights[2], weights[3]], "y"))

    def feed(random):
        x = random.uniform(-1, 1, (5, 4))
        return {"x": x, "target": np.stack([x[:, 0] * 2 - x[:, 1], x[:, 2] ** 2], 1)}

    return loss, feed


def _table(ids, row):
    def make(c, model, random):
        """A table whose rows are looked up, some of them several times."""
        table = given(model, "table", random.uniform(-0.6, 0.6, (7,) + row).astype(np.float32))
        loss = squared_error(c, model, model.net.Gather([table, "ids"], "y"))

        def feed(random):
            rows = random.randint(0, 7, ids).astype(np.int32)
            target = np.sin(rows[..., None] + np.arange(row[0])) if row else np.sin(rows)
            return {"ids": rows, "target": target}

        return loss, feed

    return make


def bags(c, model, random):
    """Bags of rows of two tables, added up and averaged, under a dense layer."""
    one, two = (given(model, name, random.uniform(-0.6, 0.6, (7, 3)).astype(np.float32)) for name in ("one", "two"))
    w = given(model, "w", random.uniform(-0.6, 0.6, (1, 6)).astype(np.float32))
    b = given(model, "b", np.zeros(1, np.float32))
    sums = model.net.SparseLengthsSum([one, "ids", "lengths"], "sums")
    means = model.net.SparseLengthsMean([two, "ids", "lengths"], "means")
    both, _ = model.net.Concat([sums, means], ["both", "dims"], axis=1)
    loss = squared_error(c, model, model.net.FC([both, w, b], "y"))

    def feed(random):
        lengths = random.randint(0, 5, 4).astype(np.int32)
        ids = random.randint(0, 7, int(lengths.sum())).astype(np.int64)
        return {"lengths": lengths, "ids": ids, "target": lengths.reshape(-1, 1)}

    return loss, feed


def half(c, model, random):
    """A parameter in half precision, with a copy in single precision."""
    from caffe2.python.modeling.initializers import PseudoFP16Initializer

    value = random.uniform(-0.6, 0.6, (2, 4)).astype(np.float32)
    fill = PseudoFP16Initializer("GivenTensorFill", values=value.flatten().tolist())
    w = model.net.HalfToFloat(model.create_param("w", [2, 4], fill), "w_float")
    loss = squared_error(c, model, model.net.FC(["x", w, given(model, "b", np.zeros(2, np.float32))], "y"))

    def feed(random):
        x = random.uniform(-1, 1, (5, 4))
        return {"x": x, "target": x[:, :2] - x[:, 2:]}

    return loss, feed


table = _table((9,), (3,))
column = _table((9,), ())
grid = _table((2, 5), (3,))


def built(name, *args, **kwargs):
    """Calls ``optimizer.build_<name>``."""
    return lambda c, model: getattr(c.optimizer, "build_" + name)(model, *args, **kwargs)


def decayed(c, model):
    c.optimizer.add_weight_decay(model, 0.1)
    return c.optimizer.build_sgd(model, RATE)


def clipped(**options):
    def build(c, model):
        from caffe2.python.modeling.gradient_clipping import GradientClipping

        GradientClipping(**options)(model.net, grad_map={str(p): g for p, g in model.param_to_grad.items()})
        return c.optimizer.build_sgd(model, RATE)

    return build


def injected(c, model):
    """The rate is changed from outside, before the first step."""
    model.param_init_net.ConstantFill([], "lr_injection", shape=[1], value=0.5)
    optimizer = c.optimizer.build_sgd(model, RATE, momentum=0.5, max_gradient_norm=0.5, allow_lr_injection=True)
    model.param_init_net.ConstantFill([], "lr_injection", shape=[1], value=0.25)
    return optimizer


def regularized(name, *args, **kwargs):
    """SGD, and a regularizer after it."""
    def build(c, model):
        from caffe2.python import regularizer

        optimizer = c.optimizer.build_sgd(model, RATE)
        for param, grad in model.param_to_grad.items():
            getattr(regularizer, name)(*args, **kwargs)(
                model.net, model.param_init_net, param, grad, by=regularizer.RegularizationBy.AFTER_OPTIMIZER)
        return optimizer

    return build


def penalized(make, name, *args, **kwargs):
    """A model with a regularizer on its loss."""
    def penalized_model(c, model, random):
        from caffe2.python import regularizer

        loss, feed = make(c, model, random)
        added = getattr(regularizer, name)(*args, **kwargs)(
            model.net, model.param_init_net, model.params[0], by=regularizer.RegularizationBy.ON_LOSS)
        return [loss, added], feed

    return penalized_model


WARMUP = {"start_warmup_multiplier": 0.1, "constant_warmup_num_iter": 10, "linear_warmup_num_iter": 10}
POLICIES = {
    "fixed": {},
    "step": {"stepsize": 10, "gamma": 0.5},
    "exp": {"gamma": 0.95},
    "inv": {"gamma": 0.1, "power": 0.75},
    "poly": {"max_iter": 60, "power": 2.0},
    "gate": {"multiplier_1": 0.3, "multiplier_2": 0.7, "num_iter": 20},
    "alter": {"active_first": 1, "active_period": 3, "inactive_period": 4},
    "linearWarmup": {"start_multiplier": 0.1, "num_iter": 20},
    "constantWarmup": {"multiplier": 0.3, "num_iter": 20},
    "pieceWarmup": {"m1": 0.2, "n1": 10, "m2": 0.6, "n2": 20, "m3": 0.9},
    "hill": {"num_iter": 10, "start_multiplier": 0.1, "gamma": 0.05, "power": 0.9, "end_multiplier": 0.3},
    "slope": {"num_iter_1": 10, "multiplier_1": 1.0, "num_iter_2": 20, "multiplier_2": 0.4},
    "cyclical": {"max_lr": 0.09, "stepsize": 5, "decay": 0.9},
    "cosine": {"max_lr": 0.9, "min_lr": 0.1, "period": 10, "t_mult": 2.0, "lr_shrink": 0.8},
    "constantThenLinearWarmup": WARMUP,
    "compositeCyclical": dict(WARMUP, cyclical_max_lr=0.08, cyclical_step_size=5, cyclical_decay=0.9),
    "compositeCosine": dict(WARMUP, cosine_max_lr=0.8, cosine_min_lr=0.05, cosine_period=10, cosine_t_mult=1.0,
                            cosine_lr_shrink=0.9),
    "composite": {
        "sub_policy_num_iters": [5, 20, 10], "sub_policy_0_policy": "exp", "sub_policy_0_gamma": 0.9,
        "sub_policy_0_lr_scale": 2.0, "sub_policy_1_policy": "step", "sub_policy_1_stepsize": 3,
        "sub_policy_1_gamma": 0.5, "sub_policy_2_policy": "fixed", "sub_policy_2_lr_scale": 0.5},
}

TRAININGS = {
    "sgd": Training(dense, built("sgd", RATE)),
    "sgd_momentum": Training(dense, built("sgd", RATE, momentum=0.9)),
    "sgd_plain_momentum": Training(dense, built("sgd", RATE, momentum=0.9, nesterov=False)),
    "sgd_lars": Training(dense, built("sgd", RATE, lars=0.5)),
    "sgd_global_clip": Training(dense, built("sgd", RATE, max_gradient_norm=0.5)),
    "sgd_injected": Training(dense, injected),
    "sgd_decayed": Training(dense, decayed),
    "multi_precision_sgd": Training(half, built("multi_precision_sgd", RATE, momentum=0.9)),
    "adagrad": Training(dense, built("adagrad", RATE)),
    "adagrad_decay": Training(dense, built("adagrad", RATE, decay=0.9, epsilon=1e-3)),
    "adagrad_weight_decay": Training(dense, built("adagrad", RATE, weight_decay=0.1)),
    "adagrad_lars": Training(dense, built("adagrad", RATE, lars=0.5)),
    "adagrad_effective": Training(dense, built("adagrad", RATE, output_effective_lr_and_update=True)),
    "adagrad_scaled": Training(dense, built("adagrad", RATE, weight_scale=WeightScale(7, 30, 0.5, True))),
    "wngrad": Training(dense, built("wngrad", 5.0)),
    "wngrad_lars": Training(dense, built("wngrad", 5.0, lars=0.5, moment_init=10.0, output_effective_lr=True)),
    "storm": Training(dense, built("storm", RATE)),
    "storm_lars": Training(dense, built("storm", RATE, lars=0.5, momentum=3.0, beta=0.5)),
    "adadelta": Training(dense, built("adadelta", 1.0)),
    "ftrl": Training(dense, built("ftrl", engine=None, alpha=0.5, lambda1=0.01, lambda2=0.01)),
    "gftrl": Training(dense, built("gftrl", engine="", alpha=0.5, lambda1=0.01, lambda2=0.01)),
    "adam": Training(dense, built("adam", RATE)),
    "adam_adaptive": Training(dense, built("adam", RATE, use_lr_adaption=True)),
    "adam_adaptive_raw": Training(
        dense, built("adam", RATE, use_lr_adaption=True, lr_alpha=1e-4, normalized_lr_adaption=False)),
    "rms_prop": Training(dense, built("rms_prop", RATE, epsilon=0.1)),
    "rms_prop_momentum": Training(dense, built("rms_prop", RATE, momentum=0.5, epsilon=0.1)),
    "yellowfin": Training(dense, built("yellowfin", RATE)),
    "yellowfin_biased": Training(dense, built("yellowfin", 0.01, zero_debias=False, curv_win_width=5, mu=0.2)),
    "clip_l2": Training(dense, clipped(grad_clip_method="by_norm")),
    "clip_l1": Training(dense, clipped(grad_clip_method="by_norm", clip_norm_type="l1_norm", clip_threshold=0.5)),
    "clip_value": Training(dense, clipped(grad_clip_method="by_value", clip_max=0.2, clip_min=-0.1)),
    "bounded": Training(dense, regularized("BoundedGradientProjection", -0.3, 0.3)),
    "bounded_table": Training(table, regularized("BoundedGradientProjection", -0.3, 0.3, left_open=True)),
    "max_norm": Training(table, regularized("MaxNorm", 0.5)),
    "constant_norm": Training(table, regularized("ConstantNorm", 0.5)),
    "sparse_l1": Training(table, regularized("SparseL1Norm", 0.01)),
    "sparse_l2": Training(table, regularized("SparseL2Norm", 0.01)),
}
for _name, _args in {
    "L1Norm": (0.05,), "L2Norm": (0.05,), "ElasticNet": (0.05, 0.05), "L1NormTrimmed": (0.05, 2),
    "ElasticNetL1NormTrimmed": (0.05, 0.05, 2), "LpNorm": (0.05, 2.0), "L0ApproxNorm": (0.05, 3.0, 1),
    "GroupL1Norm": (0.05, [1, 3], 1e-8), "LogBarrier": (0.05,),
}.items():
    TRAININGS["penalty_" + _name] = Training(penalized(dense, _name, *_args), built("sgd", RATE))
for _where, _model in {"table": table, "column": column, "grid": grid, "bags": bags}.items():
    for _name, _build in {
        "sgd": built("sgd", RATE),
        "momentum": built("sgd", RATE, momentum=0.9),
        "momentum_sum": built("sgd", RATE, momentum=0.9, nesterov=False, sparse_dedup_aggregator="sum"),
        "adagrad": built("adagrad", RATE),
        "adagrad_mean": built("adagrad", RATE, sparse_dedup_aggregator="mean"),
        "adagrad_weight_decay": built("adagrad", RATE, weight_decay=0.1),
        "adagrad_rowwise": built("adagrad", RATE, rowWise=True),
        "adagrad_counted": built("adagrad", RATE, rowWise=True, counter_halflife=5),
        "adagrad_rowwise_weight_decay": built("adagrad", RATE, rowWise=True, weight_decay=0.1),
        "wngrad": built("wngrad", 5.0),
        "storm": built("storm", RATE),
        "adadelta": built("adadelta", 1.0),
        "adadelta_sum": built("adadelta", 1.0, sparse_dedup_aggregator="sum"),
        "ftrl": built("ftrl", engine=None, alpha=0.1, lambda1=0.01, lambda2=0.01),
        "adam": built("adam", RATE),
        "adam_sum": built("adam", RATE, sparse_dedup_aggregator="sum"),
        "adam_rowwise": built("adam", RATE, rowWise=True),
        "adam_adaptive": built("adam", RATE, use_lr_adaption=True),
        "radam": built("adam", RATE, enableRAdam=True),
    }.items():
        if _where == "bags" and ("rowwise" in _name or "counted" in _name):
            continue  # its layer is dense
        if _where == "grid" and ("sum" in _name or "mean" in _name):
            continue  # Unique takes vectors
        TRAININGS[_where + "_" + _name] = Training(_model, _build)
for _name, _arguments in POLICIES.items():
    TRAININGS["policy_" + _name] = Training(dense, built("sgd", RATE, policy=_name, **_arguments))
TRAININGS["policy_alter_off"] = Training(
    dense, built("sgd", RATE, policy="alter", active_first=0, active_period=3, inactive_period=4))


def train(c, name):
    """Trains; returns every parameter, and what the optimizer keeps for it, by name."""
    c.workspace.ResetWorkspace()
    c.core.Net._net_names_used.clear()
    c.optimizer._optimizer_instance_count.clear()
    random = np.random.RandomState(7)
    model = c.ModelHelper("trained", arg_scope={"use_cudnn": False})
    loss, feed = TRAININGS[name].model(c, model, random)
    model.AddGradientOperators(loss if isinstance(loss, list) else [loss])
    optimizer = TRAININGS[name].build(c, model)
    for step in range(STEPS):
        for blob, value in feed(random).items():
            c.workspace.FeedBlob(blob, value if value.dtype.kind == "i" and blob != "target"
                                 else value.astype(np.float32))
        if step == 0:
            c.workspace.RunNetOnce(model.param_init_net)
            c.workspace.CreateNet(model.net)
        c.workspace.RunNet(model.net)
    kept = {str(blob) for blob in list(model.params) + list(optimizer.get_auxiliary_parameters().local)}
    return {blob: np.asarray(c.workspace.FetchBlob(blob)) for blob in sorted(kept)}
