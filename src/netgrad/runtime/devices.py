"""What devices there are, for those who ask before they build: Caffe2's questions, answered for the backend in use."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, flags

#: the device type that GPUs have; scripts name it on machines without one too
GpuDeviceType = caffe2_pb2.CUDA
#: AMD's GPUs are torch's "cuda" devices here
has_hip_support = False
#: what a build of Caffe2 could have in it, and netgrad has not
is_asan = has_mkldnn = use_rocm = use_trt = False
#: IDEEP devices can be named: they are the host, whose convolutions torch leaves to oneDNN, as MKL-DNN is called now
use_mkldnn = True


def strict_devices(strict: bool = True) -> None:
    """Whether nets that ask for a GPU where there is none are refused, with a `DeviceError`, instead of run on the CPU.

    The flag ``--netgrad_strict_devices`` of `GlobalInit`, and the environment variable ``NETGRAD_STRICT_DEVICES``, say
    so too.
    """
    flags.set_flag("netgrad_strict_devices", strict)


def NumGpuDevices() -> int:
    """How many GPUs the backend can use."""
    if backends.default_name() != "torch":
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


NumCudaDevices = NumGpuDevices


def GetCUDAVersion() -> int:
    """As 12040 for 12.4; 0 without CUDA."""
    if not NumGpuDevices():
        return 0
    import torch

    major, minor = (int(part) for part in (torch.version.cuda or "0.0").split(".")[:2])
    return major * 1000 + minor * 10


def GetCuDNNVersion() -> int:
    if not NumGpuDevices():
        return 0
    import torch

    return int(torch.backends.cudnn.version() or 0)  # type: ignore[no-untyped-call]


def GetDeviceProperties(device: int) -> dict[str, Any] | None:
    """Name, compute capability and memory of a GPU; None without GPUs."""
    if not NumGpuDevices():
        return None
    import torch

    found = torch.cuda.get_device_properties(device)
    return {"name": found.name, "major": found.major, "minor": found.minor, "totalGlobalMem": found.total_memory}


def GetGPUMemoryInfo(device: int = 0) -> tuple[int, int] | None:
    """Free and total bytes of a GPU; None without GPUs."""
    if not NumGpuDevices():
        return None
    import torch

    return torch.cuda.mem_get_info(device)


def GetGpuPeerAccessPattern() -> np.ndarray:
    """Which GPUs can reach which other's memory, (n, n) of bool; empty without GPUs."""
    count = NumGpuDevices()
    if not count:
        return np.array([])
    import torch

    return np.array([[a == b or torch.cuda.can_device_access_peer(a, b) for b in range(count)] for a in range(count)])


def __getattr__(name: str) -> Any:
    if name in ("has_gpu_support", "has_cuda_support"):  # asked for late: the answer may have to import torch
        return NumGpuDevices() > 0
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
