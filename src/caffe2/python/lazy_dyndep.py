"""Caffe2's `lazy_dyndep`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.libraries": "GetImportedOpsLibraries RegisterOpsLibrary SetErrorHandler _import_lazy=_load_waiting",
}, {
    "dyndep": "caffe2.python.dyndep",
    "lazy": "caffe2.python.lazy",
})
