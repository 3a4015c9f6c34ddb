"""What must be saved of a model on several devices, and how it gets to all of them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.device import IsGPUDeviceType
from netgrad.graph.net import Net
from netgrad.parallel.devices import ParallelError, device_of, reference, stripBlobName
from netgrad.parallel.exchange import _SyncAllParams
from netgrad.runtime.workspace import Workspace
from netgrad.training.predictor_net import ExtractPredictorNet as _extract


def _ComputeBlobsToSync(model: Any) -> tuple[list[BlobReference], list[str]]:
    """The blobs of devices that the init net fills (of a shared model: the computed parameters), by device and name,
    and their names without scope, in the order in which they are filled."""
    if model._shared_model:
        blobs = [str(param) for param in model.GetComputedParams("")]
    else:
        prefix = f"{model._device_prefix}_"
        blobs = [name for op in model.param_init_net.Proto().op for name in op.output
                 if name.startswith(prefix) and "/" in name]
    names = list(dict.fromkeys(map(stripBlobName, blobs)))
    if not model._shared_model and (missing := sorted(set(model._param_names) - set(names))):
        raise ParallelError(f"the init net of model {model.name!r} does not fill parameters {', '.join(missing)}; "
                            "make the model with init_params=True")
    ordered = sorted(set(blobs), key=lambda blob: (device_of(model, blob), blob))
    return [BlobReference(blob) for blob in ordered], names


def GetCheckpointParams(model: Any) -> set[BlobReference]:
    """The blobs to save: those of the first device, and iteration counters, which belong to no device."""
    first = f"{model._device_prefix}_{model._devices[0]}/"
    found = {blob for blob in _ComputeBlobsToSync(model)[0] if str(blob).startswith(first)}
    for op in model.net.Proto().op:
        if op.type in ("Iter", "AtomicIter") and not op.output[0].startswith(f"{model._device_prefix}_"):
            found.add(BlobReference(op.output[0]))
    return found


def FinalizeAfterCheckpoint(model: Any, blobs: Iterable[Any] | None = None, cpu_mode: bool = False) -> None:
    """Copies what was loaded for the first device to the others. Call it after loading.

    Args:
        blobs: those to copy, with a device's scope; None: all that `GetCheckpointParams` means. Only the first call
            on a model reads them.
        cpu_mode: copy on the CPU even if the model is on GPUs.
    """
    if not hasattr(model, "_checkpoint_net"):
        names = _ComputeBlobsToSync(model)[1] if blobs is None else [stripBlobName(blob) for blob in blobs]
        devices = model.GetDevices()
        for name in names:
            if name not in model._device_grouped_blobs:
                model._device_grouped_blobs[name] = {device: reference(model, device, name) for device in devices}
        net = Net("checkpoint_sync_net")
        if IsGPUDeviceType(model._device_type) and not cpu_mode:
            net.RunAllOnGPU()
        _SyncAllParams(devices, model, net, names)
        Workspace.current.create_net(net)
        model._checkpoint_net = net
    Workspace.current.run_net(model._checkpoint_net.Name())


def ExtractPredictorNet(model: Any, inputs: Sequence[Any], outputs: Sequence[Any], device: Any) -> tuple[Any, Any]:
    """The net that computes outputs from inputs on the first device, under names without its scope, and what it needs.

    Returns:
        The net and the blobs to export with it.
    """
    prefix = f"{model._device_prefix}_{model._devices[0]}/"
    ours = [prefix + str(blob) for blob in (*inputs, *outputs)]
    return _extract(net_proto=model.net.Proto(), input_blobs=ours[:len(inputs)], output_blobs=ours[len(inputs):],
                    device=device, renames=dict(zip(ours, map(str, (*inputs, *outputs)))))
