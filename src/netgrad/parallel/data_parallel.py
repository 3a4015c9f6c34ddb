"""`Parallelize`: one model on several devices, each with its part of the batch.

Each device has the whole model in a name scope of its own. After the backward pass the gradients are added up over the
devices, and each applies the same update; so parameters stay the same everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import cpu_count
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.parallel.batch_norm import _InterleaveOps, combine
from netgrad.parallel.checkpoints import _ComputeBlobsToSync
from netgrad.parallel.devices import (
    ParallelError,
    _AnalyzeOperators,
    _GroupByDevice,
    _InferBlobDevice,
    _ValidateParams,
    check_no_device_scope,
    check_rendezvous,
    on_device,
)
from netgrad.parallel.exchange import _AllReduceBlobs, _BroadcastComputedParams, _SyncAllParams
from netgrad.parallel.model_memory import release_blobs, share_gradients
from netgrad.parallel.running import _DEFAULT_BARRIER_NET_TIMEOUT_SEC
from netgrad.parallel.shared_parameters import prune, remap
from netgrad.proto import caffe2_pb2
from netgrad.runtime.devices import GpuDeviceType, NumGpuDevices
from netgrad.training.model_helper import ModelHelper

logger = logging.getLogger("data_parallel_model")

Builder = Callable[..., Any]


def Parallelize(
    model_helper_obj: ModelHelper,
    input_builder_fun: Builder,
    forward_pass_builder_fun: Builder,
    param_update_builder_fun: Builder | None = None,
    optimizer_builder_fun: Builder | None = None,
    post_sync_builder_fun: Builder | None = None,
    pre_grad_net_transformer_fun: Builder | None = None,
    net_transformer_fun: Builder | None = None,
    devices: Sequence[int] | None = None,
    rendezvous: Any = None,
    net_type: str = "dag",
    broadcast_computed_params: bool = True,
    optimize_gradient_memory: bool = False,
    dynamic_memory_management: bool = False,
    blobs_to_keep: Iterable[str] | None = None,
    use_nccl: bool = False,
    max_concurrent_distributed_ops: int = 16,
    cpu_device: bool = False,
    ideep: bool = False,
    num_threads_per_device: int = 4,
    shared_model: bool = False,
    combine_spatial_bn: bool = False,
    barrier_net_timeout_sec: int = _DEFAULT_BARRIER_NET_TIMEOUT_SEC,
) -> None:
    """Builds a model on several devices.

    Args:
        model_helper_obj: the model, which may have parameters of its own already; these belong to no device.
        input_builder_fun: ``(model)``, called in the scopes of each device: adds what reads the input. Readers that
            the devices share are made before.
        forward_pass_builder_fun: ``(model, loss_scale)``, likewise: adds the model and returns a list of losses. Each
            should be multiplied by ``loss_scale``, one over the number of devices.
        param_update_builder_fun: ``(model)``, likewise: adds the updates of the device's parameters.
        optimizer_builder_fun: ``(model)``, called once, instead: adds an optimizer for all parameters and returns it.
            With neither the model is one for testing: no gradients.
        post_sync_builder_fun: ``(model)``, in the scopes of each device, after parameters were made equal.
        pre_grad_net_transformer_fun: ``(model)``, once, before the gradients are added.
        net_transformer_fun: ``(model, number of devices, prefix of their scopes, their type)``, once, after that.
        devices: their numbers; None: all GPUs, or as many as the host has cores.
        rendezvous: None, or a dictionary with ``num_shards`` 1: one process.
        net_type: the type of the net.
        broadcast_computed_params: in each iteration running means are copied from the first device to the others.
        optimize_gradient_memory: gradients share names.
        dynamic_memory_management: blobs are freed after their last use, but for ``blobs_to_keep``, names without scope.
        use_nccl: exchange between GPUs by NCCL's operators.
        cpu_device, ideep: the devices are the host, split in parts.
        num_threads_per_device: threads that the net asks for.
        shared_model: (on the host) all devices use the first one's parameters.
        combine_spatial_bn: SpatialBN uses the batches of all devices.
        max_concurrent_distributed_ops, barrier_net_timeout_sec: for several processes.

    Raises:
        AssertionError: in a device scope, or the builder functions make something that cannot be spread.
        NotImplementedError: several processes were asked for.
    """
    check_no_device_scope()
    check_rendezvous(rendezvous)
    if not isinstance(model_helper_obj, ModelHelper):
        raise ParallelError(f"a model is a ModelHelper, not {model_helper_obj!r}")
    model: Any = model_helper_obj
    if param_update_builder_fun is not None and optimizer_builder_fun is not None:
        raise ParallelError("give param_update_builder_fun or optimizer_builder_fun, not both")
    if optimize_gradient_memory and dynamic_memory_management:
        raise ParallelError("optimize_gradient_memory and dynamic_memory_management do not go together: choose one")
    training = param_update_builder_fun is not None or optimizer_builder_fun is not None
    if combine_spatial_bn and not training:
        raise ParallelError("combine_spatial_bn is for training: give a function that builds updates")
    if shared_model and not (cpu_device or ideep):
        raise ParallelError("shared_model is for devices on the host: give cpu_device=True")
    if not training and model.init_params:
        logger.warning("model %s has no updates, and init_params=True: running its init net would overwrite what the "
                       "model for training has learnt; make models for testing with init_params=False", model.name)
    devices = place(model, devices, cpu_device, ideep, num_threads_per_device, net_type, rendezvous)
    model._shared_model = shared_model
    losses = _build(model, devices, input_builder_fun, forward_pass_builder_fun, training)
    if pre_grad_net_transformer_fun:
        pre_grad_net_transformer_fun(model)
    if training:
        _AddGradientOperators(devices, model, losses)
    if net_transformer_fun:
        net_transformer_fun(model, len(devices), model._device_prefix, model._device_type)
    if not training:
        _InferBlobDevice(model)
        return
    if combine_spatial_bn:
        _InterleaveOps(model)
        combine(model)
    _ValidateParams(model.params)
    _exchange_gradients(model, devices, broadcast_computed_params, use_nccl)
    all_params = set(map(str, model.GetParams("")))
    if shared_model:
        prune(model)
    if param_update_builder_fun is not None:
        for device in devices:
            with on_device(model, device):
                param_update_builder_fun(model)
    elif optimizer_builder_fun is not None:
        model._optimizer = optimizer_builder_fun(model)
    _synchronize_at_the_start(model, devices)
    if post_sync_builder_fun is not None:
        for device in devices:
            with on_device(model, device):
                post_sync_builder_fun(model)
    if optimize_gradient_memory:
        for device in devices:
            share_gradients(model, device)
    if dynamic_memory_management:
        release_blobs(model, blobs_to_keep)
    model._data_parallel_model_init_nets = [model.param_init_net]
    model._data_parallel_model_nets = [model.net]
    if shared_model:
        remap(model, all_params)


def Parallelize_GPU(*args: Any, **kwargs: Any) -> None:
    """`Parallelize` on GPUs."""
    Parallelize(*args, **{**kwargs, "cpu_device": False})


def Parallelize_CPU(*args: Any, **kwargs: Any) -> None:
    """`Parallelize` on the host."""
    Parallelize(*args, **{**kwargs, "cpu_device": True})


def Parallelize_iDeep(*args: Any, **kwargs: Any) -> None:
    """`Parallelize` on the host, as devices of type IDEEP, which compute like CPUs here."""
    Parallelize(*args, **{**kwargs, "ideep": True})


def place(model: Any, devices: Sequence[int] | None, cpu_device: bool, ideep: bool, num_threads_per_device: int,
          net_type: str, rendezvous: Any) -> list[int]:
    """Notes on the model which devices it runs on; returns their numbers."""
    if devices is None:
        devices = range(cpu_count() if cpu_device or ideep else NumGpuDevices())
    devices = list(devices)
    if not devices:
        raise ParallelError("there is no GPU; give devices=, or train on the host with cpu_device=True")
    if ideep:
        model._device_type, model._device_prefix = caffe2_pb2.IDEEP, "ideep"
    elif cpu_device:
        model._device_type, model._device_prefix = caffe2_pb2.CPU, "cpu"
    else:
        model._device_type, model._device_prefix = GpuDeviceType, "gpu"
        if max(devices) >= NumGpuDevices():
            logger.warning("GPUs %s were asked for, and there are %d", devices, NumGpuDevices())
    model.net.Proto().num_workers = len(devices) * num_threads_per_device
    model.net.Proto().type = net_type
    model._devices = devices
    model._rendezvous = rendezvous
    model._sync_barrier_net = model._broadcast_context = model._optimizer = None
    model._shared_model = False
    model._grad_names = []
    return devices


def _build(model: Any, devices: Sequence[int], inputs: Builder, forward: Builder, training: bool) -> dict[int, Any]:
    """Builds the model on each device; returns device -> losses, and notes how parameters belong together."""
    before, computed_before = list(model.params), list(model.GetComputedParams(""))
    losses: dict[int, Any] = {}
    for device in devices:
        with on_device(model, device):
            inputs(model)
            losses[device] = forward(model, 1.0 / len(devices))
        if training and not (isinstance(losses[device], list)
                             and all(isinstance(loss, BlobReference) for loss in losses[device])):
            raise ParallelError("the function that builds the forward pass returns a list of losses, which are blobs, "
                                f"not {losses[device]!r}")
    _ValidateParams(model.params)
    model._device_grouped_blobs = _GroupByDevice(model, devices, model.params, before)
    computed = _GroupByDevice(model, devices, model.GetComputedParams(""), computed_before)
    model._device_grouped_blobs.update(computed)
    model._param_names = list(model._device_grouped_blobs)
    model._computed_param_names = list(computed)
    model._non_datapar_params = before
    model._losses_by_gpu = losses
    return losses


def _AddGradientOperators(devices: Sequence[int], model: Any, losses_by_gpu: dict[int, Any]) -> None:
    """Differentiates the losses of all devices in one pass; each starts from ones on its own device."""
    given: dict[str, str] = {}
    for device in devices:
        with on_device(model, device, named=False):
            for loss in losses_by_gpu[device]:
                given[str(loss)] = str(model.net.ConstantFill(loss, f"{loss}_grad", value=1.0))
    model.AddGradientOperators(given)


def _exchange_gradients(model: Any, devices: Sequence[int], computed: bool, use_nccl: bool) -> None:
    """Adds the sums of gradients over the devices, those that are computed first first."""
    alone = set(map(str, model._non_datapar_params))
    grads = [model.param_to_grad[param] for param in model.params
             if param in model.param_to_grad and str(param) not in alone]
    grouped = _GroupByDevice(model, devices, grads, ())
    model._device_grouped_blobs.update(grouped)
    model._grad_names = list(grouped)
    _InferBlobDevice(model)
    if computed:
        _BroadcastComputedParams(devices, model, use_nccl)
    _AllReduceBlobs(_GetReverseOrderedGrads(model), devices, model, model.net, use_nccl)


def _GetReverseOrderedGrads(model: Any) -> list[str]:
    return list(reversed(model._grad_names))


def _synchronize_at_the_start(model: Any, devices: Sequence[int]) -> None:
    """Lets the init net copy all that it fills on the first device to the others."""
    blobs, names = _ComputeBlobsToSync(model)
    model._device_grouped_blobs.update(_GroupByDevice(model, devices, blobs, ()))
    _InferBlobDevice(model)
    _AnalyzeOperators(model)
    model.Proto().arg.add(name="first_iter_only_one_worker", i=1)
    _SyncAllParams(devices, model, model.param_init_net, names)


def GetLearningRateBlobNames(model: Any) -> list[str]:
    """The blobs that hold the learning rates of the optimizer."""
    optimizer = getattr(model, "_optimizer", None)
    if optimizer is None:
        return [op.output[0] for op in model.net.Proto().op if op.type == "LearningRate"]
    if model._device_type in (caffe2_pb2.CPU, caffe2_pb2.IDEEP):
        return [optimizer.get_cpu_blob_name("lr")]
    return [optimizer.get_gpu_blob_name("lr", device, "") for device in model._devices]
