"""Caffe2's `fakefp16_transform_lib`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.tools.fake_half": "fakeFp16FuseOps"}, {"C": "caffe2.python._import_c_extension"})
