"""Caffe2's compiled module, as far as scripts reach into it."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.runtime.current": """
        BackgroundPlan benchmark_net=BenchmarkNet benchmark_net_once=BenchmarkNetOnce blobs=Blobs create_blob=CreateBlob
        create_net=CreateNet current_workspace=CurrentWorkspace delete_net=DeleteNet
        deserialize_blob=DeserializeBlob feed_blob=FeedBlob fetch_blob=FetchBlob
        get_blob_size_bytes=GetBlobSizeBytes has_blob=HasBlob local_blobs=LocalBlobs nets=Nets
        registered_operators=RegisteredOperators reset_blob=ResetBlob reset_workspace=ResetWorkspace
        root_folder=RootFolder run_net=RunNet run_net_once=RunNetOnce run_operator_multiple=RunOperatorMultiple
        run_operator_once=RunOperatorOnce run_plan=RunPlan run_plan_in_background=RunPlanInBackground
        serialize_blob=SerializeBlob switch_workspace=SwitchWorkspace workspaces=Workspaces""",
    "netgrad.runtime.workspace": "Workspace",
    "netgrad.runtime.executor": "Net=BoundNet",
    "netgrad.runtime.observers": """
        Observer add_observer_to_net=AddObserverToNet num_observers_on_net=NumObserversOnNet
        remove_observer_from_net=RemoveObserverFromNet""",
    "netgrad.runtime.predictor": "Predictor",
    "netgrad.runtime.costs": "get_operator_cost=GetOperatorCost",
    "netgrad.runtime.op_schema": "OpSchema",
    "netgrad.runtime.shape_messages": """
        infer_shapes_and_types_from_map=infer_from_map infer_shapes_and_types_from_workspace=infer_from_workspace""",
    "netgrad.runtime.compiled": """
        GradientWrapper create_child_workspace create_offline_tensor=CreateOfflineTensor fill_random_network_inputs
        get_blob_numa_node=GetBlobNUMANode get_build_options get_gradient_defs get_num_numa_nodes=GetNumNUMANodes
        get_stats=GetStats infer_op_input_output_device is_numa_enabled=IsNUMAEnabled op_registry_key ssa_rewrite""",
    "netgrad.runtime.handles": "Blob TensorCPU=BlobTensor",
    "netgrad.persist.databases": "Cursor DB=Database Mode Transaction create_db registered_dbs",
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
    "netgrad.tools.nomnigraph.nodes": "Annotation Edge NeuralNetData NeuralNetOperator NodeRef=Node",
    "netgrad.tools.nomnigraph.graph": "Graph NNGraph NNSubgraph",
    "netgrad.tools.nomnigraph.matching": "NNMatchGraph matchSubgraph",
    "netgrad.tools.nomnigraph.module": "NNModule replaceAllUsesWith replaceAsConsumer replaceProducer",
})
