"""Sessions: tasks run, and their outputs come back."""

from __future__ import annotations

import pytest

from netgrad.control.net_builder import ops
from netgrad.control.session import LocalSession, Session
from netgrad.control.task import Node, Task, TaskGroup, WorkspaceType, final_output
from netgrad.graph.net import Net
from netgrad.graph.plan import Plan, execution_step
from netgrad.runtime.workspace import Workspace


def test_outputs_of_tasks_on_several_nodes():
    with TaskGroup() as group:
        with Node("one"), Task():
            first = final_output(ops.Add([ops.Const(1), ops.Const(2)]))
        with Node("two"), Task():
            second = final_output([ops.Const(5), ops.Const(6)])
    with LocalSession(Workspace()) as session:
        session.run(group)
        assert first.fetch() == 3 and [int(value) for value in second.fetch()] == [5, 6]


@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: execution_step("step", net),
                                  lambda net: Task(step=net), lambda net: _plan(net)])
def test_what_can_run(wrap):
    net = Net("net")
    net.ConstantFill([], "made", shape=[1], value=3.0)
    workspace = Workspace()
    LocalSession(workspace).run(wrap(net))
    assert workspace.fetch_blob("made") == 3.0


def _plan(net: Net) -> Plan:
    plan = Plan("plan")
    plan.AddStep(execution_step("first", net))
    return plan


def test_a_private_workspace_is_gone_but_for_the_outputs():
    with TaskGroup(WorkspaceType.PRIVATE) as group, Task():
        local = ops.Const(2)
        output = final_output(ops.Mul([local, local]))
    workspace = Workspace()
    LocalSession(workspace).run(group)
    assert output.fetch() == 4 and not workspace.has_blob(local)


def test_misuse_is_refused():
    session = LocalSession(Workspace())
    with pytest.raises(AssertionError, match="nothing to run"):
        session.run(None)
    with pytest.raises(AssertionError, match="compiled for Session"):
        session.run(Session.compile(Net("net")))
    with pytest.raises(AssertionError, match="has no steps"):
        session.run(Plan("empty"))
    session.close()
    with pytest.raises(AssertionError, match="closed"):
        session.run(Net("net"))
