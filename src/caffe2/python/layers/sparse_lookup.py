"""Caffe2's `layers.sparse_lookup`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.sparse_lookup": """
        SparseLookup get_sparse_lookup_predictor_version get_sparse_lookup_trainer_version
        get_trainer_version_based_on_optim""",
    "netgrad.training.layers.base": "ModelLayer",
})
