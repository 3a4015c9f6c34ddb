"""What layers compute: against NumPy, and against other ways to write the same; both backends."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core, layer_model_helper, layer_model_instantiator, schema, workspace
from caffe2.python.helpers.arg_scope import arg_scope
from caffe2.python.layers.fc import get_fc_predictor_version
from caffe2.python.layers.sparse_lookup import get_sparse_lookup_predictor_version

F = np.float32
LIMIT, SIZE = 12, 8
LENGTHS = np.array([2, 0, 3, 1], np.int32)
IDS = np.array([3, 7, 7, 1, 3, 0], np.int64)
SCORES = np.array([0.5, -1.0, 2.0, 1.0, 0.25, 3.0], F)
X = np.random.default_rng(5).normal(size=(4, 6)).astype(F)


def make():
    ids = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=LIMIT))
    model = layer_model_helper.LayerModelHelper("values", schema.Struct(
        ("x", schema.Scalar((F, (6,)))), ("sequence", schema.Scalar((F, (2, 3)))), ("ids", schema.List(ids)),
        ("scored", schema.Map(ids, F)), ("keys", schema.Scalar(np.int64))), schema.Struct())
    f = model.input_feature_schema
    for blob, array in ((f.x, X), (f.sequence, X.reshape(4, 2, 3)), (f.ids.lengths, LENGTHS), (f.ids.items, IDS),
                        (f.scored.lengths, LENGTHS), (f.scored["values:keys"], IDS),
                        (f.scored["values:values"], SCORES), (f.keys, np.array([50, 9, 50, 7], np.int64))):
        workspace.FeedBlob(str(blob()), array)
    return model


def run(model, kind="train", **parameters):
    """Runs the init net and one of the nets; parameters have their values replaced in between."""
    if model._output_schema is None:
        model.output_schema = schema.Struct()
    init, train = layer_model_instantiator.generate_training_nets_forward_only(model)
    workspace.RunNetOnce(init)
    for name, array in parameters.items():
        workspace.FeedBlob(name, array)
    net = {"train": lambda: train, "eval": lambda: layer_model_instantiator.generate_eval_net(model),
           "predict": lambda: layer_model_instantiator.generate_predict_net(model)}[kind]()
    workspace.RunNetOnce(net)
    return net


def rows_of(lists):
    return np.split(lists, np.cumsum(LENGTHS)[:-1])


#: reducers for which every list has an id
NEED_IDS = ("Max", "LogSumExp", "LogMeanExp")

POOLS = {
    "Sum": lambda rows, scores: rows.sum(0),
    "Mean": lambda rows, scores: rows.mean(0) if len(rows) else np.zeros(SIZE),
    "Sqrt": lambda rows, scores: rows.sum(0) / np.sqrt(max(1, len(rows))),
    "Max": lambda rows, scores: rows.max(0),
    "LogSumExp": lambda rows, scores: np.log(np.exp(rows).sum(0)),
    "LogMeanExp": lambda rows, scores: np.log(np.exp(rows).mean(0)),
    "WeightedSum": lambda rows, scores: (rows * scores[:, None]).sum(0),
    "PositionWeighted": lambda rows, scores: (rows * scores[:, None]).sum(0),
    "RecencyWeighted": lambda rows, scores: (rows * scores[:, None]).sum(0),
}


@pytest.mark.parametrize("kind", ["train", "predict"])
@pytest.mark.parametrize(("reducer", "scored"), [
    *[(reducer, False) for reducer in ("Sum", "Mean", "WeightedSum", "WeightedMean", "Sqrt", "Max", "LogSumExp",
                                       "LogMeanExp", "None")],
    *[(reducer, True) for reducer in ("Sum", "Mean", "WeightedSum", "PositionWeighted", "RecencyWeighted", "None")],
])
def test_a_lookup_joins_the_rows_of_each_list(backend, kind, reducer, scored):
    model = make()
    record = model.input_feature_schema.scored if scored else model.input_feature_schema.ids
    output = model.SparseLookup(record, [SIZE], reducer)
    if reducer in NEED_IDS:
        workspace.FeedBlob("ids:lengths", LENGTHS[LENGTHS > 0])
    run(model, kind)
    table = workspace.FetchBlob("sparse_lookup/w")
    assert table.shape == (LIMIT, SIZE)
    assert np.abs(table).max() <= LIMIT**-0.5
    found = workspace.FetchBlob(str(output()))
    if reducer == "None":
        np.testing.assert_array_equal(found, table[IDS])
        return
    pool = POOLS[reducer if scored or not reducer.startswith("Weighted") else reducer.removeprefix("Weighted")]
    pairs = zip(rows_of(table[IDS]), rows_of(SCORES), strict=True)
    expected = [pool(rows, scores) for rows, scores in pairs if len(rows) or reducer not in NEED_IDS]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("version", "quantize", "tolerance"), [
    ("fp16", "FloatToHalf", 1e-3), ("fused_uint8rowwise", "FloatToFused8BitRowwiseQuantized", 1e-2),
    ("fused_uint4rowwise", "FloatToFused4BitRowwiseQuantized", 0.1),
])
@pytest.mark.parametrize("reducer", ["Sum", "Mean", "None", "Max"])
def test_a_quantized_table_predicts_nearly_the_same(backend, version, quantize, tolerance, reducer):
    model = make()
    output = model.SparseLookup(model.input_feature_schema.ids, [SIZE], reducer)
    if reducer in NEED_IDS:
        workspace.FeedBlob("ids:lengths", LENGTHS[LENGTHS > 0])
    run(model, "predict")
    exact = workspace.FetchBlob(str(output()))
    with arg_scope([get_sparse_lookup_predictor_version], version=version, min_blob_size_4bits=0):
        net = layer_model_instantiator.generate_predict_net(model)
    workspace.RunOperatorOnce(core.CreateOperator(quantize, ["sparse_lookup/w"], ["quantized"]))
    workspace.RunOperatorOnce(core.CreateOperator("Copy", ["quantized"], ["sparse_lookup/w"]))
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), exact, atol=tolerance)


@pytest.mark.parametrize(("reducer", "scored"), [
    ("Sum", False), ("Mean", False), ("Sqrt", False), ("None", False), ("Max", False), ("Sum", True), ("Mean", True),
    ("WeightedSum", True), ("PositionWeighted", True), ("None", True)])
def test_a_table_with_scales_beside_it_predicts_nearly_the_same(backend, reducer, scored):
    model = make()
    record = model.input_feature_schema.scored if scored else model.input_feature_schema.ids
    output = model.SparseLookup(record, [SIZE], reducer)
    if reducer in NEED_IDS:
        workspace.FeedBlob("ids:lengths", LENGTHS[LENGTHS > 0])
    run(model, "predict")
    exact = workspace.FetchBlob(str(output()))
    with arg_scope([get_sparse_lookup_predictor_version], version="uint8rowwise"):
        net = layer_model_instantiator.generate_predict_net(model)
    workspace.RunOperatorOnce(core.CreateOperator(
        "FloatToRowwiseQuantized8Bits", ["sparse_lookup/w"], ["bytes", "scales"]))
    for source, target in (("bytes", "w"), ("scales", "scale_bias")):
        workspace.RunOperatorOnce(core.CreateOperator("Copy", [source], [f"sparse_lookup/{target}"]))
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), exact, atol=1e-2)


def test_small_tables_are_not_quantized_to_four_bits():
    assert get_sparse_lookup_predictor_version("fp16") == "fp16"
    options = {"blob_size": 100, "min_blob_size_4bits": 50, "embedding_dim": 8}
    assert get_sparse_lookup_predictor_version("fused_uint4rowwise", **options) == "fused_uint4rowwise"
    for change in ({"blob_size": 49}, {"embedding_dim": 9}):
        assert get_sparse_lookup_predictor_version("fused_uint4rowwise", **options | change) == "fused_uint8rowwise"
    with pytest.raises(ValueError, match="blob_size"):
        get_sparse_lookup_predictor_version("fused_uint4rowwise")
    with pytest.raises(AssertionError, match="fp8"):
        get_sparse_lookup_predictor_version("fp8")


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_divided_layer_computes_what_a_whole_one_does(backend, axis, transposed):
    model = make()
    record = model.input_feature_schema.sequence
    inputs = 6 if axis == 1 else 3
    output = model.FC(record, 5, axis=axis, transposed=transposed, max_fc_size=2 * inputs,
                      bias_init=("ConstantFill", {"value": 3.0}))
    assert model.layers[0].output_dim_vec == [2, 2, 1]
    run(model)
    layer = model.layers[0]
    w = np.concatenate([workspace.FetchBlob(str(part)).T if transposed else workspace.FetchBlob(str(part))
                        for part in layer.w_vec])
    assert [float(workspace.FetchBlob(str(part))[0]) for part in layer.b_vec] == [3.0] * 3
    given = X if axis == 1 else X.reshape(4, 2, 3)
    found = workspace.FetchBlob(str(output()))
    assert found.shape[1:] == output.field_type().shape
    np.testing.assert_allclose(found, given @ w.T + 3.0, rtol=1e-5, atol=1e-6)


def test_clipped_parameters_stay_as_they_are(backend):
    model = make()
    output = model.FC(model.input_feature_schema.x, 2, clip_param=(-0.1, None))
    run(model, **{"fc/w": np.full((2, 6), -5.0, F), "fc/b": np.array([1.0, -1.0], F)})
    expected = X.sum(1, keepdims=True) * -0.1 + [1.0, -0.1]
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(workspace.FetchBlob("fc/w"), np.full((2, 6), -5.0))


def test_half_precision_prediction_asks_for_packed_layers():
    with pytest.raises(AssertionError, match="int8"):
        get_fc_predictor_version("int8")
    assert get_fc_predictor_version("fp16") == "fp16"


def test_bootstrapped_layers_draw_rows_of_the_batch(backend):
    model = make()
    output = model.FCWithBootstrap(model.input_feature_schema.x, output_dims=1, num_bootstrap=3)
    blobs = [str(blob) for blob in output.field_blobs()]
    run(model)
    drawn = [workspace.FetchBlob(blob) for blob in blobs[::2]]
    for k, indices in enumerate(drawn):
        assert indices.shape == (4,)
        assert set(indices) <= set(range(4))
        w, b = (workspace.FetchBlob(f"fc_with_bootstrap/bootstrap_iteration_{k}/{part}") for part in "wb")
        np.testing.assert_allclose(workspace.FetchBlob(blobs[2 * k + 1]), X[indices] @ w.T + b, rtol=1e-4, atol=1e-6)
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(model))
    w, b = (workspace.FetchBlob(f"fc_with_bootstrap/bootstrap_iteration_0/{part}") for part in "wb")
    np.testing.assert_allclose(workspace.FetchBlob(blobs[1]), X @ w.T + b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_vectors_are_normalized_over_the_batch_whatever_the_order(backend, order):
    model = make()
    output = model.BatchNormalization(model.input_feature_schema.x, order=order)
    run(model)
    expected = (X - X.mean(0)) / np.sqrt(X.var(0) + 1e-5)
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), expected, rtol=1e-4, atol=1e-5)
    run(model, "eval")
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), X, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"use_layer_norm_op": False}])
def test_both_forms_of_layer_normalization_agree(backend, options):
    model = make()
    output = model.LayerNormalization(model.input_feature_schema.x, scale_init_value=2.0, epsilon=1e-3, **options)
    run(model)
    expected = 2 * (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), expected, rtol=1e-4, atol=1e-5)


def test_layer_normalization_of_a_later_axis_scales_along_it(backend):
    model = make()
    output = model.LayerNormalization(model.input_feature_schema.sequence, axis=2)
    given = X.reshape(4, 2, 3)
    scale = np.array([1.0, 2.0, 3.0], F)
    run(model, **{"layer_normalization/scale": scale})
    expected = scale * (given - given.mean(2, keepdims=True)) / np.sqrt(given.var(2, keepdims=True) + 1e-4)
    np.testing.assert_allclose(workspace.FetchBlob(str(output())), expected, rtol=1e-4, atol=1e-5)


def test_every_kind_of_net_reads_its_own_record(backend):
    model = make()
    f = model.input_feature_schema
    other = model.Scale(f.x, 1, scale=2.0)
    chosen = model.SelectRecordByContext(
        schema.Struct(("training", f.x), ("eval", other)), default_output_record_field="eval")
    model.output_schema = schema.Struct(("chosen", chosen))
    for kind, expected in (("train", X), ("eval", 2 * X), ("predict", 2 * X)):
        run(model, kind)
        np.testing.assert_allclose(workspace.FetchBlob(str(chosen())), expected)


def test_rows_of_records_are_gathered_with_their_lists(backend):
    model = make()
    f = model.input_feature_schema
    indices = model.ConstantFill([], 1, shape=[2], value=2, dtype=core.DataType.INT32, output_dtypes=np.int32)
    out = model.GatherRecord(schema.Struct(
        ("indices", indices), ("record", schema.Struct(("x", f.x), ("ids", f.ids)))))
    run(model)
    found = schema.FetchRecord(out)
    np.testing.assert_array_equal(found.x(), X[[2, 2]])
    np.testing.assert_array_equal(found.ids.lengths(), [3, 3])
    np.testing.assert_array_equal(found.ids.items(), [7, 1, 3, 7, 1, 3])


def test_ids_are_numbered_in_training_and_frozen_after(backend):
    model = make()
    out = model.MapToRange(model.input_feature_schema.keys, max_index=10)
    run(model)
    np.testing.assert_array_equal(workspace.FetchBlob(str(out.indices())), [1, 2, 1, 3])
    workspace.FeedBlob("keys", np.array([7, 100, 9], np.int64))
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(model))
    np.testing.assert_array_equal(workspace.FetchBlob(str(out.indices())), [3, 0, 2])


@pytest.mark.parametrize(("options", "expected"), [
    ({"use_hashing": False, "modulo": 4}, IDS % 4),
    ({"use_hashing": False, "use_divide_mod": True, "divisor": 3, "modulo": 2}, IDS // 3 % 2),
    ({"modulo": 5}, None),
])
@pytest.mark.parametrize("scored", [False, True])
def test_ids_are_mapped_to_a_range(backend, options, expected, scored):
    model = make()
    record = model.input_feature_schema.scored if scored else model.input_feature_schema.ids
    out = model.SparseFeatureHash(record, **options)
    ids = out["values:keys" if scored else "values"]
    assert ids.metadata.categorical_limit == options["modulo"]
    run(model)
    found = workspace.FetchBlob(str(ids()))
    assert set(found) <= set(range(options["modulo"]))
    if expected is not None:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(workspace.FetchBlob(str(out.lengths())), LENGTHS)
    if scored:
        np.testing.assert_array_equal(workspace.FetchBlob(str(out["values:values"]())), SCORES)


@pytest.mark.parametrize("quad_life", [9, 12, 40])
def test_a_mixture_moves_from_the_first_loss_to_the_second(backend, quad_life):
    model = make()
    f = model.input_feature_schema
    one, two = (model.ReduceBackSum(model.Scale(f.x, 1, scale=scale), 1) for scale in (1.0, 10.0))
    out = model.HomotopyWeight(schema.Struct(("a", one), ("b", two)), half_life=4, quad_life=quad_life)
    model.output_schema = schema.Struct()
    init, train = layer_model_instantiator.generate_training_nets_forward_only(model)
    workspace.RunNetOnce(init)
    workspace.CreateNet(train)
    parts = {}
    for step in range(1, quad_life + 1):
        workspace.RunNet(train.Proto().name)
        # a s + b 10 s with a + b = 1
        parts[step] = (10 - np.mean(workspace.FetchBlob(str(out())) / X.sum(1))) / 9
    np.testing.assert_allclose([parts[4], parts[quad_life]], [0.5, 0.25], rtol=1e-3)


def test_records_that_were_collected_are_collected_anew_after_a_load(backend):
    model = make()
    packed = model.PackRecords(model.input_feature_schema.keys, 1, fields=["keys"])
    out = model.ReservoirSampling(schema.Struct(("data", packed)), 3)
    model.output_schema = schema.Struct()
    init, train = layer_model_instantiator.generate_training_nets_forward_only(model)
    workspace.RunNetOnce(init)
    workspace.CreateNet(train)
    workspace.RunNet(train.Proto().name, num_iter=2)
    visited = str(out.num_visited())
    assert workspace.FetchBlob(visited) == 8
    saved = workspace.SerializeBlob(str(out.reservoir()))
    workspace.DeserializeBlob(str(out.reservoir()), saved)
    workspace.RunNet(train.Proto().name)
    assert workspace.FetchBlob(visited) == 4
    unpack = core.CreateOperator("UnPackRecords", [str(out.reservoir())], ["kept"], fields=["keys"])
    workspace.RunOperatorOnce(unpack)
    kept = workspace.FetchBlob("kept")
    assert len(kept) == 3
    assert set(kept) <= {50, 9, 7}
