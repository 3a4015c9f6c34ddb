"""Caffe2's `normalizer`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.normalizers": "BatchNormalizer LayerNormalizer Normalizer"})
