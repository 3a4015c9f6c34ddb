"""Caffe2's `optimizer`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.optimizers.base": "AuxOptimizerParams Optimizer _optimizer_instance_count",
        "netgrad.training.optimizers.sgd": "SgdOptimizer WeightDecayBuilder",
        "netgrad.training.optimizers.adam": "AdamOptimizer",
        "netgrad.training.optimizers.adagrad": "AdagradOptimizer",
        "netgrad.training.optimizers.adaptive": "AdadeltaOptimizer RmsPropOptimizer StormOptimizer WngradOptimizer",
        "netgrad.training.optimizers.ftrl": "FtrlOptimizer GFtrlOptimizer",
        "netgrad.training.optimizers.half": "FP16SgdOptimizer MultiPrecisionSgdOptimizer",
        "netgrad.training.optimizers.yellowfin": "YellowFinOptimizer",
        "netgrad.training.optimizers.build": """
        _LEARNING_RATE_INJECTION _build _calc_norm_ratio _get_param_to_device=_devices add_weight_decay build_adadelta
        build_adagrad build_adam build_fp16_sgd build_ftrl build_gftrl build_multi_precision_sgd build_rms_prop
        build_sgd build_storm build_wngrad build_yellowfin get_lr_injection get_param_device set_lr_injection""",
    },
    {
        "core": "caffe2.python.core",
        "scope": "caffe2.python.scope",
        "utils": "caffe2.python.utils",
        "workspace": "caffe2.python.workspace",
        "parameter_info": "caffe2.python.modeling.parameter_info",
    },
)
