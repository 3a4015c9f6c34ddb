"""Caffe2's `brew`, whose attributes are the registered helpers."""

import sys

from netgrad.training.brew import HelperWrapper

sys.modules[__name__] = HelperWrapper(sys.modules[__name__])  # type: ignore[assignment]
