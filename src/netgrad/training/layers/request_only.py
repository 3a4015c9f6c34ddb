"""Features that belong to a request, not to what is ranked for it: computed once per request."""

from __future__ import annotations

import numpy as np

from netgrad.graph.records import FeatureSpec, Field, Metadata, Scalar


def is_request_only_scalar(scalar: Scalar) -> bool:
    """Whether a column is marked as depending on the request alone."""
    known = scalar.field_metadata()
    return bool(known) and all(
        metadata is not None
        and metadata.feature_specs is not None
        and bool(getattr(metadata.feature_specs, "feature_is_request_only", False))
        for metadata in known
    )


def set_request_only(field: Field) -> None:
    """Marks all columns of a record as depending on the request alone.

    Raises:
        AssertionError: a column that does not hold integers has a categorical limit.
    """
    for scalar in field.all_scalars():
        before = scalar.metadata or Metadata()
        if before.categorical_limit is not None and not np.issubdtype(scalar.dtype, np.integer):
            raise AssertionError(f"a categorical_limit is for integers, but the column is {scalar.dtype}")
        specs = before.feature_specs
        marked = FeatureSpec(
            feature_type=specs.feature_type if specs else None,
            feature_names=specs.feature_names if specs else None,
            feature_ids=specs.feature_ids if specs else None,
            feature_is_request_only=True,
            desired_hash_size=specs.desired_hash_size if specs else None,
        )
        scalar.set_metadata(Metadata(before.categorical_limit, before.expected_value, marked))
