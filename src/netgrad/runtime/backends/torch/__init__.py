"""PyTorch: the fast backend, on CPU and GPU."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from netgrad.proto import caffe2_pb2
from netgrad.runtime.backends import Kernel, Overrides
from netgrad.runtime.backends.torch.namespace import Namespace
from netgrad.runtime.errors import DeviceError

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


BACKEND = TorchBackend()
