"""Transformations of nets by name: what is fused computes the same, and what should not be fused is not."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core, transformations, workspace
from netgrad.runtime import backends
from netgrad.runtime.errors import NetError
from netgrad.runtime.workspace import Workspace

transformer = transformations.Transformer()
RNG = np.random.RandomState(0)


def feed(**shapes):
    workspace.ResetWorkspace()
    for name, shape in shapes.items():
        value = RNG.rand(*shape) + (0.5 if name.startswith("var") else -0.5)
        workspace.FeedBlob(name, value.astype(np.float32))


def types(net):
    return [op.type for op in net.Proto().op]


def conv_relu(output="Z", **arguments):
    net = core.Net("n")
    net.Conv(["X", "w", "b"], "Y", kernel=3, **arguments)
    net.Relu("Y", output)
    return net


@pytest.mark.parametrize("backend", backends.available())
@pytest.mark.parametrize("output", ["Y", "Z"])
def test_a_fused_relu_is_computed(backend, output):
    net = conv_relu(output)
    ws = Workspace(backend=backend)
    for name, shape in {"X": (2, 3, 6, 6), "w": (4, 3, 3, 3), "b": (4,)}.items():
        ws.feed_blob(name, (RNG.rand(*shape) - 0.5).astype(np.float32))
    ws.run_net_once(net.Proto())
    before = ws.fetch_blob(output)
    transformer.AddNNPACK(net)
    transformer.FuseNNPACKConvRelu(net)
    assert types(net) == ["Conv"] and net.Proto().op[0].engine == "NNPACK" and (before == 0).any()
    ws.run_net_once(net.Proto())
    np.testing.assert_allclose(ws.fetch_blob(output), before, rtol=1e-5, atol=1e-6)


def test_a_fused_relu_is_not_forgotten_by_the_gradient():
    net = conv_relu()
    transformer.AddNNPACK(net)
    transformer.FuseNNPACKConvRelu(net)
    with pytest.raises(RuntimeError, match="fused into it is for inference"):
        net.AddGradientOperators(["Z"])


def test_a_fused_result_never_lies_over_an_operand():
    net = conv_relu("X")
    net.Copy("X", "out")
    transformer.AddNNPACK(net)
    transformations.fuseNNPACKConvRelu(net)
    conv, copy = net.Proto().op
    assert conv.output[0] == copy.input[0] != "X"


@pytest.mark.parametrize("change", [
    lambda net: net.Copy("Y", "other"),
    lambda net: net.Proto().external_output.append("Y"),
    lambda net: setattr(net.Proto().op[0], "engine", ""),
])
def test_what_others_need_is_not_fused(change):
    net = conv_relu()
    transformer.AddNNPACK(net)
    change(net)
    before = types(net)
    transformer.FuseNNPACKConvRelu(net)
    assert types(net) == before


def test_operands_that_change_in_between_forbid_fusing():
    net = core.Net("n")
    net.Conv(["X", "w", "b"], "Y", kernel=3)
    net.Copy("v", "w")
    net.Relu("Y", "Z")
    transformer.AddNNPACK(net)
    transformer.FuseNNPACKConvRelu(net)
    assert types(net) == ["Conv", "Copy", "Relu"]


@pytest.mark.parametrize("arguments, engine", [
    ({"kernel": 3}, "NNPACK"), ({"kernel": 3, "stride": 2}, ""), ({"kernels": [3, 1]}, ""),
    ({"kernel_h": 3, "kernel_w": 5}, "NNPACK"),
    ({"kernels": [3, 3, 3]}, ""), ({"kernel": 3, "order": "NHWC"}, ""),
])
def test_nnpack_is_for_what_it_could(arguments, engine):
    net = core.Net("n")
    net.Conv(["X", "w", "b"], "Y", **arguments)
    transformer.AddNNPACK(net)
    assert net.Proto().op[0].engine == engine


def batch_norm(net, x, y, k=0, **arguments):
    net.SpatialBN([x, f"scale{k}", f"shift{k}", f"mean{k}", f"var{k}"], y, is_test=True, **arguments)


PARAMETERS = {f"{name}{k}": (3,) for name in ("scale", "shift", "mean", "var") for k in (0, 1)}


@pytest.mark.parametrize("bias", [True, False])
def test_shared_filters_are_folded_apart(bias):
    net = core.Net("n")
    for k in (0, 1):
        net.Conv(["X", "w", "b"] if bias else ["X", "w"], f"y{k}", kernel=3, pad=1)
        batch_norm(net, f"y{k}", f"z{k}", k, epsilon=1e-3)
    net.Add(["z0", "z1"], "out")
    feed(X=(2, 3, 5, 5), w=(3, 3, 3, 3), b=(3,), **PARAMETERS)
    workspace.RunNetOnce(net)
    before = workspace.FetchBlob("out")
    transformations.fuseConvBN(net)
    assert types(net) == ["Conv", "Conv", "Add"]
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob("out"), before, rtol=1e-3, atol=1e-5)
    assert set(net.Proto().op[0].input) <= set(net.Proto().external_input)


def test_training_is_not_folded_and_missing_parameters_are_named():
    net = core.Net("n")
    net.Conv(["X", "w"], "y", kernel=3)
    net.SpatialBN(["y", "scale0", "shift0", "mean0", "var0"], ["z", "mean0", "var0", "m", "v"], is_test=False)
    workspace.ResetWorkspace()
    transformer.FuseConvBN(net)
    assert types(net) == ["Conv", "SpatialBN"]
    net = core.Net("n")
    net.Conv(["X", "w"], "y", kernel=3)
    batch_norm(net, "y", "z")
    with pytest.raises(NetError, match="blob 'w' of Conv"):
        transformer.FuseConvBN(net)
    assert types(net) == ["Conv", "SpatialBN"]


def test_dead_code_goes_and_effects_stay():
    net = core.Net("n")
    net.Relu("x", "a")
    net.Relu("x", "dead")
    net.Relu("dead", "dead")
    net.Print("dead2", [])
    net.Relu("a", "out")
    before = types(net)
    transformer.DeadCodeElim(net)
    assert types(net) == before, "no external outputs are declared: all results are kept"
    net.Proto().external_output.append("out")
    transformer.DeadCodeElim(net)
    assert types(net) == ["Relu", "Print", "Relu"] and not net.BlobIsDefined("dead")


def test_transformations_without_meaning_change_nothing_and_unknown_ones_are_refused():
    net = conv_relu()
    before = net.Proto().SerializeToString()
    transformations.optimizeForMKLDNN(net, training_mode=True)
    assert net.Proto().SerializeToString() == before
    with pytest.raises(AttributeError, match="no transformation 'Nope'; there are AddNNPACK, DeadCodeElim"):
        transformer.Nope(net)


@pytest.mark.filterwarnings("ignore::netgrad.graph.schema.SchemaWarning")
def test_imitated_operators_are_fused_with_quantization():
    from caffe2.python.fakefp16_transform_lib import fakeFp16FuseOps

    op = core.CreateOperator

    net = core.Net("n").Proto()
    net.op.extend([
        op("Int8DequantizeNNPI", "q", "x"), op("SwishFakeFp16NNPI", "x", "s"),
        op("Int8QuantizeNNPI", "s", "t", Y_scale=0.5), op("TanhFakeFp16NNPI", "h", "u"),
        op("Int8QuantizeNNPI", "u", "v", Y_scale=0.25), op("LayerNormFakeFP16NNPI", "h", ["n", "mean", "std"], axis=1),
        op("Int8QuantizeNNPI", "n", "o", Y_scale=0.125),
    ])
    found = fakeFp16FuseOps(net)
    assert [(o.type, list(o.input), list(o.output), [a.name for a in o.arg]) for o in found.op] == [
        ("SwishFakeInt8NNPI", ["q"], ["t"], ["Y_scale"]), ("TanhQuantFakeFp16NNPI", ["h"], ["v"], ["Y_scale"]),
        ("LayerNormInt8QuantizeFakeNNPI", ["h"], ["o", "mean", "std"], ["axis", "Y_scale"])]
    assert len(net.op) == 7
