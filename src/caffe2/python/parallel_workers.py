"""Caffe2's `parallel_workers`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.workers": """
        GlobalWorkerCoordinator Metrics State Worker WorkerCoordinator global_coordinator init_workers log
        run_worker""",
    "netgrad.data.feeding": "LOG_INT_SECS",
})
