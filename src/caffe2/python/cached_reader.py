"""Caffe2's `cached_reader`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.data.files": "CachedReader DBFileReader",
    "netgrad.data.pipeline": "pipe",
    "netgrad.control.task": "Cluster TaskGroup",
}, {"core": "caffe2.python.core"})
