"""Caffe2's `modeling.compute_statistics_for_blobs`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.net_modifiers.reports": "ComputeStatisticsForBlobs",
        "netgrad.training.net_modifiers.base": "NetModifier",
    },
)
