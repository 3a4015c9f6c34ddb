"""Blockwise model-update filtering (Chen and Huo, ICASSP 2016).

The devices train on their own for a block of iterations. Then their parameters are averaged, and the step from the
last common parameters to the average is smoothed by a momentum over blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from netgrad.graph.device import DeviceOption
from netgrad.graph.net import Net
from netgrad.graph.scope import DeviceScope
from netgrad.parallel.data_parallel import Builder, _AddGradientOperators, _build, place
from netgrad.parallel.devices import (
    ParallelError,
    _InferBlobDevice,
    _ValidateParams,
    check_no_device_scope,
    check_rendezvous,
    on_device,
)
from netgrad.parallel.exchange import AddBlobSync, _AllReduceBlobs, _SyncAllParams
from netgrad.parallel.model_memory import share_gradients
from netgrad.parallel.running import _DEFAULT_BARRIER_NET_TIMEOUT_SEC
from netgrad.training.model_helper import ModelHelper


def Parallelize_BMUF(
    model_helper_obj: ModelHelper,
    input_builder_fun: Builder,
    forward_pass_builder_fun: Builder,
    param_update_builder_fun: Builder,
    block_learning_rate: float = 1.0,
    block_momentum: float | None = None,
    devices: Sequence[int] | None = None,
    rendezvous: Any = None,
    net_type: str = "dag",
    master_device: int | None = None,
    use_nccl: bool = False,
    nesterov: bool = False,
    optimize_gradient_memory: bool = False,
    reset_momentum_sgd: bool = False,
    warmup_iterations: int | None = None,
    max_concurrent_distributed_ops: int = 4,
    add_blobs_to_sync: Iterable[str] | None = None,
    num_threads_per_device: int = 4,
    cpu_device: bool = False,
    barrier_net_timeout_sec: int = _DEFAULT_BARRIER_NET_TIMEOUT_SEC,
) -> None:
    """Builds a model on several devices, and a net that joins them after each block; `RunNet` runs a block and joins.

    Args:
        model_helper_obj, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun, devices, rendezvous,
            net_type, use_nccl, optimize_gradient_memory, num_threads_per_device, cpu_device: see `Parallelize`.
        block_learning_rate: multiplies the step of a block.
        block_momentum: how much of the last step goes on; None: 1 - 1 / number of devices.
        master_device: where the common parameters lie; None: the first.
        nesterov: look one step of the momentum ahead.
        reset_momentum_sgd: each block begins with the devices' own momenta at zero.
        warmup_iterations: before the first block; see `RunWarmup`.
        add_blobs_to_sync: names without scope of further blobs that are copied to all devices after each block.
    """
    check_no_device_scope()
    check_rendezvous(rendezvous)
    if not isinstance(model_helper_obj, ModelHelper):
        raise ParallelError(f"a model is a ModelHelper, not {model_helper_obj!r}")
    model: Any = model_helper_obj
    devices = place(model, devices, cpu_device, False, num_threads_per_device, net_type, rendezvous)
    master = devices[0] if master_device is None else master_device
    if master not in devices:
        raise ParallelError(f"master_device {master} is none of the devices {devices}")
    momentum = 1.0 - 1.0 / len(devices) if block_momentum is None else block_momentum

    def net(name: str) -> Net:
        made = Net(name)
        made.Proto().type, made.Proto().num_workers = net_type, model.net.Proto().num_workers
        return made

    model._global_model_init_net, model._global_model_param_updates_net = net("global_model_init"), net("global_model")
    losses = _build(model, devices, input_builder_fun, forward_pass_builder_fun, True)
    names = list(model._param_names)
    _AddGradientOperators(devices, model, losses)
    _ValidateParams(model.params)
    _InferBlobDevice(model)
    for device in devices:
        with on_device(model, device):
            param_update_builder_fun(model)
    params = [model._device_grouped_blobs[name][master] for name in names]
    on_master = DeviceOption(model._device_type, master)
    ordered = [master, *(device for device in devices if device != master)]
    if warmup_iterations is not None:
        model._warmup_iterations, model._warmup_broadcast = warmup_iterations, net("warmup-broadcast")
        _SyncAllParams(ordered, model, model._warmup_broadcast, names)
        with DeviceScope(on_master):
            for param in params:
                model._warmup_broadcast.Copy(param, f"{param}_g")
    with DeviceScope(on_master):
        for param in params:
            _start(model._global_model_init_net, param, nesterov)
    update = model._global_model_param_updates_net
    _AllReduceBlobs(names, ordered, model, update, use_nccl)
    with DeviceScope(on_master):
        for param in params:
            _join(update, param, len(devices), block_learning_rate, momentum, nesterov)
    _SyncAllParams(ordered, model, update, names)
    if add_blobs_to_sync is not None:
        AddBlobSync(model, add_blobs_to_sync, net=update)
    if reset_momentum_sgd:
        for op in list(model.net.Proto().op):
            if op.type == "MomentumSGDUpdate":
                with DeviceScope(op.device_option):
                    update.ConstantFill([op.input[1]], op.input[1], value=0.0)
    if optimize_gradient_memory:
        for device in devices:
            share_gradients(model, device)
    model._data_parallel_model_init_nets = [model.param_init_net, model._global_model_init_net]
    model._data_parallel_model_nets = [model.net, (update, 1)]


def _start(net: Any, param: Any, nesterov: bool) -> None:
    """The common parameter ``_g``, and the momentum ``_v``, zero."""
    net.ConstantFill(param, f"{param}_v", value=0.0)
    net.Copy(param, f"{param}_g")
    if nesterov:
        net.ConstantFill(param, f"{param}_prev", value=0.0)


def _join(net: Any, param: Any, count: int, rate: float, momentum: float, nesterov: bool) -> None:
    """From the sum of a parameter over the devices: its step, the momentum, and the new common parameter."""
    common, v, previous = f"{param}_g", f"{param}_v", f"{param}_prev"
    net.Scale(param, param, scale=1.0 / count)
    net.Sub([param, common], param)
    net.Scale(param, param, scale=rate)
    net.Scale(v, v, scale=momentum)
    net.Add([v, param], v)
    net.Add([common, v], common)
    if nesterov:
        net.Sub([v, previous], previous)
        net.Scale(previous, previous, scale=momentum)
        net.Sub([common, previous], common)
        net.Copy(v, previous)
    net.Copy(common, param)


def Parallelize_GPU_BMUF(*args: Any, **kwargs: Any) -> None:
    """`Parallelize_BMUF` on GPUs."""
    Parallelize_BMUF(*args, **{**kwargs, "cpu_device": False})


def Parallelize_CPU_BMUF(*args: Any, **kwargs: Any) -> None:
    """`Parallelize_BMUF` on the host."""
    Parallelize_BMUF(*args, **{**kwargs, "cpu_device": True})
