"""Predictors in one message: a MetaNetDef holds nets, plans and lists of blobs, each under a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from netgrad.graph import scope
from netgrad.graph.net import Net
from netgrad.proto import FormatError, caffe2_pb2, metanet_pb2, read_message, recognition

if TYPE_CHECKING:
    from netgrad.persist.predictors import PredictorExportMeta
    from netgrad.runtime.workspace import Workspace


def get_comp_name(string: str, name: str) -> str:
    """A key, with the model's name behind it if there is one."""
    return f"{string}_{name}" if name else string


def create_predict_net(predictor_export_meta: PredictorExportMeta) -> caffe2_pb2.NetDef:
    """The net that predicts, with the model's inputs, parameters and outputs as its own."""
    meta, given = predictor_export_meta, predictor_export_meta.predict_net
    proto = Net(given.name or "predict").Proto()
    proto.op.extend(given.op)
    proto.partition_info.extend(given.partition_info)
    proto.external_input.extend([*meta.inputs, *meta.parameters])
    proto.external_output.extend(meta.outputs)
    proto.arg.extend(given.arg)
    if meta.net_type is not None:
        proto.type = meta.net_type
    if meta.num_workers is not None:
        proto.num_workers = meta.num_workers
    return proto


def create_predict_init_net(ws: Workspace, predictor_export_meta: PredictorExportMeta) -> caffe2_pb2.NetDef:
    """The net that fills the model's inputs and outputs with zeros, then runs its ``extra_init_net``.

    Shapes are those that the model names, else those that the blobs have in ``ws``.

    Raises:
        ValueError: a blob has a shape in neither.
    """
    meta = predictor_export_meta
    net = Net("predict-init")
    blobs = [*meta.inputs, *meta.outputs]
    for blob in blobs:
        shape = meta.shapes.get(blob)
        if shape is None:
            value = ws.fetch_blob(blob) if ws.has_blob(blob) else None
            if value is None or not hasattr(value, "shape"):
                raise ValueError(f"the shape of {blob!r} is not known: name it in shapes, or have the blob in the "
                                 "workspace")
            shape = value.shape
        with scope.EmptyDeviceScope():
            net.ConstantFill([], blob, shape=shape, value=0.0)
    net.Proto().external_input.extend(blobs)
    if meta.extra_init_net:
        net.AppendNet(meta.extra_init_net)
    AddModelIdArg(meta, net.Proto())
    return net.Proto()


def _find(pairs: Any, key: str) -> Any:
    """The value under a key; None where there is none."""
    return next((pair.value for pair in pairs if pair.key == key), None)


def GetPlan(meta_net_def: metanet_pb2.MetaNetDef, key: str) -> caffe2_pb2.PlanDef | None:
    return _find(meta_net_def.plans, key)


GetPlanOriginal = GetPlan


def GetNet(meta_net_def: metanet_pb2.MetaNetDef, key: str) -> caffe2_pb2.NetDef | None:
    return _find(meta_net_def.nets, key)


GetNetOriginal = GetNet


def GetBlobs(meta_net_def: metanet_pb2.MetaNetDef, key: str) -> Sequence[str]:
    """The blobs under a key, none where it is not there."""
    found: Sequence[str] | None = _find(meta_net_def.blobs, key)
    return [] if found is None else found


def GetBlobsByTypePrefix(meta_net_def: metanet_pb2.MetaNetDef, blob_type_prefix: str) -> list[str]:
    """The blobs under all keys that begin so, each once, in order."""
    return list(dict.fromkeys(blob for pair in meta_net_def.blobs if pair.key.startswith(blob_type_prefix)
                              for blob in pair.value))


def GetApplicationSpecificInfo(meta_net_def: metanet_pb2.MetaNetDef, key: str) -> str | None:
    return _find(meta_net_def.applicationSpecificInfo, key)


def AddBlobs(meta_net_def: metanet_pb2.MetaNetDef, blob_name: str, blob_def: Iterable[str]) -> None:
    """Adds blobs under a key, behind those that are there."""
    blobs = _find(meta_net_def.blobs, blob_name)
    if blobs is None:
        blobs = meta_net_def.blobs.add(key=blob_name).value
    blobs.extend(blob_def)


def ReplaceBlobs(meta_net_def: metanet_pb2.MetaNetDef, blob_name: str, blob_def: Iterable[str]) -> None:
    """Puts other blobs under a key; raises `AssertionError`, as Caffe2 does, where it is not there."""
    blobs = _find(meta_net_def.blobs, blob_name)
    if blobs is None:
        raise AssertionError(f"there are no blobs under {blob_name!r} to replace; use AddBlobs")
    blobs[:] = list(blob_def)


def AddPlan(meta_net_def: metanet_pb2.MetaNetDef, plan_name: str, plan_def: caffe2_pb2.PlanDef) -> None:
    meta_net_def.plans.add(key=plan_name, value=plan_def)


def AddNet(meta_net_def: metanet_pb2.MetaNetDef, net_name: str, net_def: caffe2_pb2.NetDef) -> None:
    meta_net_def.nets.add(key=net_name, value=net_def)


def SetBlobsOrder(meta_net_def: metanet_pb2.MetaNetDef, blobs_order: Iterable[str]) -> None:
    meta_net_def.blobsOrder.extend(blobs_order)


def GetBlobsOrder(meta_net_def: metanet_pb2.MetaNetDef) -> Sequence[str]:
    return meta_net_def.blobsOrder


def SetPreLoadBlobs(meta_net_def: metanet_pb2.MetaNetDef, pre_load_blobs: Iterable[str]) -> None:
    meta_net_def.preLoadBlobs.extend(pre_load_blobs)


def SetRequestOnlyEmbeddings(meta_net_def: metanet_pb2.MetaNetDef, request_only_embeddings: Iterable[str]) -> None:
    meta_net_def.requestOnlyEmbeddings.extend(request_only_embeddings)


def SetTensorBoundShapes(meta_net_def: metanet_pb2.MetaNetDef, tensor_bound_shapes: Any) -> None:
    meta_net_def.tensorBoundShapes.CopyFrom(tensor_bound_shapes)


def SetAOTConfig(meta_net_def: metanet_pb2.MetaNetDef, aot_config: Any) -> None:
    meta_net_def.aotConfig.CopyFrom(aot_config)


def GetArgumentByName(net_def: caffe2_pb2.NetDef, arg_name: str) -> caffe2_pb2.Argument | None:
    """The argument of a net, not of an operator; None where it has none of that name."""
    return next((arg for arg in net_def.arg if arg.name == arg_name), None)


def AddModelIdArg(meta_net_def: PredictorExportMeta, net_def: caffe2_pb2.NetDef) -> None:
    """Gives a net the ``model_id`` that the model's net has, if it has one."""
    model_id = GetArgumentByName(meta_net_def.predict_net, "model_id")
    if model_id is None:
        return
    own = GetArgumentByName(net_def, "model_id") or net_def.arg.add(name="model_id")
    own.i = model_id.i


def serialize_protobuf_struct(protobuf_struct: Any) -> bytes:
    """A message in wire form."""
    data: bytes = protobuf_struct.SerializeToString()
    return data


def deserialize_protobuf_struct(serialized_protobuf: bytes, struct_type: type) -> Any:
    """A message of that type; raises `FormatError` where the bytes are none."""
    message: Any = read_message(serialized_protobuf, struct_type)
    if (broken := recognition.broken_text(message)) is not None:
        raise FormatError(f"a {struct_type.__name__} has the name {broken[:80]!r}, which is no text; get a whole and "
                          "unchanged copy")
    return message
