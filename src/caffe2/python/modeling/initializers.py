"""Caffe2's `modeling.initializers`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.initializers": """
        ExternalInitializer Initializer PseudoFP16Initializer ReversePseudoFP16Initializer update_initializer
        pFP16Initializer=PseudoFP16Initializer""",
        "netgrad.training.parameters": "ParameterInfo",
    },
)
