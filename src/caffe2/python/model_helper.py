"""Caffe2's `model_helper`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.model_helper": "ModelHelper",
        "netgrad.training.predictor_net": "ExtractPredictorNet",
        "netgrad.training.modifiers": "OptimizerContext RegularizerContext DEFAULT_OPTIM",
        "netgrad.training.sharing": "parameter_sharing_context",
    },
    {
        "core": "caffe2.python.core",
        "scope": "caffe2.python.scope",
        "workspace": "caffe2.python.workspace",
        "parameter_info": "caffe2.python.modeling.parameter_info",
    },
)
