"""Caffe2's `context`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.graph.context": "DefaultManaged Managed"})
