"""Caffe2's compiled module, as far as scripts reach into it."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.runtime.current": """
        benchmark_net=BenchmarkNet benchmark_net_once=BenchmarkNetOnce blobs=Blobs create_blob=CreateBlob
        create_net=CreateNet current_workspace=CurrentWorkspace delete_net=DeleteNet
        deserialize_blob=DeserializeBlob feed_blob=FeedBlob fetch_blob=FetchBlob
        get_blob_size_bytes=GetBlobSizeBytes has_blob=HasBlob local_blobs=LocalBlobs nets=Nets
        registered_operators=RegisteredOperators reset_blob=ResetBlob reset_workspace=ResetWorkspace
        root_folder=RootFolder run_net=RunNet run_net_once=RunNetOnce run_operator_multiple=RunOperatorMultiple
        run_operator_once=RunOperatorOnce run_plan=RunPlan run_plan_in_background=RunPlanInBackground
        serialize_blob=SerializeBlob switch_workspace=SwitchWorkspace workspaces=Workspaces""",
    "netgrad.runtime.workspace": "Workspace",
    "netgrad.runtime.handles": "Blob TensorCPU=BlobTensor",
    "netgrad.runtime.python_ops": """
        DLPackTensorCPU=DLPackTensor register_python_gradient_op
        register_python_op=register_python_function""",
    "netgrad.runtime.devices": """
        get_cuda_version=GetCUDAVersion get_cudnn_version=GetCuDNNVersion get_device_properties=GetDeviceProperties
        get_gpu_memory_info=GetGPUMemoryInfo has_cuda_support has_gpu_support has_hip_support has_mkldnn is_asan
        num_cuda_devices=NumCudaDevices use_mkldnn use_rocm use_trt""",
    "netgrad.graph.engines": """
        set_engine_pref=SetEnginePref set_global_engine_pref=SetGlobalEnginePref set_op_engine_pref=SetOpEnginePref
        set_per_op_engine_pref=SetPerOpEnginePref""",
    "netgrad.runtime.housekeeping": "global_init=GlobalInit",
    "netgrad.graph.registry": "nearby_opnames=close_names",
})
