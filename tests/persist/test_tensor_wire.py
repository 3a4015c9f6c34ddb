"""Tensors in wire form: what protobuf reads and writes, any dtype, any segments; and no other."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from netgrad.persist import wire
from netgrad.persist.tensors import Assembly, Segment, decode, encode
from netgrad.proto import FormatError, caffe2_pb2

DTYPES = ["float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16"]
tensors = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)))
T = caffe2_pb2.TensorProto


@given(tensors)
def test_a_tensor_comes_back_as_it_was(array):
    found = Assembly(decode(encode(array, "x"))).array()
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()


@given(tensors)
def test_protobuf_writes_the_same_bytes(array):
    data = encode(array, "x")
    assert T.FromString(data).SerializeToString() == data


@given(tensors, st.integers(1, 9), st.randoms())
def test_segments_make_the_tensor_in_any_order(array, size, random):
    parts = [decode(encode(array, "x", begin, min(begin + size, array.size)))
             for begin in range(0, max(1, array.size), size)]
    random.shuffle(parts)
    assembly = Assembly(parts[0])
    for part in parts[1:]:
        assert not assembly.complete
        assembly.add(part)
    assert assembly.complete and assembly.array().tobytes() == array.tobytes()


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_strings_come_back(strings):
    array = np.empty(len(strings), object)
    array[:] = strings
    data = encode(array, "x")
    assert decode(data).values.tolist() == strings == list(T.FromString(data).string_data)


@given(st.lists(st.integers(-2 ** 63, 2 ** 63 - 1), max_size=40))
def test_packed_numbers_are_those_of_protobuf(numbers):
    data = wire.packed(np.array(numbers, np.int64))
    assert wire.unpacked(data).tolist() == numbers
    assert T(int64_data=numbers).SerializeToString() == (wire.bytes_field(10, data) if numbers else b"")


@pytest.mark.parametrize("bits", [3, 8, 20, 33, 62])
def test_many_packed_numbers_come_back(bits):
    numbers = np.random.default_rng(bits).integers(-2 ** bits if bits > 40 else 0, 2 ** bits, 300_001)
    data = wire.packed(numbers)
    assert (wire.unpacked(data) == numbers).all() and len(data) == sum(len(wire.varint(int(n))) for n in numbers)


@pytest.mark.parametrize("data", [b"\x80", b"\1\x80", b"\x80" * 11 + b"\1", b"\x80" * 400_000 + b"\1"])
def test_numbers_that_do_not_end_are_refused(data):
    with pytest.raises(FormatError, match=r"cut off|more than ten"):
        wire.unpacked(data)


@pytest.mark.parametrize(("message", "expected"), [
    (T(dims=[2], data_type=T.UINT8, byte_data=b"ab"), [97, 98]),
    (T(dims=[2], data_type=T.BYTE, byte_data=b"ab"), [97, 98]),
    (T(dims=[2], data_type=T.INT8, byte_data=b"a\xff"), [97, -1]),
    (T(dims=[2], data_type=T.FLOAT16, byte_data=b"\0\x3c\0\xc0"), [1.0, -2.0]),
    (T(dims=[2], data_type=T.FLOAT, raw_data=b"\0\0\x80\x3f\0\0\0\xc0"), [1.0, -2.0]),
    (T(dims=[2], data_type=T.FLOAT, raw_data=b"\x80\x3f\0\xc0", data_format=1), [1.0, -2.0]),
    (T(dims=[2], data_type=T.INT64, raw_data=bytes(8) + b"\xff" * 8), [0, -1]),
    (T(dims=[2], data_type=T.BOOL, raw_data=b"\0\1"), [False, True]),
    (T(dims=[2], data_type=T.BOOL, int32_data=[0, 5]), [False, True]),
    (T(dims=[0], data_type=T.FLOAT), []),
    (T(data_type=T.FLOAT, float_data=[2]), 2.0),
], ids=str)
def test_every_way_to_hold_values_is_read(message, expected):
    assert Assembly(decode(message.SerializeToString())).array().tolist() == expected


def test_numbers_that_are_not_packed_are_read():
    data = T(dims=[2], data_type=T.INT32).SerializeToString() + wire.number_field(4, 5) + wire.number_field(4, -1)
    assert decode(data).values.tolist() == [5, -1]


@pytest.mark.parametrize(("message", "reason"), [
    (T(dims=[2], data_type=T.FLOAT, float_data=[1]), "holds 1 values"),
    (T(dims=[2], data_type=T.FLOAT, float_data=[1, 2, 3]), "holds 3 values"),
    (T(data_type=T.FLOAT), "holds 0 values"),
    (T(dims=[-3], data_type=T.FLOAT), "negative"),
    (T(dims=[2], data_type=T.UNDEFINED), "0 is no data type"),
    (T(dims=[2]), "0 is no data type"),
    (T(dims=[1], data_type=T.ZERO_COLLISION_HASH), "no data type"),
    (T(dims=[1 << 40, 1 << 40], data_type=T.FLOAT, float_data=[1]), "holds 1 values"),
    (T(dims=[1] * 65, data_type=T.FLOAT, float_data=[1]), "more than 64 dimensions"),
    (T(dims=[2], data_type=T.FLOAT, double_data=[1, 2]), "field for others"),
    (T(dims=[2], data_type=T.INT32, int32_data=[1], int64_data=[1]), "several fields"),
    (T(dims=[1], data_type=T.INT8, int32_data=[300]), "cannot have"),
    (T(dims=[1], data_type=T.STRING, raw_data=b"abc"), "plain bytes"),
    (T(dims=[1], data_type=T.FLOAT, raw_data=b"abc"), "each of which takes 4"),
    (T(dims=[4], data_type=T.FLOAT, float_data=[1, 2], segment=T.Segment(begin=3, end=5)), "from 3 to 5"),
    (T(dims=[4], data_type=T.FLOAT, float_data=[1, 2], segment=T.Segment(begin=3, end=1)), "from 3 to 1"),
], ids=str)
def test_what_does_not_fit_is_refused(message, reason):
    with pytest.raises(FormatError, match=reason):
        decode(message.SerializeToString())


def segment(begin, end, shape=(4,), dtype="float32"):
    return Segment("x", dtype, shape, begin, end, np.zeros(end - begin, dtype))


@pytest.mark.parametrize(("parts", "reason"), [
    ([segment(0, 2)], "from 2 on are not there"),
    ([segment(2, 4)], "from 0 on are not there"),
    ([segment(0, 1), segment(2, 4)], "from 1 on are not there"),
    ([segment(0, 2), segment(1, 4)], "twice"),
    ([segment(0, 2), segment(0, 2)], "twice"),
    ([segment(0, 4), segment(0, 4)], "twice"),
    ([segment(0, 2), segment(2, 4, (2, 2))], "disagree"),
    ([segment(0, 2), segment(2, 4, dtype="int32")], "disagree"),
])
def test_segments_that_make_no_tensor_are_refused(parts, reason):
    with pytest.raises(FormatError, match=reason):
        assembly = Assembly(parts[0])
        for part in parts[1:]:
            assembly.add(part)
        assembly.array()


@settings(max_examples=300)
@given(tensors, st.data())
def test_damaged_tensors_give_format_errors_only(array, data):
    wired = bytearray(encode(array, "x"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(wired) - 1))
        wired[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = Assembly(decode(bytes(wired[:data.draw(st.integers(0, len(wired)))]))).array()
    except FormatError:
        return
    assert found.size == math.prod(found.shape)


@given(st.binary(max_size=60))
def test_any_bytes_give_format_errors_only(data):
    try:
        decode(data)
    except FormatError:
        pass
