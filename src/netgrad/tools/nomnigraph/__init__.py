"""Nets as graphs of operators and tensors that can be searched and rewired. Caffe2's `nomnigraph`, in plain Python."""
