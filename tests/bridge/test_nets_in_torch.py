"""Nets as functions and modules of torch: numbers, gradients to second order, storage, and what is refused."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
import torch

import netgrad
from caffe2.python import brew
from netgrad.autodiff.errors import MissingRuleError
from netgrad.bridge import NetFunction, NetModule, share
from netgrad.graph import registry
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.rules import emits, forbidden
from netgrad.training.model_helper import ModelHelper


def doubles(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.fixture
def perceptron():
    net = netgrad.Net("perceptron")
    net.Tanh(net.FC(["x", "w1", "b1"], "h"), "h")
    net.FC(["h", "w2", "b2"], "y")
    return net


SHAPES = {"x": (4, 3), "w1": (5, 3), "b1": (5,), "w2": (2, 5), "b2": (2,)}


def reference(x, w1, b1, w2, b2):
    return torch.tanh(x @ w1.T + b1) @ w2.T + b2


def test_a_net_is_a_function_with_numbers_and_gradients_of_torch(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    tensors = doubles(*SHAPES.values())
    y, expected = function(*tensors), reference(*tensors)
    torch.testing.assert_close(y, expected)
    given = torch.randn_like(y)
    for found, right in zip(torch.autograd.grad(y, tensors, given), torch.autograd.grad(expected, tensors, given)):
        torch.testing.assert_close(found, right)
    assert len(perceptron.Proto().op) == 3, "the net itself stays as it was"


def test_gradcheck(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    tensors = doubles(*SHAPES.values())
    assert torch.autograd.gradcheck(function, tensors)
    some = [tensor.detach().requires_grad_(name in ("w1", "b2")) for name, tensor in zip(SHAPES, tensors)]
    assert torch.autograd.gradcheck(function, some)


def test_gradients_of_gradients():
    net = netgrad.Net("twice")
    net.Sqr(net.Sum([net.Sqr("x", "s"), "z"], "t"), "y")
    function = NetFunction(net, ["x", "z"], ["y"])
    x, z = doubles((3,), (3,))
    assert torch.autograd.gradgradcheck(function, (x, z))


def test_gradients_of_gradients_go_through_the_kernel_where_no_rule_gives_them():
    net = netgrad.Net("pool")
    net.Sqr(net.MaxPool("x", "pooled", kernel=2), "y")
    function = NetFunction(net, ["x"], ["y"])
    assert torch.autograd.gradgradcheck(function, doubles((1, 1, 4, 4)))


def test_gradients_of_gradients_that_nothing_gives_are_refused_by_name():
    class Doubled(Operator):
        """Y = 2 X."""

        inputs, outputs, gradient = [In("X")], [Out("Y")], emits("DoubledGradient", "GO0", "GI0")

        def kernel(xp, X):
            return 2 * X

    class DoubledGradient(Operator):
        """dX = 2 dY."""

        inputs, outputs, gradient = [In("dY")], [Out("dX")], forbidden("nobody wrote it")

        def kernel(xp, dY):
            return 2 * dY

    try:
        net = netgrad.Net("doubled")
        net.Sqr(net.Doubled("x", "doubled"), "y")
        (x,) = doubles((3,))
        y = NetFunction(net, ["x"], ["y"])(x)
        with pytest.raises(MissingRuleError, match="DoubledGradient"):
            torch.autograd.grad(y.sum(), x, create_graph=True)
    finally:
        registry.unregister("Doubled")
        registry.unregister("DoubledGradient")


def test_values_that_are_overwritten_are_saved():
    net = netgrad.Net("overwriting")
    net.Sqr("x", "y")
    net.Sqr("y", "y")
    net.Mul(["y", "x"], "y")
    function = NetFunction(net, ["x"], ["y"])
    (x,) = doubles((3,))
    torch.testing.assert_close(function(x), x**5)
    assert torch.autograd.gradcheck(function, (x,))


def test_several_outputs_of_which_one_has_no_gradient():
    net = netgrad.Net("several")
    net.TopK("x", ["values", "indices"], k=2)
    net.Scale("x", "twice", scale=2.0)
    function = NetFunction(net, ["x"], ["twice", "indices", "values"])
    (x,) = doubles((2, 5))
    indices, values = function(x)[1:]
    assert not indices.requires_grad and indices.dtype == torch.int64
    torch.testing.assert_close(values, x.topk(2).values)
    assert torch.autograd.gradcheck(lambda x: function(x)[::2], (x,))
    (only,) = torch.autograd.grad(values.sum(), x)
    torch.testing.assert_close(only, torch.zeros_like(x).scatter_(1, indices, 1.0))


def test_an_input_that_leads_nowhere_has_no_gradient():
    net = netgrad.Net("nowhere")
    net.Add(["x", net.StopGradient("z", "s")], "y")
    x, z, unused = doubles((2,), (2,), (2,))
    y = NetFunction(net, ["x", "z", "unused"], ["y"])(x, z, unused)
    gradients = torch.autograd.grad(y.sum(), [x, z, unused], allow_unused=True)
    assert gradients[0].tolist() == [1, 1] and gradients[1] is gradients[2] is None


@pytest.mark.parametrize("sparse", [False, True])
def test_gradients_of_rows(sparse):
    net = netgrad.Net("rows")
    net.Gather(["table", "rows"], "y")
    function = NetFunction(net, ["table", "rows"], ["y"], sparse_gradients=sparse)
    (table,) = doubles((6, 2))
    rows = torch.tensor([[4, 1], [4, 0]])
    y = function(table, rows)
    (gradient,) = torch.autograd.grad((y * y).sum(), table)
    assert gradient.is_sparse == sparse
    (right,) = torch.autograd.grad((table[rows] ** 2).sum(), table)
    torch.testing.assert_close(gradient.to_dense() if sparse else gradient, right)


def test_calls_before_their_backward_passes_do_not_mix(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    first, second = doubles(*SHAPES.values()), doubles(*SHAPES.values(), seed=1)
    ys = function(*first), function(*second)
    for y, tensors in zip(ys, (first, second)):
        right = torch.autograd.grad(reference(*tensors).sum(), tensors)
        for _ in range(2):
            for found, expected in zip(torch.autograd.grad(y.sum(), tensors, retain_graph=True), right):
                torch.testing.assert_close(found, expected)


def test_threads_may_call_one_function(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    errors = []

    def work(seed):
        tensors = doubles(*SHAPES.values(), seed=seed)
        right = torch.autograd.grad(reference(*tensors).sum(), tensors)
        for _ in range(5):
            found = torch.autograd.grad(function(*tensors).sum(), tensors)
            errors.extend(1 for f, r in zip(found, right) if not torch.allclose(f, r))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("victim", ["x", "y"])
def test_writing_into_what_the_backward_pass_needs_is_noticed(victim):
    net = netgrad.Net("needs")
    net.Mul(["x", net.Sigmoid("x", "y")], "z")
    (leaf,) = doubles((3,))
    x = leaf * 1
    y, z = NetFunction(net, ["x"], ["y", "z"])(x)
    with torch.no_grad():
        {"x": x, "y": y}[victim].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_outputs_share_storage_with_nothing():
    net = netgrad.Net("views")
    net.Reshape("x", ["y", "_"], shape=[-1])
    net.Reshape("y", ["z", "_"], shape=[1, -1])
    x = torch.ones(2, 2)
    y, z = NetFunction(net, ["x"], ["y", "z"])(x)
    y.zero_()
    assert x.sum() == 4 and z.sum() == 4


def test_nothing_is_kept_after_the_backward_pass(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    tensors = doubles(*SHAPES.values())
    y = function(*tensors)
    kept = weakref.ref(y.grad_fn)
    y.sum().backward()
    del y
    gc.collect()
    assert kept() is None
    for passes in function._passes.values():
        assert not any(isinstance(value, torch.Tensor) for value in passes.workspace.values.values())


def test_without_gradients_nothing_is_recorded(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    tensors = doubles(*SHAPES.values())
    with torch.no_grad():
        y = function(*tensors)
    assert not y.requires_grad
    torch.testing.assert_close(y, reference(*tensors).detach())


def test_what_a_function_refuses(perceptron):
    with pytest.raises(ValueError, match=r"operator 0 of 'perceptron.*', FC, reads 'w1', 'b1'"):
        NetFunction(perceptron, ["x"], ["y"])
    with pytest.raises(ValueError, match="'q' of the outputs"):
        NetFunction(perceptron, SHAPES, ["q"])
    function = NetFunction(perceptron, SHAPES, ["y"])
    with pytest.raises(TypeError, match=r"expected 5 tensors .*found 1"):
        function(torch.ones(1))
    with pytest.raises(TypeError, match="'w1' should be a tensor, not ndarray"):
        function(torch.ones(1), np.ones(1), *[torch.ones(1)] * 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
def test_a_function_runs_where_its_inputs_are(perceptron):
    function = NetFunction(perceptron, SHAPES, ["y"])
    here = doubles(*SHAPES.values())
    there = [tensor.detach().cuda().requires_grad_() for tensor in here]
    y = function(*there)
    assert y.device.type == "cuda"
    for found, right in zip(torch.autograd.grad(y.sum(), there), torch.autograd.grad(function(*here).sum(), here)):
        assert found.device.type == "cuda"
        torch.testing.assert_close(found.cpu(), right)


# modules


def lenet():
    model = ModelHelper(name="lenet")
    brew.conv(model, "data", "conv1", 1, 4, kernel=3)
    brew.spatial_bn(model, "conv1", "bn1", 4, is_test=False)
    brew.relu(model, "bn1", "bn1")
    brew.max_pool(model, "bn1", "pool1", kernel=2, stride=2)
    brew.fc(model, "pool1", "scores", 4 * 3 * 3, 5)
    return model


def test_a_model_is_a_module_that_torch_trains():
    torch.manual_seed(0)
    model = lenet()
    module = NetModule(model.net, ["data"], ["scores"], init_net=model.param_init_net)
    assert {name for name, _ in module.named_parameters()} == {"conv1_w", "conv1_b", "bn1_s", "bn1_b", "scores_w",
                                                               "scores_b"}
    assert {name for name, _ in module.named_buffers()} == {"bn1_rm", "bn1_riv"}
    assert "data -> scores" in repr(module)
    images, labels = torch.randn(16, 1, 8, 8), torch.arange(16) % 5
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5
    assert module.bn1_rm.abs().sum() > 0, "running averages were updated"
    before = module.bn1_rm.clone()
    module.eval()(data=images)
    assert torch.equal(module.bn1_rm, before)


def test_parameters_are_shared_and_not_copied():
    net = netgrad.Net("shared")
    net.FC(["x", "fc.w", "b"], "y")
    array, tensor = np.ones((2, 3), np.float32), torch.zeros(2)
    module = NetModule(net, parameters={"fc.w": array, "b": tensor})
    assert module.inputs == ["x"] and module.outputs == ["y"]
    assert {name for name, _ in module.named_parameters()} == {"fc_w", "b"}
    array[:] = 2
    tensor += 1
    assert module(torch.ones(1, 3)).tolist() == [[7, 7]]
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    assert NetModule(net, parameters={"fc.w": parameter, "b": tensor}).fc_w is parameter
    frozen = NetModule(net, parameters={"fc.w": array, "b": tensor}, frozen=["b"])
    assert [name for name, _ in frozen.named_parameters()] == ["fc_w"]

    workspace = netgrad.Workspace(backend="torch")
    share(workspace, {**module.tensors(), "x": torch.ones(1, 3)})
    with torch.no_grad():
        module.fc_w.fill_(0)
    workspace.run(net)
    assert workspace["y"].tolist() == [[1, 1]]
    assert workspace.values["fc.w"].data_ptr() == module.fc_w.data_ptr()
    with pytest.raises(ValueError, match="this one is on numpy"):
        share(netgrad.Workspace(backend="numpy"), module.tensors())


def test_state_dicts_and_several_inputs(perceptron):
    values = {name: torch.randn(shape) for name, shape in SHAPES.items() if name != "x"}
    module = NetModule(perceptron, parameters=values)
    other = NetModule(perceptron, parameters={name: torch.zeros_like(value) for name, value in values.items()})
    other.load_state_dict(module.state_dict())
    x = torch.randn(4, 3)
    assert torch.equal(module(x), other(x=x))
    for wrong in ((), (x, x)):
        with pytest.raises(TypeError, match="the inputs are x; found"):
            module(*wrong)
    with pytest.raises(TypeError, match="found 1 by position and z"):
        module(x, z=x)
    with pytest.raises(ValueError, match="reads 'w2', 'b2', which is neither"):
        NetModule(perceptron, ["x", "w1", "b1"])
