"""Caffe2's `layer_model_instantiator`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layer_nets": """
        _filter_layers generate_eval_net generate_predict_net generate_training_nets
        generate_training_nets_forward_only shrink_output_schema""",
})
