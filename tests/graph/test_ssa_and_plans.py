"""SSA versions, plans and execution steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.plan import ExecutionStep, Plan, execution_step, scoped_execution_step, to_execution_step
from netgrad.graph.scope import NameScope
from netgrad.graph.ssa import get_op_ids_in_path, get_output_producers, get_ssa, get_undefined_blobs
from netgrad.proto import caffe2_pb2

blobs = st.lists(st.sampled_from("abcd"), max_size=3)
nets = st.lists(st.tuples(blobs, blobs), max_size=8).map(lambda ops: caffe2_pb2.NetDef(
    op=[caffe2_pb2.OperatorDef(type="Any", input=i, output=o) for i, o in ops]))


@given(nets)
def test_every_read_sees_the_last_write(net):
    ssa, versions = get_ssa(net)
    current = dict.fromkeys("abcd", 0)
    made = set()
    for inputs, outputs in ssa:
        assert all(version == current[name] for name, version in inputs)
        for name, _ in outputs:
            current[name] += 1
        assert all(version == current[name] for name, version in outputs)
        made.update(outputs)
    assert all(versions[name] == current[name] for name in versions)
    assert get_undefined_blobs(ssa) == {name for inputs, _ in ssa for name, version in inputs if not version}
    assert set(get_output_producers(ssa)) == made


@given(nets, blobs)
def test_the_path_to_blobs_is_closed_and_minimal(net, wanted):
    ssa, versions = get_ssa(net)
    wanted = [name for name in wanted if name in versions]
    producers = get_output_producers(ssa)
    needed = set()
    todo = [(name, versions[name]) for name in wanted]
    while todo:
        position = producers.get(todo.pop())
        if position is not None and position not in needed:
            needed.add(position)
            todo += ssa[position][0]
    assert get_op_ids_in_path(ssa, versions, [], wanted) == sorted(needed)
    assert get_op_ids_in_path(ssa, versions, wanted, wanted) == []


def test_versions_go_on_over_several_nets():
    net = caffe2_pb2.NetDef(op=[caffe2_pb2.OperatorDef(type="Relu", input=["x"], output=["x"])])
    (first, second), versions = get_ssa([net, net])
    assert first == [([("x", 0)], [("x", 1)])] and second == [([("x", 1)], [("x", 2)])] and versions == {"x": 2}


def two_nets():
    one, two = Net("one"), Net("two")
    one.Relu("x", "y")
    two.Relu("y", "z")
    two.add_attribute("k", 3)
    return one, two


def test_a_plan_lists_nets_in_the_order_of_use_and_comes_back_from_its_message():
    one, two = two_nets()
    step = execution_step("all", [execution_step("b", two, num_iter=3), execution_step("a", [one, two])],
                          concurrent_substeps=True)
    plan = Plan(step)
    assert [net.name for net in plan.Proto().network] == [two.Name(), one.Name()]
    assert step.get_all_attributes("k") == [3] == plan.get_all_attributes("k") and plan.Nets() == [two, one]
    again = Plan.create_from_proto(plan.Proto())
    assert len(again.Nets()) == 2 and again.Nets()[0].Name().startswith(two.Name())
    assert again.Steps()[0].Proto().substep[0].num_iter == 3 and again.Steps()[0].Proto().concurrent_substeps


def test_settings_of_steps():
    one, _ = two_nets()
    step = execution_step("s", one, should_stop_blob=BlobReference("stop"), only_once=True, num_concurrent_instances=2,
                          create_workspace=True, run_every_ms=5)
    found = step.Proto()
    assert (found.should_stop_blob, found.only_once, found.num_concurrent_instances, found.create_workspace,
            found.run_every_ms, found.HasField("num_iter")) == ("stop", True, 2, True, 5, False)
    assert execution_step("t", None).Proto().num_iter == 1
    with NameScope("scope"):
        assert scoped_execution_step("u", one).Name() == "scope/u"
    assert to_execution_step(step) is step and to_execution_step([one]).HasNets()


@pytest.mark.parametrize("wrong", [
    lambda one, two: execution_step("s", one, num_iter=2, should_stop_blob=BlobReference("b")),
    lambda one, two: execution_step("s", one).AddSubstep(execution_step("t", two)),
    lambda one, two: execution_step("s", execution_step("t", two)).AddNet(one),
    lambda one, two: execution_step("s", one).SetShouldStopBlob("text"),
    lambda one, two: (lambda step: (Plan(step), step.SetIter(3)))(execution_step("s", one)),
    lambda one, two: Plan("p").AddNets(["a name"]),
])
def test_wrong_steps_are_refused(wrong):
    with pytest.raises(AssertionError):
        wrong(*two_nets())


def test_two_nets_of_one_name_are_refused():
    one, _ = two_nets()
    other = Net("other")
    other.Proto().name = one.Name()
    with pytest.raises(AssertionError, match="two different nets"):
        execution_step("s", [one, other])


def test_empty_steps_are_left_out_and_names_are_unique():
    plan = Plan("empty")
    plan.AddStep(ExecutionStep("nothing"))
    assert not plan.Proto().execution_step
    assert ExecutionStep(None).Name() != ExecutionStep(None).Name()
    with pytest.raises(ValueError):
        Plan(3)
