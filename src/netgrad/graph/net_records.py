"""Records of a net: what its external inputs and outputs mean, field by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.net_interface import NetInterface
from netgrad.graph.scope import NameScope


class NetRecords(NetInterface):
    """Input and output records. See `netgrad.graph.records`."""

    def input_record(self) -> Any:
        return self._input_record

    def output_record(self) -> Any:
        return self._output_record

    def set_input_record(self, input_record: Any) -> Any:
        """Sets the input record, whose blobs become external inputs; one without blobs receives new ones.

        Raises:
            AssertionError: there is an input record with other blobs.
        """
        self._may_be_set("input", self._input_record, input_record)
        if input_record.has_blobs():
            self._input_record = input_record
        else:
            from netgrad.graph.record_values import NewRecord

            with NameScope(self.Name()):
                self._input_record = NewRecord(self, input_record)
        for blob in self._input_record.field_blobs():
            if not self.is_external_input(blob):
                self.AddExternalInput(blob)
        return self._input_record

    def set_output_record(self, record: Any) -> None:
        """Sets the output record, whose blobs become external outputs.

        Raises:
            AssertionError: there is an output record with other blobs, or a blob is not defined.
        """
        self._may_be_set("output", self._output_record, record)
        self._are_defined(record.field_blobs())
        present = set(self._net.external_output)
        for blob in record.field_blobs():
            if str(blob) not in present:
                self.AddExternalOutput(blob)
        self._output_record = record

    def AppendOutputRecordField(self, field_name: str, record: Any) -> None:
        """Adds a field to the output record, whose blobs become external outputs."""
        from netgrad.graph.records import Struct

        if self._output_record is None:
            raise AssertionError(f"net {self.Name()!r} has no output record to append to")
        self._are_defined(record.field_blobs())
        self.AddExternalOutput(*record.field_blobs())
        self._output_record = self._output_record + Struct((field_name, record))

    def recover_input_record_by_prefix(self, prefix: str) -> None:
        """Makes the input record of the external inputs whose names start with a prefix; the rest names columns."""
        record = _recover_record_by_prefix(self._net.external_input, prefix)
        if record:
            self.set_input_record(record)

    def recover_output_record_by_prefix(self, prefix: str) -> None:
        """Makes the output record of the external outputs whose names start with a prefix; the rest names columns."""
        record = _recover_record_by_prefix(self._net.external_output, prefix)
        if record:
            self.set_output_record(record)

    def _may_be_set(self, which: str, present: Any, record: Any) -> None:
        if present is not None and not (record.has_blobs() and set(record.field_blobs()) == set(present.field_blobs())):
            raise AssertionError(f"net {self.Name()!r} has an {which} record already, with other blobs: "
                                 f"{[str(blob) for blob in present.field_blobs()]}")

    def _are_defined(self, blobs: Iterable[Any]) -> None:
        missing = [str(blob) for blob in blobs if not self.BlobIsDefined(blob)]
        if missing:
            raise AssertionError(f"net {self.Name()!r} does not define {', '.join(missing)}, which the record names")


def _recover_record_by_prefix(names: Iterable[str], prefix: str = "") -> Any:
    from netgrad.graph.records import from_column_list

    columns = [name[len(prefix):] for name in names if name.startswith(prefix)]
    if not columns:
        return None
    return from_column_list(columns, col_blobs=[BlobReference(prefix + column) for column in columns])
