"""Caffe2's `models.seq2seq`."""
