"""Caffe2's `crf_predict`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.recurrent.crf": "CRFWithLoss apply_crf crf_update_predictions"})
