"""Records in nets and in the workspace: new blobs for a record, constants, fetching and feeding."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.blob import BlobReference
from netgrad.graph.records import Field, Scalar, from_blob_list, logger
from netgrad.proto import caffe2_pb2

_TYPES = caffe2_pb2.TensorProto

#: NumPy types and the data types of the wire format
_DATA_TYPE_FOR_DTYPE: list[tuple[Any, int]] = [
    (str, _TYPES.STRING),
    (np.float16, _TYPES.FLOAT16),
    (np.float32, _TYPES.FLOAT),
    (np.float64, _TYPES.DOUBLE),
    (np.bool_, _TYPES.BOOL),
    (np.int8, _TYPES.INT8),
    (np.int16, _TYPES.INT16),
    (np.int32, _TYPES.INT32),
    (np.int64, _TYPES.INT64),
    (np.uint8, _TYPES.UINT8),
    (np.uint16, _TYPES.UINT16),
]


def data_type_for_dtype(dtype: np.dtype[Any]) -> int:
    """The ``TensorProto.DataType`` of a NumPy dtype; raises TypeError if there is none."""
    if dtype.base.kind in "SU":
        return _TYPES.STRING
    for known, data_type in _DATA_TYPE_FOR_DTYPE:
        if dtype.base == known:
            return data_type
    raise TypeError(f"no data type of the wire format holds {dtype.base}")


def dtype_for_core_type(core_type: int) -> Any:
    """The NumPy type of a ``TensorProto.DataType``; raises TypeError if there is none."""
    for known, data_type in _DATA_TYPE_FOR_DTYPE:
        if data_type == core_type:
            return known
    raise TypeError(f"no NumPy type is known for the data type {core_type}")


def _blobs(record: Field) -> list[BlobReference]:
    if not isinstance(record, Field):
        raise AssertionError(f"expected a record, found {record!r}")
    blobs = record.field_blobs()
    for blob in blobs:
        if not isinstance(blob, BlobReference):
            raise AssertionError(f"the record holds {blob!r}, expected a BlobReference in every column")
    return blobs


def FetchRecord(blob_record: Field, ws: Any = None, throw_on_type_mismatch: bool = False) -> Any:
    """The record with the arrays that its blobs hold in the workspace ``ws``, or in the current one."""
    if ws is None:
        from netgrad.runtime.current import FetchBlob

        arrays = [FetchBlob(str(blob)) for blob in _blobs(blob_record)]
    else:
        arrays = [ws.blobs[str(blob)].fetch() for blob in _blobs(blob_record)]
    return from_blob_list(blob_record, arrays, throw_on_type_mismatch)


def FeedRecord(blob_record: Field, arrays: Any, ws: Any = None) -> None:
    """Feeds arrays, a list or a record of them, to a record's blobs in the workspace ``ws``, or in the current one."""
    blobs = _blobs(blob_record)
    values = arrays.field_blobs() if isinstance(arrays, Field) else arrays
    if len(values) != len(blobs):
        raise AssertionError(f"the record has {len(blobs)} columns, but {len(values)} arrays are given")
    for blob, value in zip(blobs, values, strict=True):
        if ws is None:
            from netgrad.runtime.current import FeedBlob

            FeedBlob(str(blob), value)
        else:
            ws.create_blob(str(blob)).feed(value)


def NewRecord(net: Any, schema: Field) -> Any:
    """A record like ``schema`` with new blobs, called after the columns within the current name scope."""
    if isinstance(schema, Scalar):
        result = schema.clone()
        result.set_value(net.NextScopedBlob("unnamed_scalar"), unsafe=True)
        return result
    if not isinstance(schema, Field):
        raise AssertionError(f"expected a Field, found {schema!r}")
    return from_blob_list(schema, [net.NextScopedBlob(prefix=name) for name in schema.field_names()])


def ConstRecord(net: Any, array_record: Field) -> Any:
    """A record of new blobs that the net fills with a record's arrays."""
    record = NewRecord(net, array_record)
    for blob, array in zip(record.field_blobs(), array_record.field_blobs(), strict=True):
        net.Const(array, blob)
    return record


def InitEmptyRecord(net: Any, schema_or_record: Field, enforce_types: bool = False) -> Any:
    """A record whose blobs the net fills with no rows; new blobs where the record has none.

    Columns of unknown type become float; with ``enforce_types`` they raise TypeError.
    """
    record = schema_or_record if schema_or_record.has_blobs() else NewRecord(net, schema_or_record)
    for dtype, blob in zip(record.field_types(), record.field_blobs(), strict=True):
        try:
            net.ConstantFill([], blob, shape=[0, *dtype.shape], dtype=data_type_for_dtype(dtype))
        except TypeError:
            if enforce_types:
                raise
            logger.warning("blob %s has no known type and is filled as float", blob)
            net.ConstantFill([], blob, shape=[0])
    return record
