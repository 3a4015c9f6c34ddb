"""Memory of a net: which blobs may share a name, and nets rewritten so that they do. Caffe2's `memonger`.

All of it rests on `netgrad.runtime.planning.liveness`, and none of it changes what a net computes.
"""
