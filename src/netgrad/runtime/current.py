"""Caffe2's functions on the current workspace: ``FeedBlob``, ``CreateNet``, ``RunNet`` and the rest."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from netgrad.graph import registry, scope
from netgrad.runtime.errors import NetError, NetNotFound, OperatorFailed
from netgrad.runtime.workspace import Workspace, net_name


def CurrentWorkspace() -> str:
    """The name of the current workspace."""
    return Workspace.current_name


def Workspaces() -> list[str]:
    return sorted(Workspace.by_name)


def SwitchWorkspace(name: str | bytes, create_if_missing: bool = False) -> None:
    """Makes another workspace the current one; raises `NetError` when there is none and it may not be made."""
    name = name.decode() if isinstance(name, bytes) else name
    if name not in Workspace.by_name:
        if not create_if_missing:
            raise NetError(f"there is no workspace {name!r}; there are {', '.join(map(repr, Workspaces()))} "
                           "(create_if_missing=True makes one)")
        Workspace.by_name[name] = Workspace()
    Workspace.current_name = name


def ResetWorkspace(root_folder: str | None = None) -> bool:
    """Forgets all blobs and nets of the current workspace."""
    workspace = Workspace.current
    workspace.reset()
    if root_folder is not None:
        os.makedirs(root_folder, exist_ok=True)
        workspace.root_folder = root_folder
    return True


def RootFolder() -> str:
    return Workspace.current.root_folder


def FeedBlob(name: Any, arr: Any, device_option: Any = None) -> bool:
    """Binds a name to a copy of a value: an array, torch tensor, TensorProto, numbers, str or bytes, lists of them.

    dtypes stay as they are; Python floats become float32. Raises `BlobError` for what a blob cannot be.
    """
    return Workspace.current.feed_blob(name, arr, device_option)


def FetchBlob(name: Any) -> Any:
    """A copy of a blob as a NumPy array (strings: an array of ``bytes`` objects), or ``bytes`` for a single string.

    Raises `BlobNotFound`.
    """
    return Workspace.current.fetch_blob(name)


def FetchBlobs(names: Iterable[Any]) -> list[Any]:
    return [FetchBlob(name) for name in names]


def FetchTorch(name: Any) -> Any:
    """A blob as a torch tensor, sharing the blob's values where the backend is torch: do not write into it."""
    return Workspace.current.blobs[str(name)].to_torch()


def Blobs() -> list[str]:
    """Names of all blobs, sorted."""
    return Workspace.current.names()


def HasBlob(name: Any) -> bool:
    return Workspace.current.has_blob(name)


def CreateBlob(name: Any) -> bool:
    """Makes a blob without a value, unless there is one of that name."""
    Workspace.current.create_blob(name)
    return True


def ResetBlob(name: Any) -> None:
    """Takes a blob's value away; the name stays."""
    Workspace.current.values[str(name)] = None


def RemoveBlob(name: Any) -> bool:
    return Workspace.current.remove_blob(name)


def SerializeBlob(name: Any) -> bytes:
    return Workspace.current.serialize_blob(name)


def DeserializeBlob(name: Any, content: bytes) -> None:
    Workspace.current.deserialize_blob(name, content)


def GetBlobSizeBytes(name: Any) -> int:
    value = FetchBlob(name)
    return int(value.nbytes) if hasattr(value, "nbytes") else len(value)


def CreateNet(net: Any, overwrite: bool = False, input_blobs: Iterable[Any] | None = None) -> bool:
    """Makes a net ready to run by name. ``input_blobs`` are created, unfilled, where they are missing.

    Raises `NetExists`, or the `OperatorError` of the first operator that cannot be made.
    """
    for name in input_blobs or ():
        Workspace.current.create_blob(name)
    Workspace.current.create_net(net, overwrite)
    return True


def RunNet(name: Any, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Runs a created net, given by name or as a Net; one that changed since CreateNet is created anew, with a warning.

    Args:
        allow_fail: whether an operator that says that it failed (its kernel returns False) is answered with False
            instead of `OperatorFailed`. What operators raise is raised either way, as in Caffe2.

    Raises `NetNotFound`, or the `OperatorError` of the operator that failed.
    """
    if not isinstance(name, str) and not hasattr(name, "Name"):
        raise AssertionError(f"RunNet takes a net or its name, not {type(name).__name__}")
    try:
        return Workspace.current.run_net(name, num_iter)
    except OperatorFailed:
        if allow_fail:
            return False
        raise


def RunNetOnce(net: Any) -> bool:
    """Creates a net, runs it once, forgets it; its blobs stay."""
    return Workspace.current.run_net_once(net)


def RunOperatorOnce(operator: Any) -> bool:
    return Workspace.current.run_operator(operator)


def RunOperatorMultiple(operator: Any, num_runs: int) -> bool:
    """Makes an operator once and runs it several times."""
    return Workspace.current.run_operator(operator, num_runs)


def RunOperatorsOnce(operators: Iterable[Any]) -> bool:
    for operator in operators:
        Workspace.current.run_operator(operator)
    return True


def DeleteNet(name: str) -> bool:
    """Forgets a created net; raises `NetNotFound` where there is none of that name."""
    if not Workspace.current.delete_net(name):
        raise NetNotFound(f"there is no net {name!r} to delete")
    return True


def Nets() -> list[str]:
    """Names of the created nets."""
    return list(Workspace.current.nets)


def LocalBlobs() -> list[str]:
    """Names of the workspace's own blobs, without its parent's."""
    return Workspace.current.local_names()


def BenchmarkNet(name: Any, warmup_runs: int, main_runs: int, run_individual: bool = False) -> list[float]:
    """Milliseconds per run of a created net; with ``run_individual`` also of each of its operators."""
    created = Workspace.current.net(name)
    for _ in range(warmup_runs):
        created.run()
    start = time.perf_counter()
    for _ in range(main_runs):
        created.run()
    total = (time.perf_counter() - start) / max(1, main_runs) * 1e3
    return [total, *created.time_operators(max(1, main_runs))] if run_individual else [total]


def BenchmarkNetOnce(net: Any) -> float:
    """Milliseconds of one run of a net."""
    CreateNet(net, overwrite=True)
    return BenchmarkNet(net, 0, 1)[0]


def RunPlan(plan_or_step: Any) -> bool:
    """Runs a plan, or one execution step."""
    return Workspace.current.run_plan(_plan(plan_or_step))


def _plan(plan_or_step: Any) -> Any:
    if type(plan_or_step).__name__ == "ExecutionStep":
        from netgrad.graph.plan import Plan

        return Plan(plan_or_step)
    return plan_or_step


def RunPlanInBackground(plan_or_step: Any) -> BackgroundPlan:
    """Starts a plan, or one execution step, in a thread."""
    return BackgroundPlan(Workspace.current, plan_or_step)


class BackgroundPlan:
    """A plan that runs in a thread."""

    def __init__(self, workspace: Workspace, plan: Any) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(workspace, _plan(plan)), daemon=True)
        self._thread.start()

    def _run(self, workspace: Workspace, plan: Any) -> None:
        try:
            workspace.run_plan(plan)
        except BaseException as error:
            self._error = error

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def is_succeeded(self) -> bool:
        """Whether it ended well; waits for its end, and raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return True


def RegisteredOperators() -> list[str]:
    """The types of all operators."""
    return sorted(registry.names())


def GetNameScope() -> str:
    return scope.CurrentNameScope()


def GetNetName(net: Any) -> str:
    return net_name(net)


def StringifyBlobName(name: Any) -> str:
    if isinstance(name, str) or type(name).__name__ == "BlobReference":
        return str(name)
    raise AssertionError(f"expected a string or BlobReference, found {type(name).__name__}")


def StringifyNetName(name: Any) -> str:
    if isinstance(name, str) or type(name).__name__ == "Net":
        return str(name)
    raise AssertionError(f"expected a string or Net, found {type(name).__name__}")


def StringifyProto(obj: Any) -> Any:
    """The wire form of a message or of an object with ``Proto()``; strings as they are."""
    if isinstance(obj, (str, bytes)):
        return obj
    if hasattr(obj, "Proto"):
        obj = obj.Proto()
    if hasattr(obj, "SerializeToString"):
        return obj.SerializeToString()
    raise ValueError(f"a {type(obj).__name__} is no protobuf message and has no Proto()")


def CallWithExceptionIntercept(func: Callable[..., Any], op_id_fetcher: Callable[[], int | None], net_name: str,
                               *args: Any, **kwargs: Any) -> Any:
    """Calls a function; what it raises names the failing operator and its Python line already."""
    return func(*args, **kwargs)


class BlobDict:
    """``workspace.blobs``: fetching and feeding with the syntax of a dictionary."""

    def __getitem__(self, name: Any) -> Any:
        return FetchBlob(name)

    def __setitem__(self, name: Any, value: Any) -> None:
        FeedBlob(name, value)

    def __delitem__(self, name: Any) -> None:
        if not RemoveBlob(name):
            FetchBlob(name)

    def __len__(self) -> int:
        return len(Blobs())

    def __iter__(self) -> Iterator[str]:
        return iter(Blobs())

    def __contains__(self, name: Any) -> bool:
        return HasBlob(name)


blobs = BlobDict()
