"""Predictors in databases: a model's nets and parameters in one file, as Caffe2's predictor_exporter has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from netgrad.graph import scope
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator
from netgrad.graph.plan import Plan
from netgrad.persist import meta_nets
from netgrad.persist.errors import StorageError, told_of
from netgrad.proto import caffe2_pb2, metanet_pb2
from netgrad.proto.constants import predictor_constants
from netgrad.runtime.current import CreateNet, FeedBlob, FetchBlob, RunNetOnce, RunOperatorOnce
from netgrad.runtime.workspace import Workspace


class _Fields(NamedTuple):
    predict_net: Any
    parameters: list[str]
    inputs: list[str]
    outputs: list[str]
    shapes: Mapping[str, Sequence[int]]
    name: str
    extra_init_net: Net | None
    global_init_net: Net | None
    net_type: str | None
    num_workers: int | None
    trainer_prefix: str | None


class PredictorExportMeta(_Fields):
    """A model to be saved.

    Args:
        predict_net: the net that predicts: a Net, Plan, NetDef or PlanDef.
        parameters, inputs, outputs: blobs, no two of them the same.
        shapes: blob -> shape, of inputs and outputs; others have the shape that their blobs have when it is saved.
        name: tells it from other models in one file.
        extra_init_net: runs wherever the model is made ready; ``global_init_net``: once, for all that share parameters.
        net_type, num_workers: of the net that predicts, if given.
        trainer_prefix: put before the names of its training plans.

    Raises:
        ValueError: inputs occur twice, or a parameter is an input or output too.
        TypeError: ``predict_net`` is none.
    """

    __slots__ = ()

    def __new__(cls, predict_net: Any, parameters: Iterable[Any], inputs: Iterable[Any], outputs: Iterable[Any],
                shapes: Mapping[str, Sequence[int]] | None = None, name: str = "", extra_init_net: Net | None = None,
                global_init_net: Net | None = None, net_type: str | None = None, num_workers: int | None = None,
                trainer_prefix: str | None = None) -> Self:
        parameters, inputs, outputs = ([str(blob) for blob in blobs] for blobs in (parameters, inputs, outputs))
        if twice := sorted({blob for blob in inputs if inputs.count(blob) > 1}):
            raise ValueError(f"inputs of the predictor are named twice: {', '.join(twice)}")
        for what, blobs in (("inputs", inputs), ("outputs", outputs)):
            if both := sorted(set(parameters) & set(blobs)):
                raise ValueError(f"parameters cannot be {what} as well: {', '.join(both)}")
        if isinstance(predict_net, (Net, Plan)):
            predict_net = predict_net.Proto()
        if not isinstance(predict_net, (caffe2_pb2.NetDef, caffe2_pb2.PlanDef)):
            raise TypeError(f"predict_net is a {type(predict_net).__name__}; expected a Net, Plan, NetDef or PlanDef")
        return super().__new__(cls, predict_net, parameters, inputs, outputs, shapes or {}, name, extra_init_net,
                               global_init_net, net_type, num_workers, trainer_prefix)

    def inputs_name(self) -> str:
        return meta_nets.get_comp_name(predictor_constants.INPUTS_BLOB_TYPE, self.name)

    def outputs_name(self) -> str:
        return meta_nets.get_comp_name(predictor_constants.OUTPUTS_BLOB_TYPE, self.name)

    def parameters_name(self) -> str:
        return meta_nets.get_comp_name(predictor_constants.PARAMETERS_BLOB_TYPE, self.name)

    def global_init_name(self) -> str:
        return meta_nets.get_comp_name(predictor_constants.GLOBAL_INIT_NET_TYPE, self.name)

    def predict_init_name(self) -> str:
        return meta_nets.get_comp_name(predictor_constants.PREDICT_INIT_NET_TYPE, self.name)

    def predict_net_name(self) -> str:
        return meta_nets.get_comp_name(predictor_constants.PREDICT_NET_TYPE, self.name)

    def train_init_plan_name(self) -> str:
        return self._trained(predictor_constants.TRAIN_INIT_PLAN_TYPE)

    def train_plan_name(self) -> str:
        return self._trained(predictor_constants.TRAIN_PLAN_TYPE)

    def _trained(self, key: str) -> str:
        name = meta_nets.get_comp_name(key, self.name)
        return f"{self.trainer_prefix}_{name}" if self.trainer_prefix else name


def get_predictor_exporter_helper(submodelNetName: str) -> PredictorExportMeta:
    """A model without content, for the keys that one of this name has."""
    return PredictorExportMeta(Net(submodelNetName), [], [], [], name=submodelNetName)


def _global_init_net(predictor_export_meta: PredictorExportMeta, db_type: str | None) -> caffe2_pb2.NetDef:
    """The net that loads the parameters through the reader that `load_from_db` opens."""
    net = Net("global-init")
    net.Load([predictor_constants.PREDICTOR_DBREADER], predictor_export_meta.parameters)
    net.Proto().external_input.append(predictor_constants.PREDICTOR_DBREADER)
    net.Proto().external_output.extend(predictor_export_meta.parameters)
    if predictor_export_meta.global_init_net:
        net.AppendNet(predictor_export_meta.global_init_net)
    meta_nets.AddModelIdArg(predictor_export_meta, net.Proto())
    return net.Proto()


def get_meta_net_def(predictor_export_meta: PredictorExportMeta, ws: Workspace | None = None,
                     db_type: str | None = None) -> metanet_pb2.MetaNetDef:
    """The model as a message, without the values of its parameters."""
    meta = predictor_export_meta
    found = metanet_pb2.MetaNetDef()
    meta_nets.AddNet(found, meta.predict_init_name(),
                     meta_nets.create_predict_init_net(ws or Workspace.current, meta))
    meta_nets.AddNet(found, meta.global_init_name(), _global_init_net(meta, db_type))
    meta_nets.AddNet(found, meta.predict_net_name(), meta_nets.create_predict_net(meta))
    meta_nets.AddBlobs(found, meta.parameters_name(), meta.parameters)
    meta_nets.AddBlobs(found, meta.inputs_name(), meta.inputs)
    meta_nets.AddBlobs(found, meta.outputs_name(), meta.outputs)
    return found


def set_model_info(meta_net_def: metanet_pb2.MetaNetDef, project_str: str, model_class_str: str,
                   version: Any) -> None:
    """Says whose model it is."""
    meta_net_def.modelInfo.project = project_str
    meta_net_def.modelInfo.modelClass = model_class_str
    meta_net_def.modelInfo.version = version


def save_to_db(db_type: str, db_destination: str, predictor_export_meta: PredictorExportMeta, use_ideep: bool = False,
               *args: Any, **kwargs: Any) -> None:
    """Saves a model and the values that its parameters have in the current workspace.

    Args:
        db_type, db_destination: the kind of database, and its path.
        use_ideep: says so in the operator that saves; it changes nothing here.
        kwargs: further arguments of the operator Save.

    Raises:
        OperatorError: a parameter is not there, or the database cannot be written.
    """
    meta = get_meta_net_def(predictor_export_meta, db_type=db_type)
    FeedBlob(predictor_constants.META_NET_DEF, meta_nets.serialize_protobuf_struct(meta),
             caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU))
    device = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.IDEEP if use_ideep else caffe2_pb2.CPU)
    RunOperatorOnce(CreateOperator(
        "Save", [predictor_constants.META_NET_DEF, *predictor_export_meta.parameters], [], device_option=device,
        absolute_path=True, db=db_destination, db_type=db_type, **kwargs))


def load_from_db(filename: str, db_type: str, device_option: caffe2_pb2.DeviceOption | None = None,
                 *args: Any, **kwargs: Any) -> metanet_pb2.MetaNetDef:
    """The model in a database. Its parameters are loaded when its global init net runs.

    Args:
        device_option: where all its operators are to run; the current device scope's unless given.

    Raises:
        OperatorError, StorageError: there is no such database, it is damaged, or holds no model.
    """
    reader = predictor_constants.PREDICTOR_DBREADER
    RunOperatorOnce(CreateOperator("CreateDB", [], [reader], db=filename, db_type=db_type))
    RunOperatorOnce(CreateOperator("Load", [reader], [predictor_constants.META_NET_DEF]))
    content = FetchBlob(predictor_constants.META_NET_DEF)
    if not isinstance(content, bytes):
        raise StorageError(f"{filename}: {predictor_constants.META_NET_DEF} is no string; this is no predictor")
    with told_of(filename):
        meta: metanet_pb2.MetaNetDef = meta_nets.deserialize_protobuf_struct(content, metanet_pb2.MetaNetDef)
    device_option = device_option or scope.CurrentDeviceScope()
    if device_option is not None:
        for pair in meta.nets:
            for op in pair.value.op:
                op.device_option.CopyFrom(device_option)
    return meta


def prepare_prediction_net(filename: str, db_type: str, device_option: caffe2_pb2.DeviceOption | None = None) -> Net:
    """The net that predicts, created in the current workspace, its parameters loaded.

    Raises:
        OperatorError, StorageError: there is no such database, it is damaged, or holds no such model.
    """
    meta = load_from_db(filename, db_type, device_option)
    for key in (predictor_constants.GLOBAL_INIT_NET_TYPE, predictor_constants.PREDICT_INIT_NET_TYPE):
        RunNetOnce(_net(meta, key, filename))
    net = Net(_net(meta, predictor_constants.PREDICT_NET_TYPE, filename))
    CreateNet(net)
    return net


def _net(meta: metanet_pb2.MetaNetDef, key: str, filename: str) -> caffe2_pb2.NetDef:
    found = meta_nets.GetNet(meta, key)
    if found is None:
        raise StorageError(f"{filename}: the model has no net {key!r}; it has "
                           f"{', '.join(repr(pair.key) for pair in meta.nets) or 'none'}")
    return found
