"""Plans: steps, rounds, stopping, side by side."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.python_ops import register_python_op

Step = caffe2_pb2.ExecutionStep


def plan(nets, *steps):
    return caffe2_pb2.PlanDef(name="p", network=nets, execution_step=steps)


def counting(name, into="n"):
    return net(name, op("TAffine", f"{into} one", into))


@pytest.fixture
def counter(ws):
    ws.feed_blob("n", np.zeros(1, np.float32))
    ws.feed_blob("one", np.ones(1, np.float32))
    return ws


def test_a_step_runs_its_nets_as_often_as_it_says_and_once_by_default(counter):
    counter.run(plan([counting("a"), counting("b")], Step(network=["a", "b"], num_iter=3), Step(network=["a"])))
    assert counter.fetch_blob("n") == 7


def test_substeps_run_in_order_each_round_and_those_with_a_stop_blob_once_where_said(counter):
    counter.feed_blob("stop", np.array(False))
    once = Step(network=["a"], only_once=True, should_stop_blob="stop")
    counter.run(plan([counting("a")], Step(num_iter=4, substep=[once, Step(network=["a"], num_iter=2)])))
    assert counter.fetch_blob("n") == 12


def test_a_step_goes_on_until_its_stop_blob_is_true(counter):
    counter.feed_blob("stop", np.array(False))

    def f(inputs, outputs):
        outputs[0].feed(np.array(inputs[0].data[0] >= 5))

    check = net("check", op("Python", "n", "stop", token=register_python_op(f)))
    counter.run(plan([counting("a"), check], Step(network=["a", "check"], should_stop_blob="stop")))
    assert counter.fetch_blob("n") == 5


def test_a_step_with_a_workspace_keeps_its_new_blobs_to_itself(counter):
    counter.run(plan([net("a", op("TAffine", "n", "inner"), op("TAffine", "inner one", "n"))],
                     Step(network=["a"], create_workspace=True, num_iter=2)))
    assert counter.fetch_blob("n") == 2
    counter.run(plan([], Step(num_iter=1)))


def test_concurrent_substeps_run_at_the_same_time(ws):
    barrier = threading.Barrier(2, timeout=20)
    token = register_python_op(lambda i, o: barrier.wait())
    nets = [net(name, op("Python", "", "", token=token)) for name in "ab"]
    ws.run(plan(nets, Step(substep=[Step(network=["a"]), Step(network=["b"])], concurrent_substeps=True)))
    assert barrier.n_waiting == 0


def test_the_error_of_a_concurrent_substep_is_raised_and_ends_the_others(ws):
    class Own(Exception):
        pass

    def f(inputs, outputs):
        raise Own

    nets = [net("fails", op("Python", "", "", token=register_python_op(f))),
            net("goes_on", op("Python", "", "", token=register_python_op(lambda i, o: None)))]
    endless = Step(network=["goes_on"], num_iter=10**9)
    with pytest.raises(Own):
        ws.run(plan(nets, Step(substep=[endless, Step(network=["fails"])], concurrent_substeps=True)))


def test_a_step_with_nets_and_substeps_is_refused(counter):
    with pytest.raises(NetError, match=r"both nets and substeps"):
        counter.run(plan([counting("a")], Step(network=["a"], substep=[Step(network=["a"])])))


def atomic(ws, name):
    ws.run(op("CreateMutex", "", "m"))
    ws.feed_blob("i", np.zeros(1, np.int64))
    return net(name, op("AtomicIter", "m i", "i"))


def test_instances_run_substeps_several_times_over(ws):
    step = Step(substep=[Step(network=["a"], num_iter=5)], concurrent_substeps=True, num_concurrent_instances=3)
    ws.run(plan([atomic(ws, "a")], step))
    assert ws.fetch_blob("i").tolist() == [15]
    step.concurrent_substeps = False
    ws.run(plan([atomic(ws, "a")], step))
    assert ws.fetch_blob("i").tolist() == [15]


def test_reporters_run_beside_a_step_and_once_after_it(ws, caplog):
    sleeps = net("sleeps", op("Python", "", "", token=register_python_op(lambda i, o: time.sleep(0.2))))
    report = Step(network=["a"], run_every_ms=40)
    ws.run(plan([atomic(ws, "a"), sleeps], Step(substep=[Step(network=["sleeps"]), report])))
    assert 2 <= ws.fetch_blob("i")[0] <= 6
    ws.run(plan([atomic(ws, "a"), sleeps], Step(network=["sleeps"], report_net="a", report_interval=1)))
    assert ws.fetch_blob("i").tolist() == [1]
    bad = plan([net("bad", op("Fail")), sleeps], Step(substep=[Step(network=["sleeps"]),
                                                              Step(network=["bad"], run_every_ms=500)]))
    assert ws.run(bad) and "a reporter failed" in caplog.text


def test_a_stop_blob_is_one_truth_value_that_is_there(counter):
    with pytest.raises(NetError, match=r"'stop'.*no such blob"):
        counter.run(plan([counting("a")], Step(name="s", network=["a"], should_stop_blob="stop")))
    counter.feed_blob("stop", np.array([1, 0], bool))
    with pytest.raises(NetError, match=r"one value of type bool, not bool of shape \(2,\)"):
        counter.run(plan([counting("a")], Step(name="s", network=["a"], should_stop_blob="stop")))
