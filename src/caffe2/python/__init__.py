"""Caffe2's Python modules, as facades of netgrad's."""
