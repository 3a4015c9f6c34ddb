"""Caffe2's `helpers`, as facades."""
