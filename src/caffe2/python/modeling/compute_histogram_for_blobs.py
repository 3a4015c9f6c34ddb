"""Caffe2's `modeling.compute_histogram_for_blobs`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.net_modifiers.reports": "ComputeHistogramForBlobs",
        "netgrad.training.net_modifiers.base": "NetModifier",
    },
)
