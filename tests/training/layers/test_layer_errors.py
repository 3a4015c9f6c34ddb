"""What a layer cannot be made of is refused with one sentence that names the layer, the field, and what is there."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core, layer_model_helper, layer_model_instantiator, optimizer, schema
from caffe2.python.layers.layers import InstantiationContext, ModelLayer, create_layer

S = schema.Scalar
F = np.float32


@pytest.fixture
def model():
    ids = S(np.int64, metadata=schema.Metadata(categorical_limit=9))
    return layer_model_helper.LayerModelHelper("refusing", schema.Struct(
        ("x", S((F, (4,)))), ("matrix", S((F, (4, 3)))), ("number", S(F)), ("ids", schema.List(ids)),
        ("bare", schema.List(np.int64)), ("scored", schema.Map(ids, F))), schema.Struct(("label", S(F))))


# layer, its input record, arguments, and what the message has to say
REFUSED = [
    ("FC", lambda f: f.ids, {"output_dims": 2}, ["fc", "FC", "Scalar", "List", "lengths"]),
    ("FC", lambda f: f.number, {"output_dims": 2}, ["fc", "shape of a row", "float32 ()"]),
    ("FC", lambda f: f.x, {"output_dims": 0}, ["output_dims", "0"]),
    ("FC", lambda f: f.x, {"output_dims": 2, "axis": 2}, ["axis", "between 1 and 1", "2"]),
    ("FC", lambda f: f.x, {"output_dims": 2, "clip_param": (None, None)}, ["clip_param"]),
    ("FC", lambda f: f.x, {"output_dims": 2, "clip_param": (1, -1)}, ["clip_param", "min < max"]),
    ("FC", lambda f: f.x, {"output_dims": 2, "max_fc_size": 3}, ["max_fc_size", "3", "4"]),
    ("FC", lambda f: "x", {"output_dims": 2}, ["fc", "record", "'x'"]),
    ("FCWithoutBias", lambda f: f.matrix, {"output_dims": 2}, ["fc_without_bias", "vectors", "(4, 3)"]),
    ("FCWithBootstrap", lambda f: f.x, {"output_dims": 1, "num_bootstrap": 0}, ["num_bootstrap", "0"]),
    ("AddBias", lambda f: f.matrix, {}, ["add_bias", "vectors"]),
    ("Conv", lambda f: f.x, {"output_dim": 2, "kernel_h": 0, "kernel_w": 1, "stride_h": 1, "stride_w": 1},
     ["conv", "kernel_h", "0"]),
    ("Conv", lambda f: f.x, {"output_dim": 2, "kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1,
                             "order": "HWC"}, ["order", "HWC"]),
    ("Dropout", lambda f: f.x, {"ratio": 1.0}, ["dropout", "ratio", "1.0"]),
    ("BatchNormalization", lambda f: f.matrix, {}, ["batch_normalization", "(4, 3)"]),
    ("LayerNormalization", lambda f: f.matrix, {"use_layer_norm_op": False}, ["vectors", "(4, 3)"]),
    ("RandomFourierFeatures", lambda f: f.x, {"output_dims": 3, "sigma": 0.0}, ["sigma", "0.0"]),
    ("ArcCosineFeatureMap", lambda f: f.x, {"output_dims": 3, "s": -1}, ["degree s", "-1"]),
    ("BatchMSELoss", lambda f: schema.Struct(("label", f.number)), {}, ["batch_mse_loss", "prediction", "label"]),
    ("BatchLRLoss", lambda f: schema.Struct(("logit", f.x)), {}, ["batch_lr_loss", "label"]),
    ("BatchLRLoss", lambda f: schema.Struct(("logit", f.x), ("label", f.number)), {"focal_gamma": 2.0},
     ["batch_lr_loss", "prediction"]),
    ("BatchLRLoss", lambda f: schema.Struct(("logit", f.x), ("label", f.number)),
     {"log_D_trick": True, "unjoined_lr_loss": True}, ["exclude each other"]),
    ("BatchSoftmaxLoss", lambda f: schema.Struct(("label", f.number), ("prediction", f.x)),
     {"label_smoothing_matrix": [[1.0, 0.0]]}, ["label_smoothing_matrix", "(1, 2)"]),
    ("BatchSigmoidCrossEntropyLoss", lambda f: schema.Struct(("label", f.number), ("prediction", f.x)), {},
     ["prediction", "label", "(4,)", "()"]),
    ("LabelSmooth", lambda f: f.number, {"smooth_matrix": [0.1, 0.2, 0.3]}, ["smooth_matrix", "3 numbers"]),
    ("BPRLoss", lambda f: schema.Struct(("pos_prediction", f.number), ("neg_prediction", f.number)), {},
     ["bpr_loss", "neg_prediction:values"]),
    ("MarginRankLoss", lambda f: schema.Struct(("pos_prediction", f.number)), {}, ["neg_prediction:lengths"]),
    ("Concat", lambda f: f.x, {}, ["concat", "Struct", "Scalar"]),
    ("Concat", lambda f: schema.Struct(), {}, ["concat", "none"]),
    ("Concat", lambda f: schema.Struct(("a", f.x), ("b", f.ids)), {}, ["field b", "Scalar", "List"]),
    ("Concat", lambda f: schema.Struct(("a", f.matrix), ("b", f.x)), {"axis": 2}, ["field b", "(4,)", "axis 2"]),
    ("Concat", lambda f: schema.Struct(("a", f.x), ("b", f.matrix)), {}, ["field b", "(4, 3)", "(4,)"]),
    ("Split", lambda f: f.x, {"num_splits": 3}, ["split", "4", "3 equal parts"]),
    ("Split", lambda f: f.x, {"split": [1, 2]}, ["split=[1, 2]", "3"]),
    ("GatherRecord", lambda f: schema.Struct(("record", f.x)), {}, ["gather_record", "indices"]),
    ("SelectRecordByContext", lambda f: schema.Struct(("training", f.x), ("eval", f.number)), {},
     ["eval differs from training"]),
    ("MergeIdLists", lambda f: schema.Struct(("a", f.ids), ("b", f.bare)), {}, ["field b", "categorical_limit"]),
    ("MergeIdLists", lambda f: schema.Struct(("a", f.ids), ("b", f.x)), {}, ["field b", "list of ids"]),
    ("SparseLookup", lambda f: f.x, {"inner_shape": [2], "reducer": "Sum"}, ["sparse_lookup", "list of ids"]),
    ("SparseLookup", lambda f: f.bare, {"inner_shape": [2], "reducer": "Sum"}, ["sparse_lookup", "categorical_limit"]),
    ("SparseLookup", lambda f: f.ids, {"inner_shape": [2], "reducer": "Median"}, ["'Median'", "Sum"]),
    ("SparseLookup", lambda f: f.ids, {"inner_shape": [2], "reducer": "PositionWeighted"},
     ["PositionWeighted", "scores"]),
    ("SparseLookup", lambda f: f.scored, {"inner_shape": [2], "reducer": "Mean", "use_external_weights": True},
     ["use_external_weights", "Mean"]),
    ("SparseFeatureHash", lambda f: f.bare, {}, ["sparse_feature_hash", "modulo", "categorical_limit"]),
    ("SparseFeatureHash", lambda f: f.x, {}, ["sparse_feature_hash", "list of ids"]),
    ("SparseDropoutWithReplacement", lambda f: f.ids, {
        "dropout_prob_train": 2.0, "dropout_prob_eval": 0, "dropout_prob_predict": 0, "replacement_value": 0},
     ["dropout_prob_train", "2.0"]),
    ("PositionWeighted", lambda f: f.x, {}, ["position_weights", "List"]),
    ("BucketWeighted", lambda f: f.ids, {}, ["bucket_weighted", "values:values"]),
    ("MapToRange", lambda f: f.number, {"max_index": 0}, ["max_index", "0"]),
    ("UniformSampling", lambda f: f.number, {"num_samples": 5, "num_elements": 5}, ["num_samples=5"]),
    ("ReservoirSampling", lambda f: schema.Struct(("x", f.x)), {"num_to_collect": 2}, ["reservoir_sampling", "data"]),
    ("LastNWindowCollector", lambda f: f.ids, {"num_to_collect": 2}, ["last_n_window_collector", "Scalar"]),
    ("PairwiseSimilarity", lambda f: schema.Struct(("x_embeddings", f.x)), {"output_dim": 2},
     ["pairwise_similarity", "y_embeddings"]),
    ("BlobWeightedSum", lambda f: schema.Struct(("a", f.x), ("b", f.matrix)), {}, ["(4,)", "(4, 3)"]),
    ("ConstantWeight", lambda f: schema.Struct(("a", f.x), ("b", f.x)), {"weights": [1.0]}, ["1 weights", "2 columns"]),
    ("AdaptiveWeight", lambda f: schema.Struct(("a", f.x)), {"weights": [-1.0]}, ["positive", "-1.0"]),
    ("AdaptiveWeight", lambda f: schema.Struct(("a", f.x)), {"estimation_method": "std"}, ["estimation_method", "std"]),
    ("HomotopyWeight", lambda f: schema.Struct(("a", f.x), ("b", f.x)), {"half_life": 4, "quad_life": 8},
     ["quad_life", "twice"]),
    ("FeatureSparseToDense", lambda f: schema.Struct(("a", f.scored)),
     {"input_specs": [("b", schema.FeatureSpec("FLOAT", ["n"], [1]))]}, ["field b", "a"]),
    ("FeatureSparseToDense", lambda f: schema.Struct(("a", f.scored)),
     {"input_specs": [("a", schema.FeatureSpec("FLOAT", ["n"], [1, 2]))]}, ["field a", "1 feature_names"]),
    ("SamplingTrain", lambda f: schema.Struct(("input", f.x), ("indices", f.number)),
     {"prediction_layer": "FC", "output_dims": 3}, ["sampling_train", "sampling_prob"]),
    ("SamplingTrain", lambda f: schema.Struct(("input", f.x), ("indices", f.number), ("sampling_prob", f.number)),
     {"prediction_layer": "Dropout", "output_dims": 3}, ["Dropout", "sample"]),
]


@pytest.mark.parametrize(("layer", "record", "arguments", "said"), REFUSED)
def test_bad_input_is_refused_by_name(model, layer, record, arguments, said):
    with pytest.raises(AssertionError) as caught:
        getattr(model, layer)(record(model.input_feature_schema), **arguments)
    message = str(caught.value)
    assert all(word in message for word in said), message
    assert model.layers == []


def test_unknown_layers_are_named_with_close_ones(model):
    with pytest.raises(AttributeError, match="FullyConnected"):
        model.FullyConnected(model.input_feature_schema.x, 2)
    with pytest.raises(KeyError, match="SparseLookup"):
        create_layer("SparseLookUp", model)


@pytest.mark.parametrize("layer", ["Relu", "Sigmoid", "FunctionalLayerRelu"])
def test_an_operator_as_a_layer_asks_for_its_outputs(model, layer):
    with pytest.raises(TypeError, match=rf"how many outputs it has .* model\.{layer}\(inputs, 1\)"):
        getattr(model, layer)(model.input_feature_schema.x)
    assert model.layers == []


def test_parameters_without_optimizer_or_gradient_are_named(model):
    f = model.input_feature_schema
    model.add_loss(model.BatchLRLoss(schema.Struct(
        ("label", model.trainer_extra_schema.label), ("logit", model.FC(f.x, 1)))))
    model.output_schema = schema.Struct()
    with pytest.raises(AssertionError, match=r"'fc/w'.*default_optimizer"):
        layer_model_instantiator.generate_training_nets(model)

    idle = layer_model_helper.LayerModelHelper("idle", schema.Struct(("x", S((F, (4,))))), schema.Struct())
    idle.default_optimizer = optimizer.SgdOptimizer(0.1)
    idle.FC(idle.input_feature_schema.x, 2, name="unused")
    idle.add_loss(idle.AveragedLoss(idle.FC(idle.input_feature_schema.x, 2), 1))
    idle.output_schema = schema.Struct()
    with pytest.raises(AssertionError, match=r"'unused/w'.*no gradient.*NoOptim"):
        layer_model_instantiator.generate_training_nets(idle)


def test_a_context_without_record_is_named(model):
    f = model.input_feature_schema
    model.SelectRecordByContext(schema.Struct(("training", f.x), ("eval", f.x)))
    with pytest.raises(AssertionError, match=r"select_record_by_context.*'prediction'"):
        model.layers[0].add_operators(core.Net("net"), context=InstantiationContext.PREDICTION)
    with pytest.raises(AssertionError, match="init_net"):
        model.layers[0].add_operators(core.Net("net"))


def test_a_layer_that_does_not_say_what_it_is_says_so(model):
    class Nothing(ModelLayer):
        pass

    layer = Nothing(model, "nothing", model.input_feature_schema.x)
    with pytest.raises(AssertionError, match=r"nothing.*output_schema"):
        _ = layer.output_schema
    with pytest.raises(NotImplementedError, match=r"Nothing.*add_ops"):
        layer.add_operators(core.Net("net"), context=InstantiationContext.PREDICTION)


@pytest.mark.parametrize(("ask", "said"), [
    (lambda model: model.output_schema, "output_schema"),
    (lambda model: model.loss, "loss"),
    (lambda model: model.prediction, "prediction"),
    (lambda model: model.add_loss(None), "Scalar or a Struct"),
    (lambda model: model.add_output_schema("o", 3), "'o'.*Scalar or a Struct"),
    (lambda model: model.add_global_constant("ONE", 2.0), "ONE"),
    (lambda model: model.maybe_add_global_constant("ONE", 2.0), "ONE"),
    (lambda model: model.add_global_constant("c"), "c needs an array"),
    (lambda model: model.add_post_grad_net_modifiers(3), "NetModifier"),
    (lambda model: setattr(model, "breakdown_map", {"a": 1}), "breakdown"),
    (lambda model: model.create_param("p", [2], "ConstantFill"), "'p'.*initializer"),
    (lambda model: model.create_param("p", [2], ("ConstantFill", {"shape": [3]})), "'p'.*shape"),
])
def test_the_model_says_what_it_misses(model, ask, said):
    with pytest.raises(AssertionError, match=said):
        ask(model)
