"""Caffe2's `data_parallel_model`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.parallel.data_parallel": """
        GetLearningRateBlobNames Parallelize Parallelize_CPU Parallelize_GPU Parallelize_iDeep _AddGradientOperators
        _GetReverseOrderedGrads log=logger""",
    "netgrad.parallel.block_momentum": "Parallelize_BMUF Parallelize_CPU_BMUF Parallelize_GPU_BMUF",
    "netgrad.parallel.batch_norm": "_InterleaveOps",
    "netgrad.parallel.checkpoints": """
        ExtractPredictorNet FinalizeAfterCheckpoint GetCheckpointParams _ComputeBlobsToSync""",
    "netgrad.parallel.devices": """
        ConvertNetForDevice _AnalyzeOperators _ForEachDevice _GroupByDevice _InferBlobDevice _IsGPUBlob _IsIDEEPBlob
        _ValidateParams stripBlobName""",
    "netgrad.parallel.exchange": "AddBlobSync AddDistributedBlobSync _AllReduce _Broadcast",
    "netgrad.parallel.model_memory": "OptimizeGradientMemory",
    "netgrad.parallel.running": """
        CreateNet RunInitNet RunNet RunWarmup Synchronize _DEFAULT_BARRIER_NET_TIMEOUT_SEC _DEFAULT_TIMEOUT_SEC""",
}, {
    "caffe2_pb2": "netgrad.proto.caffe2_pb2", "core": "caffe2.python.core", "memonger": "caffe2.python.memonger",
    "model_helper": "caffe2.python.model_helper", "scope": "caffe2.python.scope", "utils": "caffe2.python.utils",
    "workspace": "caffe2.python.workspace",
})
