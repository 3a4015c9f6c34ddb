"""Caffe2's `crf`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.recurrent.crf": "CRFWithLoss"}, {
    "brew": "caffe2.python.brew",
    "core": "caffe2.python.core",
    "model_helper": "caffe2.python.model_helper",
    "recurrent": "caffe2.python.recurrent",
})
