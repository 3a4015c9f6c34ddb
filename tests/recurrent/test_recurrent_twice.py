"""Second derivatives through recurrent networks: against the network written out, and finite differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from against_unrolled import add_loss, gradient, run
from random_recurrent import Program

import netgrad
from caffe2.python import core, recurrent
from netgrad.autodiff.errors import MissingRuleError
from netgrad.control.operators import add_if_op, add_while_op
from netgrad.runtime.numeric import check_gradient
from netgrad.runtime.workspace import Workspace
from netgrad.tools.unroll import unroll

B = core.BlobReference


def check(seed, differences=False):
    """A random program's products with its Hessian are those of the program written out."""
    program = Program(seed)
    backend, feeds = ("torch", "numpy")[seed % 2], dict(program.feeds)
    plain = core.Net(unroll(program.net, feeds, backend="numpy"))
    shapes = [(output, value.shape) for output, value in zip(program.outputs,
                                                             run(plain, feeds, program.outputs, "numpy"))]
    found = []
    for net in (program.net, plain):
        loss = str(add_loss(net, shapes, np.random.default_rng(seed), feeds))
        read = {name for op in net.Proto().op for name in op.input}
        wrt = [name for name in program.feeds if name in read and feeds[name].dtype.kind == "f"]
        for name in wrt:
            feeds[f"{name}_v"] = np.random.default_rng(len(name)).standard_normal(feeds[name].shape)
        once = net.Clone(f"{net.Name()}_once")
        products = netgrad.hessian_vector(net, loss, {name: f"{name}_v" for name in wrt})
        here = backend if net is program.net else "numpy"
        found.append(dict(zip(wrt, run(net, feeds, [products[name] for name in wrt], here))))
    for name, theirs in found[1].items():
        scale = max(1.0, np.abs(theirs).max(initial=0))
        np.testing.assert_allclose(found[0][name], theirs, rtol=1e-7, atol=1e-8 * scale, err_msg=f"{seed}, {name}")
    if differences:
        first = once.AddGradientOperators([loss], overwritten="save")
        for name in [name for name in wrt if name in first]:
            up, down = ({**feeds, **{x: feeds[x] + h * feeds[f"{x}_v"] for x in wrt}} for h in (1e-6, -1e-6))
            slope = (gradient(once, up, first[name], feeds[name], "numpy")
                     - gradient(once, down, first[name], feeds[name], "numpy")) / 2e-6
            np.testing.assert_allclose(found[0][name], slope, rtol=1e-4, atol=1e-4, err_msg=f"{seed}, {name}")


@pytest.mark.parametrize("seed", range(10))
def test_random_recurrent_programs_twice(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(seed, differences=seed < 3)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(10, 110, 20))
def test_soak_of_random_recurrent_programs_twice(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + 20):
            check(seed)


def elman(write, outputs_with_grads=(0,), known=("w", "b")):
    """A recurrent network whose step is written by ``write(step, x, previous)``."""
    step, net = core.Net("step"), core.Net("net")
    step.AddExternalInputs(B("x"), B("h_prev"), *map(B, known))
    hidden = write(step, B("x"), B("h_prev"))
    step.AddExternalOutput(hidden)
    recurrent.recurrent_net(net, step, [(B("x"), B("data"))], [(B("h_prev"), B("first"))], {B("h_prev"): hidden},
                            scope="s", timestep=B("time"), outputs_with_grads=list(outputs_with_grads),
                            overwritten="save")
    rng = np.random.default_rng(3)
    shapes = {"data": (3, 2, 2), "first": (1, 2, 2), "w": (2, 2), "b": (2,)}
    return net, {name: rng.standard_normal(shape) for name, shape in shapes.items() if name in
                 {blob for op in net.Proto().op for blob in op.input}}


def tanh_step(step, x, previous):
    linear = step.FC([previous, B("w"), B("b")], "linear", axis=2)
    return step.Tanh(step.Sum([linear, x], "total"), "h")


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_a_network_of_steps_to_the_second_order(length, backend):
    net, feeds = elman(tanh_step)
    feeds["data"] = feeds["data"][:length]
    check_gradient(net, feeds, ["h_all"], ["data", "first", "w", "b"], order=2, overwritten="save", backend=backend)


def network_in_a_loop():
    """While i < rounds: the last state of a recurrent network becomes its first."""
    step, body, test, net = core.Net("step"), core.Net("body"), core.Net("test"), core.Net("net")
    step.AddExternalInputs(B("x"), B("h_prev"), B("w"), B("b"))
    hidden = tanh_step(step, B("x"), B("h_prev"))
    step.AddExternalOutput(hidden)
    _, last = recurrent.recurrent_net(body, step, [(B("x"), B("data"))], [(B("h_prev"), B("first"))],
                                      {B("h_prev"): hidden}, scope="s", timestep=B("time"), outputs_with_grads=[0, 1])
    body.Sin(last, B("first"))
    body.Add([B("i"), B("one")], B("i"))
    test.LT([B("i"), B("rounds")], B("go"))
    net.ConstantFill([], "i", shape=[1], value=0, dtype=10)
    add_while_op(net, "go", {"data", "first", "w", "b", "i", "one", "rounds"}, body, test)
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal(shape) for name, shape in
             {"data": (2, 1, 2), "first": (1, 1, 2), "w": (2, 2), "b": (2,)}.items()}
    return net, {**feeds, "one": np.array([1]), "rounds": np.array([2])}, "first"


def branch_in_a_step():
    def write(step, x, previous):
        linear = step.FC([previous, B("w"), B("b")], "linear", axis=2)
        total = step.Sum([linear, x], "total")
        step.GT([step.SumElements(total, "sum"), B("limit")], "large")
        then, other = core.Net("then"), core.Net("other")
        then.Sigmoid(B("total"), B("total"))
        other.Sin(B("total"), B("sine"))
        other.Copy(B("sine"), B("total"))
        add_if_op(step, "large", {"total", "large"}, then, other)
        return step.Tanh(total, "h")

    net, feeds = elman(write, known=("w", "b", "limit"))
    return net, {**feeds, "limit": np.array(0.1)}, "h_all"


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("build", [network_in_a_loop, branch_in_a_step])
def test_recurrence_and_control_flow_in_each_other(build, backend):
    net, feeds, y = build()
    check_gradient(net, feeds, [y], ["data", "first", "w"], order=2, overwritten="save", backend=backend)


def test_the_number_of_steps_may_depend_on_the_data():
    """A sequence that is cut inside of a branch: how many steps there are is seen during the run alone."""
    step, then, net = core.Net("step"), core.Net("then"), core.Net("net")
    step.AddExternalInputs(B("x"), B("h_prev"), B("w"), B("b"))
    hidden = tanh_step(step, B("x"), B("h_prev"))
    step.AddExternalOutput(hidden)
    then.Slice([B("data"), B("starts"), B("ends")], B("cut"))
    _, last = recurrent.recurrent_net(then, step, [(B("x"), B("cut"))], [(B("h_prev"), B("first"))],
                                      {B("h_prev"): hidden}, scope="s", timestep=B("time"), outputs_with_grads=[1])
    then.Copy(last, B("y"))
    net.Copy("first", "y")
    add_if_op(net, "flag", {"data", "first", "w", "b", "starts", "ends", "flag", "y"}, then)
    net.SumElements("y", "loss")
    products = netgrad.hessian_vector(net, "loss", {"w": "v"})
    rng = np.random.default_rng(1)
    feeds = {name: rng.standard_normal(shape) for name, shape in
             {"data": (4, 1, 2), "first": (1, 1, 2), "w": (2, 2), "b": (2,), "v": (2, 2)}.items()}
    feeds |= {"starts": np.zeros(3, np.int32), "flag": np.array([True])}
    workspace = Workspace(backend="numpy")
    for name, value in {**feeds, "ends": np.array([2, 1, 2], np.int32)}.items():
        workspace.feed_blob(name, value)
    bound = workspace.create_net(net)
    for steps in (2, 2, 4, 4, 1, 2):
        ends = np.array([steps, 1, 2], np.int32)
        workspace.feed_blob("ends", ends)
        bound.run()
        expected = run(net, {**feeds, "ends": ends}, [products["w"]], "numpy")[0]
        np.testing.assert_array_equal(workspace.fetch_blob(str(products["w"])), expected)


@pytest.mark.soak
def test_a_network_of_steps_to_the_third_order():
    net, feeds = elman(tanh_step)
    check_gradient(net, feeds, ["h_all"], ["w"], order=3, overwritten="save", backend="numpy")


def test_steps_that_draw_numbers_are_refused():
    def write(step, x, previous):
        return step.Sum([step.Dropout(previous, ["kept", "mask"], ratio=0.5)[0], x], "h")

    net, _ = elman(write, known=())
    gradients = net.AddGradientOperators(["h_all"])
    with pytest.raises(MissingRuleError, match=r"(?s)Dropout draws 'kept', 'mask' at random.*netgrad\.tools\.unroll"):
        net.AddGradientOperators([str(gradients["data"])], overwritten="save")
