"""Caffe2's `models`."""
