"""Caffe2's `utils`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.argument_values": "ArgsToDict MakeArgument",
    "netgrad.graph.comparison": "OpAlmostEqual",
    "netgrad.proto.reading": "ConvertProtoToBinary GetContentFromProto GetContentFromProtoString TryReadProtoWithClass",
    "netgrad.runtime.tensors": "Caffe2TensorToNumpyArray=array_of NumpyArrayToCaffe2Tensor=tensor_of",
    "netgrad.runtime.housekeeping": "GetGPUMemoryUsageStats ResetBlobs",
    "netgrad.tools.layouts": "CaffeBlobToNumpyArray NCHW2NHWC NHWC2NCHW",
    "netgrad.tools.debugging": "DebugMode EnumClassKeyVals debug raiseIfNotEqual",
    "netgrad.training.optimizers.base": "BuildUniqueMutexIter ITERATION_MUTEX_NAME OPTIMIZER_ITERATION_NAME",
}, {"caffe2_pb2": "netgrad.proto.caffe2_pb2"})
