"""A model on several devices trains as the same model on one does, and says what it cannot do."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import brew, core, data_parallel_model, model_helper, optimizer, workspace
from netgrad.proto import caffe2_pb2

RNG = np.random.RandomState(3)
DATA = RNG.rand(10, 12, 6).astype(np.float32)
LABELS = RNG.randint(0, 3, (10, 12)).astype(np.int32)


def no_input(model):
    pass


def classifier(model, loss_scale):
    hidden = brew.relu(model, brew.fc(model, "data", "fc1", 6, 5), "hidden")
    out = brew.fc(model, hidden, "fc2", 5, 3)
    _, loss = model.net.SoftmaxWithLoss([out, "label"], ["softmax", "loss"])
    return [model.net.Scale(loss, scale=loss_scale)]


def sgd(model):
    return optimizer.build_sgd(model, 0.5, policy="fixed", momentum=0.9)


def feed(model, step):
    for part, device in enumerate(model._devices):
        size = 12 // len(model._devices)
        prefix = f"{model._device_prefix}_{device}"
        workspace.FeedBlob(f"{prefix}/data", DATA[step, part * size:(part + 1) * size])
        workspace.FeedBlob(f"{prefix}/label", LABELS[step, part * size:(part + 1) * size])


def initial(model):
    """The same parameters whatever the devices."""
    prefix = f"{model._device_prefix}_{model._devices[0]}"
    rng = np.random.RandomState(0)
    for name, shape in {"fc1_w": (5, 6), "fc1_b": (5,), "fc2_w": (3, 5), "fc2_b": (3,)}.items():
        value = (rng.rand(*shape) - 0.5).astype(np.float32)
        for device in [0] if model._shared_model else model._devices:
            workspace.FeedBlob(f"{model._device_prefix}_{device}/{name}", value)
    return prefix


def train(devices, steps=4, forward=classifier, **options):
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name=f"model{len(devices)}")
    options = {"optimizer_builder_fun": sgd, "cpu_device": True, **options}
    data_parallel_model.Parallelize(model, no_input, forward, devices=devices, **options)
    feed(model, 0)
    data_parallel_model.RunInitNet(model)
    prefix = initial(model)
    for step in range(steps):
        feed(model, step)
        data_parallel_model.RunNet(model, 1)
    return model, {name: workspace.FetchBlob(f"{prefix}/{name}") for name in ("fc1_w", "fc1_b", "fc2_w", "fc2_b")}


def assert_alike(a, b):
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=2e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("options", [
    {}, {"shared_model": True}, {"optimize_gradient_memory": True}, {"dynamic_memory_management": True},
    {"cpu_device": False}, {"cpu_device": False, "ideep": True}, {"net_type": "async_scheduling"},
    {"rendezvous": {"num_shards": 1, "shard_id": 0, "engine": "GLOO", "kv_handler": None}},
], ids=str)
def test_devices_learn_what_one_learns(options):
    one = train([0])[1]
    for count in (2, 3, 4):
        model, many = train(list(range(count)), **options)
        assert_alike(one, many)
        for device in [] if options.get("shared_model") else model._devices:
            np.testing.assert_array_equal(workspace.FetchBlob(f"{model._device_prefix}_{device}/fc2_w"), many["fc2_w"])


def test_updates_may_be_built_on_each_device():
    def update(model):
        rate = model.param_init_net.ConstantFill([], "rate", shape=[1], value=-0.5)
        one = model.param_init_net.ConstantFill([], "one", shape=[1], value=1.0)
        for param in model.GetParams():
            model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)

    options = {"optimizer_builder_fun": None, "param_update_builder_fun": update}
    assert_alike(train([0], **options)[1], train([0, 1, 2], **options)[1])


def test_parameters_with_sparse_gradients():
    """Rows of a table that several devices read receive the sum of what all found."""

    def forward(model, loss_scale):
        model.param_init_net.ConstantFill([], "table", shape=[4, 2], value=1.0)
        model.AddParameter(core.BlobReference(core.ScopedName("table")))
        loss = model.net.SumElements(model.net.Gather(["table", "rows"], "got"), "loss")
        return [model.net.Scale(loss, scale=loss_scale)]

    for sparse_device in (True, False):
        model = model_helper.ModelHelper(name="sparse")
        data_parallel_model.Parallelize(
            model, no_input, forward, devices=[0, 1], cpu_device=sparse_device,
            optimizer_builder_fun=lambda model: optimizer.build_sgd(model, 1.0, policy="fixed"))
        workspace.ResetWorkspace()
        prefix = model._device_prefix
        workspace.FeedBlob(f"{prefix}_0/rows", np.array([0, 1], np.int32))
        workspace.FeedBlob(f"{prefix}_1/rows", np.array([1, 1, 3], np.int32))
        data_parallel_model.RunInitNet(model)
        data_parallel_model.RunNet(model, 1)
        for device in (0, 1):
            np.testing.assert_allclose(
                workspace.FetchBlob(f"{prefix}_{device}/table")[:, 0], [0.5, -0.5, 1.0, 0.5])


def test_parameters_of_no_device_are_left_alone():
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="before")
    own = model.param_init_net.ConstantFill([], "own", shape=[1], value=2.0)
    model.AddParameter(own)
    data_parallel_model.Parallelize(
        model, no_input, classifier, devices=[0, 1], cpu_device=True,
        param_update_builder_fun=lambda model: None)
    assert "own" not in model._device_grouped_blobs and set(model._device_grouped_blobs["fc1_w"]) == {0, 1}


def test_normalization_over_all_devices_is_that_over_the_whole_batch():
    def forward(model, loss_scale):
        x = brew.fc(model, "data", "fc1", 6, 5)
        image = model.net.ExpandDims(model.net.ExpandDims(x, "x1", dims=[2]), "x2", dims=[3])
        first = brew.spatial_bn(model, image, "bn1", 5, is_test=False)
        second = brew.spatial_bn(model, first, "bn2", 5, is_test=False)
        out = brew.fc(model, model.net.Sigmoid(second, "s"), "fc2", 5, 3)
        _, loss = model.net.SoftmaxWithLoss([out, "label"], ["softmax", "loss"])
        return [model.net.Scale(loss, scale=loss_scale)]

    one = train([0], forward=forward)[1]
    for options in ({"cpu_device": True}, {"cpu_device": False}, {"shared_model": True}):
        assert_alike(one, train([0, 1, 2], forward=forward, combine_spatial_bn=True, **options)[1])
    apart = train([0, 1, 2], forward=forward)[1]
    assert not np.allclose(apart["fc1_w"], one["fc1_w"], rtol=1e-4)


def test_a_model_for_testing_has_no_gradients():
    model = model_helper.ModelHelper(name="testing", init_params=False)
    seen = []
    data_parallel_model.Parallelize_CPU(
        model, no_input, classifier, devices=[0, 1], net_transformer_fun=lambda *args: seen.append(args))
    assert seen == [(model, 2, "cpu", caffe2_pb2.CPU)] and not model.gradient_ops_added


def test_checkpoints_hold_one_device_and_reach_all():
    model, _ = train([0, 1])
    found = data_parallel_model.GetCheckpointParams(model)
    assert {"cpu_0/fc1_w", "cpu_0/fc1_w_momentum", "optimizer_iteration"} <= found
    assert not any(str(blob).startswith("cpu_1") for blob in found)
    workspace.FeedBlob("cpu_0/fc1_w", np.full((5, 6), 7, np.float32))
    for _ in range(2):
        data_parallel_model.FinalizeAfterCheckpoint(model)
    np.testing.assert_array_equal(workspace.FetchBlob("cpu_1/fc1_w"), workspace.FetchBlob("cpu_0/fc1_w"))
    net, params = data_parallel_model.ExtractPredictorNet(
        model, ["data"], ["fc2"], core.DeviceOption(caffe2_pb2.CPU))
    workspace.FeedBlob("data", DATA[0])
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("fc2").shape == (12, 3) and "cpu_0/fc1_w" in set(map(str, params))


def test_blobs_are_synchronized_and_rates_found():
    model, _ = train([0, 1])
    assert data_parallel_model.GetLearningRateBlobNames(model) == [model._optimizer.get_cpu_blob_name("lr")]
    data_parallel_model.AddBlobSync(model, ["cpu_number"])
    for device in (0, 1):
        workspace.FeedBlob(f"cpu_{device}/cpu_number", np.array([device + 1.0]))
    data_parallel_model.RunNet(model, 1)
    assert workspace.FetchBlob("cpu_1/cpu_number") == [1.0]
    with pytest.warns(DeprecationWarning):
        data_parallel_model.Synchronize(model)


def test_gradient_memory_is_saved_for_known_shapes():
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="memory")
    data_parallel_model.Parallelize_CPU(
        model, no_input, classifier, optimizer_builder_fun=sgd, devices=[0, 1])
    before = len({name for op in model.net.Proto().op for name in op.output})
    data_parallel_model.OptimizeGradientMemory(model, {"data": [6, 6], "label": [6]}, ["loss"], True)
    assert len({name for op in model.net.Proto().op for name in op.output}) < before
    feed(model, 0)
    data_parallel_model.RunInitNet(model)
    initial(model)
    for step in range(4):
        feed(model, step)
        data_parallel_model.RunNet(model, 1)
    one = workspace.FetchBlob("cpu_0/fc1_w")
    np.testing.assert_allclose(one, train([0])[1]["fc1_w"], rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_blocks_are_joined_by_their_average_and_momentum(nesterov):
    workspace.ResetWorkspace()

    def forward(model, loss_scale):
        x = model.param_init_net.ConstantFill([], "x", shape=[1], value=1.0)
        model.AddParameter(x)
        return [model.net.SumElements(model.net.Mul([x, "slope"], "y"), "loss")]

    def update(model):
        rate = model.param_init_net.ConstantFill([], "rate", shape=[1], value=-0.1)
        one = model.param_init_net.ConstantFill([], "one", shape=[1], value=1.0)
        for param in model.GetParams():
            model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)

    model = model_helper.ModelHelper(name="bmuf")
    data_parallel_model.Parallelize_BMUF(
        model, no_input, forward, update, devices=[0, 1], cpu_device=True, nesterov=nesterov, block_momentum=0.5,
        block_learning_rate=2.0, warmup_iterations=1, add_blobs_to_sync=["extra"])
    for device in (0, 1):
        workspace.FeedBlob(f"cpu_{device}/slope", np.array([1.0 + device], np.float32))
        workspace.FeedBlob(f"cpu_{device}/extra", np.array([device], np.float32))
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunWarmup(model)
    x, v, previous = 0.9, 0.0, 0.0
    for _ in range(3):
        data_parallel_model.RunNet(model, 2)
        v = 0.5 * v + 2.0 * ((x - 0.2 + x - 0.4) / 2 - x)
        base = x + v
        x = base - 0.5 * (v - previous) if nesterov else base
        previous = v
        for device in (0, 1):
            np.testing.assert_allclose(workspace.FetchBlob(f"cpu_{device}/x"), [x], rtol=1e-5)
    assert workspace.FetchBlob("cpu_1/extra") == [0.0]


def test_momentum_is_reset_after_a_block():
    workspace.ResetWorkspace()
    model = model_helper.ModelHelper(name="reset")

    def update(model):
        for param in model.GetParams():
            momentum = model.param_init_net.ConstantFill([param], param + "_momentum", value=0.0)
            grad = model.param_to_grad[param]
            rate = model.param_init_net.ConstantFill([], "rate", shape=[1], value=-0.1)
            model.net.MomentumSGDUpdate([grad, momentum, rate, param], [grad, momentum, param], momentum=0.9)

    data_parallel_model.Parallelize_CPU_BMUF(
        model, no_input, classifier, update, devices=[0, 1], reset_momentum_sgd=True)
    feed(model, 0)
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 3)
    assert not workspace.FetchBlob("cpu_1/fc1_w_momentum").any()


def test_a_net_moves_to_a_device():
    net = core.Net("other")
    net.FC(["x", "w", "b"], "y")
    net.Relu("y", "z", control_input=["w"])
    moved = data_parallel_model.ConvertNetForDevice(net, core.DeviceOption(caffe2_pb2.CUDA, 3))
    assert [list(op.input) for op in moved.Proto().op] == [["gpu_3/x", "gpu_3/w", "gpu_3/b"], ["gpu_3/y"]]
    assert moved.Proto().op[1].control_input[:] == ["gpu_3/w"] and moved.Proto().op[0].device_option.device_id == 3
    assert list(moved.Proto().external_input) == ["gpu_3/x", "gpu_3/w", "gpu_3/b"] and moved.BlobIsDefined("gpu_3/z")
    assert net.Proto().op[0].input[0] == "x"


def parallelize(forward=classifier, **options):
    model = model_helper.ModelHelper(name="wrong")
    options = {"optimizer_builder_fun": sgd, "cpu_device": True, "devices": [0, 1], **options}
    data_parallel_model.Parallelize(model, no_input, forward, **options)


@pytest.mark.parametrize("options, error, message", [
    ({"rendezvous": {"num_shards": 2}}, NotImplementedError, "num_shards=2: training in several processes"),
    ({"param_update_builder_fun": sgd}, AssertionError, "not both"),
    ({"shared_model": True, "cpu_device": False}, AssertionError, "give cpu_device=True"),
    ({"optimize_gradient_memory": True, "dynamic_memory_management": True}, AssertionError, "choose one"),
    ({"devices": []}, AssertionError, "there is no GPU"),
    ({"forward": lambda model, scale: "loss"}, AssertionError, "a list of losses"),
    ({"combine_spatial_bn": True, "optimizer_builder_fun": None}, AssertionError, "is for training"),
])
def test_what_cannot_be_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        parallelize(**options)


def test_what_leaves_its_scope_is_refused():
    def escaping(model, scale):
        x = model.param_init_net.ConstantFill([], core.BlobReference("elsewhere/x"), shape=[1])
        model.AddParameter(x)
        return [model.net.SumElements(x, "loss")]

    with pytest.raises(AssertionError, match="'elsewhere/x' is in no device's name scope; expected cpu_<device>"):
        parallelize(escaping, devices=[0])
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 0)), pytest.raises(AssertionError, match="outside a dev"):
        parallelize()


def test_devices_that_differ_are_refused():
    def uneven(model, scale):
        losses = classifier(model, scale)
        if "cpu_1" in str(losses[0]):
            model.net.Copy(losses[0], "more")
        return losses

    with pytest.raises(AssertionError, match="different numbers of operators"):
        parallelize(uneven, combine_spatial_bn=True)
