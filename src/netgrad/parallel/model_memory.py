"""Less memory for a model on several devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netgrad.runtime.inference import InferShapesAndTypes
from netgrad.tools.memory.release import release_blobs_when_used
from netgrad.tools.memory.sharing import share_grad_blobs


def OptimizeGradientMemory(model: Any, input_shapes: Mapping[str, Sequence[int]] | None,
                           excluded_blobs: Iterable[str], recycle_activations: bool) -> None:
    """Lets the gradients of each device share names (see `share_grad_blobs`).

    Args:
        input_shapes: of what is fed, under names without the device's scope; None or empty: not known.
        excluded_blobs: names without scope of blobs that keep their names, because they are fetched.
        recycle_activations: results of layers share names, too.
    """
    shapes = None
    if input_shapes is not None:
        known = {f"{model._device_prefix}_{device}/{name}": list(shape)
                 for name, shape in input_shapes.items() for device in model._devices}
        shapes = InferShapesAndTypes([model.param_init_net, model.net], known)[0]
    for device in model._devices:
        scope = f"{model._device_prefix}_{device}/"
        share_gradients(model, device, {scope + str(blob) for blob in excluded_blobs}, recycle_activations, shapes)


def share_gradients(model: Any, device: int, excluded: Iterable[str] = (), activations: bool = False,
                    shapes: Mapping[str, Sequence[int]] | None = None) -> None:
    """`share_grad_blobs` for one device."""
    model.net._net = share_grad_blobs(
        model.net, model._losses_by_gpu[device], set(model.param_to_grad.values()),
        f"{model._device_prefix}_{device}/", dont_share_blobs=excluded, share_activations=activations,
        blob_shapes=shapes)


def release_blobs(model: Any, blobs_to_keep: Iterable[str] | None) -> None:
    """Frees each blob after its last use, those named (without the device's scope) excepted."""
    kept = {f"{model._device_prefix}_{device}/{blob}" for blob in blobs_to_keep or () for device in model._devices}
    model.net._net = release_blobs_when_used(model.net.Proto(), kept)
