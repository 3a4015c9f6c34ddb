"""Trains models of `layer_models.py` from given parameters on given data; `make_layer_training.py` asks the real Caffe2
for the numbers."""

import numpy as np

#: models and the steps they train; those that draw at random cannot be compared
TRAINED = {"losses": 4, "ranking": 4, "weights": 4, "shared": 6, "regularized": 4}


def data(model):
    """Blob -> array for the columns that the models read, 6 rows."""
    rng = np.random.RandomState(1)
    f, e = model.input_feature_schema, model.trainer_extra_schema
    lengths = np.array([2, 0, 3, 1, 1, 2], np.int32)
    return {
        f.dense(): rng.randn(6, 8).astype(np.float32),
        f.other(): rng.randn(6, 8).astype(np.float32),
        f.clicks.lengths(): lengths,
        f.clicks.items(): np.array([3, 7, 7, 1, 3, 0, 49, 2, 2], np.int64),
        f.scored.lengths(): lengths,
        f.scored["values:values"](): rng.randn(9).astype(np.float32),
        e.label(): np.array([0, 1, 1, 0, 1, 0], np.float64),
        e["class"](): np.array([0, 1, 2, 2, 1, 0], np.int64),
        e.labels(): (rng.rand(6, 3) > 0.5).astype(np.float32),
        e.weight(): np.array([1, 2, 0.5, 1, 0, 3], np.float64),
    }


def parameters(model):
    """Parameter -> its first value; those that are not drawn start as the layer says."""
    rng = np.random.RandomState(2)
    result = {}
    for layer in model.layers:
        for param in layer.params:
            if param.shape and (len(param.shape) == 2 or str(param).endswith("/b")):
                result[str(param)] = rng.randn(*param.shape).astype(np.float32) * 0.3
    return result


def train(make, model, nets, workspace):
    """The trained parameters, and the losses of every step."""
    for blob, array in data(model).items():
        workspace.FeedBlob(str(blob), array)
    workspace.RunNetOnce(nets["init"])
    for name, array in parameters(model).items():
        workspace.FeedBlob(name, array)
    workspace.CreateNet(nets["train"])
    losses = []
    for _ in range(TRAINED[make.__name__]):
        workspace.RunNet(nets["train"].Proto().name)
        losses.append([float(np.sum(workspace.FetchBlob(str(blob)))) for blob in model.loss.field_blobs()])
    trained = {}
    for name in model.param_to_optim:
        value = workspace.FetchBlob(name)
        if isinstance(value, np.ndarray):
            trained[name] = np.atleast_1d(value)
    return trained, losses
