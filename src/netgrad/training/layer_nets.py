"""The nets of a layer model: for training, evaluation and prediction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netgrad.graph.net import Net
from netgrad.graph.records import from_column_list
from netgrad.training.layers.base import InstantiationContext
from netgrad.training.layers.tags import Tags


def generate_predict_net(model: Any, include_tags: Iterable[str] | None = None) -> Any:
    """A net from the model's features to its outputs, without the layers that only training or evaluation need.

    Args:
        model: a `LayerModelHelper` whose ``output_schema`` is set.
        include_tags: take only layers with one of these tags.
    """
    net = Net("predict_net")
    for layer in _chosen(model.layers, include_tags, Tags.EXCLUDE_FROM_PREDICTION):
        layer.add_operators(net, context=InstantiationContext.PREDICTION)
    net.set_input_record(model.input_feature_schema.clone())
    net.set_output_record(shrink_output_schema(net, model.output_schema.clone()))
    return net


def generate_eval_net(model: Any, include_tags: Iterable[str] | None = None) -> Any:
    """A net from features and labels to outputs and metrics, which changes no parameter."""
    net = Net("eval_net")
    for layer in _chosen(model.layers, include_tags, Tags.EXCLUDE_FROM_EVAL):
        layer.add_operators(net, context=InstantiationContext.EVAL)
    _set_training_records(model, net)
    return net


def generate_training_nets_forward_only(model: Any, include_tags: Iterable[str] | None = None) -> tuple[Any, Any]:
    """The init net, which fills parameters and constants, and the training net without backward pass."""
    net = Net("train_net")
    init_net = model.create_init_net("train_init_net")
    for layer in _chosen(model.layers, include_tags, Tags.EXCLUDE_FROM_TRAIN):
        layer.add_operators(net, init_net)
    _set_training_records(model, net)
    return init_net, net


def generate_training_nets(model: Any, include_tags: Iterable[str] | None = None) -> tuple[Any, Any]:
    """The init net, and the training net: forward, backward, updates of the parameters.

    Regularizers add to the loss before the backward pass and change parameters after the updates; the model's net
    modifiers come before and after the updates. A model without loss has only the forward part.
    """
    init_net, net = generate_training_nets_forward_only(model, include_tags)
    model.apply_regularizers_on_loss(net, init_net)
    if not model.has_loss():
        return init_net, net
    gradients = net.AddGradientOperators(model.loss.field_blobs())
    model.apply_post_grad_net_modifiers(net, init_net, gradients, modify_output_record=True)
    model.apply_optimizers(net, init_net, gradients)
    model.apply_regularizers_after_optimizer(net, init_net, gradients)
    model.apply_final_net_modifiers(net, init_net, gradients, modify_output_record=True)
    return init_net, net


def shrink_output_schema(net: Any, out_schema: Any) -> Any:
    """The part of a record that the net computes; a record of one column is left as it is."""
    if len(out_schema.field_names()) <= 1:
        return out_schema
    columns = zip(out_schema.field_names(), out_schema.field_types(), out_schema.field_blobs(),
                  out_schema.field_metadata(), strict=True)
    kept = [column for column in columns if net.BlobIsDefined(column[2])]
    return from_column_list(*(list(part) for part in zip(*kept, strict=True))) if kept else from_column_list([])


def _filter_layers(layers: Sequence[Any], include_tags: Iterable[str] | None) -> list[Any]:
    if include_tags is None:
        return list(layers)
    wanted = set(include_tags)
    return [layer for layer in layers if not wanted.isdisjoint(layer.tags)]


def _chosen(layers: Sequence[Any], include_tags: Iterable[str] | None, excluded: str) -> list[Any]:
    return [layer for layer in _filter_layers(layers, include_tags) if excluded not in layer.tags]


def _set_training_records(model: Any, net: Any) -> None:
    net.set_input_record(model.input_feature_schema + model.trainer_extra_schema)
    net.set_output_record(shrink_output_schema(net, model.output_schema + model.metrics_schema))
