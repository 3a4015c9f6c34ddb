"""`LayerModelHelper`: a model of layers, from which nets for training, evaluation and prediction are generated."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from netgrad.graph import scope
from netgrad.graph.blob import BlobReference, ScopedName
from netgrad.graph.comparison import OpAlmostEqual
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator, IsOperator
from netgrad.graph.record_values import NewRecord
from netgrad.graph.records import Field, Scalar, Struct
from netgrad.training import layer_updates
from netgrad.training.layers import registry
from netgrad.training.layers.checks import describe
from netgrad.training.layers.parameters import LayerParameter
from netgrad.training.model_helper import ModelHelper
from netgrad.training.parameters import ParameterInfo
from netgrad.training.sharing import parameter_sharing_context

log = logging.getLogger(__name__)

_FUNCTIONAL = "FunctionalLayer"

#: what fills a constant, by the type of its array; floats otherwise
_FILLS = {"int32": "GivenTensorIntFill", "int64": "GivenTensorInt64Fill", "bool": "GivenTensorBoolFill"}


class LayerModelHelper(ModelHelper):
    """A list of layers over records of features, with everything that training them needs to know.

    ``model.FC(record, 10)`` makes a layer, adds it and returns the record of its outputs; ``model.Relu(record, 1)``
    makes one of an operator (`Functional`), as does ``model.FunctionalLayerRelu`` where a layer has the operator's
    name. `netgrad.training.layer_nets` generates the nets.

    ::

        model = LayerModelHelper("ranking", schema.Struct(("dense", schema.Scalar((np.float32, (8,))))),
                                 schema.Struct(("label", schema.Scalar(np.float32))))
        logit = model.FC(model.input_feature_schema.dense, 1)
        loss = model.BatchLRLoss(schema.Struct(("logit", logit), ("label", model.trainer_extra_schema.label)))
        model.add_loss(loss)
        model.output_schema = schema.Struct(("logit", logit))
        model.default_optimizer = AdagradOptimizer(alpha=0.1)
        init_net, train_net = generate_training_nets(model)

    Attributes:
        param_to_optim: name of a parameter -> its optimizer.
        param_to_reg: parameter -> its regularizer, or None.
        global_constants: name -> blob; every init net fills them. ONE, ZERO, NAN and ZERO_RANGE are always there.
        layers: in the order in which they were added.
    """

    def __init__(
        self, name: str, input_feature_schema: Any, trainer_extra_schema: Any, keep_blobs: bool = False,
        use_attribution: bool = True,
    ) -> None:
        """Makes a model.

        Args:
            input_feature_schema: the record of the features.
            trainer_extra_schema: the record of what training and evaluation need beside: labels, weights.
            keep_blobs: the records have their blobs already.
            use_attribution: noted for tools that compute the importance of features.
        """
        super().__init__(name=name)
        for what, record in (("input_feature_schema", input_feature_schema),
                             ("trainer_extra_schema", trainer_extra_schema)):
            if not isinstance(record, Field):
                raise AssertionError(f"model {name!r}: {what} must be a record (see schema), not {describe(record)}")
        self._layer_names: set[str] = set()
        self._layers: list[Any] = []
        self._param_to_shape: dict[str, Any] = {}
        self._seed: int | None = None
        self._sequence_seed = True
        self.param_to_optim: dict[str, Any] = {}
        self.param_to_reg: dict[Any, Any] = {}
        self._default_optimizer: Any = None
        self._loss: Any = None
        self._prediction: list[tuple[Any, float]] = []
        self._output_schema: Any = None
        self._preproc_output_schema: Any = None
        self._metrics_schema = Struct()
        self._post_grad_net_modifiers: list[Any] = []
        self._final_net_modifiers: list[Any] = []
        self._breakdown_map: Any = None
        self._transfer_learning_blob_name_mappings: Any = None
        self._input_feature_schema = (
            input_feature_schema.clone() if keep_blobs else NewRecord(self.net, input_feature_schema)
        )
        self._trainer_extra_schema = (
            trainer_extra_schema.clone() if keep_blobs else NewRecord(self.net, trainer_extra_schema)
        )
        self._init_global_constants()
        self.param_init_net = self.create_init_net("param_init_net")
        self._initialize_params = True
        self.ad_hoc_diagnose_blobs_and_operations: list[Any] = []
        self.ad_hoc_plot_blobs: list[Any] = []
        self.use_attribution = use_attribution

    # constants

    def _init_global_constants(self) -> None:
        self.global_constants: dict[str, Any] = {}
        self.global_constant_initializers: dict[Any, Any] = {}
        self.add_global_constant("ONE", 1.0)
        self.add_global_constant("NAN", float("nan"))
        self.add_global_constant("ZERO", 0.0)
        self.add_global_constant("ZERO_RANGE", [0, 0], dtype="int32")

    def add_global_constant(
        self, name: str, array: Any = None, dtype: Any = None, initializer: Callable[[Any], Any] | None = None
    ) -> Any:
        """A constant that all init nets fill.

        Args:
            name: a name of its own, to look it up in ``global_constants``.
            array: its value; floats become float32.
            dtype: of the value.
            initializer: instead of a value, a function of the blob that returns the operator that fills it.

        Returns:
            Its blob.

        Raises:
            AssertionError: the name is taken.
        """
        if not isinstance(name, str):
            raise AssertionError(f"the name of a constant is a string, not {name!r}")
        if name in self.global_constants:
            raise AssertionError(
                f"model {self.name!r} has a constant {name!r} already; maybe_add_global_constant takes the one there is"
            )
        blob = self.net.NextBlob(name)
        op = _constant_fill(blob, array, dtype, initializer)
        if blob in self.global_constant_initializers:
            raise AssertionError(f"model {self.name!r}: the blob {blob} of constant {name!r} is filled already")
        self.global_constants[name] = blob
        self.global_constant_initializers[blob] = op
        return blob

    def maybe_add_global_constant(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The constant of that name, added if it is not there.

        Raises:
            AssertionError: it is there with another value.
        """
        if name not in self.global_constants:
            return self.add_global_constant(name, *args, **kwargs)
        blob = self.global_constants[name]
        op = _constant_fill(blob, *args, **kwargs)
        if not OpAlmostEqual(op, self.global_constant_initializers[blob], "debug_info"):
            raise AssertionError(
                f"constant {name!r} of model {self.name!r} has another value already:\n"
                f"{self.global_constant_initializers[blob]}\nwanted is\n{op}"
            )
        return blob

    def create_init_net(self, name: str) -> Any:
        """A net that fills the constants."""
        net = Net(name)
        self._add_global_constants(net)
        return net

    def _add_global_constants(self, init_net: Any) -> None:
        init_net.Proto().op.extend(self.global_constant_initializers.values())

    # parameters

    def set_initialize_params(self, initialize_params: bool) -> None:
        """Whether parameters made from now on have operators that fill them."""
        self._initialize_params = initialize_params

    def create_param(  # type: ignore[override]
        self, param_name: Any, shape: Any, initializer: Any, optimizer: Any = None, ps_param: Any = None,
        regularizer: Any = None,
    ) -> LayerParameter:
        """A parameter of a layer; parameter sharing applies to names that are strings.

        Args:
            initializer: ``(operator type,)`` or ``(operator type, arguments without shape)``.

        Raises:
            ValueError: shared with a parameter of another shape.
            AssertionError: shared with a parameter that is updated otherwise.
        """
        if isinstance(param_name, BlobReference):
            name = str(param_name)
        elif isinstance(param_name, str):
            name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise ValueError(f"a parameter's name is a string or a BlobReference, not {param_name!r}")
        if not isinstance(initializer, (tuple, list)) or len(initializer) not in (1, 2):
            raise AssertionError(
                f"parameter {name!r}: an initializer is (operator type,) or (operator type, arguments), "
                f"not {initializer!r}"
            )
        arguments = copy.deepcopy(dict(initializer[1])) if len(initializer) == 2 else {}
        if shape is not None:
            if "shape" in arguments:
                raise AssertionError(f"parameter {name!r}: the layer says the shape, so its initializer may not")
            arguments["shape"] = shape
        blob = BlobReference(name)
        param = LayerParameter(
            parameter=blob,
            initializer=CreateOperator(initializer[0], [], blob, **arguments) if self._initialize_params else None,
            optimizer=optimizer,
            ps_param=ps_param,
            regularizer=regularizer,
        )
        self._validate_param_shape(name, shape)
        self._validate_param_optim(name, optimizer)
        self._param_to_shape[name] = shape
        return param

    def _validate_param_shape(self, param_name: str, shape: Any) -> None:
        if param_name in self._param_to_shape and self._param_to_shape[param_name] != shape:
            raise ValueError(
                f"Got inconsistent shapes for the shared parameter {param_name!r}: {self._param_to_shape[param_name]}, "
                f"and {shape} in scope {scope.CurrentNameScope()!r}; layers can share it only if they have one shape"
            )

    def _validate_param_optim(self, param_name: str, optim: Any) -> None:
        """Refuses two optimizers for one shared parameter."""
        if optim is not None and optim != self.NoOptim and not callable(optim):
            raise ValueError(
                f"parameter {param_name!r}: an optimizer is None, model.NoOptim or an Optimizer, not {optim!r}"
            )
        if param_name not in self.param_to_optim:
            return
        present = self.param_to_optim[param_name]
        if not _same_optimizer(present, self._default_optimizer if optim is None else optim):
            wanted = "None, which is the model's default optimizer" if optim is None else repr(optim)
            raise AssertionError(
                f"parameter {param_name!r} is shared and updated by {present!r}; this layer asks for {wanted}. Give "
                "all layers that share it the same optimizer"
            )

    def get_parameter_blobs(self) -> list[Any]:
        """The parameters of all layers, those that are shared several times."""
        return [param.parameter for layer in self._layers for param in layer.get_parameters()]

    # layers

    @property
    def layers(self) -> list[Any]:
        return self._layers

    def next_layer_name(self, prefix: str) -> str:
        base = name = str(ScopedName(prefix))
        index = 0
        while name in self._layer_names:
            name = f"{base}_auto_{index}"
            index += 1
        self._layer_names.add(name)
        return name

    def add_layer(self, layer: Any) -> Any:
        """Adds a layer, which is written into ``net`` at once, so that what is wrong with it shows here.

        Returns:
            The record of its outputs.
        """
        self._layers.append(layer)
        for param in layer.get_parameters():
            if not isinstance(param.parameter, BlobReference):
                raise AssertionError(f"layer {layer.name!r}: {param.parameter!r} is no BlobReference")
            self.param_to_optim[str(param.parameter)] = param.optimizer or self.default_optimizer
            self.params.append(param.parameter)
            if isinstance(param, LayerParameter):
                self.param_to_reg[param.parameter] = param.regularizer
            elif not isinstance(param, ParameterInfo):
                raise ValueError(
                    f"layer {layer.name!r}: a parameter is a LayerParameter or a ParameterInfo, not {param!r}"
                )
        layer.add_operators(self.net, self.param_init_net)
        return layer.output_schema

    def __getattr__(self, layer: str) -> Any:
        """``model.X(...)``: the layer X, or a layer of the operator X."""
        if layer.startswith("__"):
            raise AttributeError(layer)
        operator = layer.removeprefix(_FUNCTIONAL)
        if registry.layer_exists(layer):
            def make(*args: Any, **kwargs: Any) -> Any:
                return self._add(registry.create_layer(layer, self, *args, **kwargs), kwargs)
        elif IsOperator(layer) or layer.startswith(_FUNCTIONAL):
            def apply(net: Any, inputs: Any, outputs: Any, **kwargs: Any) -> None:
                getattr(net, operator)(inputs.field_blobs(), outputs.field_blobs(), **kwargs)

            def make(*args: Any, **kwargs: Any) -> Any:
                if len(args) < 2 and "output_names_or_num" not in kwargs:
                    raise TypeError(f"{operator} as a layer takes its inputs and how many outputs it has (or their "
                                    f"names), as in model.{layer}(inputs, 1)")
                kwargs.setdefault("name", operator)
                return self._add(registry.create_layer("Functional", self, *args, function=apply, **kwargs), kwargs)
        else:
            raise AttributeError(
                f"model {self.__dict__.get('name')!r} has no attribute {layer!r}, and there is no such layer or "
                "operator; register_layer(name, cls) adds a layer"
            )
        return make

    def _add(self, layer: Any, kwargs: Mapping[str, Any]) -> Any:
        if kwargs.get("output_to_metrics", False):
            layer.export_output_for_metrics()
        if kwargs.get("params_to_metrics", False):
            layer.export_params_for_metrics()
        return self.add_layer(layer)

    # seeds

    @property
    def seed(self) -> int | None:
        return self._seed

    @property
    def sequence_seed(self) -> bool:
        return self._sequence_seed

    def store_seed(self, seed: int, sequence_seed: bool = True) -> None:
        """Notes a seed for `apply_seed`: operator k of a net gets ``seed + k``, or all the same."""
        self._seed = seed
        self._sequence_seed = sequence_seed

    def apply_seed(self, net: Any) -> None:
        if self._seed:
            net.set_rand_seed(self._seed, self._sequence_seed)

    # records

    @property
    def input_feature_schema(self) -> Any:
        return self._input_feature_schema

    @property
    def trainer_extra_schema(self) -> Any:
        return self._trainer_extra_schema

    def add_trainer_extra_schema(self, trainer_extra_schema: Any) -> None:
        self._trainer_extra_schema += NewRecord(self.net, trainer_extra_schema)

    @property
    def metrics_schema(self) -> Any:
        """What training and evaluation nets report beside the outputs."""
        return self._metrics_schema

    def add_metric_field(self, name: str, value: Any) -> None:
        if name in self._metrics_schema.fields:
            raise AssertionError(f"model {self.name!r} has a metric {name!r} already")
        self._metrics_schema = self._metrics_schema + Struct((name, value))

    def filter_metrics_schema(self, white_set: Iterable[str]) -> None:
        """Keeps the metrics of these names."""
        kept = set(white_set)
        for name in self._metrics_schema.field_names():
            if name not in kept:
                self._metrics_schema = self._metrics_schema - Struct((name, Scalar()))

    def add_ad_hoc_plot_blob(self, blob: Any, dtype: Any = None) -> None:
        """Reports a blob among the metrics, float64 [1] unless ``dtype`` says otherwise."""
        if not isinstance(blob, (str, BlobReference)):
            raise AssertionError(f"a blob's name is a string or a BlobReference, not {blob!r}")
        self.add_metric_field(str(blob), Scalar(dtype or (np.float64, (1,)), BlobReference(str(blob))))
        self.ad_hoc_plot_blobs.append(blob)

    @property
    def output_schema(self) -> Any:
        return self._set_value(self._output_schema, "output_schema")

    @output_schema.setter
    def output_schema(self, schema: Any) -> None:
        self._not_set(self._output_schema, "output_schema")
        self._output_schema = schema

    def clear_output_schema(self) -> None:
        self._output_schema = None

    def add_output_schema(self, name: str, value: Any) -> None:
        """Adds a field to the outputs."""
        if not isinstance(value, (Scalar, Struct)):
            raise AssertionError(f"the output {name!r} must be a Scalar or a Struct, but is {describe(value)}")
        if self._output_schema is None:
            self._output_schema = Struct((name, value))
            return
        if name in self._output_schema.fields:
            raise AssertionError(f"model {self.name!r} has an output {name!r} already")
        self._output_schema = self._output_schema + Struct((name, value))

    @property
    def preproc_output_schema(self) -> Any:
        return self._set_value(self._preproc_output_schema, "preproc_output_schema")

    @preproc_output_schema.setter
    def preproc_output_schema(self, schema: Any) -> None:
        self._not_set(self._preproc_output_schema, "preproc_output_schema")
        self._preproc_output_schema = schema

    @property
    def prediction(self) -> list[tuple[Any, float]]:
        """(prediction, weight) pairs."""
        if not self._prediction:
            raise AssertionError(f"model {self.name!r} has no prediction; add_prediction adds one")
        return self._prediction

    def add_prediction(self, prediction: Any, weight: float = 1.0) -> None:
        if prediction is None:
            raise AssertionError("a prediction is a record, not None")
        self._prediction.append((prediction, weight))

    @property
    def transfer_learning_blob_name_mappings(self) -> Any:
        return self._transfer_learning_blob_name_mappings

    @transfer_learning_blob_name_mappings.setter
    def transfer_learning_blob_name_mappings(self, blob_name_mappings: Any) -> None:
        if blob_name_mappings is None:
            raise AssertionError("the mappings of blob names are a dictionary, not None")
        self._transfer_learning_blob_name_mappings = blob_name_mappings

    @property
    def breakdown_map(self) -> Any:
        """Name of a feature to break metrics down by -> its position."""
        return self._breakdown_map

    @breakdown_map.setter
    def breakdown_map(self, breakdown_map: Any) -> None:
        if not (isinstance(breakdown_map, dict) and all(isinstance(name, str) for name in breakdown_map)
                and sorted(breakdown_map.values()) == list(range(len(breakdown_map)))):
            raise AssertionError(f"a breakdown map is a dictionary from names to 0, 1, 2, ..., not {breakdown_map!r}")
        self._breakdown_map = breakdown_map

    def _set_value(self, value: Any, what: str) -> Any:
        if value is None:
            raise AssertionError(f"the {what} of model {self.name!r} is not set yet: assign model.{what}")
        return value

    def _not_set(self, value: Any, what: str) -> None:
        if value is not None:
            raise AssertionError(f"the {what} of model {self.name!r} is set already")

    # losses

    @property
    def loss(self) -> Any:
        """The record of the losses, a Scalar or a Struct; training descends their sum."""
        return self._set_value(self._loss, "loss")

    @loss.setter
    def loss(self, loss: Any) -> None:
        self._not_set(self._loss, "loss")
        self._loss = loss

    def has_loss(self) -> bool:
        return self._loss is not None

    def add_loss(self, loss: Any, name: str = "unnamed") -> None:
        """Adds a loss; a name that is taken gets ``_auto_0`` and so on."""
        if not isinstance(loss, (Scalar, Struct)):
            raise AssertionError(f"the loss {name!r} must be a Scalar or a Struct, but is {describe(loss)}")
        if self._loss is None:
            self._loss = Struct((name, loss))
            return
        if isinstance(self._loss, Scalar):
            self._loss = Struct(("unnamed", self._loss))
        free, index = name, 0
        while free in self._loss:
            free = f"{name}_auto_{index}"
            index += 1
        self._loss = self._loss + Struct((free, loss))

    # updates

    @property
    def default_optimizer(self) -> Any:
        """Updates the parameters of layers added from now on that ask for no other."""
        return self._default_optimizer

    @default_optimizer.setter
    def default_optimizer(self, optimizer: Any) -> None:
        self._default_optimizer = optimizer

    def NoOptim(self, *args: Any, **kwargs: Any) -> None:
        """The optimizer of parameters that stay as they are."""

    def _GetOne(self) -> Any:
        return self.global_constants["ONE"]

    def add_post_grad_net_modifiers(self, modifier: Any) -> None:
        """Adds what changes the training net between the backward pass and the updates."""
        layer_updates.add_modifier(self._post_grad_net_modifiers, modifier)

    def add_final_net_modifiers(self, modifier: Any) -> None:
        """Adds what changes the training net at its end."""
        layer_updates.add_modifier(self._final_net_modifiers, modifier)

    apply_regularizers_on_loss = layer_updates.apply_regularizers_on_loss
    apply_regularizers_after_optimizer = layer_updates.apply_regularizers_after_optimizer
    apply_post_grad_net_modifiers = layer_updates.apply_post_grad_net_modifiers
    apply_final_net_modifiers = layer_updates.apply_final_net_modifiers
    apply_optimizers = layer_updates.apply_optimizers


def _same_optimizer(one: Any, other: Any) -> bool:
    if one is other or one == other:
        return True
    if type(one) is not type(other) or not hasattr(one, "attributes"):
        return False
    return bool(one.attributes == other.attributes)


def _constant_fill(
    blob: Any, array: Any = None, dtype: Any = None, initializer: Callable[[Any], Any] | None = None
) -> Any:
    """The operator that fills a constant."""
    if array is None:
        if initializer is None:
            raise AssertionError(f"the constant {blob} needs an array or an initializer")
        return initializer(blob)
    if initializer is not None:
        raise AssertionError(f"the constant {blob} needs an array or an initializer, not both")
    values = np.array(array) if dtype is None else np.array(array, dtype=dtype)
    fill = "GivenTensorStringFill" if values.dtype.kind in "SU" else _FILLS.get(values.dtype.name, "GivenTensorFill")
    return CreateOperator(fill, [], blob, shape=values.shape, values=values.flatten().tolist())
