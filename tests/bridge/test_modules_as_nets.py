"""Exported modules as nets: the same numbers and gradients on both backends, or one list of what has no counterpart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import netgrad
from netgrad.bridge import NetModule, UntranslatableError, from_torch
from netgrad.runtime import backends


class Fn(nn.Module):
    """A function as a module."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *args):
        return self.function(*self.parts, *args)


def image(*shape):
    return torch.randn(*(shape or (2, 3, 8, 8)))


def case(function, *args, modules=(), tolerance=1e-4):
    return function, modules, args, tolerance


CASES = {
    "linear": case(lambda f, x: f(x), image(4, 3), modules=[nn.Linear(3, 2)]),
    "linear without bias": case(lambda f, x: f(x), image(4, 5, 3), modules=[nn.Linear(3, 2, bias=False)]),
    "conv2d": case(lambda f, x: f(x), image(), modules=[nn.Conv2d(3, 4, (3, 2), stride=2, padding=(1, 0))]),
    "conv2d same, dilated": case(lambda f, x: f(x), image(), modules=[nn.Conv2d(3, 4, 3, padding="same", dilation=2)]),
    "conv2d in groups": case(lambda f, x: f(x), image(2, 4, 5, 5), modules=[nn.Conv2d(4, 6, 3, groups=2, bias=False)]),
    "relu": case(F.relu, image()),
    "relu in place": case(lambda x: F.relu_(x * 2) + 1, image()),
    "gelu": case(F.gelu, image()),
    "gelu by tanh": case(lambda x: F.gelu(x, approximate="tanh"), image()),
    "sigmoid, tanh": case(lambda x: torch.tanh(torch.sigmoid(x)), image()),
    "exp, log, sqrt, neg, abs": case(lambda x: torch.log(torch.exp(-x.abs()) + 1).sqrt(), image()),
    "silu, leaky_relu": case(lambda x: F.silu(x) + F.leaky_relu(x, 0.2), image()),
    "softmax": case(lambda x: x.softmax(-1), image()),
    "softmax over channels": case(lambda x: x.softmax(1), image()),
    "log_softmax": case(lambda x: (x * 50).log_softmax(1), image(4, 6), tolerance=1e-3),
    "batch_norm": case(lambda f, x: f(x), image(), modules=[nn.BatchNorm2d(3)]),
    "batch_norm without scale": case(lambda f, x: f(x), image(), modules=[nn.BatchNorm2d(3, affine=False)]),
    "layer_norm": case(lambda f, x: f(x), image(4, 5, 6), modules=[nn.LayerNorm((5, 6))]),
    "layer_norm without scale": case(lambda x: F.layer_norm(x, [6]), image(4, 6)),
    "max_pool2d": case(lambda x: F.max_pool2d(x, 3, 2, padding=1), image()),
    "max_pool2d rounded up": case(lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), image()),
    "avg_pool2d": case(lambda x: F.avg_pool2d(x, 3, 2, padding=1), image()),
    "avg_pool2d without padding": case(lambda x: F.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False), image()),
    "adaptive_avg_pool2d": case(lambda x: F.adaptive_avg_pool2d(x, 1), image()),
    "adaptive_avg_pool2d to four": case(lambda x: F.adaptive_avg_pool2d(x, (2, 4)), image()),
    "flatten": case(lambda x: torch.flatten(x, 1), image()),
    "flatten a part": case(lambda x: x.flatten(2), image()),
    "view, reshape": case(lambda x: x.view(2, -1).reshape(4, 96), image()),
    "permute, transpose": case(lambda x: x.permute(0, 2, 3, 1).transpose(1, -1), image()),
    "expand": case(lambda x: x[:, None].expand(2, 3, 4) * 2, image(2, 4)),
    "t": case(lambda x: x.t() @ x, image(3, 4)),
    "add, sub": case(lambda x, y: torch.add(x, y, alpha=3) - 2 - torch.sub(x, y, alpha=0.5), image(4, 1), image(3)),
    "mul, div": case(lambda x, y: x * y / (y * y + 1) * 3 / 4, image(4, 3), image(4, 1)),
    "number minus, number over": case(lambda x: (1 - x) / 2 + 1 / (x * x + 1), image(4, 3)),
    "pow": case(lambda x: (x**2 + 1) ** 1.5, image(4, 3)),
    "integers promoted": case(lambda x, n: x * n + n, image(4, 3), torch.arange(3)),
    "matmul": case(lambda x, y: x @ y, image(4, 3), image(3, 2)),
    "matmul of batches and a matrix": case(lambda x, y: x @ y, image(5, 2, 4, 3), image(3, 2)),
    "matmul of batches": case(lambda x, y: x @ y, image(5, 2, 4, 3), image(5, 2, 3, 2)),
    "matmul of batches that differ": case(lambda x, y: x @ y, image(4, 3), image(5, 2, 3, 2)),
    "bmm": case(torch.bmm, image(5, 4, 3), image(5, 3, 2)),
    "cat": case(lambda x, y: torch.cat([x, y, x], -1), image(2, 3), image(2, 4)),
    "stack": case(lambda x, y: torch.stack([x, y], 1), image(2, 3), image(2, 3)),
    "split": case(lambda x: [part * k for k, part in enumerate(x.split(3, 1), 1)], image(2, 8)),
    "split by sizes, one of them unused": case(lambda x: x.split([1, 5, 2], 1)[1] * 2, image(2, 8)),
    "chunk": case(lambda x: [part * k for k, part in enumerate(x.chunk(3, 0), 1)], image(8, 2)),
    "embedding": case(lambda f, i: f(i), torch.tensor([[1, 4], [4, 0]]), modules=[nn.Embedding(6, 3)]),
    "dropout in evaluation mode": case(lambda f, x: f(x) * 2, image(), modules=[nn.Dropout()]),
    "mean, sum": case(lambda x: x.mean(1, keepdim=True).sum((2, 3)) + x.mean() + x.sum(-1)[:, :, 0].sum(), image()),
    "slice, select, squeeze, unsqueeze": case(lambda x: x[:, 1:, 2:-1].unsqueeze(1)[:, :, -1].squeeze(1), image()),
    "to": case(lambda x: (x.double() * 2).float(), image(4)),
    "detach": case(lambda x: x * x.detach(), image(4)),
    "an input as an output, an output twice": case(lambda x: (lambda y: (x, y, y))(x * 2), image(4)),
}


def assert_same(function, modules, args, tolerance, backend):
    """Values and gradients, for a random weight on every output, agree with torch's."""
    module = Fn(function, *modules).eval()
    args = [arg.clone() for arg in args]
    translated = from_torch(module, args)
    assert netgrad.check(translated.net) == []
    expected = module(*(arg.requires_grad_(arg.is_floating_point()) for arg in args))
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    weights = [torch.randn_like(y) for y in expected]
    net = translated.net
    given = {y: f"{y}_weight" for y in translated.outputs}
    wanted = [*translated.parameters, *(i for i, arg in zip(translated.inputs, args) if arg.is_floating_point())]
    leaves = [*translated.parameters.values(), *(arg for arg in args if arg.is_floating_point())]
    gradients = netgrad.backward(net, given, wrt=wanted)
    workspace = netgrad.Workspace(backend=backend)
    translated.feed(workspace)
    workspace.feed(dict(zip(translated.inputs, args)))
    workspace.feed(dict(zip(given.values(), weights)))
    workspace.run(net)
    for name, y in zip(translated.outputs, expected):
        np.testing.assert_allclose(workspace[name], y.detach().numpy(), rtol=tolerance, atol=tolerance, err_msg=name)
        assert workspace[name].dtype == y.detach().numpy().dtype
    right = torch.autograd.grad(list(expected), leaves, weights, allow_unused=True)
    for name, gradient in zip(wanted, right):
        if gradient is None:
            assert name not in gradients
            continue
        found = workspace.fetch(gradients[name])
        if isinstance(found, tuple):
            rows, values = found
            found = np.zeros(gradient.shape, np.float32)
            np.add.at(found, rows.ravel(), values.reshape(-1, *found.shape[1:]))
        np.testing.assert_allclose(found, gradient.numpy(), rtol=tolerance, atol=tolerance, err_msg=f"of {name}")


@pytest.mark.parametrize("backend", backends.available())
@pytest.mark.parametrize("name", CASES)
def test_numbers_and_gradients_are_those_of_torch(name, backend):
    torch.manual_seed(0)
    assert_same(*CASES[name], backend)


class Residual(nn.Module):
    """A small network of the kinds of layers that people use together."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.branch = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(8, 5))

    def forward(self, images):
        x = self.stem(images)
        return self.head(self.pool(F.relu(x + self.branch(x))))


class Attention(nn.Module):
    """One transformer layer, with tokens in."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.qkv = nn.Linear(8, 24)
        self.mix = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, tokens):
        x = self.embedding(tokens)
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / 2).softmax(-1)
        x = x + self.mix((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return (x + self.mlp(self.norm(x))).mean(1)


@pytest.mark.parametrize("backend", backends.available())
@pytest.mark.parametrize(("network", "inputs"),
                         [(Residual, image()), (Attention, torch.tensor([[1, 2, 10], [0, 2, 2]]))])
def test_whole_networks(network, inputs, backend):
    torch.manual_seed(0)
    model = network()
    model.train()
    if network is Residual:
        model(image(16, 3, 8, 8))  # running averages that are not those of the start
    assert_same(lambda m, x: m(x), [model], [inputs], 1e-4, backend)


def test_parameters_are_those_of_the_module_under_their_names():
    model = Residual().eval()
    translated = from_torch(model, [image()])
    assert translated.net.Name().startswith("Residual")
    state = model.state_dict()
    assert translated.inputs == ["images"]
    assert set(translated.parameters) == {name for name, _ in model.named_parameters()}
    assert {"stem.1.running_mean", "stem.1.running_var"} <= set(translated.constants)
    for name, tensor in {**translated.parameters, **translated.constants}.items():
        assert tensor.data_ptr() == state[name].data_ptr()
    workspace = netgrad.Workspace(backend="torch")
    translated.feed(workspace)
    assert workspace.values["head.2.weight"].data_ptr() == model.head[2].weight.data_ptr()


def test_there_and_back():
    """A module as a net as a module: trained by torch, the first one changes too."""
    torch.manual_seed(0)
    model = Residual().eval()
    module = from_torch(model, [image()]).module()
    assert isinstance(module, NetModule)
    images = image()
    torch.testing.assert_close(module(images), model(images), rtol=1e-4, atol=1e-5)
    assert module.head_2_weight is model.head[2].weight
    F.cross_entropy(module(images), torch.tensor([0, 1])).backward()
    torch.optim.SGD(module.parameters(), 0.1).step()
    torch.testing.assert_close(module(images), model(images), rtol=1e-4, atol=1e-5)


def test_a_translated_net_is_a_file_like_any_other(tmp_path):
    model = Residual().eval()
    translated = from_torch(model, [image()])
    netgrad.save(translated.net, tmp_path / "net.pbtxt")
    workspace = netgrad.Workspace(backend="numpy")
    translated.feed(workspace)
    images = image()
    workspace["images"] = images
    net = netgrad.load(tmp_path / "net.pbtxt")
    workspace.run(net)
    np.testing.assert_allclose(workspace[net.Proto().external_output[0]], model(images).detach(), rtol=1e-3, atol=1e-5)


def test_sizes_that_are_known_when_the_net_runs():
    model = Fn(lambda f, x: f(x.view(x.shape[0], -1)).relu().reshape(x.shape[0], 2, 3), nn.Linear(12, 6)).eval()
    translated = from_torch(model, [image(2, 3, 4)], dynamic_shapes=(({0: torch.export.Dim("batch")},),))
    workspace = netgrad.Workspace(backend="numpy")
    translated.feed(workspace)
    for batch in (2, 7):
        x = image(batch, 3, 4)
        workspace[translated.inputs[0]] = x
        workspace.run(translated.net)
        np.testing.assert_allclose(workspace[translated.outputs[0]], model(x).detach(), rtol=1e-4, atol=1e-5)


def test_decomposed_programs():
    model = Residual().eval()
    program = torch.export.export(model, (image(),)).run_decompositions()
    images = image()
    torch.testing.assert_close(from_torch(program, name="core").module()(images), model(images), rtol=1e-4, atol=1e-5)


def refusals(function, *args, modules=(), train=False):
    with pytest.raises(UntranslatableError) as caught:
        from_torch(Fn(function, *modules).train(train), args)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    return caught.value.problems


def test_all_that_has_no_counterpart_is_listed_with_its_line():
    def function(x):
        y = torch.erfinv(x.tanh())
        z = F.relu(torch.cumsum(y, 1))
        return F.avg_pool2d(z, 2, divisor_override=3), torch.sort(z, 1)[0]

    problems = refusals(function, image())
    refused = [problem.split(":")[0].split(" = ")[1].split(".")[1] for problem in problems]
    assert refused == ["erfinv", "cumsum", "avg_pool2d", "sort"]
    assert "divisor_override=3" in problems[2] and "there is no operator" in problems[0]
    assert "test_modules_as_nets.py" in problems[0]


@pytest.mark.parametrize(("function", "modules", "args", "says"), [
    (lambda f, i: f(i), [nn.Embedding(4, 2, padding_idx=0)], [torch.tensor([1])], "padding_idx=0"),
    (lambda x, y: x @ y, [], [image(3), image(3)], "give vectors a second dimension"),
    (lambda x: F.adaptive_avg_pool2d(x, 3), [], [image()], "no multiple"),
    (lambda x: x[:, ::2], [], [image()], "step"),
    (lambda x: torch.div(x, 2, rounding_mode="floor"), [], [image()], "rounding_mode=floor"),
    (lambda x: F.relu(torch.arange(3) + x), [], [torch.arange(3)], "floating-point"),
])
def test_arguments_without_counterpart_are_named(function, modules, args, says):
    assert any(says in problem for problem in refusals(function, *args, modules=modules))


def test_modules_in_training_mode_are_refused():
    problems = refusals(lambda n, d, x: d(n(x)), image(), modules=[nn.BatchNorm2d(3), nn.Dropout()], train=True)
    assert any("statistics of the batch" in p for p in problems) and any("drops at random" in p for p in problems)


def test_a_module_needs_example_inputs():
    with pytest.raises(TypeError, match="example inputs"):
        from_torch(Residual())
