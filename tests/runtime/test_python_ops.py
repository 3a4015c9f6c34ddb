"""Python functions as operators."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.runtime import python_ops
from netgrad.runtime.errors import BadArgument, OperatorError
from netgrad.runtime.python_ops import pickled_builder, register_python_op, trust_pickle


def python(f, inputs="x", outputs="y", **options):
    return op("Python", inputs, outputs, token=register_python_op(f, **options))


@pytest.fixture
def x(ws):
    ws.feed_blob("x", np.array([[1, 2]], np.float32))
    return ws


def test_a_function_reads_inputs_and_writes_outputs(x):
    def f(inputs, outputs):
        assert type(inputs[0].shape) is tuple and type(inputs[0].data) is np.ndarray
        outputs[0].reshape(inputs[0].shape)
        outputs[0].data[...] = inputs[0].data * 2
        outputs[1].feed(np.array([7], np.int32))

    x.run(python(f, "x", "y z"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [[2, 4]])
    assert x.fetch_blob("z").dtype == np.int32
    assert type(x.values["y"]) is x.backend.array_type


def test_inputs_are_read_only_unless_an_output_has_their_name(x):
    def writes(inputs, outputs):
        inputs[0].data[...] = 5

    with pytest.raises(ValueError, match=r"read-only"):
        x.run(python(writes))
    np.testing.assert_array_equal(x.fetch_blob("x"), [[1, 2]])
    x.run(python(writes, "x", "x"))
    np.testing.assert_array_equal(x.fetch_blob("x"), [[5, 5]])


def test_an_in_place_input_and_output_are_one_object_and_the_old_buffer_stays(x):
    before = x.values["x"]

    def f(inputs, outputs):
        assert inputs[0] is outputs[0]
        outputs[0].data[...] *= 3

    x.run(python(f, "x", "x"))
    np.testing.assert_array_equal(x.fetch_blob("x"), [[3, 6]])
    np.testing.assert_array_equal(x.backend.to_numpy(before), [[1, 2]])


def test_an_output_that_is_left_alone_keeps_its_value(x):
    x.feed_blob("y", np.ones(2))
    x.run(python(lambda inputs, outputs: None, "x", "y z"))
    np.testing.assert_array_equal(x.fetch_blob("y"), [1, 1])
    assert x.fetch_blob("z").shape == (0,)


def test_an_output_can_be_made_of_any_type_and_of_strings(x):
    def f(inputs, outputs):
        outputs[0].init([2], 10)
        outputs[0].data[:] = [3, 4]
        outputs[1].feed(np.array(["a", "b"]))

    x.run(python(f, "x", "y s"))
    assert x.fetch_blob("y").dtype == np.int64 and x.fetch_blob("y").tolist() == [3, 4]
    assert x.fetch_blob("s").tolist() == [b"a", b"b"]


def test_the_workspace_is_passed_when_asked_for(x):
    seen = []
    x.run(python(lambda i, o, ws: seen.append(ws.blobs["x"].fetch()), "", "", pass_workspace=True))
    np.testing.assert_array_equal(seen[0], [[1, 2]])


def test_an_exception_of_the_function_comes_out_unchanged_with_a_note_of_the_operator(x):
    class Own(Exception):
        pass

    def f(inputs, outputs):
        raise Own("on purpose")

    with pytest.raises(Own, match=r"on purpose") as caught:
        x.run(net("n", op("TAffine", "x", "z"), python(f)))
    assert caught.value.__notes__ == ["in operator 1 (Python) of net 'n'"]


def test_functions_of_one_name_have_tokens_of_their_own():
    tokens = [register_python_op(lambda i, o: None) for _ in range(3)]
    assert len(set(tokens)) == 3


def test_the_gradient_function_takes_inputs_outputs_and_gradients(x):
    def f(inputs, outputs):
        outputs[0].feed(inputs[0].data ** 2)

    def grad_f(inputs, outputs):
        outputs[0].feed(2 * inputs[0].data * inputs[2].data)

    from netgrad.runtime.numeric import check_gradient

    check_gradient(python(f, grad_f=grad_f), {"x": np.array([1.0, 2.0])})


def test_a_missing_gradient_function_and_an_unknown_token_are_named(x):
    forward = python(lambda i, o: None)
    backward = op("PythonGradient", "x x x", "g", token=forward.arg[0].s.decode())
    with pytest.raises(BadArgument, match=r"no gradient function.*grad_f"):
        x.run(backward)
    with pytest.raises(BadArgument, match=r"'elsewhere' in this process"):
        x.run(op("Python", "x", "y", token="elsewhere"))
    with pytest.raises(BadArgument, match=r"neither a token"):
        x.run(op("Python", "x", "y"))


def make_counter(start, *, step):
    count = [start]

    def f(inputs, outputs):
        count[0] += step
        outputs[0].feed(np.array(count[0]))

    return f


def with_builder(content):
    definition = op("Python", "", "n")
    definition.arg.add(name="pickled_builder", s=content)
    return definition


def test_a_builder_is_called_once_for_each_operator_of_each_net(ws):
    whole = net("n", with_builder(pickled_builder((make_counter, (10,), {"step": 2}))))
    for _ in range(2):
        ws.create_net(whole, overwrite=True)
        ws.run_net("n", 3)
        assert ws.fetch_blob("n") == 16


def test_a_pickle_that_this_process_did_not_make_runs_only_when_trusted(ws, monkeypatch):
    monkeypatch.setattr(python_ops, "_known_pickles", set())
    foreign = pickle.dumps((make_counter, (0,), {"step": 1}), protocol=0)
    with pytest.raises(OperatorError, match=r"did not make.*trust_pickle"):
        ws.run(with_builder(foreign))
    trust_pickle(foreign)
    ws.run(with_builder(foreign))
    assert ws.fetch_blob("n") == 1


def test_dlpack_tensors_are_capsules_over_the_operators_own_buffers(x):
    torch = pytest.importorskip("torch")

    def f(inputs, outputs):
        outputs[0].reshape((1, 2))
        source, target = (torch.utils.dlpack.from_dlpack(t.data) for t in (inputs[0], outputs[0]))
        target.copy_(source * 5)
        source.zero_()

    x.run(op("PythonDLPack", "x", "y", token=register_python_op(f)))
    np.testing.assert_array_equal(x.fetch_blob("y"), [[5, 10]])
    np.testing.assert_array_equal(x.fetch_blob("x"), [[1, 2]])
