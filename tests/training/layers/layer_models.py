"""Layer models that netgrad and the real Caffe2 have to write alike; `make_layer_nets.py` asks the real one.

Every function gets a model with the features below and returns nothing; losses, if any, are added to the model.
"""

import numpy as np

from caffe2.python import core, optimizer, regularizer, schema
from caffe2.python.helpers.arg_scope import arg_scope
from caffe2.python.layers.sparse_lookup import get_sparse_lookup_predictor_version
from caffe2.python.layers.tags import Tags
from caffe2.python.modeling import compute_norm_for_blobs, gradient_clipping
from caffe2.python.modeling.parameter_sharing import ParameterSharing

ids = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=50, expected_value=3.0))


def features():
    return schema.Struct(
        ("dense", schema.Scalar((np.float32, (8,)))),
        ("other", schema.Scalar((np.float32, (8,)))),
        ("history", schema.Scalar((np.float32, (5, 4)))),
        ("image", schema.Scalar((np.float32, (3, 6, 6)))),
        ("clicks", schema.List(ids)),
        ("views", schema.List(ids)),
        ("scored", schema.Map(ids, np.float32)),
        ("evicted", schema.ListWithEvicted(ids)),
        ("keys", schema.Scalar(np.int32)),
        ("raw", schema.Struct(
            ("floats", schema.Map(np.int32, np.float32)),
            ("lists", schema.Map(np.int32, schema.List(np.int64))),
            ("scores", schema.Map(np.int32, schema.Map(np.int64, np.float32))),
            ("embeddings", schema.Map(np.int32, schema.List(np.float32))),
        )),
    )


def extra():
    return schema.Struct(
        ("label", schema.Scalar(np.float64)),
        ("class", schema.Scalar(np.int64)),
        ("labels", schema.Scalar((np.float32, (3,)))),
        ("weight", schema.Scalar(np.float64)),
    )


def dense(model):
    f = model.input_feature_schema
    model.FC(f.dense, 4)
    model.FC(f.dense, 4, name="named", weight_init=("ConstantFill", {"value": 2.0}), clip_param=(-1.0, None))
    model.FC(f.history, 6, axis=2)
    model.FC(f.history, 6, axis=2, transposed=True)
    model.FC(f.dense, 10, max_fc_size=24)
    model.FC(f.dense, 4, uniform_weight_init_scale_numerator=3.0, clip_param=[-1.0, 1.0])
    model.FCWithoutBias(f.dense, 4)
    model.AddBias(f.dense)
    model.FCWithBootstrap(f.dense, output_dims=1, num_bootstrap=2)


def convolution(model):
    f = model.input_feature_schema
    image = model.Conv(f.image, 4, kernel_h=3, kernel_w=3, stride_h=1, stride_w=2, order="NCHW")
    model.Conv(f.image, 4, 1, 1, 1, 1, pad_b=1, pad_l=0, pad_r=1, pad_t=0)
    model.BatchNormalization(f.image)
    model.BatchNormalization(f.dense, momentum=0.5, scale_init_value=2.0)
    model.LayerNormalization(f.dense)
    model.LayerNormalization(f.dense, use_layer_norm_op=False, epsilon=1e-3)
    model.Dropout(f.dense, ratio=0.25)
    model.Dropout(f.dense, dropout_for_eval=True)
    return image


def random_features(model):
    f = model.input_feature_schema
    for s in range(4):
        model.ArcCosineFeatureMap(f.dense, 6, s=s, scale=0.5)
    model.RandomFourierFeatures(f.dense, 6, 2.0)
    first = model.SemiRandomFeatures(f.dense, 6, s=1)
    model.SemiRandomFeatures(first, 5, s=2, scale_learned=2.0)


def lookups(model):
    f = model.input_feature_schema
    for reducer in ("Sum", "Mean", "WeightedSum", "WeightedMean", "Sqrt", "Max", "LogSumExp", "LogMeanExp", "None"):
        model.SparseLookup(f.clicks, [8], reducer)
    for reducer in ("Sum", "Mean", "WeightedSum", "PositionWeighted", "RecencyWeighted", "None"):
        model.SparseLookup(f.scored, [8], reducer)
    model.SparseLookup(f.scored, [8], "Sum", use_external_weights=True)
    model.SparseLookup(f.evicted, [4], "Sum", weight_init=("ConstantFill", {"value": 1.0}))
    weights = model.PositionWeighted(f.clicks)
    weighted = schema.Map(f.clicks.items, weights.position_weights, lengths_blob=f.clicks.lengths)
    model.SparseLookup(weighted, [8], "PositionWeighted", name="positions")


def half(model):
    """Tables that are trained in half precision, by the engine of their optimizer."""
    f = model.input_feature_schema
    by = optimizer.AdagradOptimizer(alpha=0.1, engine="SIMD_Q_FP16")
    for reducer in ("Sum", "Mean", "Sqrt"):
        model.SparseLookup(f.clicks, [8], reducer, weight_optim=by)
    for reducer in ("Sum", "Mean", "PositionWeighted", "RecencyWeighted"):
        model.SparseLookup(f.scored, [8], reducer, weight_optim=by,
                           weight_init=("UniformFill", {"min": 0.0, "max": 1.0}))


def sparse(model):
    f = model.input_feature_schema
    model.SparseFeatureHash(f.clicks, modulo=20)
    model.SparseFeatureHash(f.scored, seed=3)
    model.SparseFeatureHash(f.clicks, use_hashing=False, modulo=7)
    model.SparseFeatureHash(f.clicks, use_hashing=False, use_divide_mod=True, divisor=3, modulo=7)
    model.SparseDropoutWithReplacement(f.clicks, 0.5, 0.25, 1.0, -1)
    model.MergeIdLists(schema.Struct(("a", f.clicks), ("b", f.views)))
    model.MapToRange(f.keys, max_index=10)
    model.BucketWeighted(f.scored, bucket_boundaries=[0.0, 1.0, 2.0])
    model.BucketWeighted(f.scored, max_score=5, hash_buckets=False)
    spec = schema.FeatureSpec
    model.FeatureSparseToDense(f.raw, [
        ("floats", spec("FLOAT", ["a", "b"], [3, 5])),
        ("lists", spec("ID_LIST", ["c", "d"], [1, 2])),
        ("scores", spec("ID_SCORE_LIST", ["e"], [7])),
        ("embeddings", spec("EMBEDDING", ["g"], [9])),
    ], default_dense_value=float("nan"))


def records(model):
    f = model.input_feature_schema
    joined = model.Concat(schema.Struct(("a", f.dense), ("b", f.other)))
    model.Concat(schema.Struct(("a", f.dense), ("b", f.other)), axis=1, add_axis=1)
    model.Split(joined, num_splits=4)
    model.Split(joined, split=[3, 13])
    indices = model.Cast(f.keys, 1, to=core.DataType.INT32)
    model.GatherRecord(schema.Struct(("indices", indices), ("record", schema.Struct(
        ("dense", f.dense), ("lists", f.raw.lists)))))
    model.SelectRecordByContext(schema.Struct(
        ("training", f.dense), ("eval", f.other), ("prediction", f.other)))
    model.SelectRecordByContext(
        schema.Struct(("training", f.dense), ("rest", f.other)), use_copy=True, default_output_record_field="rest")
    model.LastNWindowCollector(f.dense, 3)
    model.ReservoirSampling(schema.Struct(("data", f.dense)), 3)
    model.UniformSampling(f.keys, 5, 10)
    model.PairwiseSimilarity(schema.Struct(("x_embeddings", f.history), ("y_embeddings", f.history)), 25)
    model.PairwiseSimilarity(schema.Struct(("all_embeddings", f.history), ("indices_to_gather", f.keys)), 3,
                             pairwise_similarity_func="cosine_similarity")


def functional(model):
    f = model.input_feature_schema
    model.Relu(f.dense, 1)
    model.TopK(f.dense, ["values", "indices"], k=3)
    model.Softmax(f.dense, "normalized")
    model.FunctionalLayerSplit(f.dense, 2, axis=1)
    model.ReduceBackSum(f.dense, 1, output_dtypes=np.float32)

    def twice(net, given, result, scale):
        net.Scale(given(), result(), scale=scale)

    model.Functional(f.dense, 1, twice, scale=2.0)
    with Tags([Tags.EXCLUDE_FROM_PREDICTION]):
        model.Sigmoid(f.dense, 1)
    with core.NameScope("outer"):
        model.FC(f.dense, 3)


def huber(model):
    f, e = model.input_feature_schema, model.trainer_extra_schema
    model.BatchHuberLoss(schema.Struct(("label", e.label), ("prediction", f.dense), ("weight", e.weight)), delta=0.5)


def losses(model):
    f, e = model.input_feature_schema, model.trainer_extra_schema
    logit = model.FC(f.dense, 1)
    scores = model.FC(f.dense, 3)
    with_weight = schema.Struct(("label", e.label), ("prediction", logit), ("weight", e.weight))
    model.add_loss(model.BatchMSELoss(with_weight), "mse")
    lr = schema.Struct(("label", e.label), ("logit", logit), ("weight", e.weight))
    model.add_loss(model.BatchLRLoss(lr), "lr")
    model.add_loss(model.BatchLRLoss(lr, average_loss=False, pos_label_target=0.9), "lr")
    mixed = schema.Struct(("label", e.label), ("logit", logit), ("prediction", model.Sigmoid(logit, 1)))
    model.add_loss(model.BatchLRLoss(mixed, jsd_weight=0.3), "jsd")
    model.add_loss(model.BatchLRLoss(mixed, homotopy_weighting=True), "homotopy")
    classes = schema.Struct(("label", e["class"]), ("prediction", scores))
    model.add_loss(model.BatchSoftmaxLoss(classes).loss, "softmax")
    model.add_loss(model.BatchSoftmaxLoss(
        schema.Struct(("label", e["class"]), ("prediction", scores), ("weight", e.weight)), scale=2.0,
        average_by_batch_size=True, label_smoothing_matrix=np.full((3, 3), 0.1) + 0.7 * np.eye(3)).loss, "smoothed")
    model.add_loss(model.BatchSigmoidCrossEntropyLoss(
        schema.Struct(("label", e.labels), ("prediction", scores))), "labels")
    model.LabelSmooth(e.label, [0.1, 0.8])
    model.LabelSmooth(e["class"], np.eye(3))


def ranking(model):
    f = model.input_feature_schema
    # Caffe2 pairs predictions (batch, 1) wrongly
    positive = model.Squeeze(model.FC(f.dense, 1), 1, dims=[1])
    pairs = schema.Struct(("pos_prediction", positive), ("neg_prediction", schema.List(
        schema.Scalar(np.float32, blob=f.scored.values()), lengths_blob=f.scored.lengths)))
    model.add_loss(model.BPRLoss(pairs))
    model.add_loss(model.MarginRankLoss(pairs, margin=0.5))
    model.add_loss(model.MarginRankLoss(pairs, average_loss=True))


def weights(model):
    f, e = model.input_feature_schema, model.trainer_extra_schema
    one = model.BatchMSELoss(schema.Struct(("label", e.label), ("prediction", model.FC(f.dense, 1))))
    two = model.BatchMSELoss(schema.Struct(("label", e.label), ("prediction", model.FC(f.other, 1))))
    # Caffe2's AdaptiveWeight has no gradient for losses without dimensions
    one, two = (model.ExpandDims(loss, 1, dims=[0], output_dtypes=(np.float32, (1,))) for loss in (one, two))
    both = schema.Struct(("one", one), ("two", two))
    model.add_loss(model.ConstantWeight(both, weights=[0.3, 0.7]))
    model.add_loss(model.AdaptiveWeight(both))
    model.add_loss(model.AdaptiveWeight(both, weights=[0.4, 0.6], estimation_method="inv_var", enable_diagnose=True))
    model.add_loss(model.AdaptiveWeight(both, estimation_method="inv_var", pos_optim_method="pos_grad_proj"))
    model.BlobWeightedSum(schema.Struct(("a", f.dense), ("b", f.other)), init_weights=[2.0, 3.0],
                          weight_optim=model.NoOptim)


def sampled(model):
    f, e = model.input_feature_schema, model.trainer_extra_schema
    sample = model.UniformSampling(f.keys, 5, 10)
    scores = model.SamplingTrain(
        schema.Struct(("input", f.dense), ("indices", sample.samples), ("sampling_prob", sample.sampling_prob)),
        prediction_layer="FC", output_dims=10)
    model.add_loss(model.BatchSoftmaxLoss(schema.Struct(("label", e["class"]), ("prediction", scores))).loss)


def regularized(model):
    """Regularizers of both kinds, and modifiers of nets before and after the updates."""
    f, e = model.input_feature_schema, model.trainer_extra_schema
    hidden = model.FC(f.dense, 4, weight_reg=regularizer.L1Norm(0.1), bias_reg=regularizer.L2Norm(0.2))
    rows = model.SparseLookup(f.clicks, [4], "Mean", regularizer=regularizer.MaxNorm(1.5))
    logit = model.FC(model.Concat(schema.Struct(("h", hidden), ("rows", rows))), 1,
                     weight_reg=regularizer.ElasticNet(0.1, 0.2))
    model.add_loss(model.BatchLRLoss(schema.Struct(("label", e.label), ("logit", logit))))
    model.add_post_grad_net_modifiers(gradient_clipping.GradientClipping(
        grad_clip_method="by_norm", clip_norm_type="l2_norm", clip_threshold=0.1))
    model.add_final_net_modifiers(compute_norm_for_blobs.ComputeNormForBlobs(
        blobs=["fc/w"], logging_frequency=10))
    model.add_output_schema("logit", logit)


def shared(model):
    f, e = model.input_feature_schema, model.trainer_extra_schema
    with ParameterSharing({"right": "left"}):
        with core.NameScope("left"):
            left = model.FC(f.dense, 4)
        with core.NameScope("right"):
            right = model.FC(f.other, 4)
    joined = model.Concat(schema.Struct(("l", left), ("r", right)))
    hidden = model.Tanh(joined, 1)
    rows = model.SparseLookup(f.clicks, [4], "Sum")
    logit = model.FC(model.Concat(schema.Struct(("h", hidden), ("rows", rows)), name="both"), 1)
    model.add_loss(model.BatchLRLoss(schema.Struct(("label", e.label), ("logit", logit))))
    model.add_output_schema("logit", logit)


MODELS = (dense, convolution, random_features, lookups, half, sparse, records, functional, huber, losses, ranking,
          weights, sampled, shared, regularized)


def build(make, layer_model_helper, optimizer):
    """A model, ready for its nets to be generated."""
    model = layer_model_helper.LayerModelHelper(make.__name__, features(), extra())
    optimizer._optimizer_instance_count.clear()
    model.default_optimizer = optimizer.AdagradOptimizer(alpha=0.1)
    make(model)
    if model._output_schema is None:
        model.output_schema = schema.Struct()
    return model


def nets(model, layer_model_instantiator):
    """Kind -> net."""
    trains = model.has_loss()
    generate = (layer_model_instantiator.generate_training_nets if trains
                else layer_model_instantiator.generate_training_nets_forward_only)
    init, train = generate(model)
    made = {"init": init, "train": train, "eval": layer_model_instantiator.generate_eval_net(model),
            "predict": layer_model_instantiator.generate_predict_net(model)}
    if model.name == "lookups":
        # Caffe2 forgets the scales for some reducers of "uint8rowwise"
        for version in ("fp16", "fused_uint8rowwise", "fused_uint4rowwise"):
            with arg_scope([get_sparse_lookup_predictor_version], version=version, min_blob_size_4bits=100):
                made["predict_" + version] = layer_model_instantiator.generate_predict_net(model)
    return made
