"""Losses of layer models against their formulas, and their gradients against differences; both backends."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import layer_model_helper, layer_model_instantiator, schema, workspace

N = 5
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 3))
W = rng.normal(size=(1, 3)) * 0.5
B = np.array([0.2])
LABEL = np.array([0, 1, 1, 0, 1])
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0, 3.0])
LOG_VARIANCE = rng.normal(size=N)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def cross_entropy(z, y):
    return np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z)))


def divergence(p, y):
    m = (p + y) / 2

    def entropy(q):
        q = np.clip(q, 1e-20, 1 - 1e-16)
        return -q * np.log(q) - (1 - q) * np.log1p(-q)

    return entropy(m) - (entropy(p) + entropy(y)) / 2


# arguments of BatchLRLoss, further fields -> the losses of examples, given the logits
VARIATIONS = [
    ({}, [], lambda z: cross_entropy(z, LABEL)),
    ({"average_loss": False}, [], lambda z: N * cross_entropy(z, LABEL)),
    ({"pos_label_target": 0.9, "neg_label_target": 0.2}, [], lambda z: cross_entropy(z, 0.2 + 0.7 * LABEL)),
    ({}, ["weight"], lambda z: cross_entropy(z, LABEL) * WEIGHT),
    ({}, ["column of weights"], lambda z: cross_entropy(z, LABEL) * WEIGHT),
    ({"focal_gamma": 2.0}, ["prediction"],
     lambda z: cross_entropy(z, LABEL) * np.abs(LABEL - sigmoid(z)) ** 2),
    ({"jsd_weight": 0.25}, ["prediction"],
     lambda z: 0.75 * cross_entropy(z, LABEL) + 0.25 * divergence(sigmoid(z), LABEL)),
    ({"uncertainty_penalty": 0.7}, ["log_variance"],
     lambda z: (np.exp(-LOG_VARIANCE) * cross_entropy(z, LABEL) + 0.7 * LOG_VARIANCE) / 2),
    ({"focal_gamma": 1.0, "jsd_weight": 0.5}, ["prediction", "weight"],
     lambda z: WEIGHT * (0.5 * cross_entropy(z, LABEL) * np.abs(LABEL - sigmoid(z))
                         + 0.5 * divergence(sigmoid(z), LABEL))),
]


def build(add_loss):
    """A linear model that is not updated, with the loss that ``add_loss(model, logit)`` adds; its loss and gradient."""
    model = layer_model_helper.LayerModelHelper(
        "losses", schema.Struct(("x", schema.Scalar((np.float32, (3,))))), schema.Struct(
            ("label", schema.Scalar(np.float32)), ("weight", schema.Scalar(np.float32)),
            ("weights", schema.Scalar((np.float32, (1,)))), ("log_variance", schema.Scalar(np.float32))))
    model.default_optimizer = model.NoOptim
    extra = model.trainer_extra_schema
    for blob, array in ((model.input_feature_schema.x(), X), (extra.label(), LABEL), (extra.weight(), WEIGHT),
                        (extra.weights(), WEIGHT[:, None]), (extra.log_variance(), LOG_VARIANCE)):
        workspace.FeedBlob(str(blob), array.astype(np.float32))
    add_loss(model, model.FC(model.input_feature_schema.x, 1))
    model.output_schema = schema.Struct()
    init, train = layer_model_instantiator.generate_training_nets(model)
    workspace.RunNetOnce(init)
    workspace.FeedBlob("fc/w", W.astype(np.float32))
    workspace.FeedBlob("fc/b", B.astype(np.float32))
    workspace.CreateNet(train)
    workspace.RunNet(train.Proto().name)
    total = sum(float(np.sum(workspace.FetchBlob(str(blob)))) for blob in model.loss.field_blobs())
    return model, train, total, workspace.FetchBlob("fc/w_grad")


def slope(loss_of, step=1e-5):
    """The derivative with respect to the weights by differences, in double precision."""
    result = np.zeros_like(W)
    for k in np.ndindex(*W.shape):
        moved = [W.copy(), W.copy()]
        moved[0][k] -= step
        moved[1][k] += step
        low, high = (loss_of((X @ w.T + B)[:, 0]) for w in moved)
        result[k] = (high - low) / (2 * step)
    return result


@pytest.mark.parametrize(("arguments", "fields", "losses"), VARIATIONS)
def test_logistic_loss_is_its_formula(backend, arguments, fields, losses):
    def add(model, logit):
        extra = model.trainer_extra_schema
        record = {"label": extra.label, "logit": logit}
        if "prediction" in fields:
            record["prediction"] = model.Sigmoid(logit, 1)
        if "weight" in fields:
            record["weight"] = extra.weight
        if "column of weights" in fields:
            record["weight"] = extra.weights
        if "log_variance" in fields:
            record["log_variance"] = extra.log_variance
        model.add_loss(model.BatchLRLoss(schema.Struct(*record.items()), **arguments))

    _, _, loss, gradient = build(add)
    np.testing.assert_allclose(loss, np.mean(losses((X @ W.T + B)[:, 0])), rtol=1e-5)
    np.testing.assert_allclose(gradient, slope(lambda z: np.mean(losses(z))), rtol=1e-3, atol=1e-5)


def test_a_decaying_loss_decays_every_step_down_to_its_bound(backend):
    model, train, loss, _ = build(lambda model, logit: model.add_loss(model.BatchLRLoss(
        schema.Struct(("label", model.trainer_extra_schema.label), ("logit", logit)), task_gamma=0.5,
        task_gamma_lb=0.2)))
    full = np.mean(cross_entropy((X @ W.T + B)[:, 0], LABEL))
    seen = [loss]
    for _ in range(3):
        workspace.RunNet(train.Proto().name)
        seen.append(float(workspace.FetchBlob(str(model.loss.field_blobs()[0]))))
    np.testing.assert_allclose(seen, full * np.array([0.5, 0.25, 0.2, 0.2]), rtol=1e-5)


def huber(error, delta):
    small = np.minimum(np.abs(error), delta)
    return 0.5 * small**2 + delta * (np.abs(error) - small)


@pytest.mark.parametrize(("layer", "arguments", "loss"), [
    ("BatchMSELoss", {}, lambda error: error**2 / 2),
    ("BatchHuberLoss", {"delta": 0.3}, lambda error: huber(error, 0.3)),
])
@pytest.mark.parametrize("weight", [None, "weight", "weights"])
def test_regression_losses_are_their_formulas(backend, layer, arguments, loss, weight):
    def add(model, logit):
        extra = model.trainer_extra_schema
        record = [("label", extra.label), ("prediction", logit)] + ([("weight", extra[weight])] if weight else [])
        model.add_loss(getattr(model, layer)(schema.Struct(*record), **arguments))

    def mean(z):
        return np.mean(loss(z - LABEL) * (WEIGHT if weight else 1))

    _, _, found, gradient = build(add)
    np.testing.assert_allclose(found, mean((X @ W.T + B)[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(gradient, slope(mean), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("layer", ["BPRLoss", "MarginRankLoss"])
def test_ranking_losses_pair_every_negative_with_its_positive(backend, layer):
    lengths = np.array([2, 0, 1, 3, 1], np.int32)
    negative = rng.normal(size=7).astype(np.float32)

    def add(model, logit):
        pairs = schema.NewRecord(model.net, schema.Struct(("negative", schema.List(np.float32))))
        workspace.FeedBlob(str(pairs.negative.lengths()), lengths)
        workspace.FeedBlob(str(pairs.negative.items()), negative)
        record = schema.Struct(("pos_prediction", logit), ("neg_prediction", pairs.negative))
        model.add_loss(getattr(model, layer)(record))

    def total(z):
        difference = np.repeat(z, lengths) - negative
        return np.sum(np.log1p(np.exp(-difference)) if layer == "BPRLoss" else np.maximum(0, 0.1 - difference))

    _, _, found, gradient = build(add)
    np.testing.assert_allclose(found, total((X @ W.T + B)[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(gradient, slope(total), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("method", "formula"), [
    ("log_std", lambda x, w: np.sum(w * x - np.log(2 * w) / 2)),
    ("inv_var", lambda x, w: np.sum(w * x - np.log(2 * w) / 2)),
])
def test_adaptive_weights_start_where_they_are_told_and_take_plain_losses(backend, method, formula):
    def add(model, logit):
        extra = model.trainer_extra_schema
        losses = schema.Struct(
            ("one", model.BatchMSELoss(schema.Struct(("label", extra.label), ("prediction", logit)))),
            ("two", model.BatchLRLoss(schema.Struct(("label", extra.label), ("logit", logit)))))
        model.add_loss(model.AdaptiveWeight(losses, weights=[0.3, 0.9], estimation_method=method,
                                            pos_optim_method="pos_grad_proj"))

    def total(z):
        return formula(np.array([np.mean((z - LABEL) ** 2) / 2, np.mean(cross_entropy(z, LABEL))]),
                       np.array([0.3, 0.9]))

    _, _, found, gradient = build(add)
    np.testing.assert_allclose(found, total((X @ W.T + B)[:, 0]), rtol=1e-5)
    np.testing.assert_allclose(gradient, slope(total), rtol=1e-3, atol=1e-5)
