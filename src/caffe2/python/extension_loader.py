"""Caffe2's `extension_loader`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.graph.libraries": "DlopenGuard"})
