"""Threads of Python that feed nets: order, batches, errors, ends."""

import threading
import time

import numpy as np
import pytest

from caffe2.python import core, data_workers, model_helper, parallel_workers, workspace
from netgrad.runtime.errors import NetError


@pytest.fixture(autouse=True)
def ended():
    workspace.ResetWorkspace()
    yield
    assert data_workers.global_coordinator.stop()
    assert parallel_workers.global_coordinator.stop()


def counting(sizes, columns=(0, 0)):
    """A fetcher of chunks of these many examples, numbered from 0, as two inputs."""
    state = {"next": 0, "chunk": 0}

    def fetch(worker_id, batch_size):
        n = sizes[state["chunk"] % len(sizes)]
        state["chunk"] += 1
        numbers = np.arange(state["next"], state["next"] + n)
        state["next"] += n
        x, y = np.stack([numbers, numbers], 1).astype(np.float32), numbers.astype(np.int32)
        return [x.T.copy() if columns[0] == 1 else x, y]

    return fetch


def run_net(model, times):
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net, overwrite=True)
    for _ in range(times):
        workspace.RunNet(model.net)
        yield workspace.FetchBlob("x"), workspace.FetchBlob("y")


@pytest.mark.parametrize("sizes, batch", [([3, 5, 1], 4), ([10], 3), ([2], 2), ([1], 7), ([0, 4], 3)])
@pytest.mark.parametrize("column", [0, 1])
def test_examples_come_in_order_and_inputs_stay_together(sizes, batch, column):
    model = model_helper.ModelHelper("m")
    coordinator = data_workers.init_data_input_workers(
        model, ["x", "y"], counting(sizes, (column, 0)), batch, num_worker_threads=1, input_source_name="ordered",
        batch_columns=[column, 0], max_buffered_batches=3)
    assert [op.type for op in model.net.Proto().op] == ["DequeueBlobs", "DequeueBlobs"]
    coordinator.start()
    seen = []
    for x, y in run_net(model, 9):
        x = x.T if column else x
        assert x.shape == (batch, 2) and x.dtype == np.float32 and y.dtype == np.int32
        assert x[:, 0].tolist() == x[:, 1].tolist() == y.tolist()
        seen += y.tolist()
    assert seen == list(range(9 * batch))  # nothing was lost between chunks
    assert coordinator.stop()


def test_chunks_can_be_batches_as_they_are():
    model = model_helper.ModelHelper("m")
    coordinator = data_workers.init_data_input_workers(
        model, ["x", "y"], counting([3, 1, 2]), 99, num_worker_threads=1, input_source_name="as_is", dont_rebatch=True)
    coordinator.start()
    assert [len(y) for _, y in run_net(model, 4)] == [3, 1, 2, 3]


@pytest.mark.parametrize("returned, says", [
    ([np.zeros(2)], "1 arrays for the 2 inputs"),
    ([np.zeros(2), [1, 2]], "a list"),
    ([np.zeros(2), np.zeros(3)], "examples"),
    ([np.zeros(()), np.zeros(3)], "no axis"),
])
def test_what_a_fetcher_must_not_return_ends_the_net(returned, says, caplog):
    model = model_helper.ModelHelper("m")
    coordinator = data_workers.init_data_input_workers(
        model, ["x", "y"], lambda worker_id, batch_size: returned, 2, input_source_name="wrong", timeout=20)
    coordinator.start()
    began = time.time()
    with pytest.raises(NetError, match="closed"):
        list(run_net(model, 1))
    assert time.time() - began < 10 and says in caplog.text


def test_a_fetcher_that_raises_ends_the_net(caplog):
    def fetch(worker_id, batch_size):
        raise OSError("the disk is gone")

    model = model_helper.ModelHelper("m")
    coordinator = data_workers.init_data_input_workers(model, ["x"], fetch, 2, input_source_name="broken")
    coordinator.start()
    with pytest.raises(NetError):
        workspace.RunNetOnce(model.net)
    assert "the disk is gone" in caplog.text
    assert coordinator.stop() and coordinator._coordinators == []


def test_a_net_waits_no_longer_than_it_was_told():
    model = model_helper.ModelHelper("m")
    never = threading.Event()
    coordinator = data_workers.init_data_input_workers(
        model, ["x"], lambda *_: never.wait(3), 2, num_worker_threads=1, input_source_name="slow", timeout=0.3)
    coordinator.start()
    with pytest.raises(NetError, match="nothing came"):
        workspace.RunNetOnce(model.net)
    never.set()


def test_sources_stop_one_by_one_and_may_be_read_by_other_nets():
    models = [model_helper.ModelHelper(name) for name in ("train", "test")]
    for model in models:
        coordinator = data_workers.init_data_input_workers(
            model, ["x", "y"], counting([4]), 4, num_worker_threads=1, input_source_name=model.name)
    assert len(set(coordinator.get_worker_ids())) == len(coordinator.get_worker_ids())
    coordinator.start()
    coordinator.stop_coordinator("train")
    assert [c._worker_name for c in coordinator._coordinators] == ["test"]
    assert [len(y) for _, y in run_net(models[1], 2)] == [4, 4]
    other = model_helper.ModelHelper("other")
    coordinator.reset_data_input("", "test", other, 2)
    assert {len(y) for _, y in run_net(other, 12)} <= {2, 4}


def test_init_functions_and_loggers():
    calls, logged = [], []

    class Logger:
        def log(self, metrics):
            logged.append(dict(metrics))

    model = model_helper.ModelHelper("m")
    coordinator = data_workers.init_data_input_workers(
        model, ["x", "y"], counting([4]), 4, input_source_name="logged", external_loggers=[Logger()],
        init_fun=lambda own, everything: calls.append((own.get_worker_ids(), everything is coordinator)))
    coordinator.start()
    list(run_net(model, 2))
    coordinator.stop()
    (ids, same), = calls
    assert len(ids) == 2 and same and "inputs_per_sec" in logged[-1]


def test_workers_run_until_stopped_and_shut_down(caplog):
    counts, ends = [], []
    coordinator = parallel_workers.init_workers(
        lambda worker_id: (counts.append(worker_id), time.sleep(0.001)), num_worker_threads=3,
        shutdown_fun=lambda: ends.append(1))
    coordinator.start()
    while len(counts) < 20:
        time.sleep(0.01)
    assert coordinator.stop() and ends == [1]
    done = len(counts)
    time.sleep(0.05)
    assert len(counts) == done and set(counts) <= set(coordinator.get_worker_ids())

    def fail(worker_id):
        raise ValueError("no more work")

    coordinator = parallel_workers.init_workers(fail, worker_name="failing", shutdown_fun=lambda: ends.append(2))
    coordinator.start()
    assert coordinator.stop() and ends == [1, 2] and "no more work" in caplog.text


def test_the_scope_names_queues_and_inputs():
    model = model_helper.ModelHelper("m")
    with core.NameScope("gpu_0"):
        coordinator = data_workers.init_data_input_workers(
            model, ["x", "y"], counting([4]), 4, num_worker_threads=1, input_source_name="scoped")
    coordinator.start()
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("gpu_0/x").shape == (4, 2) and workspace.HasBlob("gpu_0/x_c2queue_scoped")
