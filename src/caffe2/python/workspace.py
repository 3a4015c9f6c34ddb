"""Caffe2's `workspace`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.runtime.current": """
        BenchmarkNet BenchmarkNetOnce Blobs CallWithExceptionIntercept CreateBlob CreateNet CurrentWorkspace
        DeserializeBlob FeedBlob FetchBlob FetchBlobs FetchTorch GetBlobSizeBytes GetNameScope GetNetName
        HasBlob RegisteredOperators RemoveBlob ResetBlob ResetWorkspace RootFolder RunNet RunNetOnce
        RunOperatorMultiple RunOperatorOnce RunOperatorsOnce RunPlan RunPlanInBackground SerializeBlob
        StringifyBlobName StringifyNetName StringifyProto SwitchWorkspace Workspaces _BlobDict=BlobDict blobs""",
    "netgrad.runtime.workspace": "Workspace",
    "netgrad.runtime.predictor": "Predictor",
    "netgrad.runtime.costs": "GetOperatorCost",
    "netgrad.runtime.int8": "FetchInt8Blob FetchInt8BlobRealVal Int8Tensor",
    "netgrad.runtime.compiled": """
        CreateOfflineTensor FillRandomNetworkInputs GetBlobNUMANode GetNumNUMANodes GetStats IsNUMAEnabled""",
    "netgrad.tools.transforms": "ApplyTransform ApplyTransformIfFaster",
    "netgrad.runtime.inference": "InferShapesAndTypes",
    "netgrad.runtime.immediate": """
        FeedImmediate FetchImmediate ImmediateBlobs IsImmediate RunOperatorImmediate StartImmediate StopImmediate
        WorkspaceGuard _immediate_root_folder=_root_folder""",
    "netgrad.runtime.devices": """
        GetCUDAVersion GetCuDNNVersion GetDeviceProperties GetGPUMemoryInfo GetGpuPeerAccessPattern GpuDeviceType
        NumCudaDevices NumGpuDevices has_cuda_support has_gpu_support has_hip_support is_asan""",
    "netgrad.runtime.housekeeping": "GlobalInit",
    "netgrad.graph.tracebacks": "operator_tracebacks",
}, {
    "C": "caffe2.python._import_c_extension",
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "scope": "caffe2.python.scope",
    "utils": "caffe2.python.utils",
})
