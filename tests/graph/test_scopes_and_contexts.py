"""Name scopes, device scopes, managed contexts."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgrad.graph.context import DefaultManaged, Managed
from netgrad.graph.device import DeviceOption, device_option_equal
from netgrad.graph.operator import CreateOperator
from netgrad.graph.scope import (
    CurrentDeviceScope,
    CurrentNameScope,
    DeviceScope,
    EmptyDeviceScope,
    EmptyNameScope,
    NameScope,
)
from netgrad.proto import caffe2_pb2

CUDA, IDEEP = caffe2_pb2.CUDA, caffe2_pb2.IDEEP


@pytest.mark.parametrize("scope", [
    EmptyNameScope, EmptyDeviceScope, lambda: NameScope("a"), lambda: DeviceScope(DeviceOption(CUDA, 1))])
def test_exceptions_leave_a_scope_and_end_it(scope):
    with NameScope("outer"), DeviceScope(DeviceOption(CUDA, 7)), pytest.raises(KeyError), scope():
        raise KeyError
    assert CurrentNameScope() == "" and CurrentDeviceScope() is None


@given(st.lists(st.tuples(st.text("ab", min_size=1), st.booleans()), max_size=6))
def test_name_scopes_nest(scopes):
    def enter(rest, expected):
        assert CurrentNameScope() == expected
        if rest:
            (name, reset), *below = rest
            with NameScope(name, reset=reset):
                enter(below, f"{name}/" if reset else f"{expected}{name}/")
            assert CurrentNameScope() == expected

    enter(scopes, "")


def test_name_scope_takes_strings_only():
    with pytest.raises(AssertionError, match="3"), NameScope(3):
        pass


def test_threads_do_not_share_scopes():
    seen = []
    with NameScope("here"), DeviceScope(DeviceOption(CUDA, 1)):
        thread = threading.Thread(target=lambda: seen.append((CurrentNameScope(), CurrentDeviceScope())))
        thread.start()
        thread.join()
    assert seen == [("", None)]


def test_inner_device_scope_replaces_but_inherits_node_and_extra_info():
    with DeviceScope(DeviceOption(CUDA, 1, node_name="n", extra_info=["b:1", "a:1"])):
        with DeviceScope(DeviceOption(IDEEP, extra_info=["a:1", "c:1"])):
            inner = CurrentDeviceScope()
            assert (inner.device_type, inner.node_name) == (IDEEP, "n")
            assert list(inner.extra_info) == ["a:1", "b:1", "c:1"]
        with DeviceScope(None, node_name="m"):
            assert CurrentDeviceScope().node_name == "m" and CurrentDeviceScope().device_type == caffe2_pb2.CPU


def test_operators_take_the_device_of_the_scope_unless_they_name_one():
    with DeviceScope(DeviceOption(CUDA, 2)):
        assert CreateOperator("Relu", "x", "y").device_option.device_id == 2
        assert CreateOperator("Relu", "x", "y", device_option=DeviceOption(CUDA, 5)).device_option.device_id == 5
        with EmptyDeviceScope():
            assert not CreateOperator("Relu", "x", "y").HasField("device_option")


@pytest.mark.parametrize("one, other, same", [
    ((CUDA, 0), (IDEEP, 0), False),
    ((CUDA, 0), (CUDA, 1), False),
    ((CUDA, 1), (CUDA, 1), True),
    ((0, 3), (0, 0), True),
    ((0, 0), (CUDA, 0), False),
])
def test_devices_are_equal_by_type_and_id(one, other, same):
    assert device_option_equal(DeviceOption(*one), DeviceOption(*other)) is same


def test_device_equality_ignores_what_is_no_device():
    plain = DeviceOption(CUDA, 1)
    rich = DeviceOption(CUDA, 1, random_seed=4, node_name="n", extra_info=["a"])
    assert device_option_equal(plain, rich)
    assert not device_option_equal(plain, rich, ignore_node_name=False)
    assert not device_option_equal(plain, rich, ignore_random_seed=False)
    assert device_option_equal(None, DeviceOption(0)) and not device_option_equal(None, plain)


class Outer(Managed):
    pass


class Inner(Outer):
    pass


class WithDefault(DefaultManaged):
    pass


def test_an_object_is_current_for_its_class_and_the_classes_above():
    with Outer() as outer:
        with Inner() as inner:
            assert Inner.current() is inner and Outer.current() is inner
        assert Outer.current() is outer and Inner.current(required=False) is None
    with pytest.raises(AssertionError, match="with Outer"):
        Outer.current()


def test_a_context_can_be_given_must_be_of_the_class_and_may_have_a_default():
    outer = Outer()
    assert Outer.current(value=outer) is outer
    with pytest.raises(AssertionError, match="Inner"):
        Inner.current(value=outer)
    assert WithDefault.current() is WithDefault.current()


def test_a_context_decorates_a_function():
    context = Outer()
    assert context(lambda: Outer.current())() is context
