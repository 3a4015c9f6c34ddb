"""Layers for `LayerModelHelper`: parts of a model that write themselves into training, evaluation and prediction nets.

All of them are registered here under the names of their classes; `register_layer` adds others.
"""

import inspect

from netgrad.training.layers import (
    adaptive_weight,
    bootstrap,
    classification_losses,
    collecting,
    convolution,
    dense,
    dropout,
    feature_sparse_to_dense,
    functional,
    hashing,
    joining,
    list_weights,
    logistic_loss,
    normalization,
    pairwise_similarity,
    random_features,
    ranking_losses,
    records,
    regression_losses,
    sampled,
    sparse_lookup,
    weighting,
)
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.discovery import find_subclasses_recursively
from netgrad.training.layers.registry import register_layer

for _module in (
    adaptive_weight, bootstrap, classification_losses, collecting, convolution, dense, dropout,
    feature_sparse_to_dense, functional, hashing, joining, list_weights, logistic_loss, normalization,
    pairwise_similarity, random_features, ranking_losses, records, regression_losses, sampled, sparse_lookup, weighting,
):
    for _name, _class in inspect.getmembers(_module, inspect.isclass):
        if issubclass(_class, ModelLayer) and _class.__module__ == _module.__name__ and not _name.startswith("_"):
            register_layer(_name, _class)

#: the classes of all layers that are part of netgrad, bases included
model_layer_subcls: set[type[ModelLayer]] = set()
find_subclasses_recursively(ModelLayer, model_layer_subcls)
