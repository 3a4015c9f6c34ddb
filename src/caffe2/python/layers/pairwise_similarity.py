"""Caffe2's `layers.pairwise_similarity`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.pairwise_similarity": "PairwiseSimilarity",
    "netgrad.training.layers.base": "ModelLayer",
})
