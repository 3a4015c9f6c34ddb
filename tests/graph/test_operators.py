"""Operators as they are written: arguments by declaration, warnings of what is wrong."""

import enum
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgrad.graph import registry, schema
from netgrad.graph.argument_values import ArgsToDict, MakeArgument
from netgrad.graph.arguments import REQUIRED, ArgumentError, Float, Floats, Int, Ints, Str
from netgrad.graph.blob import BlobReference
from netgrad.graph.comparison import OpAlmostEqual
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator, UnknownArgumentWarning, UnknownOperatorError, _warned, _warned_places
from netgrad.graph.scope import NameScope
from netgrad.proto import caffe2_pb2


@pytest.fixture(autouse=True)
def declared():
    class GraphTestOp(Operator):
        inputs = [In("X"), In("W", optional=True)]
        outputs = [Out("Y")]
        arguments = [Float("scale", 1.0), Floats("values"), Int("axis", 1), Ints("dims"), Str("mode"),
                     Float("must", REQUIRED)]
        inplace = {(0, 0)}

    _warned.clear()
    _warned_places.clear()
    yield
    registry.unregister("GraphTestOp")


def written(**arguments):
    op = CreateOperator("GraphTestOp", "x", "y", must=1.0, **arguments)
    return {a.name: a for a in op.arg}


def test_integers_become_floats_where_the_declaration_says_float():
    arguments = written(scale=3, values=[1, 2.5, np.int32(3)])
    assert arguments["scale"].f == 3.0 and not arguments["scale"].HasField("i")
    assert list(arguments["values"].floats) == [1.0, 2.5, 3.0]


class Colour(enum.IntEnum):
    RED = 2


@pytest.mark.parametrize("value, field, expected", [
    (True, "i", 1), (7, "i", 7), (np.int32(7), "i", 7), (Colour.RED, "i", 2), (1.5, "f", 1.5),
    (np.float64(1.5), "f", 1.5),
    ("ü", "s", "ü".encode()), (b"\xff", "s", b"\xff"), (np.bool_(True), "i", 1),
    ([1, True], "ints", [1, 1]), ((1, 2), "ints", [1, 2]), (np.array([[1, 2], [3, 4]]), "ints", [1, 2, 3, 4]),
    (np.array(3.0), "floats", [3.0]), (np.array([1.5], np.float32), "floats", [1.5]), ([1, 2.5], "floats", [1.0, 2.5]),
    (["a", b"b"], "strings", [b"a", b"b"]), (np.array(["a"]), "strings", [b"a"]),
])
def test_the_field_of_an_argument_follows_from_the_value(value, field, expected):
    argument = MakeArgument("k", value)
    filled = [descriptor.name for descriptor, _ in argument.ListFields()]
    assert filled == ["name", field] or set(filled) == {"name", field}
    found = getattr(argument, field)
    assert (list(found) if isinstance(expected, list) else found) == expected


def test_messages_as_arguments():
    net, tensor = caffe2_pb2.NetDef(name="n"), caffe2_pb2.TensorProto(name="t")
    assert MakeArgument("k", net).n == net and MakeArgument("k", [net]).nets[0] == net
    assert MakeArgument("k", tensor).s == tensor.SerializeToString()


@pytest.mark.parametrize("value", [1j, object(), [[1]], [1, "a"], 2**63, BlobReference("x")])
def test_a_value_without_a_place_names_its_argument(value):
    with pytest.raises(ArgumentError, match="'wrong'"):
        MakeArgument("wrong", value)
    with pytest.raises(ValueError, match=r"GraphTestOp.*'wrong'"):
        CreateOperator("GraphTestOp", "x", "y", must=1.0, wrong=value)


@given(st.dictionaries(st.text("abc", min_size=1), st.one_of(
    st.integers(-2**63, 2**63 - 1), st.booleans(), st.binary(), st.lists(st.integers(-9, 9), min_size=1),
    st.floats(width=32, allow_nan=False), st.lists(st.binary(), min_size=1))))
def test_arguments_come_back_as_they_were(values):
    found = ArgsToDict([MakeArgument(name, value) for name, value in values.items()])
    assert {name: list(v) if isinstance(values[name], list) else v for name, v in found.items()} == values


def test_unknown_arguments_warn_once_with_the_name_that_was_meant():
    with pytest.warns(UnknownArgumentWarning, match=r"GraphTestOp has no argument 'scael'.*'scale'"):
        written(scael=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        written(scael=1.0)
        written(order="NCHW", use_cudnn=True)
        with pytest.raises(UnknownArgumentWarning):
            written(other=1)


def test_arguments_of_the_operator_message():
    op = CreateOperator("GraphTestOp", ["x"], ["y"], name="n", control_input="c", engine="E", debug_info="d",
                        random_seed=5, arg=[MakeArgument("axis", 2)], must=1.0, mode=None)
    assert (op.name, list(op.control_input), op.engine, op.debug_info) == ("n", ["c"], "E", "d")
    assert op.device_option.random_seed == 5
    assert [a.name for a in op.arg] == ["axis", "must"]


def test_strings_receive_the_scope_and_references_do_not():
    with NameScope("s"):
        op = CreateOperator("GraphTestOp", ["x", BlobReference("w")], b"y", must=1.0)
    assert (list(op.input), list(op.output)) == (["s/x", "w"], ["s/y"])


@pytest.mark.parametrize("inputs", [3, [3], None, {"x"}])
def test_inputs_of_another_kind_are_refused(inputs):
    with pytest.raises(TypeError):
        CreateOperator("GraphTestOp", inputs, "y", must=1.0)


def problems(*args, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return schema.check_operator(CreateOperator(*args, **arguments))


@pytest.mark.parametrize("inputs, outputs, arguments, expected", [
    (["x"], ["y"], {"must": 1}, []),
    (["x", "w"], ["x"], {"must": 1}, []),
    ([], ["y"], {"must": 1}, ["it has 0 inputs, expected 1 to 2 (X, [W])"]),
    (["x"], ["y", "z"], {"must": 1}, ["it has 2 outputs, expected 1 (Y)"]),
    (["x", "w"], ["w"], {"must": 1}, ["output 0 may not overwrite input 1, 'w'; give the output another name"]),
    (["x"], ["y"], {}, ["argument 'must' (a number) is missing"]),
    (["x"], ["y"], {"must": "a"}, ["argument 'must' should be a number, but holds a string"]),
])
def test_problems_of_an_operator(inputs, outputs, arguments, expected):
    assert problems("GraphTestOp", inputs, outputs, **arguments) == expected


def test_an_unknown_type_is_a_problem_with_close_names():
    assert problems("GraphTestOpp", "x", "y")[0].startswith(
        "there is no operator type 'GraphTestOpp'; did you mean GraphTestOp")


def test_forced_in_place_use():
    class GraphTestUpdate(Operator):
        inputs = [In("P"), In("G")]
        outputs = [Out("P")]
        inplace_required = {(0, 0)}

    try:
        assert problems("GraphTestUpdate", ["p", "g"], ["p"]) == []
        assert "must be input 0, 'p'" in problems("GraphTestUpdate", ["p", "g"], ["q"])[0]
    finally:
        registry.unregister("GraphTestUpdate")


def test_a_schema_problem_warns_where_it_is_written_once_and_raises_when_the_net_is_checked():
    net = Net("schema")
    with pytest.warns(schema.SchemaWarning, match="operator 0 of net 'schema.*GraphTestOp: it has 0 inputs") as caught:
        for _ in range(3):
            net.GraphTestOp([], "y", must=1.0)
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.raises(schema.SchemaError, match="operator 2, GraphTestOp"):
        schema.check_net(net.Proto())


def test_a_declaration_that_is_replaced_counts_at_once():
    net = Net("replaced")
    net.GraphTestOp("x", "y", must=1)

    class GraphTestOp(Operator):
        inputs = []
        outputs = [Out("Y")]

    with pytest.warns(schema.SchemaWarning, match="it has 1 inputs, expected 0"):
        net.GraphTestOp("x", "z")


def test_misspelt_operators_list_close_names():
    net = Net("typo")
    for owner in (net, net.AddExternalInput("x")):
        with pytest.raises(UnknownOperatorError, match=r"Did you mean: \[.*GraphTestOp"):
            owner.GraphTestOpp  # noqa: B018
    assert not hasattr(net, "GraphTestOpp") and "GraphTestOp" in dir(net)


def test_almost_equal_operators():
    one = CreateOperator("GraphTestOp", "x", "y", name="a", must=math.nan)
    other = CreateOperator("GraphTestOp", "x", "y", name="b", must=math.nan)
    assert OpAlmostEqual(one, other, "name") and not OpAlmostEqual(one, other)
