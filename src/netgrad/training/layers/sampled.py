"""Layers trained on a sample of their outputs, as for sampled softmax: `SamplingTrain` around a prediction layer."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from netgrad.graph.records import Scalar, Struct
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import column, fields_named, refuse, require
from netgrad.training.layers.registry import get_layer_class


class SamplingTrainableMixin(abc.ABC):
    """A layer whose parameters have one row per output, so that some outputs can be computed alone.

    It comes first among the base classes: ``class FC(SamplingTrainableMixin, ModelLayer)``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._train_param_blobs: Any = None
        self._train_param_blobs_frozen = False

    @property
    @abc.abstractmethod
    def param_blobs(self) -> list[Any]:
        """The parameters that evaluation and prediction use."""

    @property
    def train_param_blobs(self) -> list[Any]:
        """The parameters that training uses, ``param_blobs`` unless set; set once, before they are used."""
        if self._train_param_blobs is None:
            self.train_param_blobs = self.param_blobs
        return self._train_param_blobs  # type: ignore[no-any-return]

    @train_param_blobs.setter
    def train_param_blobs(self, blobs: list[Any]) -> None:
        if self._train_param_blobs_frozen or blobs is None:
            refuse(self, "the parameters of training are a list that is set once, before the layer is used")
        self._train_param_blobs_frozen = True
        self._train_param_blobs = blobs

    @abc.abstractmethod
    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        """Writes the layer with these parameters."""

    def add_ops(self, net: Any) -> None:
        self._add_ops(net, self.param_blobs)

    def add_train_ops(self, net: Any) -> None:
        self._add_ops(net, self.train_param_blobs)


class SamplingTrain(ModelLayer):
    """Trains a prediction layer on the outputs in ``indices`` only; evaluation and prediction compute all of them.

    Its input record has ``input``, what the prediction layer gets; ``indices``, which outputs to train; and
    ``sampling_prob``, how probable each of them was to be taken, whose logarithm is subtracted from the outputs.
    """

    def __init__(
        self, model: Any, input_record: Any, prediction_layer: str, output_dims: int, subtract_log_odd: bool = True,
        name: str = "sampling_train", **kwargs: Any,
    ) -> None:
        """Makes the layer and the prediction layer.

        Args:
            prediction_layer: the name of a layer class, such as "FC".
            output_dims: how many outputs it has.
            subtract_log_odd: whether ``sampling_prob`` is used.
        """
        super().__init__(model, name, input_record, **kwargs)
        fields_named(self, input_record, "indices", "input", *(["sampling_prob"] if subtract_log_odd else []))
        column(self, input_record.indices, "the field indices")
        layer_class = get_layer_class(prediction_layer)
        require(self, issubclass(layer_class, SamplingTrainableMixin),
                f"the layer {prediction_layer} cannot be trained on samples, as it is no SamplingTrainableMixin")
        self.subtract_log_odd = subtract_log_odd
        self._prediction_layer = layer_class(model, input_record.input, output_dims=output_dims, **kwargs)
        self._prediction_layer.train_param_blobs = [
            model.net.NextBlob(f"{blob}_sampled") for blob in self._prediction_layer.param_blobs
        ]
        self.params = self._prediction_layer.params
        self.output_schema = self._prediction_layer.output_schema

    def add_ops(self, net: Any) -> None:
        self._prediction_layer.add_ops(net)

    def add_train_ops(self, net: Any) -> None:
        layer = self._prediction_layer
        for full, sampled in zip(layer.param_blobs, layer.train_param_blobs, strict=True):
            net.Gather([full, self.input_record.indices()], sampled)
        layer.add_train_ops(net)
        if self.subtract_log_odd:
            log_q = net.Log(self.input_record.sampling_prob(), net.NextScopedBlob("log_q"))
            output = self.output_schema()
            net.Sub([output, log_q], output, broadcast=1, use_grad_hack=1)


class UniformSampling(ModelLayer):
    """Adds to the given ids, all different, as many others of 0 .. ``num_elements`` - 1 as make ``num_samples``.

    Outputs ``samples`` (int32 or the ids' type), the given ones first, and ``sampling_prob``, float [num_samples].
    """

    def __init__(
        self, model: Any, input_record: Any, num_samples: int, num_elements: int, name: str = "uniform_sampling",
        **kwargs: Any,
    ) -> None:
        super().__init__(model, name, input_record, **kwargs)
        column(self, input_record)
        require(self, num_elements > num_samples > 0,
                f"it draws num_samples={num_samples} of num_elements={num_elements}; there must be more elements, and "
                "at least one sample")
        self.num_elements = num_elements
        self.num_samples = self.create_param(
            param_name="num_examples", shape=(1,), initializer=("GivenTensorInt64Fill", {"values": [num_samples]}),
            optimizer=model.NoOptim,
        )
        self.sampling_prob = self.create_param(
            param_name="prob",
            shape=(num_samples,),
            initializer=("ConstantFill", {"value": float(num_samples) / num_elements, "dtype": TensorProto.FLOAT}),
            optimizer=model.NoOptim,
        )
        self.output_schema = Struct(
            ("samples", Scalar(np.int32, self.get_next_blob_reference("samples"))),
            ("sampling_prob", Scalar(np.float32, self.sampling_prob)),
        )

    def add_ops(self, net: Any) -> None:
        given, samples = self.input_record(), self.output_schema.samples()
        net.StopGradient(self.sampling_prob, self.sampling_prob)
        shape = net.Shape([given], net.NextScopedBlob("shape"))
        missing = net.Sub([self.num_samples, shape], shape)
        drawn = net.UniqueUniformFill(
            [missing, given], net.NextScopedBlob("samples_before_concat"), min=0, max=self.num_elements - 1,
            input_as_shape=True,
        )
        net.Concat([given, drawn], [samples, net.NextScopedBlob("split_info")], axis=0)
        net.StopGradient(samples, samples)
