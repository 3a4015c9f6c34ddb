"""Copies of nets, whole or in part, renamed; and nets put behind one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from netgrad.graph.blob import BlobReference
from netgrad.graph.net_base import NetBase
from netgrad.graph.remapping import DEFAULT_REMAP_FUNCS, RemapFunction, remap_operator
from netgrad.graph.ssa import get_op_ids_in_path, get_ssa, get_undefined_blobs
from netgrad.proto import caffe2_pb2

if TYPE_CHECKING:
    from netgrad.graph.net import Net


class NetCloning(NetBase):
    """Clone, ClonePartial, AppendNet."""

    def Clone(
        self,
        name: str,
        blob_remap: Mapping[str, Any] | None = None,
        op_id_mask: Sequence[int] | None = None,
        remap_funcs: Mapping[str, RemapFunction] | None = None,
        keep_schema: bool = True,
        update_external_list: bool = False,
    ) -> Self:
        """A copy of this net.

        Args:
            name: the copy's name; one that is taken receives a suffix.
            blob_remap: new names of blobs.
            op_id_mask: positions of the operators to copy; all if absent.
            remap_funcs: for operator types, functions (op, prefix, blob_remap) that rename what arguments name.
            keep_schema: whether to take over input and output records.
            update_external_list: whether external inputs and outputs are to be found anew: what is read and not written
                before, and what is written and not read.
        """
        remap = blob_remap or {}
        functions = {**DEFAULT_REMAP_FUNCS, **(remap_funcs or {})}
        proto = caffe2_pb2.NetDef()
        proto.CopyFrom(self._net)
        proto.name = name
        positions = range(len(self._net.op)) if op_id_mask is None else op_id_mask
        del proto.op[:]
        proto.op.extend([self._net.op[k] for k in positions])
        prefix = f"{name}/" if name else ""
        for op in proto.op:
            remap_operator(op, remap, prefix, functions)
        for names in (proto.external_input, proto.external_output):
            new = [str(remap.get(blob, blob)) for blob in names]
            del names[:]
            names.extend(new)
        if update_external_list:
            _find_interface(proto)
        clone = type(self)(proto)
        for k, source in enumerate(positions):
            clone._provenance.take(k, proto.op[k], self._provenance, source, self._net.op[source])
        if keep_schema:
            clone._input_record = _renamed_record(self._input_record, remap, clone)
            clone._output_record = _renamed_record(self._output_record, remap, clone)
        clone._attr_dict.update(self._attr_dict)
        return clone

    def ClonePartial(
        self,
        name: str,
        inputs: Any,
        outputs: Iterable[Any],
        remap_funcs: Mapping[str, RemapFunction] | None = None,
    ) -> tuple[Self, list[BlobReference]]:
        """A copy of the operators that compute ``outputs`` from ``inputs``; its own blobs are prefixed with its name.

        Args:
            inputs: a map from blobs of this net to blobs that the copy reads in their place, such pairs, or a list of
                blobs that keep their names.

        Returns:
            The copy, and references to its outputs.

        Raises:
            AssertionError: an output is not defined, or computing it would also compute an input.
        """
        outputs = list(outputs)
        for output in outputs:
            if not self.BlobIsDefined(output):
                raise AssertionError(f"net {self.Name()!r} does not define {str(output)!r}")
        if isinstance(inputs, list) and not all(isinstance(i, tuple) and len(i) == 2 for i in inputs):
            inputs = [(blob, blob) for blob in inputs]
        given = {str(blob): str(new) for blob, new in dict(inputs).items()}
        ssa, versions = get_ssa(self._net, dict.fromkeys(given, 0))
        used = get_op_ids_in_path(ssa, versions, given, outputs)
        making_inputs = set(get_op_ids_in_path(ssa, versions, [], given))
        if conflict := [k for k in used if k in making_inputs]:
            op = self._net.op[conflict[0]]
            raise AssertionError(f"cannot clone net {self.Name()!r} in part: operator {conflict[0]}, {op.type}, "
                                 f"is needed for "
                                 f"the outputs but also computes what is given as input")
        outside = [blob for blob in sorted(get_undefined_blobs([ssa[k] for k in used])) if blob not in given]
        prefix = f"{name}/" if name else ""
        mapping = {blob: prefix + blob for blob in versions} | {blob: blob for blob in outside} | given
        clone = self.Clone(name, mapping, used, remap_funcs)
        del clone._net.external_input[:], clone._net.external_output[:]
        clone._net.external_input.extend([*given.values(), *outside])
        new_outputs = [mapping[str(output)] for output in outputs]
        clone._net.external_output.extend(new_outputs)
        clone.refresh()
        return clone, [clone.GetBlobRef(output) for output in new_outputs]

    def AppendNet(self, net: NetCloning, device_option: caffe2_pb2.DeviceOption | None = None) -> Self:
        """Puts another net's operators behind this one's, on a device if one is given; merges inputs and outputs."""
        if not isinstance(net, NetCloning):
            raise AssertionError(f"AppendNet takes a Net, not {net!r}")
        other = net._net
        mine = set(self._net.external_input)
        self._net.external_input.extend(
            [blob for blob in other.external_input if blob not in mine and not self.BlobIsDefined(blob)])
        present = set(self._net.external_output)
        self._net.external_output.extend([blob for blob in other.external_output if blob not in present])
        start = len(self._net.op)
        self._net.op.extend(other.op)
        for k, op in enumerate(self._net.op[start:], start):
            self._provenance.take(k, op, net._provenance, k - start, other.op[k - start])
            if device_option is not None:
                _put_on(op, device_option)
        return self


def _put_on(op: Any, device: caffe2_pb2.DeviceOption) -> None:
    op.device_option.CopyFrom(device)
    if op.type == "RecurrentNetwork":
        for argument in op.arg:
            if argument.name.endswith("step_net"):
                for inner in argument.n.op:
                    inner.device_option.CopyFrom(device)


def _find_interface(proto: caffe2_pb2.NetDef) -> None:
    written: dict[str, None] = {}
    read: set[str] = set()
    inputs: dict[str, None] = {}
    for op in proto.op:
        for blob in op.input:
            if blob in written:
                read.add(blob)
            else:
                inputs[blob] = None
        written.update(dict.fromkeys(op.output))
    del proto.external_input[:], proto.external_output[:]
    proto.external_input.extend(inputs)
    proto.external_output.extend([blob for blob in written if blob not in read])


def _renamed_record(record: Any, remap: Mapping[str, Any], net: NetBase) -> Any:
    if not record:
        return None
    from netgrad.graph.records import from_blob_list

    names = [str(blob) for blob in record.field_blobs()]
    return from_blob_list(record, [BlobReference(str(remap.get(name, name)), net) for name in names])


def clone_and_bind_net(
    net: Net,
    name: str,
    prefix: str,
    blob_remap: dict[str, str] | None = None,
    inputs: Any = None,
    keep_schema: bool = True,
) -> tuple[Net, dict[str, str]]:
    """A copy of a net whose own blobs are prefixed, and whose input record is bound to ``inputs``.

    Args:
        blob_remap: further new names; updated.
        inputs: a record with the fields of the net's input record, or more.
        keep_schema: whether the copy keeps the net's records, renamed; else its input record becomes ``inputs``.

    Returns:
        The copy, and the map from old to new names.
    """
    remap = {} if blob_remap is None else blob_remap
    if inputs is not None:
        original = net.input_record()
        if original is None:
            raise AssertionError(f"net {net.Name()!r} has no input record to bind")
        blobs = dict(zip(original.field_names(), original.field_blobs(), strict=True))
        missing = blobs.keys() - set(inputs.field_names())
        if missing:
            raise AssertionError(f"net {net.Name()!r}: the inputs lack the fields {sorted(missing)} of its "
                                 f"input record "
                                 f"({original.field_names()}); they have {inputs.field_names()}")
        for field, blob in zip(inputs.field_names(), inputs.field_blobs(), strict=True):
            if field in blobs:
                remap[str(blobs[field])] = str(blob)
    ssa, versions = get_ssa(net.Proto())
    outside = get_undefined_blobs(ssa)
    for blob, version in versions.items():
        if blob not in remap:
            remap[blob] = blob if blob in outside or not version else prefix + blob
    clone = net.Clone(name, remap, keep_schema=keep_schema)
    if not keep_schema and inputs:
        clone.set_input_record(inputs)
    return clone, remap
