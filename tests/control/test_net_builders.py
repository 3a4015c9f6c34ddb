"""Blocks of operators: that their plans do what they say, and what they refuse."""

import numpy as np
import pytest

from netgrad.control.net_builder import NetBuilder, Operations, ops
from netgrad.graph.net import Net
from netgrad.graph.plan import Plan, to_execution_step
from netgrad.runtime import current as workspace
from netgrad.runtime.errors import MissingBlob


@pytest.fixture(autouse=True)
def fresh_workspace():
    workspace.ResetWorkspace()


def run(builder):
    plan = Plan("plan")
    plan.AddStep(to_execution_step(builder))
    assert workspace.RunPlan(plan)


def values(*blobs):
    return [np.asarray(workspace.FetchBlob(blob)).item() for blob in blobs]


def test_a_loop_runs_until_it_is_stopped():
    with NetBuilder() as builder:
        x, y = ops.Const(5), ops.Const(0)
        with ops.loop():
            ops.stop_if(ops.EQ([x, ops.Const(0)]))
            ops.Add([x, ops.Const(-1)], [x])
            ops.Add([y, ops.Const(1)], [y])
    run(builder)
    assert values(x, y) == [0, 5]


def test_loops_count_their_rounds():
    with NetBuilder() as builder:
        total, rounds = ops.Const(0), ops.Const(0)
        with ops.loop(10) as outer, ops.loop(outer.iter()) as inner:
            ops.Add([total, inner.iter()], [total])
            ops.Add([rounds, ops.Const(1)], [rounds])
    run(builder)
    assert values(total, rounds) == [sum(sum(range(k)) for k in range(10)), 45]


@pytest.mark.parametrize("x, expected", [(99, [1, 0, 0]), (60, [0, 1, 0]), (7, [0, 0, 1])])
def test_one_block_of_a_chain_of_conditions_runs(x, expected):
    with NetBuilder() as builder:
        value, counts = ops.Const(x), [ops.Const(0) for _ in range(3)]
        with ops.If(ops.GE([value, ops.Const(80)])) as case:
            ops.Const(1, blob_out=counts[0])
        with case.Elif(ops.GE([value, ops.Const(50)])) as case:
            ops.Const(1, blob_out=counts[1])
        with case.Else() as case:
            ops.Const(1, blob_out=counts[2])
            ops.stop()
            ops.Const(7, blob_out=counts[2])
    run(builder)
    assert values(*counts) == expected
    with pytest.raises(AssertionError, match="nothing can follow the Else"):
        case.Elif(counts[0])


def test_a_guard_says_whether_it_was_stopped():
    with NetBuilder() as builder:
        guards = []
        for x in (10, 3):
            with ops.stop_guard() as guard:
                ops.stop_if(ops.LT([ops.Const(x), ops.Const(5)]))
                with pytest.raises(AssertionError, match="was not left yet"):
                    guard.has_stopped()
            guards.append(guard.has_stopped())
        with ops.stop_guard(has_stopped_blob="never") as guard:
            pass
    run(builder)
    assert values(*guards, "never") == [False, True, False]


def test_a_loop_must_end():
    with pytest.raises(AssertionError, match="'endless' never ends"), NetBuilder(), ops.loop(name="endless"):
        ops.Const(1)
    assert NetBuilder.current(required=False) is None


def test_a_loop_without_a_number_does_not_count():
    with NetBuilder(), ops.loop() as loop:
        ops.stop()
        with pytest.raises(AssertionError, match="no number of iterations"):
            loop.iter()


def test_a_finished_builder_is_closed():
    with NetBuilder("done") as builder:
        ops.Const(1)
    with pytest.raises(AssertionError, match="'done' is finished"):
        builder.current_net()


def test_nets_have_the_names_of_the_builders_around_them():
    with NetBuilder("nets"), NetBuilder("inside"):
        name = Net("mine").Name()
    assert name.startswith("nets/inside/mine") and not Net("mine").Name().startswith("nets")


def test_operations_need_a_builder():
    assert not hasattr(Operations(), "Relu")
    with NetBuilder():
        assert hasattr(ops, "Relu") and not hasattr(ops, "NoSuchOperator")


@pytest.mark.parametrize("block", [lambda: ops.IfNet(None), ops.Else, ops.Condition])
def test_blocks_by_operators_have_their_places(block):
    with NetBuilder(), pytest.raises(AssertionError, match=r"ops\."):
        block()


def test_a_single_net_keeps_the_outputs_that_exist_outside():
    with NetBuilder("around"):
        x = ops.Const(1)
        with NetBuilder("one", _use_control_ops=True) as builder:
            net = ops.net()
            y = net.Add([x, x])
            net.Copy(y, x)
            net.AddExternalOutput(net.GetBlobRef(x), y)
            squared = ops.net(name="second").Sqr(y)
            with pytest.raises(AssertionError, match="cannot end early"):
                ops.stop_if(x)
            assert builder.lexical_scope() == {str(x), str(y), str(squared)}
    merged, = builder.get()
    assert [op.type for op in merged.Proto().op] == ["Add", "Copy", "Sqr"]
    assert list(merged.Proto().external_output) == [str(x)]


@pytest.mark.parametrize("kind", ["If", "While"])
def test_a_blob_that_stays_inside_a_branch_or_a_round_is_said_to(kind):
    with NetBuilder(_use_control_ops=True) as builder:
        condition = ops.Const(kind == "If")
        if kind == "If":
            with ops.IfNet(condition):
                ops.Const(1.0, blob_out="inside")
        else:
            with ops.WhileNet():
                with ops.Condition():
                    ops.Copy(condition)
                ops.Const(1.0, blob_out="inside")
        ops.Copy("inside", "after")
    with pytest.raises(MissingBlob, match=rf"'inside' here.*\({kind}\) makes of that name stays inside it"):
        workspace.RunNetOnce(builder.get()[0])
