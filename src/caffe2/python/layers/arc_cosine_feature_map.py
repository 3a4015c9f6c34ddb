"""Caffe2's `layers.arc_cosine_feature_map`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.random_features": "ArcCosineFeatureMap",
    "netgrad.training.layers.base": "ModelLayer",
})
