"""Caffe2's `predictor`."""
