"""Caffe2's `data_workers`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.feeding": """
        BatchFeeder DataWorker GlobalCoordinator LOG_INT_SECS enqueuer get_worker_ids global_coordinator
        init_data_input_workers log""",
    "netgrad.data.workers": "GlobalWorkerCoordinator Metrics State Worker WorkerCoordinator run_worker",
}, {"core": "caffe2.python.core", "scope": "caffe2.python.scope", "utils": "caffe2.python.utils",
    "workspace": "caffe2.python.workspace"})
