"""Caffe2's `modeling.gradient_clipping`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.net_modifiers.clipping": "GradientClipping",
        "netgrad.training.net_modifiers.base": "NetModifier",
    },
)
