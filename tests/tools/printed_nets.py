"""Nets and tasks that Caffe2 and netgrad print alike; run as a script, this prints them.

`printed_nets.txt` is what Caffe2 (torch 1.8.1) printed.
"""

from caffe2.python import core, net_printer
from caffe2.python.net_builder import ops
from caffe2.python.task import Node, Task, TaskGroup, WorkspaceType, final_output


def operators():
    net = core.Net("operators")
    net.FC(["x", "fc_w", "fc_b"], "fc_y", axis=1, axis_w=2)
    net.GivenTensorFill([], "filled", shape=[2, 1], values=[0.5, 0.25])
    net.Scale("x", "scaled", scale=0.5)
    net.Copy("x", "copied", words=["one", "two"], long="a" * 70, engine="NONE")
    net.Relu("x", "x", device_option=core.DeviceOption(1, 2))
    inner = core.Net("inner")
    inner.Relu("x", "y")
    net.Do(["x"], ["y"], net=inner.Proto())
    return net


def loops():
    with Task() as task:
        total = ops.Const(0)
        with ops.loop(10) as loop:
            outer = ops.Mul([loop.iter(), ops.Const(10)])
            with ops.loop(loop.iter()) as inner:
                val = ops.Add([outer, inner.iter()])
                with ops.If(ops.GE([val, ops.Const(80)])) as case:
                    ops.Add([total, val], [total])
                with case.Else():
                    ops.Mul([total, val], [total])
    return task


def instances():
    with TaskGroup() as group:
        with Task(num_instances=2):
            with ops.task_init():
                one = ops.Const(1)
            with ops.task_instance_init():
                local = ops.Const(2)
            ops.Add([one, local], [one])
        with Node("other"), Task(workspace_type=WorkspaceType.PRIVATE):
            final_output(ops.Const(3))
    return group


def steps():
    nets = [core.Net(name) for name in ("first", "second", "report")]
    for net in nets:
        net.ConstantFill([], net.Name(), shape=[1])
    beside = core.execution_step("beside", [core.execution_step("a", nets[0]), core.execution_step("b", nets[1])],
                                 concurrent_substeps=True)
    every = core.execution_step("every", nets[0])
    every.RunEveryMillis(500)
    repeated = core.execution_step("repeated", nets[1], num_iter=3, report_net=nets[2], report_interval=7)
    return core.execution_step("all", [beside, every, repeated])


if __name__ == "__main__":
    for make in (operators, loops, instances, steps):
        for options in ({}, {"c2_syntax": False, "factor_prefixes": True}):
            core.Net._net_names_used.clear()
            core.ExecutionStep._step_names_used.clear()
            print(f"# {make.__name__} {options}")
            print(net_printer.to_string(make(), **options))
