"""Asks the real Caffe2 for the nets of `layer_models.py`: ``python make_layer_nets.py FOLDER``."""

import os
import sys

import layer_models
import numpy as np
from google.protobuf import text_format

if __name__ == "__main__":
    from caffe2.python import core, layer_model_helper, layer_model_instantiator, optimizer

    for make in layer_models.MODELS:
        core.Net._net_names_used.clear()
        np.random.seed(0)
        model = layer_models.build(make, layer_model_helper, optimizer)
        for kind, net in layer_models.nets(model, layer_model_instantiator).items():
            for op in net.Proto().op:
                op.ClearField("debug_info")
            with open(os.path.join(sys.argv[1], f"{make.__name__}.{kind}.pbtxt"), "w") as file:
                file.write(text_format.MessageToString(net.Proto()))
