"""Workspaces: named blobs, and the nets that were created to run on them."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar

from netgrad.graph import scope
from netgrad.graph.lazy_imports import TriggerLazyImport
from netgrad.proto import FormatError, caffe2_pb2, read_message
from netgrad.runtime import backends, checks
from netgrad.runtime.backends import Backend
from netgrad.runtime.blobs import from_user, to_user
from netgrad.runtime.errors import BlobNotFound, NetError, NetExists, NetNotFound
from netgrad.runtime.executor import BoundNet
from netgrad.runtime.handles import Blob
from netgrad.runtime.lending import Joined, written
from netgrad.runtime.locating import Origins, place_of, raise_located
from netgrad.runtime.pending import Blobs
from netgrad.runtime.planning.planner import planned
from netgrad.runtime.steps import Step, bound

log = logging.getLogger("netgrad")


class _Values(dict[str, Any]):
    """The blobs of a workspace. Names that it lacks are looked up, and bound, in its parent.

    Args:
        shared: the names that are looked up there, and the blobs that they stand for; all, by their own, unless given.
    """

    def __init__(self, parent: MutableMapping[str, Any], shared: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.parent = parent
        self.shared = shared

    def _outside(self, name: Any) -> Any:
        """What a name is called in the parent; None where the parent has no such blob, or keeps it to itself."""
        other = name if self.shared is None else self.shared.get(name)
        return other if other in self.parent else None

    def __missing__(self, name: str) -> Any:
        other = self._outside(name)
        if other is None:
            raise KeyError(name)
        return self.parent[other]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._outside(name) is not None

    def __setitem__(self, name: str, value: Any) -> None:
        if not super().__contains__(name) and (other := self._outside(name)) is not None:
            self.parent[other] = value
        else:
            super().__setitem__(name, value)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 (this is what it would call)

    def setdefault(self, name: str, value: Any = None) -> Any:
        if name not in self:
            super().__setitem__(name, value)
        return self[name]

    def bind_here(self, name: str, value: Any) -> None:
        """Binds a name in this workspace even if the parent has it."""
        super().__setitem__(name, value)


def definition_of(obj: Any, kind: type) -> Any:
    """A protobuf message of ``kind``, from itself, an object with ``Proto()``, or its wire form."""
    if isinstance(obj, kind):
        return obj
    if isinstance(obj, (bytes, bytearray)):
        try:
            return read_message(bytes(obj), kind)
        except FormatError as error:
            raise NetError(f"these bytes are no {kind.__name__}: {error}") from None
    if hasattr(obj, "Proto"):
        return obj.Proto()
    raise TypeError(f"expected a {kind.__name__} (or an object with Proto()), found {type(obj).__name__}")


class _Current:
    """`Workspace.current`: the workspace that Caffe2's functions act on."""

    def __get__(self, instance: Any, owner: type[Workspace]) -> Workspace:
        return owner.by_name[owner.current_name]


class Workspace:
    """Blobs by name, and nets that were created to run on them.

    Args:
        parent: a workspace whose blobs are seen, and written, through this one.
        shared: which blobs of the parent are seen, and by which names: name here -> name there; all unless given.
        backend: "numpy" or "torch"; the parent's or the process's default unless given.
    """

    current = _Current()
    #: the workspace that Caffe2's functions act on, and all that can be switched to, by name
    current_name = "default"
    by_name: ClassVar[dict[str, Workspace]] = {}

    def __init__(self, parent: Workspace | None = None, shared: Mapping[str, str] | None = None, *,
                 backend: str | None = None) -> None:
        self._parent = parent
        self._shared = shared
        self._backend_name = backend
        self._backend: Backend | None = None
        self.root_folder: str = "." if parent is None else parent.root_folder
        self.values: MutableMapping[str, Any] = Blobs() if parent is None else _Values(parent.values, shared)
        self._nets: dict[str, BoundNet] = {}
        #: what is known of the stacks of workspaces in blobs; see `netgrad.runtime.nested`
        self.scopes: dict[str, Any] = {}
        self._creating = threading.RLock()
        #: the position of the operator that failed last
        self.last_failed: int | None = None

    @property
    def backend(self) -> Backend:
        if self._backend is None:
            if self._parent is not None and self._backend_name is None:
                self._backend = self._parent.backend
            else:
                self._backend = backends.get(self._backend_name)
        return self._backend

    @property
    def chosen_backend(self) -> str | None:
        """The name of the backend, if it is settled already; asking settles nothing."""
        return self._backend_name if self._backend is None else self._backend.name

    # blobs

    @property
    def blobs(self) -> dict[str, Blob]:
        return {name: Blob(self, name) for name in self.names()}

    def names(self) -> list[str]:
        """Names of all blobs, those of the parent included."""
        own = list(self.values)
        if self._parent is None:
            return sorted(own)
        shared = self._shared
        there = self._parent.names() if shared is None else [n for n, o in shared.items() if self._parent.has_blob(o)]
        return sorted({*own, *there})

    def local_names(self) -> list[str]:
        return sorted(self.values)

    def create_blob(self, name: Any) -> Blob:
        """Makes an unfilled blob, unless there is one of that name."""
        self.values.setdefault(str(name), None)
        return Blob(self, str(name))

    def has_blob(self, name: Any) -> bool:
        return str(name) in self.values

    def remove_blob(self, name: Any) -> bool:
        """Whether there was such a blob here; those of the parent stay."""
        values = self.values
        if str(name) not in values or (isinstance(values, _Values) and not dict.__contains__(values, str(name))):
            return False
        del self.values[str(name)]
        return True

    _remove_blob = remove_blob

    def feed_blob(self, name: Any, value: Any, device_option: Any = None) -> bool:
        """Binds a name to a copy of a value (see `netgrad.runtime.blobs.from_user` for what that may be)."""
        if device_option is None:
            device_option = scope.CurrentDeviceScope()
        elif isinstance(device_option, bytes):
            device_option = caffe2_pb2.DeviceOption.FromString(device_option)
        backend = self.backend
        device = None if device_option is None else backend.device(device_option)
        made = from_user(value, backend, device)
        before = self.values.get(str(name))
        self.values[str(name)] = written(before, made) if isinstance(before, Joined) else made
        return True

    def fetch_blob(self, name: Any) -> Any:
        """A copy of a blob as a NumPy array (strings: an array of ``bytes``), or ``bytes``."""
        name = str(name)
        try:
            value = self.values[name]
        except KeyError:
            raise BlobNotFound(f"there is no blob {name!r} in the workspace{self._hint(name)}") from None
        return to_user(name, value, self.backend)

    def fetch_int8_blob(self, name: Any) -> Any:
        """The 8-bit tensor in a blob: data, scale, zero_point."""
        from netgrad.runtime.int8 import fetch

        return fetch(self, name)

    def _hint(self, name: str) -> str:
        close = difflib.get_close_matches(name, self.names(), n=3)
        return f"; there is {', '.join(map(repr, close))}" if close else f", which has {len(self.names())} blobs"

    def serialize_blob(self, name: Any, saved_name: str = "") -> bytes:
        """A blob as a BlobProto in wire form; raises `BlobError` for those that no file can hold."""
        from netgrad.persist.blobs import serialize

        if str(name) not in self.values:
            self.fetch_blob(name)  # says so
        return serialize(saved_name or str(name), self.values[str(name)], self.backend)

    def deserialize_blob(self, name: Any, content: bytes) -> None:
        """Binds a name to what a BlobProto in wire form holds; raises `StorageError` where it is none, or damaged."""
        from netgrad.persist.blobs import deserialize

        self.values[str(name)] = deserialize(str(name), content, self.backend)

    # nets

    @property
    def nets(self) -> dict[str, BoundNet]:
        return dict(self._nets)

    def create_net(self, net: Any, overwrite: bool = False) -> BoundNet:
        """Binds all operators of a net to this workspace, so that it can run by name.

        Raises `NetExists`, or the `OperatorError` of the first operator that cannot be made.
        """
        TriggerLazyImport()
        if isinstance(net, str):
            raise TypeError(f"expected a net, found the string {net!r}")
        definition = caffe2_pb2.NetDef()
        definition.CopyFrom(definition_of(net, caffe2_pb2.NetDef))
        with self._creating:
            if definition.name in self._nets and not overwrite:
                raise NetExists(f"there is a net {definition.name!r} already; create it with overwrite=True to replace "
                                "it")
            created = self._nets[definition.name] = BoundNet(
                definition, self, _origins(net, definition.name), planner=planned)
        return created

    _create_net = create_net

    def delete_net(self, name: str) -> bool:
        """Whether there was such a net."""
        return self._nets.pop(str(name), None) is not None

    def net(self, net: Any) -> BoundNet:
        """The created net of that name. A Net or NetDef that differs from what was created replaces it, and warns."""
        name = net if isinstance(net, str) else net_name(net)
        created = self._nets.get(name)
        if created is None:
            raise NetNotFound(f"there is no net {name!r} in the workspace; create it with CreateNet first "
                              f"(there are {', '.join(map(repr, self._nets)) or 'none'})")
        if not isinstance(net, str):
            definition = definition_of(net, caffe2_pb2.NetDef)
            if definition.SerializeToString() != created.source:
                log.warning("net %r was changed after CreateNet; the new one runs", name)
                return self.create_net(net, overwrite=True)
        return created

    def run_net(self, net: Any, num_iter: int = 1) -> bool:
        """Runs a created net; raises the error of the operator that fails."""
        created = self.net(net)
        for _ in range(num_iter):
            created.run()
        return True

    def run_net_once(self, net: Any) -> bool:
        """Creates a net, runs it, forgets it."""
        definition = definition_of(net, caffe2_pb2.NetDef)
        BoundNet(definition, self, _origins(net, definition.name)).run()
        return True

    _run_net = run_net_once

    def run_operator(self, operator: Any, times: int = 1) -> bool:
        """Runs one operator, once or several times; what it keeps between runs is forgotten at the end."""
        source = operator if isinstance(operator, bytes) else definition_of(
            operator, caffe2_pb2.OperatorDef).SerializeToString()
        backend = self.backend
        try:
            step = Step(bound(source, backend), backend, self)
            with backend.running():
                for _ in range(times):
                    checks.run(step)
        except Exception as error:
            raise_located(error, place_of(caffe2_pb2.OperatorDef.FromString(source), self.values))
        for name in step.outputs:
            self.values.setdefault(name, None)
        return True

    _run_operator = run_operator

    def run_plan(self, plan: Any) -> bool:
        """Runs all steps of a plan."""
        from netgrad.runtime.plan import run_plan

        return run_plan(definition_of(plan, caffe2_pb2.PlanDef), self)

    _run_plan = run_plan

    def run(self, obj: Any) -> bool:
        """Runs a net (once), an operator or a plan: the message, or an object with ``Proto()``."""
        message = obj.Proto() if hasattr(obj, "Proto") else obj
        if isinstance(message, caffe2_pb2.NetDef):
            return self.run_net_once(obj)
        if isinstance(message, caffe2_pb2.OperatorDef):
            return self.run_operator(message)
        if isinstance(message, caffe2_pb2.PlanDef):
            return self.run_plan(message)
        raise ValueError(f"cannot run a {type(obj).__name__}; a NetDef, OperatorDef or PlanDef is expected")

    def _last_failed_op_net_position(self) -> int | None:
        return self.last_failed

    def reset(self) -> None:
        """Forgets all blobs and nets."""
        self.values.clear()
        self._nets.clear()
        self.scopes.clear()
        self.last_failed = None


def _origins(net: Any, name: str) -> Origins | None:
    """Who knows the Python lines of a net's operators: the Net itself, or one of that name that is alive."""
    from netgrad.graph.net_base import live_nets

    return getattr(net, "line_of", None) or getattr(live_nets.get(name), "line_of", None)


def net_name(net: Any) -> str:
    if isinstance(net, str):
        return net
    if isinstance(net, caffe2_pb2.NetDef):
        return net.name
    if hasattr(net, "Name"):
        return str(net.Name())
    raise TypeError(f"expected a net or its name, found {type(net).__name__}: {net!r}")


Workspace.by_name["default"] = Workspace()
