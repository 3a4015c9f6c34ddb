"""Nets run as their declarations say; what cannot run says why, where, and what to do."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.graph import registry
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, binding
from netgrad.runtime.errors import (
    BadArgument,
    BadOutput,
    BadShape,
    BadValue,
    DeviceError,
    KernelError,
    MissingBlob,
    NoKernel,
    OperatorError,
    SchemaError,
    UnknownOperator,
    WrongKind,
)
from netgrad.runtime.executor import BoundNet


@pytest.fixture
def x(ws):
    ws.feed_blob("x", np.array([1, 2, 3], np.float32))
    return ws


def fails(ws, error, *ops, create=False):
    """The message of the error that a net of these operators raises."""
    with pytest.raises(error) as caught:
        if create:
            ws.create_net(net("n", *ops))
        else:
            ws.run(net("n", *ops))
    assert isinstance(caught.value, RuntimeError) and "frame #" not in str(caught.value)
    return str(caught.value)


def test_absent_optional_inputs_are_none_and_surplus_outputs_are_dropped(x):
    x.run(op("TAffine", "x", "y", scale=2.0))
    np.testing.assert_array_equal(x.fetch_blob("y"), [2, 4, 6])
    x.run(op("TAffine", "x x", "y z"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [2, 4, 6])
    np.testing.assert_array_equal(x.fetch_blob("z"), [4, 8, 12])


def test_an_empty_input_name_is_an_absent_input(x):
    x.run(caffe2_pb2.OperatorDef(type="TAffine", input=["x", ""], output=["y"]))
    np.testing.assert_array_equal(x.fetch_blob("y"), [1, 2, 3])


def test_in_place_binds_the_name_anew_and_never_writes_into_the_old_buffer(x):
    before = x.values["x"]
    x.run(net("n", op("TAffine", "x", "x", scale=2.0), op("TAffine", "x", "x", scale=2.0)))
    np.testing.assert_array_equal(x.fetch_blob("x"), [4, 8, 12])
    np.testing.assert_array_equal(x.backend.to_numpy(before), [1, 2, 3])


def test_an_in_place_operator_may_not_change_the_shape_of_its_name(x):
    message = fails(x, BadShape, op("TFirst", "x", "x"))
    assert "(3,)" in message and "(1,)" in message
    np.testing.assert_array_equal(x.fetch_blob("x"), [1, 2, 3])
    x.run(op("TFirst", "x", "y"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [1])


def test_dtypes_are_kept(ws):
    for dtype in ("float16", "float32", "float64"):
        ws.feed_blob("x", np.ones(2, dtype))
        ws.run(op("TAffine", "x", "y", scale=0.5))
        assert ws.fetch_blob("y").dtype == dtype


def test_results_of_zero_dimensions_are_arrays_on_every_backend(ws):
    ws.run(op("TCount", "", "n"))
    assert ws.fetch_blob("n").shape == () and type(ws.values["n"]) is ws.backend.array_type


def test_state_lives_as_long_as_the_net(ws):
    ws.create_net(net("n", op("TCount", "", "n")))
    for expected in (1, 2, 3):
        ws.run_net("n")
        assert ws.fetch_blob("n") == expected
    ws.create_net(net("n", op("TCount", "", "n")), overwrite=True)
    ws.run_net("n", 2)
    assert ws.fetch_blob("n") == 2
    ws.run(op("TCount", "", "n"))
    ws.run(op("TCount", "", "n"))
    assert ws.fetch_blob("n") == 1


def test_strings_go_to_the_host_and_numbers_come_back_on_the_backend(ws):
    ws.feed_blob("s", [["a"], ["b"]])
    ws.run(op("TUpper", "s", "t count"))
    assert ws.fetch_blob("t").tolist() == [[b"A"], [b"B"]]
    assert ws.fetch_blob("count") == 2 and type(ws.values["count"]) is ws.backend.array_type


def test_operators_that_say_so_take_strings_as_well_as_numbers(x):
    x.feed_blob("index", np.array([2, 0]))
    x.feed_blob("s", ["a", "b", "c"])
    x.run(op("TRows", "x index", "y"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [3, 1])
    x.run(op("TRows", "s index", "t"))
    assert x.fetch_blob("t").tolist() == [b"c", b"a"]


def test_strings_where_numbers_are_meant_are_refused(ws):
    ws.feed_blob("s", ["a"])
    ws.feed_blob("one", "a")
    assert "s holds strings; TAffine takes numbers" in fails(ws, WrongKind, op("TAffine", "s", "y"))
    assert "where a tensor is expected" in fails(ws, WrongKind, op("TAffine", "one", "y"))


def test_a_missing_input_is_found_when_the_net_is_created(x):
    message = fails(x, MissingBlob, op("TAffine", "x", "y"), op("TAffine", "z", "u"), create=True)
    assert "operator 1 (TAffine) of net 'n'" in message and "'z'" in message
    assert not x.has_blob("y")


def test_an_input_that_an_earlier_operator_makes_is_there(x):
    x.create_net(net("n", op("TAffine", "x", "y"), op("TAffine", "y", "z")))
    assert x.has_blob("z")
    assert "never filled" in fails(x, MissingBlob, op("TAffine", "z", "u"))


def test_an_input_removed_after_the_net_was_created_is_named(x):
    x.create_net(net("n", op("TAffine", "x", "y")))
    x.remove_blob("x")
    with pytest.raises(MissingBlob, match=r"no blob 'x'"):
        x.run_net("n")


def test_an_error_names_operator_position_blobs_shapes_and_what_the_kernel_said(x):
    message = fails(x, BadValue, op("TAffine", "x", "y"), op("TFails", "y", "z", how=0))
    assert message == ("[enforce fail at operator 1 (TFails) of net 'n'] X has 3 entries, expected 4; pad it\n"
                       "  inputs: y: float32 (3,)\n"
                       "  outputs: z")


def test_an_error_names_the_python_line_that_wrote_the_operator(x):
    from caffe2.python import core

    written = core.Net("written")
    written.TFails("x", "z", how=0)
    line = written.line_of(0)[1]
    for run in (x.run_net_once, lambda n: (x.create_net(n), x.run_net(n)), lambda n: x.run(n.Proto())):
        with pytest.raises(BadValue, match=rf"written at {__file__}:{line} in test_an_error_names_the_python_line"):
            run(written)


def test_an_unforeseen_exception_of_a_kernel_is_kept_as_the_cause(x):
    with pytest.raises(KernelError, match=r"KeyError: 'nothing'") as caught:
        x.run(op("TFails", "x", "y", how=1))
    assert isinstance(caught.value.__cause__, KeyError)


def test_the_blobs_of_a_failing_operator_stay_as_they_were_and_earlier_ones_are_valid(x):
    x.feed_blob("z", np.zeros(1))
    fails(x, BadValue, op("TAffine", "x", "y", scale=2.0), op("TFails", "y", "z", how=0), op("TAffine", "x", "w"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [2, 4, 6])
    np.testing.assert_array_equal(x.fetch_blob("z"), [0])
    assert x.last_failed == 1 and x.values["w"] is None


def test_an_interrupt_passes_through_and_the_net_can_run_again(x):
    with pytest.raises(KeyboardInterrupt):
        x.run(net("n", op("TAffine", "x", "x", scale=2.0), op("TFails", "x", "z", how=4)))
    np.testing.assert_array_equal(x.fetch_blob("x"), [2, 4, 6])
    x.run(op("TAffine", "x", "z"))


@pytest.mark.parametrize("how, said", [(2, "did not make output 0, 'y'"), (3, "the Python number 3.5")])
def test_kernels_that_break_their_contract_are_told(x, how, said):
    assert said in fails(x, BadOutput, op("TFails", "x", "y", how=how))


def test_an_unknown_type_lists_close_ones_and_one_without_kernel_says_so(x):
    assert "did you mean TAffine" in fails(x, (UnknownOperator, SchemaError), op("TAfine", "x", "y"), create=True)
    assert "TNoKernel is declared but has no kernel yet" in fails(x, NoKernel, op("TNoKernel", "x", "y"), create=True)


def test_schema_violations_are_raised_when_the_net_is_created(x):
    message = fails(x, SchemaError, op("TAffine", "x x x", "y"), create=True)
    assert "3 inputs" in message and "1 to 2" in message


def test_a_required_argument_is_named_and_so_is_one_of_the_wrong_kind(x):
    assert "'how'" in fails(x, (BadArgument, SchemaError), op("TFails", "x", "y"), create=True)
    assert "'scale' should be a number" in fails(x, (BadArgument, SchemaError), op("TAffine", "x", "y", scale="big"))


def test_an_argument_given_twice_with_two_values_is_refused(x):
    twice = op("TAffine", "x", "y", scale=1.0)
    twice.arg.add(name="scale", f=2.0)
    assert "'scale' is given twice" in fails(x, BadArgument, twice)


def test_a_replaced_declaration_takes_effect_on_operators_bound_before(x):
    x.run(op("TAffine", "x", "y"))
    first = registry.find("TAffine")

    class TAffine(first):
        def kernel(xp, X, shift, *, scale):
            return X * 0

    x.run(op("TAffine", "x", "y"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [0, 0, 0])


def test_an_override_serves_its_backend_and_engine_and_an_unknown_engine_falls_back_with_one_warning(x, caplog):
    backend = x.backend
    backend.overrides("TAffine", "FAST")(lambda xp, X, shift, *, scale: X * 100)
    try:
        for engine, expected in (("FAST", 100), ("NOSUCH,FAST", 100), ("NOSUCH", 1), ("NOSUCH", 1), ("", 1)):
            definition = op("TAffine", "x", "y")
            definition.engine = engine
            binding._warn_once.cache_clear() if engine == "FAST" else None
            with caplog.at_level(logging.WARNING, "netgrad"):
                x.run(definition)
            assert x.fetch_blob("y")[0] == expected
        assert sum("NOSUCH" in r.message for r in caplog.records) == 1
    finally:
        del backend.overrides._kernels["TAffine", "FAST"]


def test_preferred_engines_serve_operators_that_name_none(x):
    from netgrad.graph.engines import SetEnginePref

    x.backend.overrides("TAffine", "FAST")(lambda xp, X, shift, *, scale: X * 100)
    try:
        SetEnginePref({caffe2_pb2.CPU: {"TAffine": ["FAST"]}}, {})
        x.run(op("TAffine", "x", "y"))
        assert x.fetch_blob("y")[0] == 100
        SetEnginePref({}, {})
        x.run(op("TAffine", "x", "y"))
        assert x.fetch_blob("y")[0] == 1
    finally:
        SetEnginePref({}, {})
        del x.backend.overrides._kernels["TAffine", "FAST"]


def test_a_net_for_a_gpu_runs_where_there_is_none_and_says_so_once(ws, caplog, monkeypatch):
    monkeypatch.setattr(type(ws.backend), "device", lambda self, option: None)
    binding._warn_once.cache_clear()
    ws.feed_blob("x", np.ones(2))
    for scale in (2.0, 3.0):
        definition = op("TAffine", "x", "y", scale=scale)
        definition.device_option.device_type = caffe2_pb2.CUDA
        with caplog.at_level(logging.WARNING, "netgrad"):
            ws.run(definition)
    np.testing.assert_array_equal(ws.fetch_blob("y"), [3, 3])
    assert sum("GPU" in r.message for r in caplog.records) == 1


def test_a_device_that_there_is_not_is_an_error(x):
    definition = op("TAffine", "x", "y")
    definition.device_option.device_type = caffe2_pb2.OPENGL
    assert "OPENGL" in fails(x, DeviceError, definition)


def test_operators_inherit_the_device_option_of_their_net(ws):
    whole = net("n", op("TDraw", "", "a"), op("TDraw", "", "b"))
    whole.device_option.random_seed = 5
    whole.op[1].device_option.random_seed = 6
    ws.run(whole)
    alone = op("TDraw", "", "a")
    alone.device_option.random_seed = 5
    first = ws.fetch_blob("a")
    ws.run(alone)
    np.testing.assert_array_equal(ws.fetch_blob("a"), first)
    alone.device_option.random_seed = 6
    ws.run(alone)
    assert (ws.fetch_blob("a") != first).any()


@pytest.mark.parametrize("type", ["simple", "dag", "async_scheduling", "prof_dag", ""])
def test_every_net_type_runs_in_the_order_of_its_operators(ws, type):
    ws.feed_blob("x", np.ones(1))
    whole = net("n", op("TAffine", "x", "x", scale=3.0), op("TAffine", "x x", "y"), op("TAffine", "x y", "x"))
    whole.type = type
    ws.run(whole)
    np.testing.assert_array_equal(ws.fetch_blob("x"), [9])


def test_everything_is_bound_when_the_net_is_created(ws, monkeypatch):
    ws.feed_blob("x", np.ones(1))
    created = BoundNet(net("n", op("TAffine", "x", "y", scale=2.0)), ws)

    def forbidden(*_):
        raise AssertionError("looked up during the run")

    monkeypatch.setattr(registry, "find", forbidden)
    monkeypatch.setattr(binding, "parse_arguments", forbidden)
    monkeypatch.setattr(backends.Overrides, "find", forbidden)
    created.run()
    np.testing.assert_array_equal(ws.fetch_blob("y"), [2])


def test_a_failing_operator_run_alone_has_no_position(x):
    with pytest.raises(OperatorError, match=r"^.enforce fail at operator TFails. X has 3 entries"):
        x.run(op("TFails", "x", "y", how=0))
