"""Plans that are built the same way on Caffe2 and on netgrad; run as a script, this prints them.

`plans.txt` is what Caffe2 (torch 1.8.1) printed.
"""

from google.protobuf.text_format import MessageToString

from caffe2.python.core import Net, Plan, execution_step, to_execution_step
from caffe2.python.net_builder import NetBuilder, ops
from caffe2.python.task import Cluster, Node, SetupNets, Task, TaskGroup, WorkspaceType, final_output


def task_with_setup():
    with Node("trainer"), Task(name="my_task", num_instances=2) as task:
        with ops.task_init():
            total = ops.Const(0)
        with ops.task_instance_init():
            mine = ops.Const(0)
        with ops.loop(100):
            ops.Copy(total, mine)
        with ops.task_instance_exit():
            ops.Add([total, mine], [total])
        with ops.task_exit():
            ops.Mul([total, total], [total])
    return task.get_step()


def loops():
    with NetBuilder(name="loops") as builder:
        total = ops.Const(0)
        with ops.loop(10, name="outer") as loop:
            base = ops.Mul([loop.iter(), ops.Const(10)])
            with ops.loop(loop.iter()) as inner:
                ops.Add([base, inner.iter()], [total])
        with ops.loop(name="endless"):
            ops.stop_if(ops.EQ([total, ops.Const(0)]))
            ops.Add([total, ops.Const(-1)], [total])
            ops.stop()
    return to_execution_step(builder)


def conditions():
    with NetBuilder() as builder:
        x, y = ops.Const(25), ops.Const(1)
        with ops.If(ops.GE([x, ops.Const(80)]), name="large") as case:
            ops.Add([x, y], [y])
        with case.Elif(ops.GE([x, ops.Const(50)])) as case:
            ops.Const(2, blob_out=y)
            ops.stop()
            ops.Const(3, blob_out=y)
        with case.Else(name="small"):
            pass
    return to_execution_step(builder)


def guards():
    with NetBuilder(name="guards") as builder:
        x = ops.Const(10)
        with ops.stop_guard() as first:
            ops.stop_if(ops.LT([x, ops.Const(5)]))
        with ops.stop_guard(name="empty", has_stopped_blob="it_stopped") as second:
            pass
        with ops.stop_guard() as third:
            ops.Const(0)
            ops.net(name="next")
            ops.Const(1)
            ops.stop()
        ops.Or([first.has_stopped(), second.has_stopped()], [third.has_stopped()])
    return to_execution_step(builder)


def shared_net():
    with Task(name="counting") as task:
        total = ops.Const(0)
        net = Net("add_one")
        net.Add([total, net.Const(1)], [total])
        ops.net(net)
        ops.net(net)
        final_output(total)
    return task.get_step()


def reporters():
    with Task(name="reported", workspace_type=WorkspaceType.GLOBAL) as task:
        with ops.task_reporter(interval_ms=100, name="progress"):
            ops.LogInfo("still here")
        with ops.task_reporter():
            ops.Const(0)
        x = ops.Const(1)
        final_output([x, "another"])
    return task.get_step()


def group_on_nodes():
    before, after = Net("before"), Net("after")
    before.ConstantFill([], "value", shape=[1])
    after.Print("value", [])
    setup = SetupNets([before], [after])
    with TaskGroup() as group:
        with Node("one"), Task(name="first"):
            with ops.local_init():
                ops.ConstantFill([], "ready", shape=[1])
            with ops.local_reporter(interval_ms=50):
                ops.Print("ready", [])
            ops.net().add_attribute(TaskGroup.LOCAL_SETUP, setup)
            ops.Copy("ready", "done")
            with ops.local_exit(name="farewell"):
                ops.Print("done", [])
        with Node("two"):
            net = Net("alone")
            net.Copy("a", "b")
            net.add_attribute(Task.TASK_SETUP, setup)
            Task(step=net, outputs="b")
            Task(step=execution_step("again", [net], num_iter=3), workspace_type=WorkspaceType.PRIVATE)
        group.report_net(node="one").Print("done", [])
    merged = group.tasks_by_node()
    return execution_step("nodes", [task.get_step() for task in merged.tasks()])


def group_as_task():
    with TaskGroup(WorkspaceType.GLOBAL) as group:
        for _ in range(2):
            with Task(name="same"):
                final_output(ops.Const(0))
        with Node("elsewhere"), Task():
            ops.Const(1)
    return group.to_task().get_step()


def single_net():
    outer = Net("outer")
    x = outer.Const(1)
    with NetBuilder(name="merged", initial_scope=[x], _use_control_ops=True) as builder:
        y = ops.Add([x, x])
        second = ops.net(name="second")
        ops.Mul([x, y], [x])
        second.AddExternalOutput(second.GetBlobRef(str(x)), second.Sqr(y))
    return to_execution_step(builder)


PLANS = [task_with_setup, loops, conditions, guards, shared_net, reporters, group_on_nodes, group_as_task, single_net]

if __name__ == "__main__":
    for build in PLANS:
        with Cluster(), Node():
            plan = Plan(build.__name__)
            plan.AddStep(build())
        print(f"# {build.__name__}")
        for part in [*plan.Proto().network, *plan.Proto().execution_step]:
            print(MessageToString(part, as_one_line=True))
