"""Caffe2's `lazy`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.graph.lazy_imports": "RegisterLazyImport TriggerLazyImport _import_lazy_calls=_pending"})
