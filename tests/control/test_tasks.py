"""Tasks, groups and nodes: what they hold, how they are grouped, what they refuse."""

import numpy as np
import pytest

from netgrad.control.net_builder import ops
from netgrad.control.task import (
    Cluster,
    Node,
    SetupNets,
    Task,
    TaskGroup,
    TaskOutput,
    TaskOutputList,
    WorkspaceType,
    final_output,
    get_setup_nets,
)
from netgrad.graph.net import Net
from netgrad.graph.plan import execution_step
from netgrad.graph.records import Struct


@pytest.fixture(autouse=True)
def cluster():
    with Cluster() as cluster, Node():
        yield cluster


def some_net(name="some"):
    net = Net(name)
    net.Copy("a", "b")
    return net


def test_the_cluster_knows_the_nodes_and_what_was_said_first_about_them(cluster):
    with Node("trainer", gpus=2), Node("trainer", gpus=1, cpus=8):
        Task(node="reader")
    assert cluster.nodes() == ["local", "trainer", "reader"]
    assert cluster.node_kwargs()["trainer"] == {"gpus": 2, "cpus": 8}


def test_names_of_tasks_are_unique_in_their_group():
    with TaskGroup() as group:
        names = [Task(name="t").name, Task(name="t").name, Task(name="t", node="far").name, Task(some_net()).name]
    assert names == ["local/t", "local/t:1", "far/t", "local/task"]
    assert Task(name="t").name == Task(name="t").name == "local/t"
    assert group.used_nodes() == ["local", "far"] and group.num_registered_tasks() == 4


def test_a_used_group_takes_no_further_task():
    with TaskGroup() as group:
        first = Task(some_net())
        assert group.tasks() == [first]
        Task(some_net(), name="late")
    with pytest.raises(AssertionError, match="'local/late' comes too late"):
        group.tasks()
    with pytest.raises(AssertionError, match="'local/task' was used already"):
        first.add_output("b")


def test_tasks_of_a_group_agree_on_their_workspace():
    with TaskGroup() as group:
        Task(some_net(), workspace_type=WorkspaceType.GLOBAL)
        Task(some_net(), workspace_type="private")
    with pytest.raises(AssertionError, match="asks for a private workspace, its group for a global one"):
        group.tasks()


def test_tasks_are_private_unless_somebody_says_otherwise():
    with TaskGroup() as group:
        task = Task(some_net())
    grouped, = group.tasks_by_node().tasks()
    assert task.workspace_type() == grouped.workspace_type() == "private"
    assert grouped.get_step().Proto().create_workspace


def test_grouping_twice_gives_one_answer_for_one_map():
    with TaskGroup() as group:
        Task(some_net())
    assert group.tasks_by_node() is group.tasks_by_node(str)
    with pytest.raises(AssertionError, match="grouped by node already"):
        group.to_task("elsewhere")


def test_a_report_needs_a_task_on_its_node():
    with TaskGroup() as group:
        Task(some_net())
    group.report_step(some_net(), node="far")
    with pytest.raises(KeyError, match="'far', where no task of the group runs"):
        group.tasks_by_node()


def test_a_task_has_a_step_or_a_block():
    with pytest.raises(AssertionError, match="either a step or a `with` block"), Task(some_net()):
        pass
    assert Task.current(required=False) is None


def test_a_block_that_fails_leaves_no_context_and_no_step():
    with TaskGroup() as group, pytest.raises(ZeroDivisionError), Task() as task:
        ops.Const(1 // 0)
    assert Task.current(required=False) is None and not hasattr(ops, "Const")
    assert task.get_step().Proto().network == [] and group.num_registered_tasks() == 1


def test_objects_are_set_up_once_and_by_their_target():
    net = some_net()
    setup, other = SetupNets([some_net("init")], some_net("exit")), SetupNets([some_net()])
    other._setup_target = "another"
    for obj in (setup, other):
        net.add_attribute("key", obj)
    assert get_setup_nets("key", [net, execution_step(None, net)], "me") == (setup.init_nets, [setup.exit_nets])
    assert get_setup_nets("key", [net], "me") == ([], [])


def test_what_setup_writes_runs_first():
    class Counter:
        def setup(self, net):
            net.ConstantFill([], "count", shape=[1])
            return some_net("more")

    net = some_net()
    net.add_attribute("key", Counter())
    (first, more), after = get_setup_nets("key", [net], None)
    assert [op.type for op in first.Proto().op] == ["ConstantFill"] and more.Name().startswith("more") and not after


def test_setup_returns_nets():
    net = some_net()
    net.add_attribute("key", SetupNets("init"))
    with pytest.raises(TypeError, match=r"SetupNets\.setup returned 'init'"):
        get_setup_nets("key", [net], None)


def test_outputs_have_the_form_that_was_asked_for():
    record = Struct(("x", np.array([0])), ("y", np.array([0])))
    outputs = TaskOutputList([TaskOutput("a"), TaskOutput(["b", "c"]), TaskOutput(record)])
    assert outputs.names()[:3] == ["a", "b", "c"]
    with pytest.raises(AssertionError, match="no value yet"):
        outputs.outputs[0].get()
    with pytest.raises(AssertionError, match="have 5 blobs and were given 2"):
        outputs.set_values([1, 2])
    outputs.set_values([1, 2, 3, np.array([4]), np.array([5])])
    with pytest.raises(AssertionError, match="cannot be fetched"):
        outputs.outputs[0].fetch()
    outputs.set_values([1, 2, 3, 4, 5], lambda value: np.array([value * 10]))
    single, several, structured = outputs.outputs
    assert single.get() == 1 and several.get() == [2, 3]
    assert single.fetch() == [10] and several.fetch() == [[20], [30]]
    assert structured.fetch().y.get() == [50]


def test_final_outputs_belong_to_the_current_task_or_to_a_new_one():
    with TaskGroup() as group:
        with Task() as task:
            output = final_output("blob")
        final_output("elsewhere")
    assert task.outputs() == [output]
    assert [t.output_list().names() for t in group.tasks()] == [["blob"], ["elsewhere"]]
