"""Start of the process, and what the current workspace and the devices hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_global_init_args: list[str] = []


def GlobalInit(args: Sequence[str]) -> None:
    """Notes the command line, program first, and sets the flags in it that mean something (`netgrad.runtime.flags`).

    Loads the default backend, and NumPy's, which serves the host side of all, so that the first net that runs does not
    take the time. May be called again, as Caffe2's tests do to change flags.
    """
    from netgrad.graph.lazy_imports import TriggerLazyImport
    from netgrad.runtime import backends, flags

    TriggerLazyImport()
    backends.get()
    backends.get("numpy")
    _global_init_args.extend(args[1:])
    flags.parse(args[1:])


def GetGlobalInitArgs() -> list[str]:
    """The arguments that `GlobalInit` received, without the program."""
    return list(_global_init_args)


def ResetBlobs(blobs: Iterable[Any]) -> None:
    """Frees what blobs of the current workspace hold."""
    from netgrad.runtime.current import ResetBlob

    for blob in blobs:
        ResetBlob(blob)


def GetGPUMemoryUsageStats() -> dict[str, Any]:
    """Bytes that tensors occupy on the GPUs: now and at most, by GPU and in total."""
    import numpy as np
    import torch

    gpus = range(torch.cuda.device_count())
    now = np.array([torch.cuda.memory_allocated(k) for k in gpus], dtype=np.int64)
    most = np.array([torch.cuda.max_memory_allocated(k) for k in gpus], dtype=np.int64)
    return {"total_by_gpu": now, "max_by_gpu": most, "total": now.sum(), "max_total": most.sum()}
