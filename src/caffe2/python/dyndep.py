"""Caffe2's `dyndep`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.libraries": "GetImportedOpsLibraries InitOpsLibrary _IMPORTED_DYNDEPS=_loaded",
}, {
    "core": "caffe2.python.core",
    "extension_loader": "caffe2.python.extension_loader",
})
