"""Creating and running the nets of a model on several devices."""

from __future__ import annotations

import warnings
from typing import Any

from netgrad.parallel.devices import check_rendezvous
from netgrad.runtime import current
from netgrad.runtime.workspace import Workspace

#: seconds that other processes are waited for
_DEFAULT_TIMEOUT_SEC = 30
_DEFAULT_BARRIER_NET_TIMEOUT_SEC = 300


def CreateNet(model: Any, overwrite: bool = False) -> None:
    """Creates the nets that training runs."""
    for entry in model._data_parallel_model_nets:
        Workspace.current.create_net(entry[0] if isinstance(entry, tuple) else entry, overwrite=overwrite)


def RunInitNet(model: Any) -> None:
    """Fills the parameters and creates the nets."""
    for net in model._data_parallel_model_init_nets:
        Workspace.current.run_net_once(net)
    CreateNet(model)


def RunNet(model: Any, num_iterations: int) -> None:
    """Trains for some iterations; nets with a number of their own (the global update of BMUF) run that often."""
    for entry in model._data_parallel_model_nets:
        net, count = entry if isinstance(entry, tuple) else (entry, num_iterations)
        current.RunNet(net, count)


def RunWarmup(model: Any) -> None:
    """Runs the iterations before BMUF begins, and gives all devices the first one's parameters."""
    current.RunNet(model.net, model._warmup_iterations)
    Workspace.current.run_net_once(model._warmup_broadcast)


def Synchronize(model: Any, timeout_sec: int = _DEFAULT_BARRIER_NET_TIMEOUT_SEC) -> None:
    """Waits for other processes; with one there is nobody to wait for. Deprecated."""
    warnings.warn("Synchronize is deprecated: nets of a model in several processes wait for each other by themselves",
                  category=DeprecationWarning, stacklevel=2)
    check_rendezvous(model._rendezvous)
