"""The messages are those of Caffe2: same numbers, same bytes, same text, and they survive every round trip."""

import json
import pickle
import re
from pathlib import Path

import pytest
from descriptor_table import numbers
from google.protobuf import descriptor_pb2, message_factory, text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import netgrad.proto
from netgrad.proto import caffe2_pb2, metanet_pb2, predictor_consts_pb2, read_message

DATA = Path(__file__).parent / "data"
MODULES = [getattr(netgrad.proto, name) for name in netgrad.proto.__all__ if name.endswith("_pb2")]

# What Caffe2 gained after torch 1.8.1, the version of the table.
LATER_FIELDS = {"TensorProto.data_format", "AOTConfig.onnxifi_blacklist_ops", "AOTConfig.onnxifi_min_ops"}
LATER_TYPES = {
    "TensorProto.SerializationFormat",
    "BlobSerializationOptions",
    "BlobSerializationOptions.FloatFormat",
    "SerializationOptions",
}

FILES = {
    "every_argument": caffe2_pb2.NetDef,
    "backward": caffe2_pb2.NetDef,
    "plan": caffe2_pb2.PlanDef,
    "model": metanet_pb2.MetaNetDef,
    "tensors": caffe2_pb2.TensorProtos,
    "blob": caffe2_pb2.BlobProto,
}


def all_types(descriptors):
    for descriptor in descriptors:
        yield message_factory.GetMessageClass(descriptor)
        yield from all_types(descriptor.nested_types)


TYPES = [cls for module in MODULES for cls in all_types(module.DESCRIPTOR.message_types_by_name.values())]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.DESCRIPTOR.name)
def test_numbers_are_caffe2s(module):
    theirs = {table["file"]: table for table in json.loads((DATA / "numbers.json").read_text())}[module.DESCRIPTOR.name]
    ours = numbers(module)
    assert ours["package"] == theirs["package"]

    assert ours["messages"].keys() - theirs["messages"].keys() <= LATER_TYPES
    for name, fields in theirs["messages"].items():
        found = ours["messages"][name]
        later = {field for field in found if f"{name}.{field}" in LATER_FIELDS}
        assert {field: found[field] for field in found if field not in later} == fields, name
        assert {found[field][0] for field in later}.isdisjoint(fact[0] for fact in fields.values())

    assert ours["enums"].keys() - theirs["enums"].keys() <= LATER_TYPES
    for name, values in theirs["enums"].items():
        later = {"REBATCHING_BUFFER": 15} if name == "TensorProto.DataType" else {}
        assert ours["enums"][name] == values | later, name


def test_defaults():
    assert predictor_consts_pb2.PredictorConsts().DEFERRED_BLOB_READER == "__DEFERRED_BLOB_READER__"
    assert caffe2_pb2.TensorProto().data_type == caffe2_pb2.TensorProto.FLOAT
    assert caffe2_pb2.QTensorProto().data_type == caffe2_pb2.TensorProto.INT32


@pytest.mark.parametrize("name", FILES)
def test_rewrites_caffe2s_binary_file_byte_for_byte(name):
    data = (DATA / f"{name}.pb").read_bytes()
    assert read_message(data, FILES[name]).SerializeToString() == data


@pytest.mark.parametrize("name", FILES)
def test_reads_caffe2s_text_file_as_its_binary_one(name):
    data = (DATA / f"{name}.pbtxt").read_bytes()
    assert read_message(data, FILES[name], text=True).SerializeToString() == (DATA / f"{name}.pb").read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_rewrites_caffe2s_text_file(name):
    """Byte for byte but for single-precision numbers, which protobuf has since come to print with fewer digits."""
    text = (DATA / f"{name}.pbtxt").read_text()
    text = re.sub(r"(?<= )-?\d\.\d{10,}(e[-+]\d+)?$", shortest, text, flags=re.MULTILINE)
    assert text_format.MessageToString(read_message(text.encode(), FILES[name], text=True)) == text


def shortest(number):
    """A single-precision number as protobuf prints it now."""
    argument = caffe2_pb2.Argument(f=float(number.group()))
    return text_format.MessageToString(argument).split()[1]


def test_every_kind_of_argument_is_in_the_file():
    net = caffe2_pb2.NetDef.FromString((DATA / "every_argument.pb").read_bytes())
    used = {field.name for op in net.op for arg in op.arg for field, _ in arg.ListFields()}
    assert used == set(caffe2_pb2.Argument.DESCRIPTOR.fields_by_name)


def test_reads_caffe2s_pickle():
    net = pickle.loads((DATA / "backward.pickle").read_bytes())
    assert type(net) is caffe2_pb2.NetDef
    assert net.SerializeToString() == (DATA / "backward.pb").read_bytes()


def test_unknown_fields_survive():
    later = caffe2_pb2.NetDef(name="net").SerializeToString() + b"\xfa\x01\x03new"
    assert caffe2_pb2.NetDef.FromString(later).SerializeToString() == later


NUMBERS = {
    "DOUBLE": st.floats(allow_nan=False),
    "FLOAT": st.floats(allow_nan=False, width=32),
    "INT32": st.integers(-(2**31), 2**31 - 1),
    "INT64": st.integers(-(2**63), 2**63 - 1),
    "UINT32": st.integers(0, 2**32 - 1),
    "UINT64": st.integers(0, 2**64 - 1),
    "BOOL": st.booleans(),
    "STRING": st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    "BYTES": st.binary(max_size=4),
}


@st.composite
def messages(draw, cls, depth=3):
    """A message with some of its fields set, all of the required ones among them."""
    message = cls()
    facts = descriptor_pb2.DescriptorProto()
    cls.DESCRIPTOR.CopyToProto(facts)
    for fact in facts.field:
        field = cls.DESCRIPTOR.fields_by_name[fact.name]
        repeated, required = fact.label == fact.LABEL_REPEATED, fact.label == fact.LABEL_REQUIRED
        if not required and (depth == 0 or draw(st.integers(0, 2)) == 0):
            continue
        if fact.type == fact.TYPE_MESSAGE:
            values = messages(message_factory.GetMessageClass(field.message_type), max(depth - 1, 0))
        elif fact.type == fact.TYPE_ENUM:
            values = st.sampled_from(list(field.enum_type.values_by_number))
        else:
            values = NUMBERS[fact.Type.Name(fact.type).removeprefix("TYPE_")]
        if repeated:
            getattr(message, fact.name).extend(draw(st.lists(values, max_size=2)))
        elif fact.type == fact.TYPE_MESSAGE:
            getattr(message, fact.name).CopyFrom(draw(values))
        else:
            setattr(message, fact.name, draw(values))
    return message


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.DESCRIPTOR.full_name)
def test_round_trip(cls):
    @settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(messages(cls))
    def check(message):
        data = message.SerializeToString()
        binary = read_message(data, cls)
        assert binary == message and binary.SerializeToString() == data
        assert pickle.loads(pickle.dumps(message)) == message
        text = text_format.MessageToString(message).encode()
        assert read_message(text, cls, text=True).SerializeToString() == data

    check()
