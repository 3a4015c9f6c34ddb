"""`ModelLayer`, the base of layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from netgrad.graph import scope
from netgrad.graph.comparison import OpAlmostEqual
from netgrad.graph.records import Field, Scalar, is_schema_subset
from netgrad.proto import caffe2_pb2
from netgrad.training.layers.checks import describe, refuse
from netgrad.training.layers.parameters import LayerParameter
from netgrad.training.layers.request_only import is_request_only_scalar, set_request_only
from netgrad.training.layers.tags import TagContext

#: arguments of ``model.X(...)`` that the model looks at: whether outputs and parameters are reported as metrics
FOR_THE_MODEL = ("output_to_metrics", "params_to_metrics")


class InstantiationContext:
    """The kinds of nets that layers write themselves into."""

    #: collects predictions, labels and weights, for calibration
    ACCUMULATE_PRED = "accumulate_pred"
    EVAL = "eval"
    PREDICTION = "prediction"
    TRAINING = "training"


class AccessedFeatures(NamedTuple):
    """Features that a layer reads: their kind, as in `FeatureSpec.feature_type`, and the set of their ids."""

    type: str
    ids: set[int]


class ModelLayer:
    """A part of a model that writes itself into several nets: for training, evaluation and prediction.

    A layer is made once; it then has its parameters, and a record of its outputs with their types and shapes. Each net
    gets its operators when it is generated. A layer of one's own sets ``output_schema`` in its ``__init__`` and defines
    `add_ops`, and `add_eval_ops` and `add_train_ops` where these nets need other operators::

        class Twice(ModelLayer):
            def __init__(self, model, input_record, name="twice", **kwargs):
                super().__init__(model, name, input_record, **kwargs)
                self.output_schema = schema.Scalar(input_record.field_type(), self.get_next_blob_reference("output"))

            def add_ops(self, net):
                net.Scale(self.input_record(), self.output_schema(), scale=2.0)

        register_layer("Twice", Twice)  # now model.Twice(record) makes one

    Attributes:
        name: unique within the model; operators and parameters are in a name scope of that name.
        model: the `LayerModelHelper`.
        kwargs: arguments that nobody took; some layers pass them to their operator.
        params: its `LayerParameter` objects.
        tags: see `Tags`.
        request_only: all inputs depend on the request alone; so do the outputs then.
    """

    def __init__(
        self,
        model: Any,
        prefix: str,
        input_record: Any,
        predict_input_record_fields: Any = None,
        tags: Iterable[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a layer.

        Args:
            prefix: its name, to which ``_auto_0`` and so on is appended where it is taken.
            input_record: a record of blobs.
            predict_input_record_fields: the field, or list of fields, of it that prediction nets need; None: all.
        """
        self.name = model.next_layer_name(prefix)
        self.model = model
        self.kwargs = {key: value for key, value in kwargs.items() if key not in FOR_THE_MODEL}
        if not isinstance(input_record, Field):
            refuse(self, f"the input record must be a record (see schema), but is {describe(input_record)}")
        self._input_record = input_record
        if predict_input_record_fields and not isinstance(predict_input_record_fields, list):
            predict_input_record_fields = [predict_input_record_fields]
        self._predict_input_record = (
            input_record[predict_input_record_fields] if predict_input_record_fields else None  # type: ignore[index]
        )
        columns = input_record.all_scalars()
        self.request_only = bool(columns) and all(is_request_only_scalar(column) for column in columns)
        self.precomputation_request_only = False
        self.precomputation_object_only = False
        self._output_schema: Any = None
        self._predict_output_schema: Any = None
        self.eval_output_schema: Any = None
        self.tags = {*(tags or ()), *TagContext.current().tags}
        self.params: list[LayerParameter] = []
        self._export_output_for_metrics = False
        self._export_params_for_metrics = False

    def get_type(self) -> str:
        return type(self).__name__

    # records

    @property
    def input_record(self) -> Any:
        return self._input_record

    @property
    def predict_input_record(self) -> Any:
        """The part of the input record that prediction nets need."""
        return self._predict_input_record or self._input_record

    @property
    def output_schema(self) -> Any:
        """The record of the outputs, which is set once."""
        if self._output_schema is not None and self.request_only:
            set_request_only(self._output_schema)
        self._check_output_schema()
        return self._output_schema

    @output_schema.setter
    def output_schema(self, output_schema: Any) -> None:
        if self._output_schema is not None:
            refuse(self, "the output record is set already")
        self._output_schema = output_schema

    @property
    def predict_output_schema(self) -> Any:
        """The part of the outputs that prediction nets compute; all, unless it is set."""
        self._check_output_schema()
        return self._predict_output_schema or self._output_schema

    @predict_output_schema.setter
    def predict_output_schema(self, output_schema: Any) -> None:
        if self._predict_output_schema is not None:
            refuse(self, "the output record of prediction is set already")
        self._predict_output_schema = output_schema

    def _check_output_schema(self) -> None:
        if self._output_schema is None:
            refuse(self, "it has no output record; its __init__ has to set self.output_schema")
        predicted = self._predict_output_schema
        if predicted is not None and not is_schema_subset(predicted, self._output_schema):
            refuse(self, f"the output record of prediction, {describe(predicted)}, is no part of the output record, "
                         f"{describe(self._output_schema)}")

    # parameters

    def get_parameters(self) -> list[Any]:
        return self.params

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """The parameters that may be kept in half precision."""
        return []

    def get_memory_usage(self) -> int:
        """Bytes of a table, as far as the layer says; 0 if it does not."""
        return 0

    def get_accessed_features(self) -> dict[str, list[AccessedFeatures]]:
        """Field -> the features of it that the layer reads."""
        return {}

    def create_param(
        self, param_name: str, shape: Any, initializer: Any, optimizer: Any, ps_param: Any = None,
        regularizer: Any = None,
    ) -> Any:
        """A parameter of this layer, called after it; parameter sharing applies.

        Args:
            shape: of the parameter; None where its initializer has no such argument.
            initializer: ``(operator type,)`` or ``(operator type, arguments)``.
            optimizer: None for the model's default, ``model.NoOptim`` for none.
        """
        with scope.NameScope(self.name, reset=True):
            param = self.model.create_param(
                param_name=param_name, shape=shape, initializer=initializer, optimizer=optimizer, ps_param=ps_param,
                regularizer=regularizer,
            )
        if any(param.parameter == other.parameter for other in self.params):
            refuse(self, f"two of its parameters would be {param.parameter}")
        self.params.append(param)
        return param.parameter

    def get_next_blob_reference(self, name: str) -> Any:
        """A new blob, called after the layer."""
        with scope.NameScope(self.name, reset=True):
            return self.model.net.NextScopedBlob(name)

    # writing nets

    def add_init_params(self, init_net: Any) -> None:
        """Writes what fills the parameters, each once however many layers share it."""
        device = scope.CurrentDeviceScope()
        for param in self.params:
            op = param.initializer
            if not op:
                continue
            if device is not None and not op.HasField("device_option"):
                op = caffe2_pb2.OperatorDef()
                op.CopyFrom(param.initializer)
                op.device_option.CopyFrom(device)
            present = any(init_net.BlobIsDefined(blob) for blob in op.output)
            if not present or not any(OpAlmostEqual(other, op, "debug_info") for other in init_net.Proto().op):
                init_net.Proto().op.append(op)

    def add_operators(
        self, net: Any, init_net: Any = None, context: str = InstantiationContext.TRAINING
    ) -> None:
        """Writes the layer into a net of some kind, and what fills its parameters into ``init_net`` if one is given.

        Raises:
            AssertionError: a training net without an init net.
        """
        writers = {
            InstantiationContext.TRAINING: self.add_train_ops,
            InstantiationContext.EVAL: self.add_eval_ops,
            InstantiationContext.ACCUMULATE_PRED: self.add_ops_to_accumulate_pred,
            InstantiationContext.PREDICTION: self.add_ops,
        }
        with scope.NameScope(self.name):
            if init_net is None and context not in (
                InstantiationContext.PREDICTION, InstantiationContext.EVAL, InstantiationContext.ACCUMULATE_PRED
            ):
                refuse(self, f"a net of context {context!r} needs an init_net, which fills the parameters")
            if init_net is not None:
                self.add_init_params(init_net)
            writers.get(context, self.add_ops)(net)
            if self._export_params_for_metrics and context in (
                InstantiationContext.TRAINING, InstantiationContext.EVAL
            ):
                self.add_param_copy_operators(net)

    def add_ops(self, net: Any) -> None:
        """Writes the operators of a prediction net, and of all others that are not defined."""
        raise NotImplementedError(f"layer {self.name!r}: {type(self).__name__} does not define add_ops(net)")

    def add_eval_ops(self, net: Any) -> None:
        """Writes the operators of an evaluation net; those of prediction, unless defined."""
        self.add_ops(net)

    def add_train_ops(self, net: Any) -> None:
        """Writes the operators of a training net; those of evaluation, unless defined."""
        self.add_eval_ops(net)

    def add_ops_to_accumulate_pred(self, net: Any) -> None:
        """Writes the operators of a net that collects predictions; those of evaluation, unless defined."""
        self.add_eval_ops(net)

    # metrics

    def add_param_copy_operators(self, net: Any) -> None:
        for param in self.params:
            copies = self.model.metrics_schema[str(param.parameter)]
            net.Copy([param.parameter], copies.field_blobs())

    def export_output_for_metrics(self) -> None:
        """Adds the outputs to the model's metrics."""
        self._export_output_for_metrics = True
        self.model.add_metric_field(f"{self.name}/output", self.output_schema)

    def export_params_for_metrics(self) -> None:
        """Adds copies of the parameters to the model's metrics."""
        self._export_params_for_metrics = True
        for param in self.params:
            copy = self.get_next_blob_reference(str(param).rsplit("/", 1)[-1] + "_copy")
            self.model.add_metric_field(str(param.parameter), copy)


def float_rows(shape: Iterable[int] | int, blob: Any) -> Scalar:
    """The usual output: a column of float32 rows of that shape."""
    return Scalar((np.float32, shape if isinstance(shape, int) else tuple(shape)), blob)
