"""Caffe2's `session`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.control.session": "CompiledRunnable LocalSession Session",
    "netgrad.control.task": "Cluster Task TaskGroup WorkspaceType",
}, {"core": "caffe2.python.core", "workspace": "caffe2.python.workspace"})
