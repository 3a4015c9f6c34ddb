"""Layers of one's own, tags, contexts, metrics, constants, functional layers."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core, layer_model_helper, layer_model_instantiator, optimizer, schema, workspace
from caffe2.python.layers import import_recursive, layers, model_layer_subcls
from caffe2.python.layers.layers import (
    IdList,
    IdScoreList,
    InstantiationContext,
    LayerParameter,
    ModelLayer,
    almost_equal_schemas,
    get_avg_length,
    get_categorical_limit,
    get_key,
    is_request_only_scalar,
    layer_exists,
    register_layer,
    set_request_only,
)
from caffe2.python.layers.tags import TagContext, Tags


def make(**features):
    features = features or {"x": schema.Scalar((np.float32, (4,)))}
    return layer_model_helper.LayerModelHelper(
        "own", schema.Struct(*features.items()), schema.Struct(("label", schema.Scalar(np.float32))))


class Standardize(ModelLayer):
    """(x - mean) * scale in prediction; training reports what it saw as well."""

    def __init__(self, model, input_record, name="standardize", **kwargs):
        super().__init__(model, name, input_record, **kwargs)
        size = input_record.field_type().shape[0]
        self.mean = self.create_param("mean", [size], ("ConstantFill", {"value": 1.0}), model.NoOptim)
        self.scale = self.create_param("scale", [size], ("ConstantFill", {"value": 2.0}), None)
        self.output_schema = schema.Scalar(input_record.field_type(), self.get_next_blob_reference("output"))

    def add_ops(self, net):
        centered = net.Sub([self.input_record(), self.mean], net.NextScopedBlob("centered"))
        net.Mul([centered, self.scale], self.output_schema())

    def add_train_ops(self, net):
        self.add_ops(net)
        net.ReduceFrontMean(self.input_record(), "seen")


@pytest.fixture
def registered():
    register_layer("Standardize", Standardize)
    yield
    del layers._LAYER_REGISTRY["Standardize"]


def test_a_registered_layer_trains_and_predicts(backend, registered):
    assert layer_exists("Standardize")
    with pytest.raises(AssertionError, match=r"Standardize.*registered already"):
        register_layer("Standardize", Standardize)
    model = make()
    model.default_optimizer = optimizer.SgdOptimizer(0.5)
    output = model.Standardize(model.input_feature_schema.x)
    assert output() == "standardize/output"
    model.add_loss(model.AveragedLoss(output, 1))
    model.output_schema = schema.Struct(("output", output))
    init, train = layer_model_instantiator.generate_training_nets(model)
    predict = layer_model_instantiator.generate_predict_net(model)
    x = np.array([[0.0, 1.0, 2.0, 3.0], [4.0, 1.0, 0.0, 1.0]], np.float32)
    workspace.FeedBlob("x", x)
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(train)
    assert workspace.HasBlob("standardize/seen")
    scale = 2.0 - 0.5 * np.mean(x - 1, axis=0) / 4
    np.testing.assert_allclose(workspace.FetchBlob("standardize/scale"), scale, rtol=1e-6)
    np.testing.assert_array_equal(workspace.FetchBlob("standardize/mean"), np.ones(4))
    workspace.RunNetOnce(predict)
    np.testing.assert_allclose(workspace.FetchBlob(output()), (x - 1) * scale, rtol=1e-6)
    assert not any("seen" in op.output[0] for op in predict.Proto().op)
    assert [str(blob) for blob in predict.output_record().field_blobs()] == ["standardize/output"]


def test_every_layer_of_the_package_is_registered():
    import netgrad.training.layers

    import_recursive(netgrad.training.layers)
    public = {cls for cls in model_layer_subcls if not cls.__name__.startswith("_")}
    assert len(public) > 40
    assert {cls.__name__ for cls in public} <= set(layers._LAYER_REGISTRY)
    assert all(layers.get_layer_class(cls.__name__) is cls for cls in public)


def test_tags_choose_the_nets_of_a_layer():
    model = make()
    x = model.input_feature_schema.x
    with Tags(Tags.TRAIN_ONLY), Tags("mine"):
        model.Relu(x, 1, name="train")
        assert {"mine", *Tags.TRAIN_ONLY} <= model.layers[-1].tags

    @Tags([Tags.EXCLUDE_FROM_TRAIN])
    def write():
        model.Relu(x, 1, name="rest")

    write()
    assert TagContext.current().tags == []
    model.output_schema = schema.Struct()

    def names(net):
        return [op.output[0].split("/")[0] for op in net.Proto().op if op.type == "Relu"]

    _, train = layer_model_instantiator.generate_training_nets_forward_only(model)
    assert names(train) == ["train"]
    assert names(layer_model_instantiator.generate_eval_net(model)) == ["rest"]
    assert names(layer_model_instantiator.generate_predict_net(model)) == ["rest"]
    assert names(layer_model_instantiator.generate_predict_net(model, include_tags=["mine"])) == []
    with pytest.raises(AssertionError, match="not added last"):
        TagContext.current().remove_tags(["other"])


def test_metrics_have_outputs_and_copies_of_parameters(backend):
    model = make()
    out = model.FC(model.input_feature_schema.x, 2, output_to_metrics=True, params_to_metrics=True)
    model.output_schema = schema.Struct()
    assert model.metrics_schema.field_names() == ["fc/output", "fc/w", "fc/b"]
    init, train = layer_model_instantiator.generate_training_nets_forward_only(model)
    workspace.FeedBlob("x", np.ones((3, 4), np.float32))
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(train)
    record = schema.FetchRecord(train.output_record())
    np.testing.assert_array_equal(record["fc/w"](), workspace.FetchBlob("fc/w"))
    np.testing.assert_array_equal(record["fc/output"](), workspace.FetchBlob(out()))
    assert all(arg.name not in ("output_to_metrics", "params_to_metrics")
               for op in train.Proto().op for arg in op.arg)


def test_functional_layers_infer_types_and_shapes():
    model = make()
    x = model.input_feature_schema.x

    def several(net, given, result):
        net.ReduceBackSum(given(), result.total())
        net.ArgMax(given(), result.best(), axis=1, keepdims=False)
        net.Cast(given(), result.doubled(), to=core.DataType.DOUBLE)

    result = model.Functional(x, ["total", "best", "doubled"], several)
    assert result == schema.Struct(
        ("total", schema.Scalar(np.float32)), ("best", schema.Scalar(np.int64)),
        ("doubled", schema.Scalar((np.float64, (4,)))))
    assert model.Softmax(x, 1) == schema.Scalar((np.float32, (4,)))
    assert model.SumElements(x, "all") == schema.Scalar((np.float32, ()))
    assert model.Shape(x, 1, output_dtypes=np.int64) == schema.Scalar(np.int64)


def test_a_functional_layer_of_an_input_of_unknown_type_warns_and_works(backend, caplog):
    model = make(u=schema.Scalar(), x=schema.Scalar((np.float32, (2,))))
    out = model.Relu(model.input_feature_schema.u, 1)
    assert "output_dtypes" in caplog.text
    assert out.field_type() == np.void
    model.output_schema = schema.Struct(("out", out), ("same", model.input_feature_schema.x))
    predict = layer_model_instantiator.generate_predict_net(model)
    workspace.FeedBlob("u", np.array([-1.0, 2.0], np.float32))
    workspace.FeedBlob("x", np.zeros((1, 2), np.float32))
    workspace.RunNetOnce(predict)
    np.testing.assert_array_equal(workspace.FetchBlob(out()), [0.0, 2.0])


def test_constants_are_filled_by_every_init_net(backend):
    model = make()
    model.add_global_constant("table", np.array([[1, 2], [3, 4]], np.int64))
    model.add_global_constant("flag", True)
    model.add_global_constant("word", "hello")
    model.add_global_constant("made", initializer=lambda blob: core.CreateOperator(
        "ConstantFill", [], blob, shape=[2], value=7.0))
    assert model.maybe_add_global_constant("table", np.array([[1, 2], [3, 4]], np.int64)) == "table"
    model.maybe_add_global_constant("NAN", float("nan"))
    for net in (model.param_init_net, model.create_init_net("fresh")):
        assert net.Proto().op[0].output[0] == "ONE"
    workspace.RunNetOnce(model.create_init_net("constants"))
    np.testing.assert_array_equal(workspace.FetchBlob("table"), [[1, 2], [3, 4]])
    assert workspace.FetchBlob("flag").dtype == bool
    assert workspace.FetchBlob("word") in (b"hello", np.array(b"hello", object))
    np.testing.assert_array_equal(workspace.FetchBlob("made"), [7, 7])
    np.testing.assert_array_equal(workspace.FetchBlob("ZERO_RANGE"), [0, 0])
    assert np.isnan(workspace.FetchBlob("NAN"))


def test_request_only_inputs_make_request_only_outputs():
    specs = schema.FeatureSpec("FLOAT", ["a"], [1], feature_is_request_only=True)
    model = make(x=schema.Scalar((np.float32, (4,)), metadata=schema.Metadata(feature_specs=specs)))
    out = model.FC(model.input_feature_schema.x, 2)
    assert model.layers[0].request_only
    assert is_request_only_scalar(out)
    plain = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=3, expected_value=2.0))
    assert not is_request_only_scalar(plain)
    set_request_only(plain)
    assert is_request_only_scalar(plain)
    assert (plain.metadata.categorical_limit, plain.metadata.expected_value) == (3, 2.0)


def test_lists_of_ids_are_told_apart():
    ids = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=7))
    lengths = schema.Scalar(np.int32, metadata=schema.Metadata(expected_value=2.5))
    for record in (schema.List(ids, lengths), schema.ListWithEvicted(ids, lengths)):
        assert almost_equal_schemas(record, IdList)
        assert not almost_equal_schemas(record, IdScoreList)
    for record in (schema.Map(ids, np.float32, lengths_blob=lengths), schema.MapWithEvicted(ids, np.float32,
                                                                                           lengths_blob=lengths)):
        assert almost_equal_schemas(record, IdScoreList)
        assert get_categorical_limit(record) == 7
        assert get_avg_length(record) == 2.5
    half = schema.Map(ids, np.float16)
    assert not almost_equal_schemas(half, IdScoreList)
    assert almost_equal_schemas(half, IdScoreList, check_field_types=False)
    assert get_key(half) == ids
    with pytest.raises(NotImplementedError):
        get_key(schema.Scalar())
    with pytest.raises(AssertionError, match="categorical_limit"):
        get_key(schema.List(np.int64))


def test_parameters_know_their_shape_without_being_told():
    filled = core.CreateOperator("ConstantFill", [], "p", shape=[3, 2])
    assert LayerParameter(core.BlobReference("p"), initializer=filled).shape == [3, 2]
    given = core.CreateOperator("GivenTensorFill", [], "p", values=[1.0])
    assert LayerParameter(core.BlobReference("p"), initializer=given).shape == []
    lock = core.CreateOperator("CreateMutex", [], "p")
    assert LayerParameter(core.BlobReference("p"), initializer=lock).shape is None
    parameter = LayerParameter(core.BlobReference("p"), initializer=filled)
    with pytest.raises(AssertionError, match=r"\[3, 2\].*\[\]"):
        parameter.initializer = given
    with pytest.raises(AssertionError, match="BlobReference"):
        LayerParameter("p")


def test_seeds_make_draws_repeatable(backend):
    model = make()
    model.Dropout(model.FC(model.input_feature_schema.x, 50))
    model.output_schema = schema.Struct()
    model.store_seed(17)
    results = []
    for _ in range(2):
        init, _ = layer_model_instantiator.generate_training_nets_forward_only(model)
        model.apply_seed(init)
        workspace.RunNetOnce(init)
        results.append(workspace.FetchBlob("fc/w"))
    np.testing.assert_array_equal(*results)


def test_parameters_can_be_left_to_others():
    model = make()
    model.set_initialize_params(False)
    model.FC(model.input_feature_schema.x, 2)
    model.output_schema = schema.Struct()
    init, _ = layer_model_instantiator.generate_training_nets_forward_only(model)
    assert all("fc" not in op.output[0] for op in init.Proto().op)
    assert model.get_parameter_blobs() == ["fc/w", "fc/b"]
    assert InstantiationContext.TRAINING == "training"
