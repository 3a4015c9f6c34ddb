"""Caffe2's `predictor.predictor_exporter`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.persist.predictors": """
        PredictorExportMeta _global_init_net get_meta_net_def get_predictor_exporter_helper load_from_db
        prepare_prediction_net save_to_db set_model_info""",
    "netgrad.proto.constants": "predictor_constants",
}, {
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "metanet_pb2": "netgrad.proto.metanet_pb2",
    "core": "caffe2.python.core",
    "scope": "caffe2.python.scope",
    "serde": "caffe2.python.predictor.serde",
    "utils": "caffe2.python.predictor.predictor_py_utils",
    "workspace": "caffe2.python.workspace",
})
