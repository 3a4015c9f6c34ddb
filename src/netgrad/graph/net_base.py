"""What all parts of a net share: the NetDef, the index beside it, origins of operators, and names for new blobs."""

from __future__ import annotations

import weakref
from collections import defaultdict
from typing import Any, ClassVar

from netgrad.graph import net_names
from netgrad.graph.blob import BlobReference, ScopedName
from netgrad.graph.index import NetIndex
from netgrad.graph.provenance import Provenance
from netgrad.graph.scope import _threadlocal_scope
from netgrad.proto import caffe2_pb2

#: nets that are alive, by name
live_nets: weakref.WeakValueDictionary[str, NetBase] = weakref.WeakValueDictionary()


class NetBase:
    """The NetDef and how it is looked at."""

    #: names of all nets made in this process
    _net_names_used: ClassVar[set[str]] = set()

    _net: caffe2_pb2.NetDef

    @staticmethod
    def current_prefix() -> str:
        """What is put before the names of new nets: the name of the active net builder."""
        return net_names.current_prefix()

    @staticmethod
    def _get_next_net_name(basename: str) -> str:
        return net_names.unique_net_name(basename, NetBase._net_names_used)

    def __init__(self, name_or_proto: str | caffe2_pb2.NetDef) -> None:
        """Makes an empty net of that name, or a net with a copy of a NetDef. A name that is taken receives a suffix."""
        self._net = caffe2_pb2.NetDef()
        self._next_name_index = 0
        if isinstance(name_or_proto, caffe2_pb2.NetDef):
            self._net.CopyFrom(name_or_proto)
            name = self._net.name
            self._next_name_index = _first_free_blob_number(self._net)
        else:
            name = str(name_or_proto)
        self._net.name = NetBase._get_next_net_name(name)
        self._index = NetIndex(self._net)
        self._provenance = Provenance()
        self._input_record: Any = None
        self._output_record: Any = None
        self._attr_dict: defaultdict[str, list[Any]] = defaultdict(list)
        self._registered_blob_names: set[str] = set()
        self._next_auto: dict[str, int] = {}
        self._next_blob_name_ids: dict[str, int] = {}
        live_nets[self._net.name] = self

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_provenance"], state["_index"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._index = NetIndex(self._net)
        self._index.handed_out = True
        self._provenance = Provenance()

    def Proto(self) -> caffe2_pb2.NetDef:
        """The NetDef itself, not a copy: it may be edited, and the net follows."""
        self._index.handed_out = True
        return self._net

    def refresh(self) -> None:
        """Reads the NetDef anew. Needed only after names inside existing operators were changed by hand."""
        self._index.rebuild(self._net)

    def Name(self) -> str:
        return self._net.name

    def __str__(self) -> str:
        return self.Name()

    def line_of(self, position: int) -> tuple[str, int, str] | None:
        """File, line and function that wrote the operator at a position; None where that is not known."""
        return self._provenance.line_of(position, self._net.op[position])

    def source_of(self, position: int) -> int | None:
        """The position of the forward operator that the gradient operator at a position belongs to; None for others."""
        return self._provenance.source(position, self._net.op[position])

    # names

    def BlobIsDefined(self, blob: Any) -> bool:
        """Whether an operator of this net writes the blob or it is an external input."""
        return self._index.defines(self._net, str(blob))

    def writer_of(self, blob: Any) -> caffe2_pb2.OperatorDef | None:
        """The last operator of this net that writes the blob; None where none does."""
        name = str(blob)
        if not self._index.defines(self._net, name) or not self._index.is_written(name):
            return None
        return self._net.op[self._index.written[name]]

    def is_external_input(self, blob: Any) -> bool:
        if not self._index.in_step(self._net):
            self._index.catch_up(self._net)
        return self._index.is_external(str(blob))

    def UsesBlob(self, blob: Any) -> bool:
        """Whether an operator reads the blob or it is an external input."""
        name = str(blob)
        return any(name in op.input for op in self._net.op) or self.is_external_input(name)

    def UsedBlobNames(self) -> set[str]:
        """All names in the net: of operators' inputs and outputs, external inputs and outputs."""
        names = {*self._net.external_input, *self._net.external_output}
        for op in self._net.op:
            names.update(op.input)
            names.update(op.output)
        return names

    def GetBlobRef(self, blob_name: Any) -> BlobReference:
        """A reference to a blob that this net defines; raises KeyError if it does not."""
        name = str(blob_name)
        if not self.BlobIsDefined(name):
            raise KeyError(f"net {self.Name()!r} does not define blob {name!r}")
        return BlobReference(name, self)

    def NextScopedBlob(self, prefix: str = "unnamed") -> BlobReference:
        """Like `NextBlob`, in the current name scope."""
        return self.NextBlob(ScopedName(prefix))

    def NextBlob(self, prefix: str = "unnamed") -> BlobReference:
        """A blob that this net neither defines nor has given out: ``prefix``, else ``prefix_auto_0``, ``_1``, ..."""
        prefix = str(prefix)
        name = prefix
        if self._is_taken(name):
            k = self._next_auto.get(prefix, 0)
            while self._is_taken(name := f"{prefix}_auto_{k}"):
                k += 1
            self._next_auto[prefix] = k + 1
        self._registered_blob_names.add(name)
        return BlobReference(name)

    def _is_taken(self, name: str) -> bool:
        return name in self._registered_blob_names or self._index.defines(self._net, name)

    def NextName(self, prefix: str | None = None, output_id: int | None = None) -> str:
        """The next automatic name: ``net/prefix:output_id`` with ``_2``, ``_3``, ... where it is taken, or, without a
        prefix, ``net_blob_0``, ``net_blob_1``, ..."""
        if not prefix:
            self._next_name_index += 1
            return f"{self._net.name}_blob_{self._next_name_index - 1}"
        base = f"{self._net.name}/{prefix}"
        suffix = "" if output_id is None else f":{output_id}"
        index = self._index
        if not index.in_step(self._net):
            index.catch_up(self._net)
        written, external, scope = index.written, index.external, _threadlocal_scope.namescope
        key = name = base + suffix
        if (full := scope + name) in written or full in external:
            k = self._next_blob_name_ids.get(key, 2)
            while (full := f"{scope}{base}_{k}{suffix}") in written or full in external:
                k += 1
            name = f"{base}_{k}{suffix}"
            self._next_blob_name_ids[key] = k + 1
        return name

    def _CheckLookupTables(self) -> None:
        """Raises AssertionError if the index does not agree with the NetDef."""
        self._index.defines(self._net, "")
        fresh = NetIndex(self._net)
        if fresh.written != self._index.written or fresh.external != self._index.external:
            raise AssertionError(f"net {self.Name()!r}: the index of names does not agree with the NetDef; call "
                                 f"refresh()")

    # attributes that mean nothing to the net

    def add_attribute(self, name: str, obj: Any) -> None:
        """Appends an object to the list kept under a name."""
        self._attr_dict[name].append(obj)

    def get_attributes(self, name: str) -> list[Any]:
        """The objects kept under a name."""
        return self._attr_dict.get(name, [])


def _first_free_blob_number(net: caffe2_pb2.NetDef) -> int:
    start = f"{net.name}_blob_"
    used = {name for op in net.op for names in (op.input, op.output) for name in names if name.startswith(start)}
    numbers = [name[len(start):] for name in used]
    return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
