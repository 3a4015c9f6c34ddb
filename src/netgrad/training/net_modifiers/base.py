"""What modifiers of nets have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.records import Scalar, Struct


class NetModifier(ABC):
    """Adds operators to a net. A class has one method of its own, `modify_net`."""

    @abstractmethod
    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        """Adds the operators.

        Args:
            net: is modified.
            init_net: runs once before it.
            grad_map: parameter -> gradient.
            blob_to_device: where blobs live; the others are on the CPU.
            modify_output_record: whether results become fields of the net's output record.
        """

    def __call__(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        self.modify_net(
            net,
            init_net=init_net,
            grad_map=grad_map,
            blob_to_device=blob_to_device,
            modify_output_record=modify_output_record,
        )


class BlobReport(NetModifier):
    """Base of modifiers that compute something of each of several blobs, print it, and put it into the output record.

    Args:
        blobs: names of the blobs.
        logging_frequency: results are printed every so many runs; below 1: never.
    """

    def __init__(self, blobs: Sequence[Any], logging_frequency: int) -> None:
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._field_name_suffix = ""

    def field_name_suffix(self) -> str:
        """What is appended to a blob's name to name its field in the output record."""
        return self._field_name_suffix

    def _defined_blobs(self, net: Any) -> Iterator[BlobReference]:
        for name in self._blobs:
            blob = BlobReference(name)
            if not net.BlobIsDefined(blob):
                raise AssertionError(
                    f"{type(self).__name__}: blob {str(name)!r} is not defined in net {net.Name()!r}: it is neither an "
                    "external input nor written by an operator"
                )
            yield blob

    def _print(self, net: Any, result: BlobReference) -> None:
        if self._logging_frequency >= 1:
            net.Print(result, [], every_n=self._logging_frequency)

    def _record(self, net: Any, blob: BlobReference, result: BlobReference, dtype: Any) -> None:
        """Makes a result a field of the output record."""
        name = f"{blob}{self._field_name_suffix}"
        field = Scalar(dtype, result)
        if net.output_record() is None:
            net.set_output_record(Struct((name, field)))
        else:
            net.AppendOutputRecordField(name, field)
