"""Records of sparse features: lists of ids, with or without a score for each, and what they say of their ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.records import Field, List, ListWithEvicted, Map, MapWithEvicted, Scalar, equal_schemas

IdList = List(np.int64)
IdScoreList = Map(np.int64, np.float32)
IdListWithEvicted = ListWithEvicted(np.int64)
IdScoreListWithEvicted = MapWithEvicted(np.int64, np.float32)


def almost_equal_schemas(
    record: Field, original_schema: Field, check_field_names: bool = True, check_field_types: bool = True,
    check_field_metas: bool = False,
) -> bool:
    """`equal_schemas`, for which a list of ids may carry evicted values as well.

    The checks can be chosen for `IdList` and `IdScoreList`; other schemas are compared by names and types.
    """
    for kinds in ((IdList, IdListWithEvicted), (IdScoreList, IdScoreListWithEvicted)):
        if original_schema == kinds[0]:
            return any(
                equal_schemas(record, kind, check_field_names, check_field_types, check_field_metas) for kind in kinds
            )
    return equal_schemas(record, original_schema)


def is_id_list(record: Field) -> bool:
    return almost_equal_schemas(record, IdList)


def is_id_score_list(record: Field) -> bool:
    """Whether a record is a list of (id, score), of whatever types."""
    return almost_equal_schemas(record, IdScoreList, check_field_types=False)


def has_evicted_values(record: Field) -> bool:
    return equal_schemas(record, IdListWithEvicted) or equal_schemas(
        record, IdScoreListWithEvicted, check_field_types=False
    )


def get_key(record: Any) -> Scalar:
    """The column of the ids.

    Raises:
        NotImplementedError: the record is neither a list of ids nor of (id, score).
        AssertionError: the column has no metadata, so that nothing is known of the ids.
    """
    if is_id_list(record):
        key = record["values"]
    elif is_id_score_list(record):
        key = record["values:keys"]
    else:
        raise NotImplementedError(
            "expected a list of ids, List(np.int64), or of ids with scores, Map(np.int64, np.float32), found\n"
            f"{record!r}"
        )
    if key.metadata is None:
        raise AssertionError(
            f"nothing is known of the ids in {key._blob}: give the column schema.Metadata(categorical_limit=...)"
        )
    return key  # type: ignore[no-any-return]


def get_categorical_limit(record: Any) -> Any:
    """The largest id plus one, or None where the metadata does not say."""
    metadata = get_key(record).metadata
    return None if metadata is None else metadata.categorical_limit


def get_avg_length(record: Any) -> Any:
    """How many ids are expected per row."""
    return record["lengths"].metadata.expected_value
