"""PyTorch: the fast backend, on CPU and GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from netgrad.proto import caffe2_pb2
from netgrad.runtime.backends import Kernel, Overrides
from netgrad.runtime.backends.torch.namespace import Namespace
from netgrad.runtime.errors import DeviceError, NoDerivative

override = Overrides(__name__)


class TorchBackend:
    name = "torch"
    array_type = torch.Tensor
    overrides = override

    def __init__(self) -> None:
        self.xp = Namespace()

    def from_numpy(self, array: np.ndarray, device: Any = None) -> torch.Tensor:
        tensor = torch.from_numpy(np.array(array, order="C", copy=True))
        return tensor if device is None else tensor.to(device)

    def to_numpy(self, array: torch.Tensor) -> np.ndarray:
        """bfloat16, which NumPy lacks, comes as float32."""
        array = array.detach().cpu()
        return array.float().numpy() if array.dtype == torch.bfloat16 else array.numpy()

    def as_array(self, value: Any) -> torch.Tensor | None:
        return value.detach() if isinstance(value, torch.Tensor) else None

    def running(self) -> AbstractContextManager[Any]:
        return torch.no_grad()

    def device(self, device_option: Any) -> torch.device | None:
        if device_option.device_type not in (caffe2_pb2.CUDA, caffe2_pb2.HIP) or not torch.cuda.is_available():
            return None
        if device_option.device_id >= torch.cuda.device_count():
            raise DeviceError(f"it asks for GPU {device_option.device_id}; there are {torch.cuda.device_count()} here")
        return torch.device("cuda", device_option.device_id)

    def on_device(self, kernel: Kernel, device: torch.device) -> Kernel:
        @functools.wraps(kernel)
        def placed(xp: Any, *inputs: Any, **arguments: Any) -> Any:
            with torch.device(device):
                return kernel(xp, *(x.to(device) if isinstance(x, torch.Tensor) else x for x in inputs), **arguments)

        return placed

    def vector_jacobian(self, function: Callable[[Any, list[Any]], tuple[Any, ...]], inputs: Sequence[Any],
                        by: Sequence[int], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        nested = any(isinstance(x, torch.Tensor) and x.requires_grad for x in (*inputs, *cotangents))
        with torch.enable_grad():
            own = list(inputs)
            for k in by:
                own[k] = own[k].view_as(own[k]) if own[k].requires_grad else own[k].detach().requires_grad_()
            outputs = function(_FOLLOWED, own)
            pairs = [(y, g.expand_as(y)) for y, g in zip(outputs, cotangents)
                     if g is not None and isinstance(y, torch.Tensor) and y.requires_grad]
            leaves = [own[k] for k in by]
            try:
                found = torch.autograd.grad([y for y, _ in pairs], leaves, [g for _, g in pairs], create_graph=nested,
                                            allow_unused=True) if pairs else [None] * len(leaves)
            except RuntimeError as error:
                if "inplace operation" not in str(error):
                    raise
                raise NoDerivative("its kernel writes over a part of an array whose values its derivative needs; make "
                                   "a new array there, or give it a gradient rule by hand") from error
            return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found))


class _FollowedNamespace(Namespace):
    """``xp`` while PyTorch follows a kernel: what would lose a derivative without a word is refused."""

    @staticmethod
    def to_numpy(x: Any) -> np.ndarray:
        if isinstance(x, torch.Tensor) and x.requires_grad:
            raise NoDerivative("its kernel turns a tensor that a derivative goes by into an array outside of xp, where "
                               "it cannot be followed; give it a gradient rule by hand")
        return Namespace.to_numpy(x)


_FOLLOWED = _FollowedNamespace()
BACKEND = TorchBackend()
