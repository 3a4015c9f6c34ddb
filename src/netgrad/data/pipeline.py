"""Pipelines: tasks that read records, process them and write them, in threads.

::

    with TaskGroup() as group:
        queue = pipe(dataset.reader(), processor=clean, num_runtime_threads=4)
        pipe(queue, other_dataset.writer())
    LocalSession().run(group)

A task ends when the reader has no more, the writer takes no more, or the processor says so. It closes the queues at
both of its ends then, so that those before and after it end too.
"""

from __future__ import annotations

from typing import Any

from netgrad.control.net_builder import NetBuilder, ops
from netgrad.control.task import Node, Task, TaskGroup
from netgrad.data.processing import ProcessingReader, processor_name
from netgrad.data.queues import Queue
from netgrad.data.readers import Reader, Writer, reader_of
from netgrad.graph.net import Net
from netgrad.graph.plan import execution_step, to_execution_step
from netgrad.proto.caffe2_pb2 import TensorProto

DEFAULT_QUEUE_CAPACITY = 100


def pipe(input: Any, output: Any = None, num_threads: int = 1, processor: Any = None, name: str | None = None,
         capacity: int | None = None, group: TaskGroup | None = None, num_runtime_threads: int = 1) -> Any:
    """A task that moves records from one place to another.

    Args:
        input: a `Reader`, or what has one (a queue, a dataset).
        output: a `Writer`, or what has one; a new queue if None.
        num_threads: copies of the nets that run side by side, written one by one, for processors that want to be
            called for each; 0: no task is made, a reader of the processed records is returned.
        processor: turns a record into another; see `netgrad.data.processing`. Nothing is written if it returns none.
        name: of the task; from processor, output or input if None.
        capacity: of the new queue, in records.
        group: where the task goes; the current group if None.
        num_runtime_threads: how often the nets, written once, run side by side, each time in a workspace of its own.

    Returns:
        The output, if it is no mere writer, or the new queue; a reader where no task was made; else None.
    """
    return _pipe(input, output, num_threads, processor, name, capacity, group, num_runtime_threads)[0]


def pipe_and_output(
    input: Any, output: Any = None, num_threads: int = 1, processor: Any = None, name: str | None = None,
    capacity: int | None = None, group: TaskGroup | None = None, num_runtime_threads: int = 1,
    final_outputs: Any = None,
) -> tuple[Any, Any]:
    """`pipe`, for a task that returns something.

    Args:
        final_outputs: a blob or record that the task returns, or a list of them.

    Returns:
        What `pipe` returns, and the `TaskOutput`, or a list of them, which can be fetched after the run.
    """
    if num_threads <= 0:
        raise AssertionError("num_threads=0 makes no task, which could return something")
    result, task = _pipe(input, output, num_threads, processor, name, capacity, group, num_runtime_threads,
                         final_outputs)
    if final_outputs is None:
        return result, None
    outputs = task.outputs()
    return result, outputs if isinstance(final_outputs, list | tuple) else outputs[0]


def _pipe(input: Any, output: Any, num_threads: int, processor: Any, name: str | None, capacity: int | None,
          group: TaskGroup | None, num_runtime_threads: int, final_outputs: Any = None) -> tuple[Any, Any]:
    if num_threads > 1 and num_runtime_threads > 1:
        raise AssertionError(f"num_threads is {num_threads} and num_runtime_threads {num_runtime_threads}; more than "
                             "one thread can be asked for by one of them only")
    reader = reader_of(input)
    if processor is not None:
        reader = ProcessingReader(reader, processor)
    if num_threads == 0 or num_runtime_threads == 0:
        if output is not None:
            raise AssertionError("without threads there is no task, and nothing writes into the output; leave it out")
        return reader, None
    if name is None:
        name = (processor_name(processor) if processor is not None
                else f"pipe_into:{processor_name(output)}" if output is not None
                else f"pipe_from:{processor_name(input)}")
    timer = "/".join((str(Node.current()), "pipe", name, processor_name(input),
                      processor_name(output) if output is not None else "NoOutput"))
    end = _End(output, capacity)
    if num_threads > 1:
        return _copies(name, group, final_outputs, reader, num_threads, end, timer)
    return _instances(name, group, final_outputs, reader, num_runtime_threads, end, timer)


class _End:
    """Where records go; what a queue needs is written with the first record."""

    def __init__(self, output: Any, capacity: int | None) -> None:
        if output is not None and capacity is not None:
            raise AssertionError("capacity is that of a new queue, but an output is given")
        if output is not None and not isinstance(output, Writer) and not hasattr(output, "writer"):
            raise ValueError(f"expected a Writer, or something with a method writer (a queue, a dataset), "
                             f"not {output!r}")
        self._output = output
        self._capacity = capacity
        self._writer: Writer | None = None
        #: what can be read at the other end; None for a mere writer, and where nothing was written
        self.queue: Any = None

    def writer(self, init_net: Net, exit_net: Net) -> Writer:
        if self._writer is None:
            output = self._output
            if output is None:
                output = Queue(DEFAULT_QUEUE_CAPACITY if self._capacity is None else self._capacity)
            if isinstance(output, Writer):
                self._writer = output
            else:
                self.queue, self._writer = output, output.writer()
            self._writer.setup_ex(init_net, exit_net)
        return self._writer


class _Body:
    """What one thread does: nets before, the step that moves records, nets after."""

    def __init__(self, reader: Reader, timer: str, init_name: str, exit_name: str) -> None:
        self.init_net, self.exit_net = Net(init_name), Net(exit_name)
        self._timer = timer
        self._nets, self.status, self.record = reader.read_record_ex(self.init_net, self.exit_net)
        self.init_net.ConstantFill([], [self.status], shape=[], value=False, dtype=TensorProto.BOOL)

    def write_by(self, writer: Writer) -> None:
        nets, _ = writer.write_record_ex(self.record, self.init_net, self.exit_net, self.status)
        self._nets = [*self._nets, *nets]

    def steps(self) -> tuple[Any, Net]:
        """The step, and the net that ends its timer, since the step may stop before it does."""
        begin, end = Net("timer_start"), Net("timer_end")
        timer = begin.TimerBegin([], counter_name=self._timer)
        end.TimerEnd(timer, [])
        return execution_step("body", [begin, *self._nets, end], should_stop_blob=self.status), end


def _instances(name: str, group: TaskGroup | None, final_outputs: Any, reader: Reader, count: int, end: _End,
               timer: str) -> tuple[Any, Task]:
    """The nets once, for instances of a task."""
    with Task(name=name, group=group, outputs=final_outputs, num_instances=count) as task:
        exit_net, init_net = Net("pipe:exit"), Net("pipe:init")
        reader.setup_ex(init_net, exit_net)
        body = _Body(reader, timer, "pipe:instance:init", "pipe:instance:exit")
        if body.record is not None:
            body.write_by(end.writer(init_net, exit_net))
        with ops.task_init():
            ops.net(init_net)
        with ops.task_instance_init():
            ops.net(body.init_net)
        for step in body.steps():
            ops.net(step)
        with ops.task_instance_exit():
            ops.net(body.exit_net)
        with ops.task_exit():
            ops.net(exit_net)
    return end.queue, task


def _copies(name: str, group: TaskGroup | None, final_outputs: Any, reader: Reader, count: int, end: _End,
            timer: str) -> tuple[Any, Task]:
    """The nets again for each thread, in one workspace."""
    with Task(name=name, group=group, outputs=final_outputs) as task:
        exit_net, init_net = Net("exit"), Net("init")
        reader.setup_ex(init_net, exit_net)
        copies = []
        for k in range(count):
            with NetBuilder(name=f"t:{k}") as builder:
                body = _Body(reader, timer, "init", "exit")
                if body.record is not None:
                    with NetBuilder(_fullname=task.name):  # a queue is the task's, not the first thread's
                        writer = end.writer(init_net, exit_net)
                    body.write_by(writer)
                ops.net(body.init_net)
                for step in body.steps():
                    ops.net(step)
                ops.net(body.exit_net)
            copies.append(to_execution_step(builder))
        ops.net(init_net)
        NetBuilder.current().add(execution_step("body", copies, concurrent_substeps=True))
        ops.net(exit_net)
    return end.queue, task
