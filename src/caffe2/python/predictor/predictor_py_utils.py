"""Caffe2's `predictor.predictor_py_utils`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.persist.meta_nets": """
        AddBlobs AddModelIdArg AddNet AddPlan GetApplicationSpecificInfo GetArgumentByName GetBlobs
        GetBlobsByTypePrefix GetBlobsOrder GetNet GetNetOriginal GetPlan GetPlanOriginal ReplaceBlobs SetAOTConfig
        SetBlobsOrder SetPreLoadBlobs SetRequestOnlyEmbeddings SetTensorBoundShapes create_predict_init_net
        create_predict_net get_comp_name""",
}, {
    "core": "caffe2.python.core",
    "scope": "caffe2.python.scope",
})
