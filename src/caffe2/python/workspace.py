"""Caffe2's `workspace`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.runtime.current": """
        Blobs CreateBlob CreateNet CurrentWorkspace DeserializeBlob FeedBlob FetchBlob FetchBlobs FetchTorch
        GetBlobSizeBytes GetNameScope GetNetName GlobalInit HasBlob RegisteredOperators RemoveBlob ResetBlob
        ResetWorkspace RootFolder RunNet RunNetOnce RunOperatorMultiple RunOperatorOnce RunOperatorsOnce RunPlan
        SerializeBlob StringifyBlobName StringifyNetName StringifyProto SwitchWorkspace Workspaces
        _BlobDict=BlobDict blobs""",
    "netgrad.runtime.workspace": "Workspace",
})
