"""Caffe2's `modeling.parameter_sharing`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.sharing": """
            ParameterSharing ParameterSharingContext _normalize_namescope parameter_sharing_context"""
    },
)
