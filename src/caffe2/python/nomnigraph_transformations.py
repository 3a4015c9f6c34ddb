"""Caffe2's `nomnigraph_transformations`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.tools.nomnigraph.layout": "transpose_network"},
       {"core": "caffe2.python.core", "ng": "caffe2.python.nomnigraph", "utils": "caffe2.python.utils"})
