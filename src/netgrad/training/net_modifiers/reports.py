"""Norms, histograms, statistics and entries of blobs, to look at while a net trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.graph.device import CPU
from netgrad.graph.scope import DeviceScope
from netgrad.proto.caffe2_pb2 import DeviceOption, TensorProto
from netgrad.training.net_modifiers.base import BlobReport


class ComputeNormForBlobs(BlobReport):
    """The p-norm of blobs (of their elements; the 2-norm is squared, as operator LpNorm has it), without gradient.

    Args:
        blobs, logging_frequency: see `BlobReport`.
        p: 1 or 2.
        compute_averaged_norm: divide by the number of elements.
        row_index: of this row alone (of blobs of rank 2); None: of all.
    """

    def __init__(
        self,
        blobs: Sequence[Any],
        logging_frequency: int,
        p: int = 2,
        compute_averaged_norm: bool = False,
        row_index: int | None = None,
    ) -> None:
        super().__init__(blobs, logging_frequency)
        if row_index is not None and row_index < 0:
            raise ValueError(f"ComputeNormForBlobs: row_index is at least 0, not {row_index}")
        self._p = p
        self._compute_averaged_norm = compute_averaged_norm
        self._field_name_suffix = f"{'_averaged' if compute_averaged_norm else ''}_l{p}_norm"
        self.row_index = row_index

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        for blob in self._defined_blobs(net):
            with DeviceScope((blob_to_device or {}).get(blob, DeviceOption(device_type=CPU))):
                if self.row_index is not None:
                    row = net.NextScopedBlob(f"{blob}_row_{self.row_index}")
                    blob = net.Slice([blob], row, starts=[self.row_index, 0], ends=[self.row_index + 1, -1])
                as_float = net.Cast(blob, net.NextScopedBlob(blob + "_float"), to=TensorProto.FLOAT)
                name = net.NextScopedBlob(f"{blob}{self._field_name_suffix}")
                norm = net.LpNorm(as_float, name, p=self._p, average=self._compute_averaged_norm)
                net.StopGradient(norm, net.NextScopedBlob(name + "_stop_gradient"))
                self._print(net, norm)
                if modify_output_record:
                    self._record(net, blob, norm, (float, (1,)))


class ComputeHistogramForBlobs(BlobReport):
    """The share of elements in each of ``num_buckets`` equal parts of [lower_bound, upper_bound), and below and above.

    The result has ``num_buckets + 2`` entries: below, the buckets, above.

    Args:
        blobs, logging_frequency: see `BlobReport`.
        accumulate: of all runs so far, not of this one.
    """

    def __init__(
        self,
        blobs: Sequence[Any],
        logging_frequency: int,
        num_buckets: int = 30,
        lower_bound: float = 0.0,
        upper_bound: float = 1.0,
        accumulate: bool = False,
    ) -> None:
        super().__init__(blobs, logging_frequency)
        self._num_buckets = int(num_buckets)
        if self._num_buckets <= 0:
            raise AssertionError(f"ComputeHistogramForBlobs: num_buckets must be positive, found {num_buckets}")
        self._lower_bound = float(lower_bound)
        self._upper_bound = float(upper_bound)
        self._accumulate = accumulate
        self._field_name_suffix = f"_{'acc' if accumulate else 'curr'}_normalized_hist"

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        for blob in self._defined_blobs(net):
            as_float = net.Cast(blob, net.NextScopedBlob(blob + "_float"), to=TensorProto.FLOAT)
            current, accumulated = net.AccumulateHistogram(
                [as_float],
                [net.NextScopedBlob(blob + "_curr_hist"), net.NextScopedBlob(blob + "_acc_hist")],
                num_buckets=self._num_buckets,
                lower_bound=self._lower_bound,
                upper_bound=self._upper_bound,
            )
            counts = net.Cast(
                accumulated if self._accumulate else current,
                net.NextScopedBlob(blob + "_cast_hist"),
                to=TensorProto.FLOAT,
            )
            shares = net.NormalizeL1(counts, net.NextScopedBlob(f"{blob}{self._field_name_suffix}"))
            self._print(net, shares)
            if modify_output_record:
                self._record(net, blob, shares, ("float32", (self._num_buckets + 2,)))


class ComputeStatisticsForBlobs(BlobReport):
    """Least and greatest element, mean and standard deviation of blobs, four numbers each."""

    def __init__(self, blobs: Sequence[Any], logging_frequency: int) -> None:
        super().__init__(blobs, logging_frequency)
        self._field_name_suffix = "_summary"

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        for blob in self._defined_blobs(net):
            as_float = net.Cast(blob, to=TensorProto.FLOAT)
            statistics = net.Summarize(as_float, net.NextScopedBlob(f"{blob}{self._field_name_suffix}"), to_file=0)
            self._print(net, statistics)
            if modify_output_record:
                self._record(net, blob, statistics, (float, (1,)))


class GetEntryFromBlobs(BlobReport):
    """One element, or one row, of blobs of rank 2.

    Args:
        blobs, logging_frequency: see `BlobReport`.
        i1: the row.
        i2: the column; -1: the whole row.
    """

    def __init__(self, blobs: Sequence[Any], logging_frequency: int, i1: int = 0, i2: int = 0) -> None:
        super().__init__(blobs, logging_frequency)
        self._i1 = i1
        self._i2 = i2
        self._field_name_suffix = f"_{i1}_{i2}" if i2 >= 0 else f"_{i1}_all"

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        i1, i2 = self._i1, self._i2
        if i1 < 0 or i2 < -1:
            raise ValueError(f"GetEntryFromBlobs: i1 is a row from 0, i2 a column from 0 or -1 for all; not {i1}, {i2}")
        for blob in self._defined_blobs(net):
            entry = net.Slice([blob], starts=[i1, 0], ends=[i1 + 1, -1])
            if i2 == -1:
                entry = net.Copy([entry], [net.NextScopedBlob(f"{blob}_{i1}_all")])
            else:
                name = net.NextScopedBlob(f"{blob}_{i1}_{i2}")
                entry = net.Slice([entry], name, starts=[0, i2], ends=[-1, i2 + 1])
            self._print(net, entry)
            if modify_output_record:
                self._record(net, blob, entry, float)
