"""Caffe2's `helpers.normalization`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.helpers.normalization": """
            instance_norm layer_norm lrn moments_with_running_stats spatial_bn spatial_gn""",
        "netgrad.training.helpers.elementwise": "softmax",
    },
)
