"""Caffe2's `helpers.conv`."""

from netgrad.facade import facade

facade(
    __name__, {"netgrad.training.helpers.convolution": "conv conv_nd conv_transpose group_conv group_conv_deprecated"}
)
