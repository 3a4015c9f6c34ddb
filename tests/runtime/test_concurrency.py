"""Several threads, cancelling, Ctrl-C, and operators that say that they failed."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.proto import caffe2_pb2
from netgrad.runtime import current
from netgrad.runtime.errors import Cancelled, NetBusy, OperatorFailed
from netgrad.runtime.python_ops import register_python_op
from netgrad.runtime.workspace import Workspace

Step = caffe2_pb2.ExecutionStep


def python(function, inputs="", outputs=""):
    return op("Python", inputs, outputs, token=register_python_op(function))


def test_a_net_that_runs_already_is_refused_and_can_run_again_afterwards(ws):
    begun, go_on, errors = threading.Event(), threading.Event(), []

    def wait(inputs, outputs):
        begun.set()
        assert go_on.wait(20)

    created = ws.create_net(net("n", python(wait)))
    thread = threading.Thread(target=created.run)
    thread.start()
    assert begun.wait(20)
    with pytest.raises(NetBusy, match=r"net 'n' is running already"):
        ws.run_net("n")
    go_on.set()
    thread.join()
    assert ws.run_net("n") and not errors


def test_a_net_that_runs_itself_is_refused(ws):
    ws.create_net(net("n", python(lambda i, o: ws.run_net("n"))))
    with pytest.raises(NetBusy):
        ws.run_net("n")


def test_threads_build_and_run_different_nets_of_one_workspace(ws):
    ws.feed_blob("x", np.ones(4, np.float32))
    errors = []

    def work(k):
        try:
            for round in range(20):
                name = f"n{k}_{round}"
                ws.create_net(net(name, *[op("TAffine", "x" if j == 0 else f"{name}_{j}", f"{name}_{j + 1}", scale=2.0)
                                          for j in range(5)]))
                ws.run_net(name, 2)
                assert ws.fetch_blob(f"{name}_5").tolist() == [32.0] * 4
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(ws.nets) == 80


def test_a_cancelled_run_ends_after_its_operator(ws):
    begun = threading.Event()

    def slow(inputs, outputs):
        begun.set()
        time.sleep(0.1)

    ws.feed_blob("n", np.zeros(1, np.float32))
    created = ws.create_net(net("n", python(slow), op("TFails", "n", "m", how=0)))
    thread = threading.Thread(target=lambda: (begun.wait(20), created.cancel()))
    thread.start()
    with pytest.raises(Cancelled, match=r"run of net 'n' was cancelled"):
        created.run()
    thread.join()
    created.cancel()  # nothing runs: nothing happens
    with pytest.raises(RuntimeError, match=r"pad it"):
        created.run()


def test_an_interrupt_leaves_the_workspace_usable(ws):
    ws.feed_blob("x", np.ones(3, np.float32))
    ws.create_net(net("n", op("TAffine", "x", "y"), op("TFails", "x", "z", how=4)))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            ws.run_net("n")
    ws.run(op("TAffine", "y", "y", scale=2.0))
    assert ws.fetch_blob("y").tolist() == [2, 2, 2]


def test_a_failure_beside_cancels_nets_that_run(ws):
    class Own(Exception):
        pass

    def fail(inputs, outputs):
        raise Own

    def slow(inputs, outputs):
        time.sleep(0.05)

    nets = [net("fails", python(fail)), net("long", *[python(slow)] * 1000)]
    steps = Step(substep=[Step(network=["long"]), Step(network=["fails"])], concurrent_substeps=True)
    start = time.perf_counter()
    with pytest.raises(Own):
        ws.run(caffe2_pb2.PlanDef(name="p", network=nets, execution_step=[steps]))
    assert time.perf_counter() - start < 20


def test_only_operators_that_say_so_may_fail():
    current.ResetWorkspace()
    current.FeedBlob("x", np.ones(3, np.float32))
    current.CreateNet(net("fails", op("Fail")))
    assert current.RunNet("fails", allow_fail=True) is False
    with pytest.raises(OperatorFailed, match=r"operator 0 \(Fail\) of net 'fails'\] Fail says that it failed"):
        current.RunNet("fails")
    current.CreateNet(net("throws", op("ThrowException")))
    with pytest.raises(RuntimeError, match=r"Exception from ThrowExceptionOp"):
        current.RunNet("throws", allow_fail=True)
    with pytest.raises(OperatorFailed):
        current.RunOperatorOnce(op("Fail"))
    current.ResetWorkspace()


def test_types_of_nets_change_no_result(ws):
    ws.feed_blob("x", np.ones(3, np.float32))
    for type in ("", "simple", "dag", "async_dag", "async_scheduling", "parallel", "prof_dag", "async_polling"):
        definition = net(f"n{type}", op("TAffine", "x", "y", scale=2.0), op("TAffine", "y", "y", scale=2.0))
        definition.type, definition.num_workers = type, 8
        ws.create_net(definition)
        ws.run_net(definition.name)
        assert ws.fetch_blob("y").tolist() == [4, 4, 4]


def test_atomic_counters_lose_nothing(ws):
    assert isinstance(ws, Workspace)
    ws.run(op("CreateMutex", "", "m"))
    ws.feed_blob("i", np.zeros(1, np.int64))
    nets = [net(f"n{k}", op("AtomicIter", "m i", "i")) for k in range(4)]
    steps = Step(substep=[Step(network=[n.name], num_iter=50) for n in nets], concurrent_substeps=True)
    ws.run(caffe2_pb2.PlanDef(name="p", network=nets, execution_step=[steps]))
    assert ws.fetch_blob("i").tolist() == [200]


def test_who_waits_for_a_queue_is_cancelled_too(ws):
    ws.run(op("CreateBlobsQueue", "", "queue", capacity=1, num_blobs=1))
    created = ws.create_net(net("n", op("SafeDequeueBlobs", "queue", "x status")))
    thread = threading.Timer(0.1, created.cancel)
    thread.start()
    with pytest.raises(Cancelled):
        created.run()
    thread.join()
    ws.feed_blob("y", np.ones(1, np.float32))
    ws.run(op("EnqueueBlobs", "queue y", "y"))
    assert created.run() and ws.fetch_blob("x").tolist() == [1]
