"""How the training net of a layer model gets its regularizers, updates and modifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from netgrad.graph.records import Scalar
from netgrad.graph.scope import DeviceScope
from netgrad.proto import caffe2_pb2
from netgrad.training.optimizers.build import get_param_device

#: the moments at which a regularizer is called
ON_LOSS, AFTER_OPTIMIZER = "on_loss", "after_optimizer"


_ON_CPU = caffe2_pb2.DeviceOption(device_type=caffe2_pb2.CPU)


def apply_regularizers_on_loss(
    model: Any, train_net: Any, train_init_net: Any, blob_to_device: Mapping[str, Any] | None = None
) -> None:
    """Adds what the parameters' regularizers say to the loss."""
    for param, regularizer in _regularizers(model):
        added = regularizer(train_net, train_init_net, param, grad=None, by=ON_LOSS)
        if added is not None:
            model.add_loss(Scalar(blob=added), str(added))


def apply_regularizers_after_optimizer(
    model: Any, train_net: Any, train_init_net: Any, grad_map: Mapping[Any, Any],
    blob_to_device: Mapping[str, Any] | None = None,
) -> None:
    """Lets the regularizers change parameters that have been updated."""
    for param, regularizer in _regularizers(model):
        grad = grad_map.get(str(param))
        with DeviceScope(_device(param, grad, blob_to_device)):
            regularizer(train_net, train_init_net, param, grad=grad, by=AFTER_OPTIMIZER)


def apply_optimizers(
    model: Any, train_net: Any, train_init_net: Any, grad_map: Mapping[Any, Any],
    blob_to_device: Mapping[str, Any] | None = None,
) -> None:
    """Writes the update of every parameter.

    Raises:
        AssertionError: a parameter has no optimizer, or an optimizer and no gradient.
    """
    for param, optimizer in model.param_to_optim.items():
        grad = grad_map.get(str(param))
        if optimizer is None:
            raise AssertionError(
                f"parameter {param!r} of model {model.name!r} has no optimizer: set model.default_optimizer before "
                "layers are added, or give the layer its own"
            )
        if grad is None and optimizer != model.NoOptim:
            raise AssertionError(
                f"parameter {param!r} of model {model.name!r} has an optimizer but no gradient, as no loss depends on "
                "it; give its layer model.NoOptim, or add a loss"
            )
        device = caffe2_pb2.DeviceOption()
        device.CopyFrom(_device(param, grad, blob_to_device))
        del device.extra_info[:]  # that of the operator that computes, not of the update
        with DeviceScope(device):
            optimizer(train_net, train_init_net, param, grad)


def apply_post_grad_net_modifiers(
    model: Any, trainer_net: Any, trainer_init_net: Any, grad_map: Mapping[Any, Any],
    blob_to_device: Mapping[str, Any] | None = None, modify_output_record: bool = False,
) -> None:
    """Calls the modifiers that come before the updates, with the gradients of the parameters."""
    of_parameters = {param: grad_map[param] for param in model.param_to_optim if param in grad_map}
    for modifier in model._post_grad_net_modifiers:
        modifier(trainer_net, trainer_init_net, of_parameters, blob_to_device=blob_to_device,
                 modify_output_record=modify_output_record)


def apply_final_net_modifiers(
    model: Any, trainer_net: Any, trainer_init_net: Any, grad_map: Mapping[Any, Any],
    blob_to_device: Mapping[str, Any] | None = None, modify_output_record: bool = False,
) -> None:
    """Calls the modifiers that come last, with all gradients."""
    for modifier in model._final_net_modifiers:
        modifier(trainer_net, trainer_init_net, grad_map, blob_to_device=blob_to_device,
                 modify_output_record=modify_output_record)


def add_modifier(modifiers: list[Callable[..., None]], modifier: Any) -> None:
    """Appends a modifier of nets to those there are."""
    if modifier in modifiers:
        raise AssertionError(f"the modifier {modifier!r} is there already")
    if not callable(modifier) or not hasattr(modifier, "modify_net"):
        raise AssertionError(f"a modifier is a NetModifier, not {modifier!r}")
    modifiers.append(modifier)


def _regularizers(model: Any) -> Iterator[tuple[Any, Callable[..., Any]]]:
    for param, regularizer in model.param_to_reg.items():
        if regularizer is None:
            continue
        if not callable(regularizer):
            raise AssertionError(f"the regularizer of parameter {param} must be a Regularizer, not {regularizer!r}")
        yield param, regularizer


def _device(param: Any, grad: Any, blob_to_device: Mapping[str, Any] | None) -> Any:
    return get_param_device(param, grad, param_to_device=blob_to_device or {}, default_device=_ON_CPU)
