"""Records: trees of columns."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.record_values import (
    ConstRecord,
    InitEmptyRecord,
    NewRecord,
    data_type_for_dtype,
    dtype_for_core_type,
)
from netgrad.graph.records import (
    List,
    ListWithEvicted,
    Map,
    Metadata,
    Scalar,
    Struct,
    Tuple,
    as_record,
    equal_schemas,
    from_blob_list,
    from_column_list,
    from_dtype,
)

names = st.text("abc", min_size=1, max_size=2)
fields = st.recursive(
    st.sampled_from([np.float32, np.int64, str]).map(Scalar),
    lambda below: st.one_of(
        below.map(List), below.map(ListWithEvicted),
        st.dictionaries(names, below, min_size=1, max_size=3).map(lambda d: Struct(*d.items()))),
    max_leaves=6)


@given(st.dictionaries(names, fields, min_size=1, max_size=3))
def test_column_names_say_where_columns_belong(children):
    record = Struct(*children.items())
    assert from_column_list(record.field_names(), record.field_types()) == record
    assert pickle.loads(pickle.dumps(record)) == record == record.clone()
    for k, scalar in enumerate(record.all_scalars()):
        assert scalar.id() == k
    for name, field in record.fields.items():
        assert record.field_names()[field.slice()] == [n for n in record.field_names() if n.split(":")[0] == name]


@given(fields)
def test_values_are_put_into_columns_in_order(record):
    blobs = [BlobReference(f"blob{k}") for k in range(len(record.field_names()))]
    filled = from_blob_list(record, blobs)
    assert filled.field_blobs() == blobs and filled.has_blobs() and not record.has_blobs()
    assert equal_schemas(filled, record) and not filled.clone_schema().has_blobs()
    with pytest.raises(AssertionError, match="values are given"):
        from_blob_list(record, [*blobs, BlobReference("one more")])


@given(st.sets(names, max_size=4), st.sets(names, max_size=4))
def test_sums_and_differences_of_structs(one, other):
    a, b = (Struct(*[(f"{which}{n}", np.int32) for n in sorted(s)]) for which, s in (("x", one), ("y", other)))
    assert (a + b).field_names() == a.field_names() + b.field_names()
    assert (a + b) - b == a
    nested = Struct(("s", a), ("k", np.int32)) + Struct(("s", b))
    assert set(nested.field_names()) == {"k", *(f"s:{n}" for n in a.field_names() + b.field_names())}


def test_lookup_by_path():
    record = Struct(("a:b", Scalar(np.int32)), ("l", List(Struct(("k", np.float32)))), ("m", Map(np.int64, np.float32)))
    assert record["a:b"] is record.a.b and record[1] is record.l and record.l.k is record["l:values:k"]
    assert record.m.keys.dtype == np.int64 and record["m", 0].field_names()[0] == "m:lengths"
    assert "a:b" in record and "a:c" not in record and "l:values:z" not in record
    for wrong in ("", "x", "a:b:c", "l:items"):
        with pytest.raises(KeyError):
            record[wrong]


@pytest.mark.parametrize("make, error", [
    (lambda: Struct(("a", Scalar()), ("a", Scalar())), ValueError),
    (lambda: Struct(("lengths", Scalar())), AssertionError),
    (lambda: Struct(("a", Scalar())) + Struct(("a", Scalar())), TypeError),
    (lambda: setattr(Struct(("a", Scalar())), "a", Scalar()), TypeError),
    (lambda: Scalar(blob="name"), ValueError),
    (lambda: Scalar((np.void, (2,))), TypeError),
    (lambda: Scalar(np.dtype([("a", np.int32)])), AssertionError),
    (lambda: Scalar(np.float32, metadata=Metadata(categorical_limit=3)), AssertionError),
    (lambda: Scalar().get(), AssertionError),
    (lambda: from_column_list(["a", "a:b"]), ValueError),
    (lambda: from_column_list(["a", "a"]), ValueError),
])
def test_what_makes_no_sense_is_refused(make, error):
    with pytest.raises(error):
        make()


def test_shapes_of_columns():
    assert Scalar((np.int32, 5)).field_type().shape == (5,) and Scalar((np.int32, 1)).field_type().shape == (1,)
    assert Scalar(np.float32, [[1, 2], [3, 4]]).dtype.shape == (2,)
    assert Scalar((np.float32, 2), []).get().shape == (0, 2) and Scalar(np.int32, 3).get().shape == (1,)
    assert from_dtype(np.dtype([("a", np.int32), ("b", np.float64, (3,))])) == Struct(
        ("a", np.int32), ("b", Scalar((np.float64, 3))))


def test_metadata_stays_with_its_column():
    record = Struct(("a", Scalar(np.int32, metadata=Metadata(categorical_limit=5))), ("b", List(np.int32)))
    record.b.lengths.set_metadata(Metadata(expected_value=2))
    copy = from_blob_list(record, [np.array([1])] * 3)
    assert [m and m.categorical_limit for m in copy.field_metadata()] == [5, None, None]
    assert copy.b.lengths.metadata.expected_value == 2


def test_records_of_plain_values():
    blob = BlobReference("x")
    assert as_record({"a": blob, "b": [blob, blob]}).field_names() == ["a", "b:field_0", "b:field_1"]
    assert as_record([("a", blob), ("b", blob)]).field_names() == ["a", "b"]
    assert Tuple(np.int32, str)[1].dtype == np.dtype(str)


def test_records_in_nets():
    net = Net("record_values")
    record = NewRecord(net, Struct(("a", np.float32), ("b", np.int64)))
    assert record.field_blobs() == ["a", "b"] and NewRecord(net, record.clone_schema()).a() == "a_auto_0"
    InitEmptyRecord(net, Struct(("n", Scalar((np.int64, 3)))))
    arguments = {a.name: a for a in net.Proto().op[0].arg}
    assert list(arguments["shape"].ints) == [0, 3] and dtype_for_core_type(arguments["dtype"].i) == np.int64
    with pytest.raises(TypeError):
        InitEmptyRecord(net, Struct(("v", Scalar())), enforce_types=True)
    constants = ConstRecord(net, Struct(("k", Scalar(np.float32, [1.5]))))
    assert net.Proto().op[-1].output[0] == constants.k()
    with pytest.raises(TypeError):
        data_type_for_dtype(np.dtype(np.complex64))
