"""Caffe2's `layers.layers`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.base": "AccessedFeatures InstantiationContext ModelLayer",
    "netgrad.training.layers.id_features": """
        IdList IdListWithEvicted IdScoreList IdScoreListWithEvicted almost_equal_schemas get_avg_length
        get_categorical_limit get_key""",
    "netgrad.training.layers.parameters": "LayerParameter LayerPsParam",
    "netgrad.training.layers.registry": "_LAYER_REGISTRY create_layer get_layer_class layer_exists register_layer",
    "netgrad.training.layers.request_only": "is_request_only_scalar set_request_only",
    "netgrad.training.layers.tags": "TagContext",
}, {
    "core": "caffe2.python.core",
    "schema": "caffe2.python.schema",
    "scope": "caffe2.python.scope",
    "utils": "caffe2.python.utils",
    "workspace": "caffe2.python.workspace",
})
