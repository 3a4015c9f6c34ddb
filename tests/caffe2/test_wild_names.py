"""What public scripts call is here: names by how many of 65 families of repositories use them.

All modules, functions and keywords that at least three families use, all methods of nets and models, and all operators.
What belongs to parts that are still to come is listed in `LATER`, which has to shrink once a part is here.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from caffe2.python import brew, cnn, core, data_parallel_model, model_helper, optimizer, workspace
from netgrad.graph import registry
from netgrad.graph.schema import known_argument

NAMES = {
    "caffe2.python.workspace": 58, "caffe2.python.core": 56, "caffe2.proto.caffe2_pb2": 50,
    "caffe2.python.workspace.FetchBlob": 46, "caffe2.python.workspace.RunNetOnce": 46,
    "caffe2.python.workspace.CreateNet": 43, "caffe2.python.workspace.RunNet": 40, "caffe2.python.model_helper": 38,
    "caffe2.python.workspace.FeedBlob": 38, "caffe2.python.brew": 36, "caffe2.python.model_helper.ModelHelper": 32,
    "caffe2.proto.caffe2_pb2.NetDef": 30, "caffe2.python.brew.fc": 28, "caffe2.python.brew.relu": 28,
    "caffe2.python.core.CreateOperator": 28, "caffe2.python.workspace.ResetWorkspace": 28,
    "caffe2.python.brew.conv": 26, "caffe2.python.core.Net": 26, "caffe2.python.brew.softmax": 25,
    "caffe2.python.net_drawer": 24, "caffe2.python.utils": 24, "caffe2.proto.caffe2_pb2.CUDA": 23,
    "caffe2.python.brew.max_pool": 23, "caffe2.python.core.DeviceOption": 22, "caffe2.python.optimizer": 21,
    "caffe2.python.core.DataType": 20, "caffe2.python.core.DeviceScope": 20, "caffe2.python.onnx.backend": 19,
    "caffe2.python.predictor.predictor_exporter": 19, "caffe2.python.workspace.Blobs": 19,
    "caffe2.proto.caffe2_pb2.CPU": 18, "caffe2.python.brew.accuracy": 17, "caffe2.python.optimizer.build_sgd": 17,
    "caffe2.python.workspace.Predictor": 17, "caffe2.python.workspace.RunOperatorOnce": 17,
    "caffe2.python.core.GlobalInit": 16, "caffe2.python.utils.MakeArgument": 15, "caffe2.python.dyndep": 14,
    "caffe2.python.net_drawer.GetPydotGraph": 14, "caffe2.proto.caffe2_pb2.TensorProtos": 13,
    "caffe2.python.visualize": 12, "caffe2.python.workspace.GlobalInit": 12, "caffe2.python.brew.average_pool": 11,
    "caffe2.python.brew.iter": 11, "caffe2.python.brew.spatial_bn": 11, "caffe2.python.dyndep.InitOpsLibrary": 11,
    "caffe2.python.predictor.predictor_exporter.PredictorExportMeta": 11,
    "caffe2.python.predictor.predictor_exporter.save_to_db": 11, "caffe2.proto.caffe2_pb2.DeviceOption": 10,
    "caffe2.python.modeling.initializers": 10, "caffe2.python.net_drawer.GetPydotGraphMinimal": 10,
    "caffe2.python.onnx.backend.prepare": 10, "caffe2.python.predictor.mobile_exporter": 9,
    "caffe2.python.utils.NumpyArrayToCaffe2Tensor": 9, "caffe2.python.workspace.SwitchWorkspace": 9,
    "caffe2.python.workspace.blobs": 9, "caffe2.proto.caffe2_pb2.OperatorDef": 8, "caffe2.python.brew.dropout": 8,
    "caffe2.python.brew.image_input": 8, "caffe2.python.cnn": 8, "caffe2.python.workspace.CurrentWorkspace": 8,
    "caffe2.python.workspace.HasBlob": 8, "caffe2": 7, "caffe2.python.core.NameScope": 7,
    "caffe2.python.data_parallel_model": 7, "caffe2.python.modeling.parameter_info": 7,
    "caffe2.python.predictor.mobile_exporter.Export": 7, "caffe2.python.predictor_constants.predictor_constants": 7,
    "caffe2.python.workspace.C": 7, "caffe2.proto.caffe2_pb2.TensorProto": 6, "caffe2.python.brew.db_input": 6,
    "caffe2.python.brew.sum": 6, "caffe2.python.core.C": 6, "caffe2.python.core.C.Mode": 6,
    "caffe2.python.core.C.create_db": 6, "caffe2.python.hypothesis_test_util": 6,
    "caffe2.python.hypothesis_test_util.HypothesisTestCase": 6,
    "caffe2.python.onnx.backend.Caffe2Backend.onnx_graph_to_caffe2_net": 6,
    "caffe2.python.predictor.predictor_exporter.prepare_prediction_net": 6,
    "caffe2.python.predictor.predictor_py_utils": 6, "caffe2.python.utils.Caffe2TensorToNumpyArray": 6,
    "caffe2.python.cnn.CNNModelHelper": 5, "caffe2.python.data_parallel_model.Parallelize_GPU": 5,
    "caffe2.python.modeling.parameter_info.ParameterTags.WEIGHT": 5, "caffe2.python.optimizer.add_weight_decay": 5,
    "caffe2.python.optimizer.build_multi_precision_sgd": 5,
    "caffe2.python.predictor_constants.predictor_constants.PREDICT_INIT_NET_TYPE": 5,
    "caffe2.python.visualize.NCHW": 5, "caffe2.python.workspace.C.Workspace": 5,
    "caffe2.python.workspace.CreateBlob": 5, "caffe2.proto.caffe2_legacy_pb2": 4,
    "caffe2.proto.caffe2_legacy_pb2.CAFFE_LEGACY_POOLING": 4, "caffe2.proto.caffe2_pb2.Argument": 4,
    "caffe2.python.brew.arg_scope": 4, "caffe2.python.core.BlobReference": 4, "caffe2.python.core.get_ssa": 4,
    "caffe2.python.data_parallel_model.FinalizeAfterCheckpoint": 4,
    "caffe2.python.data_parallel_model.GetCheckpointParams": 4, "caffe2.python.experiment_util": 4,
    "caffe2.python.experiment_util.ModelTrainerLog": 4, "caffe2.python.memonger": 4,
    "caffe2.python.memonger.share_grad_blobs": 4, "caffe2.python.modeling.initializers.pFP16Initializer": 4,
    "caffe2.python.modeling.initializers.update_initializer": 4,
    "caffe2.python.modeling.parameter_info.ParameterTags.BIAS": 4, "caffe2.python.models": 4,
    "caffe2.python.onnx.frontend": 4, "caffe2.python.onnx.frontend.caffe2_net_to_onnx_model": 4,
    "caffe2.python.predictor.predictor_exporter.load_from_db": 4,
    "caffe2.python.predictor.predictor_py_utils.GetNet": 4,
    "caffe2.python.predictor_constants.predictor_constants.GLOBAL_INIT_NET_TYPE": 4, "caffe2.python.scope": 4,
    "caffe2.python.timeout_guard": 4, "caffe2.python.timeout_guard.CompleteInTimeOrDie": 4,
    "caffe2.python.utils.CaffeBlobToNumpyArray": 4, "caffe2.python.brew.Register": 3,
    "caffe2.python.brew.add_weight_decay": 3, "caffe2.python.brew.concat": 3, "caffe2.python.core.ScopedName": 3,
    "caffe2.python.data_parallel_model.GetLearningRateBlobNames": 3,
    "caffe2.python.data_parallel_model.Parallelize": 3, "caffe2.python.hypothesis_test_util.gcs": 3,
    "caffe2.python.modeling.initializers.ExternalInitializer": 3, "caffe2.python.models.resnet": 3,
    "caffe2.python.models.squeezenet": 3, "caffe2.python.optimizer.build_adagrad": 3,
    "caffe2.python.optimizer.build_adam": 3, "caffe2.python.scope._NAMESCOPE_SEPARATOR": 3,
}
METHODS = {
    "Proto": 36, "param_init_net": 33, "AddGradientOperators": 28, "param_to_grad": 19, "RunAllOnGPU": 11,
    "AppendNet": 7, "GetParams": 7, "Name": 7, "create_param": 6, "GetAllParams": 5, "GetOptimizationParamInfo": 5,
    "_devices": 5, "Clone": 4, "NextName": 4, "AddExternalOutput": 3, "_device_prefix": 3, "_device_type": 3,
}
OPERATORS = {
    "ConstantFill": 27, "AveragedLoss": 26, "LabelCrossEntropy": 23, "StopGradient": 23, "Scale": 21, "Cast": 18,
    "Softmax": 15, "FC": 14, "Sigmoid": 14, "Print": 13, "GivenTensorFill": 12, "SoftmaxWithLoss": 12,
    "TensorProtosDBInput": 12, "WeightedSum": 12, "LearningRate": 11, "Summarize": 11, "Relu": 10, "CreateDB": 9,
    "GaussianFill": 9, "Accuracy": 8, "Add": 8, "Conv": 7, "Pow": 7, "Concat": 6, "Copy": 6, "Dropout": 6,
    "ExpandDims": 6, "FlattenToVec": 6, "Mul": 6, "Reshape": 6, "SquaredL2Distance": 6, "Sub": 6, "XavierFill": 6,
    "Clip": 5, "MaxPool": 5, "Squeeze": 5, "Sum": 5, "Transpose": 5, "Checkpoint": 4, "Div": 4,
    "FileStoreHandlerCreate": 4, "Flatten": 4, "GT": 4, "Gather": 4, "HalfToFloat": 4, "LT": 4, "Log": 4,
    "MomentumSGDUpdate": 4, "RedisStoreHandlerCreate": 4, "Shape": 4, "Slice": 4, "Split": 4, "Tanh": 4, "Tile": 4,
    "And": 3, "AveragePool": 3, "BatchGather": 3, "CopyCPUToGPU": 3, "CopyGPUToCPU": 3, "Iter": 3, "Logit": 3,
    "MatMul": 3, "NanCheck": 3, "Or": 3, "ReduceBackSum": 3, "SigmoidCrossEntropyWithLogits": 3, "SpatialBN": 3,
    "Alias": 2, "AliasWithName": 2, "Append": 2, "ArgMax": 2, "BatchBoxCox": 2, "BatchMatMul": 2, "BatchOneHot": 2,
    "BooleanMask": 2, "CloseBlobsQueue": 2, "CreateBlobsQueue": 2, "DequeueBlobs": 2, "Elu": 2, "EnqueueBlobs": 2,
    "FloatToHalf": 2, "LE": 2, "LRN": 2, "LeakyRelu": 2, "LengthsRangeFill": 2, "LengthsTile": 2,
    "MergeMultiScalarFeatureTensors": 2, "NCCLAllreduce": 2, "Percentile": 2, "Python": 2, "ReduceBackMax": 2,
    "ReduceBackMean": 2, "ResizeNearest": 2, "RoIAlign": 2, "SafeEnqueueBlobs": 2, "SigmoidCrossEntropyLoss": 2,
    "Size": 2, "SmoothL1Loss": 2, "SparseToDenseMask": 2, "WeightedSample": 2, "Where": 2, "Abs": 1, "Adagrad": 1,
    "AffineChannel": 1, "Allreduce": 1, "BBoxTransform": 1, "BatchPermutation": 1, "BoxWithNMSLimit": 1,
    "ChannelStats": 1, "CollectAndDistributeFpnRpnProposals": 1, "ColwiseMax": 1, "Conv2D": 1, "ConvTranspose": 1,
    "Cos": 1, "CrossEntropy": 1, "DeformConv": 1, "DiagonalFill": 1, "ELU": 1, "EQ": 1, "Exp": 1, "GE": 1,
    "GenerateProposals": 1, "GivenTensorInt64Fill": 1, "GivenTensorIntFill": 1, "GivenTensorStringFill": 1, "Glu": 1,
    "GroupSpatialSoftmax": 1, "ImageInput": 1, "IndexFreeze": 1, "IndexGet": 1, "IndexLoad": 1, "InstanceNorm": 1,
    "Int8Dequantize": 1, "Int8GivenIntTensorFill": 1, "Int8GivenTensorFill": 1, "Int8Quantize": 1, "L1Distance": 1,
    "LayerNorm": 1, "LengthsMax": 1, "Load": 1, "MSRAFill": 1, "MakeTwoClass": 1, "NCHW2NHWC": 1, "NHWC2NCHW": 1,
    "Negative": 1, "Not": 1, "PRelu": 1, "PSRoIPool": 1, "ReplaceNaN": 1, "ResizeLike": 1, "ReversePackedSegs": 1,
    "RowWiseSparseAdagrad": 1, "SampleAs": 1, "ScatterAssign": 1, "ScatterWeightedSum": 1, "SelectSmoothL1Loss": 1,
    "Selu": 1, "SigmoidFocalLoss": 1, "Sign": 1, "Sin": 1, "SmoothL1LossGradient": 1, "SoftmaxFocalLoss": 1,
    "Softplus": 1, "Softsign": 1, "SparseAdagrad": 1, "SparseLengthsSum": 1, "SparseLengthsWeightedSum": 1,
    "SparseToDense": 1, "SpatialNarrowAs": 1, "SpatialSoftmaxWithLoss": 1, "SquareRootDivide": 1,
    "StringIndexCreate": 1, "Swish": 1, "UniformFill": 1, "UniformIntFill": 1, "Unique": 1, "UnsortedSegmentSum": 1,
    "UpsampleNearest": 1, "VideoInput": 1, "Xor": 1,
}
KEYWORDS = {
    "CNNModelHelper name": 4, "CNNModelHelper order": 3, "ConstantFill shape": 20, "ConstantFill value": 18,
    "ConstantFill dtype": 6, "ConstantFill run_once": 3, "Conv kernel": 4, "Conv pad": 3, "Conv stride": 3,
    "Conv dim_in": 3, "Conv dim_out": 3, "CreateNet overwrite": 25, "CreateOperator shape": 15,
    "CreateOperator arg": 11, "CreateOperator scale": 5, "CreateOperator device_option": 4,
    "CreateOperator values": 4, "CreateOperator std": 4, "CreateOperator exponent": 4, "CreateOperator host": 4,
    "CreateOperator port": 4, "CreateOperator prefix": 4, "CreateOperator path": 4, "CreateOperator mean": 3,
    "CreateOperator is_test": 3, "FeedBlob device_option": 11, "LearningRate base_lr": 10, "LearningRate policy": 10,
    "LearningRate stepsize": 9, "LearningRate gamma": 9, "MaxPool kernel": 5, "MaxPool stride": 5,
    "ModelHelper name": 31, "ModelHelper init_params": 22, "ModelHelper arg_scope": 21,
    "Parallelize input_builder_fun": 3, "Parallelize forward_pass_builder_fun": 3,
    "Parallelize optimizer_builder_fun": 3, "Parallelize post_sync_builder_fun": 3, "Parallelize devices": 3,
    "Parallelize rendezvous": 3, "Parallelize optimize_gradient_memory": 3, "Parallelize cpu_device": 3,
    "Parallelize_GPU input_builder_fun": 5, "Parallelize_GPU forward_pass_builder_fun": 5,
    "Parallelize_GPU devices": 5, "Parallelize_GPU param_update_builder_fun": 4,
    "Parallelize_GPU optimize_gradient_memory": 4, "Parallelize_GPU rendezvous": 3,
    "Parallelize_GPU optimizer_builder_fun": 3, "RunNet num_iter": 5, "Softmax axis": 4, "SpatialBN epsilon": 3,
    "TensorProtosDBInput batch_size": 12, "TensorProtosDBInput db": 11, "TensorProtosDBInput db_type": 11,
    "brew.arg_scope WeightInitializer": 4, "brew.arg_scope BiasInitializer": 4,
    "brew.arg_scope enable_tensor_core": 4, "brew.average_pool kernel": 9, "brew.average_pool stride": 9,
    "brew.conv kernel": 23, "brew.conv dim_in": 19, "brew.conv dim_out": 19, "brew.conv stride": 16,
    "brew.conv pad": 16, "brew.conv no_bias": 8, "brew.conv weight_init": 7, "brew.db_input blobs_out": 6,
    "brew.db_input batch_size": 6, "brew.db_input db": 6, "brew.db_input db_type": 6, "brew.dropout ratio": 7,
    "brew.dropout is_test": 6, "brew.fc dim_in": 22, "brew.fc dim_out": 22, "brew.image_input batch_size": 7,
    "brew.image_input crop": 7, "brew.image_input mirror": 6, "brew.image_input is_test": 5,
    "brew.image_input mean": 5, "brew.image_input scale": 5, "brew.image_input use_caffe_datum": 5,
    "brew.image_input std": 4, "brew.image_input use_gpu_transform": 4, "brew.image_input output_type": 3,
    "brew.image_input minsize": 3, "brew.max_pool kernel": 22, "brew.max_pool stride": 22, "brew.max_pool pad": 3,
    "brew.spatial_bn is_test": 11, "brew.spatial_bn epsilon": 10, "brew.spatial_bn momentum": 9,
    "brew.spatial_bn dim_in": 4, "optimizer.build_multi_precision_sgd nesterov": 4,
    "optimizer.build_multi_precision_sgd momentum": 4, "optimizer.build_multi_precision_sgd policy": 4,
    "optimizer.build_multi_precision_sgd stepsize": 4, "optimizer.build_multi_precision_sgd gamma": 4,
    "optimizer.build_sgd policy": 15, "optimizer.build_sgd stepsize": 14, "optimizer.build_sgd gamma": 14,
    "optimizer.build_sgd base_learning_rate": 13, "optimizer.build_sgd momentum": 8,
    "optimizer.build_sgd nesterov": 4,
}

#: beginning of a name -> the part that it belongs to
LATER = {
    "caffe2.python.onnx": "ONNX", "caffe2.python.hypothesis_test_util": "test utilities",
    "caffe2.python.models.squeezenet": "a model that users download",
    "_device_prefix": "set by Parallelize", "_device_type": "set by Parallelize",
    "RedisStoreHandlerCreate": "stores", "FileStoreHandlerCreate": "stores", "VideoInput": "videos",
    "NCCLAllreduce": "several processes", "Allreduce": "several processes",
}
#: not operators, whatever the scripts thought
NO_OPERATORS = {"ELU"}


def params(names: Any) -> list[Any]:
    marked = []
    for name in names:
        part = next((part for start, part in LATER.items() if name.startswith(start)), None)
        marked.append(pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=part) if part else ()))
    return marked


def resolve(name: str) -> Any:
    """The object behind a dotted name: modules first, then attributes."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for k, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(".".join(parts[:k]))
    return found


@pytest.mark.parametrize("name", params(NAMES))
def test_names_are_there(name: str) -> None:
    assert resolve(name) is not None


@pytest.mark.parametrize("name", params(METHODS))
def test_nets_and_models_have_these_attributes(name: str) -> None:
    model = model_helper.ModelHelper(name="wild")
    assert hasattr(model, name) or hasattr(model.net, name) or hasattr(cnn.CNNModelHelper(), name)


@pytest.mark.parametrize("name", params(sorted(OPERATORS.keys() - NO_OPERATORS)))
def test_operators_run(name: str) -> None:
    declaration = registry.find(name)
    assert declaration is not None and declaration.kernel is not None


#: where a function that is named without its module is found
OWNERS = (workspace, core, model_helper, cnn, data_parallel_model)


@pytest.mark.parametrize("call", params(KEYWORDS))
def test_keywords_are_taken(call: str) -> None:
    name, keyword = call.split()
    owner, _, short = name.rpartition(".")
    modules = {"brew": (brew,), "optimizer": (optimizer,)}.get(owner, OWNERS)
    function = next((getattr(module, short) for module in modules if hasattr(module, short)), None)
    if function is None:  # an operator, or the method of a model that stands for one
        declaration = registry.find(name)
        assert declaration is not None, f"there is no {name}"
        helper = getattr(cnn.CNNModelHelper, name, None)
        assert known_argument(declaration, keyword) or (helper is not None and takes(helper, keyword))
    else:
        assert takes(function, keyword)


def takes(function: Any, keyword: str) -> bool:
    parameters = inspect.signature(function).parameters
    return keyword in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
