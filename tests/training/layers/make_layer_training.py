"""Asks the real Caffe2 what the models of `layer_training.py` learn: ``python make_layer_training.py FILE``."""

import json
import sys

import layer_models
import layer_training
import numpy as np

if __name__ == "__main__":
    from caffe2.python import layer_model_helper, layer_model_instantiator, optimizer, workspace

    result = {}
    for name in layer_training.TRAINED:
        make = getattr(layer_models, name)
        workspace.ResetWorkspace()
        model = layer_models.build(make, layer_model_helper, optimizer)
        trained, losses = layer_training.train(
            make, model, layer_models.nets(model, layer_model_instantiator), workspace)
        # of tables, the rows that the data names
        result[name] = {"losses": losses, "trained": {
            param: [float(f"{x:.7g}") for x in np.ravel(value[:4])] for param, value in sorted(trained.items())}}
    with open(sys.argv[1], "w") as file:
        json.dump(result, file, indent=None, separators=(",", ":"))
        file.write("\n")
