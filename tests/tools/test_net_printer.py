"""`net_printer`: text like Caffe2's, and what it says of tasks that cannot run."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from caffe2.python import core, net_printer, workspace
from caffe2.python.net_builder import ops
from caffe2.python.task import Task, TaskGroup, WorkspaceType, final_output

HERE = Path(__file__).parent


def test_text_is_that_of_caffe2():
    # in a process of its own, since names of nets and steps count up
    run = subprocess.run([sys.executable, HERE / "printed_nets.py"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == (HERE / "printed_nets.txt").read_text().splitlines()


def test_operators_behind_a_nested_net_are_still_calls_of_the_net():
    net, inner = core.Net("outside"), core.Net("inside")
    inner.Relu("x", "y")
    net.Do(["x"], ["y"], net=inner.Proto())
    net.Relu("y", "z")
    assert net_printer.to_string(net).splitlines()[-1] == f"{net.Name()}.Relu(['y'], ['z'])"


def job(**groups):
    names = ("init_group", "epoch_group", "download_group", "exit_group")
    return SimpleNamespace(stop_conditions=[], **{name: groups.get(name) or TaskGroup() for name in names})


def test_jobs_are_printed_by_their_groups():
    with TaskGroup() as group, Task():
        made = final_output(ops.Const(1))
    printed = job(init_group=group)
    printed.stop_conditions.append(made)
    text = net_printer.to_string(printed)
    assert "with Job.current().init_group:\n    with Task(node=local" in text
    assert f"with Job.current().stop_conditions:\n    Output[{made.names[0]}]" in text
    assert "with Job.current().exit_group:\n    pass" in text


def test_what_cannot_be_printed_is_refused():
    with pytest.raises(TypeError, match="Printer: unsupported object of <class 'int'>"):
        net_printer.to_string(3)
    with pytest.raises(AssertionError, match="has a function for Net already"):
        net_printer.Printer.register(core.Net)


def test_undefined_blobs_are_found():
    with TaskGroup() as group, Task():
        one = ops.Const(1)
        ops.Add([one, "distributed_ctx_init_a"])
    net_printer.analyze(job(epoch_group=group))
    with TaskGroup() as group, Task():
        ops.Add([ops.Const(1), "a"])
    with pytest.raises(AssertionError, match=r"^Blob undefined: a$"):
        net_printer.analyze(group)


def test_blobs_of_one_name_in_steps_side_by_side_are_found():
    with TaskGroup() as group:
        for _ in range(2):
            with Task(workspace_type=WorkspaceType.GLOBAL):
                ops.Add([ops.Const(0), ops.Const(1)], "made_twice")
    with pytest.raises(AssertionError, match="Blobs created by multiple parallel steps: made_twice"):
        net_printer.analyze(group)


def test_private_tasks_do_not_see_each_others_blobs():
    with TaskGroup() as group:
        with Task(workspace_type=WorkspaceType.PRIVATE):
            mine = ops.Const(1)
        with Task(workspace_type=WorkspaceType.PRIVATE):
            ops.Add([mine, mine])
    with pytest.raises(AssertionError, match=f"Blob undefined: {mine}"):
        net_printer.analyze(group)


def test_a_net_that_logs_its_operators(caplog, capfd):
    net = core.Net("watched")
    net.ConstantFill([], "x", shape=[2], value=1.0)
    net.Relu("x", "y")
    watched = net_printer.debug_net(net)
    assert [op.type for op in watched.Proto().op if op.type in ("ConstantFill", "Relu")] == ["ConstantFill", "Relu"]
    workspace.ResetWorkspace()
    workspace.RunNetOnce(watched)
    seen = caplog.text + "".join(capfd.readouterr())
    assert "y = Relu(x)" in seen and "shape=[2]" in seen


def test_every_name_has_an_owner():
    names = net_printer.__dict__["_owners"]
    assert all(hasattr(net_printer, name) for name in names) and issubclass(net_printer.Analyzer, net_printer.Visitor)
