"""Caffe2's `transformations`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.transformations": "Transformer fuseConvBN fuseNNPACKConvRelu optimizeForMKLDNN",
}, {"C": "caffe2.python._import_c_extension"})
