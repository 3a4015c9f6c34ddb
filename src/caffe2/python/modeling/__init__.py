"""Caffe2's `modeling`, as facades."""
