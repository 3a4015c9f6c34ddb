"""Caffe2's `schema`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.graph.records": """
        FIELD_SEPARATOR FeatureSpec Field List ListWithEvicted Map MapWithEvicted Metadata NamedTuple RawTuple Scalar
        Struct Tuple as_record attach_metadata_to_scalars equal_schemas from_blob_list from_column_list from_dtype
        is_schema_subset logger schema_check _join_field_name _normalize_field""",
    "netgrad.graph.record_values": """
        ConstRecord FeedRecord FetchRecord InitEmptyRecord NewRecord data_type_for_dtype dtype_for_core_type
        _DATA_TYPE_FOR_DTYPE""",
    "netgrad.graph.blob": "BlobReference",
}, {"core": "caffe2.python.core", "workspace": "caffe2.python.workspace"})
