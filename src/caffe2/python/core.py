"""Caffe2's `core`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.blob": """
        BlobReference ScopedBlobReference ScopedName output_to_list _RectifyInputOutput _get_blob_ref""",
    "netgrad.graph.scope": "DeviceScope NameScope",
    "netgrad.graph.device": "DeviceOption IsGPUDeviceType device_equal device_option_equal",
    "netgrad.graph.operator": """
        CreateOperator CreatePythonOperator DataType GetIndexFromGradientList GradientSlice IsOperator
        IsOperatorWithEngine RefreshRegisteredOperators _RegisterPythonImpl""",
    "netgrad.graph.registry": "_GetRegisteredOperators=names _REGISTERED_OPERATORS=registered",
    "netgrad.graph.lazy_imports": "TriggerLazyImport",
    "netgrad.graph.net": "Net get_net_name",
    "netgrad.graph.net_cloning": "clone_and_bind_net",
    "netgrad.graph.net_records": "_recover_record_by_prefix",
    "netgrad.graph.ssa": """
        OpSSA get_op_ids_in_path get_output_producers get_ssa get_undefined_blobs""",
    "netgrad.graph.remapping": """
        DEFAULT_REMAP_FUNCS control_op_remap recurrent_network_op_remap remap_input remap_proto""",
    "netgrad.graph.plan": """
        ExecutionStep Plan add_nets_in_order execution_step scoped_execution_step to_execution_step _add_net_to_dict""",
    "netgrad.graph.device_placement": """
        InferBlobDevices InferOpBlobDevices InferOpBlobDevicesAsDict InferOpDeviceAsBlobDevices InjectCrossDeviceCopies
        InjectDeviceCopiesAmongNets InjectDeviceCopiesAmongNetsWithoutB2D RemapEntry copy_func_between_devices
        update_placeholder_op_output""",
    "netgrad.graph.engines": "SetEnginePref SetGlobalEnginePref SetOpEnginePref SetPerOpEnginePref",
    "netgrad.autodiff.gradient_registry": "GradientRegistry IR",
    "netgrad.runtime.housekeeping": "GetGlobalInitArgs GlobalInit _GLOBAL_INIT_ARGS=_global_init_args",
}, {
    "C": "caffe2.python._import_c_extension",
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "np": "numpy",
    "scope": "caffe2.python.scope",
    "utils": "caffe2.python.utils",
    "workspace": "caffe2.python.workspace",
})
