"""Caffe2's `rnn`."""
