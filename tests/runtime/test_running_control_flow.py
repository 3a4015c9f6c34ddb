"""Operators that run nets: If, While, Do, ONNXWhile, on both backends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import BadArgument, BadShape, MissingBlob, OperatorError, WrongKind
from netgrad.runtime.workspace import Workspace


def op(type: str, inputs: str, outputs: str, **arguments: Any) -> Any:
    return CreateOperator(type, inputs.split(), outputs.split(), **arguments)


def net(name: str, *ops: Any) -> caffe2_pb2.NetDef:
    made = Net(name)
    made.Proto().op.extend(ops)
    return made.Proto()


def run(backend: str, *ops: Any, **feeds: Any) -> Workspace:
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, np.asarray(value))
    workspace.run_net_once(net("net", *ops))
    return workspace


SIGN = op("If", "test x", "y", then_net=net("then", op("Negative", "x", "y")),
          else_net=net("else", op("Copy", "x", "y")))
COUNT = op("While", "go i n", "i go", cond_net=net("test", op("LT", "i n", "go")),
           loop_net=net("body", op("Add", "i one", "i")))
ADD = {"net": net("sub", op("Add", "a b", "local"), op("Mul", "local local", "c")), "inner_blobs": ["a", "b", "c"],
       "outer_blobs_idx": [0, 1, 2]}


@pytest.mark.parametrize("type", ["If", "AsyncIf"])
@pytest.mark.parametrize(("test", "expected"), [(True, -2.0), (False, 2.0), ([[True]], -2.0)])
def test_if_runs_one_of_two_nets(backend, type, test, expected):
    chosen = caffe2_pb2.OperatorDef()
    chosen.CopyFrom(SIGN)
    chosen.type = type
    assert run(backend, chosen, test=test, x=[2.0]).fetch_blob("y") == expected


def test_an_if_without_an_else_leaves_blobs_alone(backend):
    only = op("If", "test x", "y", then_net=net("then", op("Negative", "x", "y")))
    assert run(backend, only, test=False, x=[2.0], y=[7.0]).fetch_blob("y") == 7.0


@pytest.mark.parametrize(("test", "error", "words"), [
    ([True, False], BadShape, "has 2 values"), (1, WrongKind, "bool"), ("yes", WrongKind, "no tensor")])
def test_a_condition_is_a_single_boolean(backend, test, error, words):
    with pytest.raises(error, match=words):
        run(backend, SIGN, test=test, x=[2.0])


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_while_goes_on_while_its_condition_holds(backend, rounds):
    found = run(backend, COUNT, i=[0], n=[rounds], one=[1], go=[False])
    assert found.fetch_blob("i") == rounds and not found.fetch_blob("go")


def test_a_net_is_bound_once_and_runs_often(backend):
    workspace = Workspace(backend=backend)
    for name, value in {"i": [0], "n": [3], "one": [1], "go": [False]}.items():
        workspace.feed_blob(name, np.array(value))
    created = workspace.create_net(net("often", COUNT))
    for most in (3, 8):
        workspace.feed_blob("n", np.array([most]))
        created.run()
        assert workspace.fetch_blob("i") == most


def test_do_runs_in_a_workspace_of_its_own(backend):
    found = run(backend, op("CreateScope", "", "scope"), op("HasScope", "scope", "before"),
                op("Do", "x y scope", "z scope", **ADD), op("HasScope", "scope", "after"), x=[1.0], y=[2.0])
    assert found.fetch_blob("z") == 9.0
    assert not found.fetch_blob("before") and found.fetch_blob("after")
    assert set(found.names()) == {"x", "y", "z", "scope", "before", "after"}


def test_do_on_one_workspace_sees_what_the_last_run_left(backend):
    first = op("Do", "scope", "scope", net=net("init", op("ConstantFill", "", "kept", shape=[1], value=4.0)))
    second = op("Do", "scope", "z scope", net=net("use", op("Sqr", "kept", "squared")), inner_blobs=["squared"],
                outer_blobs_idx=[0], reuse_workspace=True)
    found = run(backend, op("CreateScope", "", "scope"), first, second)
    assert found.fetch_blob("z") == 16.0


def test_a_run_leaves_what_the_gradient_reads_and_no_more(backend):
    body = net("sub", op("Copy", "a", "unused"), op("Tanh", "a", "t"), op("Tanh", "t", "u"), op("Mul", "u b", "a"))
    forward = Net("forward")
    forward.Proto().op.extend([op("CreateScope", "", "scope"), op("Do", "x y scope", "x scope", net=body, inner_blobs=[
        "a", "b"], outer_blobs_idx=[0, 1])])
    workspace = Workspace(backend=backend)
    for name in ("x", "y"):
        workspace.feed_blob(name, np.array([0.5]))
    workspace.run_net_once(forward)
    assert workspace.values["scope"].runs[-1].keys() == {"unused", "t", "u", "a/_DO_OPERATOR_INITIAL_"}
    count = len(forward.Proto().op)
    gradients = forward.AddGradientOperators(["x"])
    for part, ops in (("before", forward.Proto().op[:count]), ("after", forward.Proto().op[count:])):
        workspace.create_net(caffe2_pb2.NetDef(name=part, op=ops))
    workspace.feed_blob("x", np.array([0.5]))
    workspace.run_net("before")
    assert workspace.values["scope"].runs[-1].keys() == {"t", "u"}
    workspace.run_net("after")
    assert not workspace.values["scope"].runs
    assert workspace.fetch_blob(gradients["y"]) == pytest.approx(np.tanh(np.tanh(0.5)))


@pytest.mark.parametrize(("arguments", "words"), [
    ({"inner_blobs": ["a", "b"]}, "go together one to one"),
    ({"outer_blobs_idx": [0, 1, 7]}, "inputs and outputs together are 3"),
    ({"outer_blobs_idx": [0, 0, 2]}, "bind a name twice"),
])
def test_bindings_that_make_no_sense_are_refused_when_the_net_is_made(backend, arguments, words):
    with pytest.raises(BadArgument, match=words):
        run(backend, op("CreateScope", "", "scope"), op("Do", "x y scope", "z scope", **{**ADD, **arguments}), x=[1.0],
            y=[2.0])


def test_a_do_needs_its_scope_and_says_so(backend):
    with pytest.raises(BadArgument, match="one blob, which CreateScope made"):
        run(backend, op("Do", "x y", "z", **ADD), x=[1.0], y=[2.0])
    with pytest.raises(WrongKind, match="'x' holds no stack of workspaces"):
        run(backend, op("Do", "y w x", "z x", **ADD), x=[1.0], y=[2.0], w=[1.0])


def test_an_error_inside_tells_all_places(backend):
    broken = op("If", "test x y", "z", then_net=net("then", op("CreateScope", "", "scope"), op(
        "Do", "x y scope", "z scope", **ADD)))
    with pytest.raises(OperatorError) as caught:
        run(backend, broken, test=True, x=[1.0, 2.0], y=[1.0, 2.0, 3.0])
    text = str(caught.value)
    assert "operator 0 (Add) of net 'sub" in text and "inside operator 1 (Do)" in text and "operator 0 (If)" in text


def test_a_misspelt_name_inside_is_found_when_the_net_is_made(backend):
    with pytest.raises(MissingBlob, match="'ex'"):
        Workspace(backend=backend).create_net(net("net", op("ConstantFill", "", "x", shape=[1]), op(
            "ConstantFill", "", "test", shape=[1], dtype=5), op("If", "test", "y", then_net=net(
                "then", op("Copy", "ex", "y")))))


@pytest.mark.parametrize("scopes", [True, False])
@pytest.mark.parametrize(("most", "first", "rounds"), [(3, True, 3), (0, True, 0), (9, True, 5), (3, False, 0)])
def test_onnx_loops(backend, scopes, most, first, rounds):
    """Doubling while it is under 30: the carried value, and the values of all rounds."""
    body = net("body", op("Add", "v v", "w"), op("Copy", "w", "seen"), op("LT", "w limit", "again"))
    body.external_input.extend(["round", "test", "v"])
    body.external_output.extend(["again", "w", "seen"])
    loop = op("ONNXWhile", "most first start", "last all", body=body, has_trip_count=True, has_cond=True,
              disable_scopes=not scopes)
    found = run(backend, loop, most=np.int64(most), first=first, start=[1.0], limit=[30.0])
    assert found.fetch_blob("last") == 2.0**rounds
    assert found.fetch_blob("all").tolist() == [2.0**k for k in range(1, rounds + 1)]
    assert ("w" in found.names()) is not scopes
