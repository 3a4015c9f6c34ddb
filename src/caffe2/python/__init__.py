"""Caffe2's Python modules, as facades of netgrad's."""

from typing import Any

from netgrad.on_import import import_along

import_along("torch", "netgrad.bridge.torch_operators")  # torch.ops._caffe2

#: modules that Caffe2 has and netgrad has not, or not yet
_TO_COME = frozenset(("caffe_translator", "db_test", "docs", "examples", "ideep", "mint", "mkl", "onnx", "trt"))


def __getattr__(name: str) -> Any:
    if name in _TO_COME:
        raise ImportError(f"caffe2.python.{name} is not part of netgrad yet; the README says what is there")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
