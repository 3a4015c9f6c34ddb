"""What optimizers have in common: names of their blobs, and the net's learning rate."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from netgrad.graph import scope
from netgrad.graph.blob import BlobReference
from netgrad.graph.device import CPU, DeviceOption, IsGPUDeviceType
from netgrad.graph.operator import GradientSlice
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.parameters import ParameterInfo

OPTIMIZER_ITERATION_NAME = "optimizer_iteration"
ITERATION_MUTEX_NAME = "iteration_mutex"

_optimizer_instance_count: defaultdict[str, int] = defaultdict(int)


class AuxOptimizerParams(NamedTuple):
    """Blobs that an optimizer keeps beside the parameters: one per parameter, and shared by all."""

    local: list[Any]
    shared: list[Any]


class Optimizer:
    """Base of optimizers. A class has one method of its own, `_run`, which writes one parameter's update."""

    def __init__(self) -> None:
        self._aux_params = AuxOptimizerParams(local=[], shared=[])
        name = type(self).__name__
        self._instance_num = _optimizer_instance_count[name]
        _optimizer_instance_count[name] += 1
        self._lr_multiplier: Any = None
        self._local_lr_multiplier: Any = None
        self._local_lr_multiplier_on_gpu = False

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> None:
        """Writes the update of one parameter into ``net``, and what it needs into ``param_init_net``.

        Args:
            param: a `ParameterInfo` that knows its gradient, or, with ``grad``, a blob.
        """
        if grad is not None:
            param = ParameterInfo(None, BlobReference(param) if isinstance(param, str) else param, grad=grad)
        elif not isinstance(param, ParameterInfo):
            raise AssertionError(
                f"{type(self).__name__} updates a ParameterInfo, not {param!r}; for a blob, give grad= too"
            )
        elif param.grad is None:
            raise AssertionError(
                f"parameter {param.name!r} has no gradient; call AddGradientOperators before optimizing"
            )
        self._run(net, param_init_net, param)

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no _run(net, param_init_net, param_info)")

    def scale_learning_rate(self, scale: float) -> None:
        """Multiplies the base learning rate."""
        raise NotImplementedError(f"{type(self).__name__} does not define scale_learning_rate(scale)")

    def get_auxiliary_parameters(self) -> AuxOptimizerParams:
        return self._aux_params

    @property
    def attributes(self) -> dict[str, Any]:
        """What the optimizer was made with, as a dictionary."""
        attributes = copy.deepcopy(self.__dict__)
        del attributes["_instance_num"]
        return attributes

    # names

    def get_cpu_blob_name(self, base_str: str, node_name: str = "") -> str:
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_cpu"

    def get_gpu_blob_name(self, base_str: str, gpu_id: int, node_name: str) -> str:
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_gpu{gpu_id}"

    def make_unique_blob_name(self, base_str: str) -> str:
        """A name for a blob that this optimizer keeps once per device."""
        device = scope.CurrentDeviceScope()
        if device is None:
            return self.get_cpu_blob_name(base_str)
        if IsGPUDeviceType(device.device_type):
            return self.get_gpu_blob_name(base_str, device.device_id, device.node_name)
        return self.get_cpu_blob_name(base_str, device.node_name)

    # learning rate

    def build_lr(
        self,
        net: Any,
        param_init_net: Any,
        base_learning_rate: float,
        learning_rate_blob: str | None = None,
        policy: str = "fixed",
        iter_val: int = 0,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """The learning rate, negative so that adding descends, and the iteration counter; written once per device.

        ``policy`` and its arguments (``stepsize``, ``gamma``, ...) are those of the operator LearningRate.
        """
        if learning_rate_blob is None:
            learning_rate_blob = self.make_unique_blob_name("lr")
        iteration = BuildUniqueMutexIter(param_init_net, net, iter_val=iter_val)
        if net.BlobIsDefined(learning_rate_blob):
            lr = net.GetBlobRef(learning_rate_blob)
        else:
            lr = net.LearningRate([iteration], learning_rate_blob, base_lr=-base_learning_rate, policy=policy, **kwargs)
        if self._lr_multiplier is not None:
            multiplier = net.CopyFromCPUInput(self._lr_multiplier, self.make_unique_blob_name("lr_multiplier"))
            lr = net.Mul([lr, multiplier], self.make_unique_blob_name("scaled_lr"), broadcast=1)
        if self._local_lr_multiplier is not None:
            multiplier = self._local_lr_multiplier
            if _on_gpu() and not self._local_lr_multiplier_on_gpu:
                multiplier = net.CopyFromCPUInput(multiplier, self.make_unique_blob_name("local_lr_multiplier"))
            lr = net.Mul([lr, multiplier], self.make_unique_blob_name("local_scaled_lr"), broadcast=1)
        return lr, iteration

    def add_lr_multiplier(self, lr_multiplier: Any) -> None:
        """A blob that multiplies the learning rate of all updates written from now on; None: none."""
        self._lr_multiplier = lr_multiplier

    def _add_local_lr_multiplier(self, local_lr_multiplier: Any, is_gpu_blob: bool = False) -> None:
        self._local_lr_multiplier = local_lr_multiplier
        self._local_lr_multiplier_on_gpu = is_gpu_blob

    def _clear_local_lr_multiplier(self) -> None:
        self._add_local_lr_multiplier(None)

    def _add_lars(self, net: Any, param_init_net: Any, param_info: ParameterInfo, lars: float) -> None:
        """Lets the rate of one parameter follow the norms of parameter and gradient (https://arxiv.org/abs/1708.03888)."""
        if lars < 0:
            raise AssertionError(f"the offset of LARS is at least 0, not {lars}")
        inputs = self.create_lars_inputs(param_init_net, 0.0, 1.0, LARGEST_FLOAT)
        multiplier = net.Lars(
            [param_info.blob, param_info.grad, *inputs],
            self.make_unique_blob_name(f"{param_info.blob}_lars"),
            offset=lars,
            lr_min=0.0,
        )
        self._add_local_lr_multiplier(multiplier, is_gpu_blob=_on_gpu())

    def _build_own_lr(
        self,
        net: Any,
        param_init_net: Any,
        param_info: ParameterInfo,
        rate: float,
        policy: str,
        lars: float | None,
        arguments: Mapping[str, Any],
    ) -> Any:
        """`build_lr`, with layer-wise scaling where it is wanted and the gradient is dense."""
        self._clear_local_lr_multiplier()
        if lars is not None and not isinstance(param_info.grad, GradientSlice):
            self._add_lars(net, param_init_net, param_info, lars)
        return self.build_lr(net, param_init_net, base_learning_rate=rate, policy=policy, **arguments)[0]

    def create_lars_inputs(
        self, param_init_net: Any, weight_decay: float, trust: float, lr_max: float
    ) -> tuple[Any, Any, Any]:
        return (
            param_init_net.ConstantFill([], "weight_decay", shape=[1], value=weight_decay),
            param_init_net.ConstantFill([], "trust", shape=[1], value=trust),
            param_init_net.ConstantFill([], "lr_max", shape=[1], value=lr_max),
        )

    @staticmethod
    def dedup(net: Any, sparse_dedup_aggregator: str | None, grad: GradientSlice) -> GradientSlice:
        """A slice whose indices are all different, repeated ones joined by "sum" or "mean"; None: as it is."""
        if not isinstance(grad, GradientSlice):
            raise AssertionError(f"only a sparse gradient has repeated indices, not {grad!r}")
        if not sparse_dedup_aggregator:
            return grad
        return net.DeduplicateGradientSlices(grad, aggregator=sparse_dedup_aggregator)  # type: ignore[no-any-return]


#: the largest float32
LARGEST_FLOAT = (2 - 2**-23) * 2.0**127


def check_rate(optimizer: Any, rate: float) -> None:
    if rate < 0:
        raise AssertionError(
            f"{type(optimizer).__name__}: the base learning rate is positive, or 0 for none, not {rate}"
        )


def positive_rate(optimizer: Any, rate: float) -> None:
    if rate <= 0:
        raise AssertionError(f"{type(optimizer).__name__}: the base learning rate must be positive, found {rate}")


def refuse_sparse(optimizer: Any, param_info: ParameterInfo) -> None:
    if isinstance(param_info.grad, GradientSlice):
        raise AssertionError(
            f"{type(optimizer).__name__}: the gradient of {str(param_info.blob)!r} is sparse, and this optimizer has "
            "no sparse update; give the parameter another one with UseOptimizer, or leave it out"
        )


def current_device() -> Any:
    """The device of the current scope; the CPU where there is none."""
    return scope.CurrentDeviceScope() or DeviceOption(CPU)


def known_shape(param_init_net: Any, param_info: ParameterInfo) -> Sequence[int] | None:
    """A parameter's shape, as far as it is known before the init net runs."""
    if param_info.shape is not None:
        return param_info.shape
    from netgrad.runtime.inference import InferShapesAndTypes, infer

    writer = param_init_net.writer_of(param_info.name)
    if writer is not None and not writer.input:  # a filler, which needs no look at the rest of the net
        dims = infer([writer], {})[param_info.name].dims
        return None if dims is None or None in dims else [int(size) for size in dims if size is not None]
    return InferShapesAndTypes([param_init_net])[0].get(param_info.name)


def row_fill(param_init_net: Any, param_info: ParameterInfo, suffix: str, value: float = 0.0, **arguments: Any) -> Any:
    """One value per row of a parameter: by the shape that is known, else by the one it has when the init net runs."""
    param = param_info.blob
    shape = known_shape(param_init_net, param_info)
    if shape is not None:
        return param_init_net.ConstantFill([], f"{param}{suffix}", shape=[shape[0]], value=value, **arguments)
    dims = param_init_net.Shape(param, f"{param}_shape")
    rows = param_init_net.Slice([dims], f"{dims}_numrows", starts=[0], ends=[1])
    return param_init_net.ConstantFill(rows, f"{param}{suffix}", input_as_shape=1, value=value, **arguments)


def _on_gpu() -> bool:
    return IsGPUDeviceType(current_device().device_type)


def BuildUniqueMutexIter(
    init_net: Any, net: Any, iter: str | None = None, iter_mutex: str | None = None, iter_val: int = 0
) -> Any:
    """The iteration counter of a model, int64 [1] on the CPU, counted up once per run; written if it is not there."""
    iter = OPTIMIZER_ITERATION_NAME if iter is None else iter
    if init_net.BlobIsDefined(iter):
        return init_net.GetBlobRef(iter)
    with scope.DeviceScope(DeviceOption(CPU, extra_info=["device_type_override:cpu"])):
        iteration = init_net.ConstantFill([], iter, shape=[1], value=iter_val, dtype=TensorProto.INT64)
        mutex = init_net.CreateMutex([], [ITERATION_MUTEX_NAME if iter_mutex is None else iter_mutex])
        net.AtomicIter([mutex, iteration], [iteration])
    return iteration
