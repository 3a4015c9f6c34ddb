"""Pipelines that are built the same way on Caffe2 and on netgrad; run as a script, this prints them.

`pipelines.txt` is what Caffe2 (torch 1.8.1) printed.
"""

import numpy as np
from google.protobuf.text_format import MessageToString

from caffe2.python import core
from caffe2.python.core import Net, Plan
from caffe2.python.dataio import CompositeReader, CounterReader, CountUntil, ReaderWithLimit
from caffe2.python.dataset import Dataset
from caffe2.python.net_builder import ops
from caffe2.python.pipeline import NetProcessor, Output, pipe, pipe_and_output
from caffe2.python.queue_util import Queue, close_queue, dequeue, enqueue
from caffe2.python.schema import List, NewRecord, Scalar, Struct
from caffe2.python.task import Cluster, Node, TaskGroup


def table(name):
    net = Net(name + "_init")
    with core.NameScope(name):
        record = NewRecord(net, Struct(("id", Scalar(np.int64)), ("likes", List(Scalar(np.float32)))))
    return Dataset(record, name=name)


def double(record):
    with core.NameScope("double"):
        out = NewRecord(ops, record)
    ops.Add([record.id(), record.id()], [out.id()])
    out.likes.lengths.set(blob=record.likes.lengths(), unsafe=True)
    out.likes.items.set(blob=record.likes.items(), unsafe=True)
    return out


def reading_and_writing(group):
    a, b = table("a"), table("b")
    queue = pipe(a.reader(batch_size=3), processor=double, num_runtime_threads=2, capacity=7)
    pipe(queue, b.writer(), num_threads=2)


def limits(group):
    a = table("a")
    reader = ReaderWithLimit(a.reader(enforce_batch_size=True), num_iter=3)
    pipe(reader, output=Queue(5, num_dequeue_records=2), name="limited")
    pipe(ReaderWithLimit(a.reader(), num_iter=None), processor=lambda record: None)
    pipe(CountUntil(4), num_threads=3)
    pipe(CounterReader(), processor=lambda record: Output(None, record, ops.Const(True)))


def several_sources(group):
    a, b = table("a"), table("b")
    random = b.random_reader(batch_size=2, loop_over=True)
    init = Net("init")
    random.setup_ex(init, None)
    random.sort_and_shuffle(init, "id", 2, 3)
    random.computeoffset(init)
    with Node("there"):
        pipe_and_output(CompositeReader(["x", "y"], [a.reader(), random]), final_outputs=[init.Const(1)])
    ops_net = Net("by_hand")
    queue = ops_net.CreateBlobsQueue([], "q")
    enqueue(ops_net, queue, ["u", "v"])
    dequeue(ops_net, queue, 2, field_names=["u", "v"], num_records=2)
    pipe(a.reader(), name=str(close_queue(core.execution_step("step", ops_net), queue)))


def nets_as_processors(group):
    a = table("a")
    net, init = Net("increment"), Net("increment_init")
    one = init.Const(1)
    record = net.set_input_record(Struct(("id", Scalar(np.int64))))
    net.set_output_record(Struct(("id", net.Add([record.id(), one]))))
    stop = net.GE([record.id(), one])
    processor = NetProcessor(net, stop_signal=stop, thread_init_nets=[init])
    pipe(a.reader(), processor=processor, num_threads=2)


if __name__ == "__main__":
    for build in (reading_and_writing, limits, several_sources, nets_as_processors):
        with Cluster(), TaskGroup() as group:
            build(group)
        for task in group.tasks_by_node().tasks():
            plan = Plan(build.__name__)
            plan.AddStep(task.get_step())
            print(f"# {build.__name__} {task.node}")
            for part in [*plan.Proto().network, *plan.Proto().execution_step]:
                print(MessageToString(part, as_one_line=True))
