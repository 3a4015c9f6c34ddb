"""Caffe2's `timeout_guard`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.tools.time_limits": "CompleteInTimeOrDie EuthanizeIfNecessary WatcherThread"})
