"""Caffe2's `modeling.compute_norm_for_blobs`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.net_modifiers.reports": "ComputeNormForBlobs",
        "netgrad.training.net_modifiers.base": "NetModifier",
    },
)
