"""Caffe2's `helpers.quantization`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.helpers.elementwise": "fused_8bit_rowwise_quantized_to_float"})
