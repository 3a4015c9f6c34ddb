"""Backends: chosen by name or environment, loaded when needed, and their namespaces agree."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import netgrad
from netgrad.proto import caffe2_pb2
from netgrad.runtime import backends, dtypes
from netgrad.runtime.errors import BackendError, BadIndex

T = caffe2_pb2.TensorProto


def python(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, **environment})
    return done.stdout.strip() + done.stderr.strip().splitlines()[-1] if done.returncode else done.stdout.strip()


RUN = """
import sys, numpy as np
from netgrad.runtime import current
from netgrad.runtime.workspace import Workspace
before = "torch" in sys.modules
current.FeedBlob("x", np.ones(2)); current.FetchBlob("x")
print(before, Workspace.current.backend.name, "torch" in sys.modules)
"""


def test_the_environment_names_the_backend_and_numpy_never_imports_torch():
    assert python(RUN, NETGRAD_BACKEND="numpy") == "False numpy False"


def test_torch_is_the_default_where_it_is_installed():
    pytest.importorskip("torch")
    assert python(RUN, NETGRAD_BACKEND="") == "False torch True"
    assert python(RUN, NETGRAD_BACKEND="torch") == "False torch True"


def test_another_name_is_an_error_that_lists_the_names():
    said = python(RUN, NETGRAD_BACKEND="tensorflow")
    assert "BackendError" in said and "'tensorflow'" in said and "numpy or torch" in said
    with pytest.raises(BackendError, match=r"no backend 'jax'"):
        backends.get("jax")


USE = """
import netgrad, numpy as np
from caffe2.python import workspace
netgrad.use_backend("numpy")
workspace.FeedBlob("x", np.ones(2)); workspace.FetchBlob("x")
netgrad.use_backend("numpy")
print(workspace.Workspace.current.backend.name, netgrad.Workspace().backend.name)
"""


def test_a_program_chooses_the_backend_of_every_workspace_that_names_none():
    assert python(USE, NETGRAD_BACKEND="") == "numpy numpy"
    pytest.importorskip("torch")
    assert python(USE, NETGRAD_BACKEND="torch") == "numpy numpy"


def test_choosing_after_something_was_computed_is_refused():
    pytest.importorskip("torch")
    assert "workspace 'default' computes with numpy already" in python(USE + "netgrad.use_backend('torch')")
    with pytest.raises(BackendError, match=r"no backend 'jax'"):
        netgrad.use_backend("jax")


@pytest.fixture
def xp(backend):
    return backends.get(backend).xp


def array(xp, values, dtype="float64"):
    return xp.from_numpy(np.array(values, dtype))


def test_scatter_add_adds_repeated_rows_up_in_a_copy(xp):
    target = array(xp, np.ones((3, 2)))
    out = xp.scatter_add(target, array(xp, [2, 0, 2], "int32"), array(xp, [[1, 1], [2, 2], [3, 3]]))
    assert xp.to_numpy(out).tolist() == [[3, 3], [1, 1], [5, 5]]
    assert xp.to_numpy(target).tolist() == [[1, 1]] * 3


def test_index_put_replaces_rows_in_a_copy(xp):
    target = array(xp, np.zeros((3, 2)))
    out = xp.index_put(target, array(xp, [2, 0], "int64"), array(xp, [[1, 1], [2, 2]]))
    assert xp.to_numpy(out).tolist() == [[2, 2], [0, 0], [1, 1]]
    assert not xp.to_numpy(target).any()


@pytest.mark.parametrize("index", [[3], [-1], [0, -4]])
def test_rows_out_of_range_are_refused_and_never_wrapped(xp, index):
    for function in (xp.scatter_add, xp.index_put):
        with pytest.raises(BadIndex, match=rf"index {index[-1]} is out of range.*0 to 2"):
            function(array(xp, np.zeros((3, 1))), array(xp, index, "int64"), array(xp, np.ones((len(index), 1))))


def test_erf_is_exact_to_the_last_bits_and_keeps_dtype_and_shape(xp):
    points = np.concatenate([np.linspace(-6, 6, 101), [0.0, 1e-300]])
    found = xp.to_numpy(xp.erf(array(xp, points)))
    np.testing.assert_allclose(found, [math.erf(p) for p in points], rtol=1e-14, atol=0)
    for shape in ((), (0,), (2, 1)):
        out = xp.erf(array(xp, np.ones(shape), "float32"))
        assert tuple(out.shape) == shape and xp.dtype_name(out) == "float32"


def test_einsum_and_take_along_axis(xp):
    a, b = array(xp, [[1, 2], [3, 4]]), array(xp, [[5, 6], [7, 8]])
    assert xp.to_numpy(xp.einsum("ij,jk->ik", a, b)).tolist() == [[19, 22], [43, 50]]
    picked = xp.take_along_axis(a, array(xp, [[1], [0]], "int64"), axis=1)
    assert xp.to_numpy(picked).tolist() == [[2], [3]]


@pytest.mark.parametrize("name, number", [item for item in dtypes.NUMBERS.items() if item[0] != "string"])
def test_dtypes_go_by_number_and_by_name(xp, number, name):
    assert xp.dtype_of(number) == xp.dtype_of(name) == xp.zeros(1, dtype=xp.dtype_of(name)).dtype
    assert xp.dtype_name(xp.zeros(1, dtype=xp.dtype_of(number))) == name == xp.dtype_name(xp.dtype_of(name))
    assert dtypes.number_of(name) == number and dtypes.name_of(T.DataType.Name(number)) == name


def test_dtypes_without_a_meaning_are_refused(xp):
    for wrong in (0, 99, "complex63"):
        with pytest.raises((BackendError, TypeError)):
            xp.dtype_of(wrong)
    with pytest.raises(BackendError, match=r"no number for dtype bfloat16"):
        dtypes.number_of("bfloat16")


def test_bfloat16_is_torchs():
    with pytest.raises(BackendError, match=r"bfloat16"):
        backends.get("numpy").xp.dtype_of("bfloat16")
    torch = pytest.importorskip("torch")
    assert backends.get("torch").xp.dtype_of("bfloat16") == torch.bfloat16


def test_from_numpy_takes_any_layout(xp):
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    for view in (source.T, source[::-1], source.astype(">f4"), np.broadcast_to(source[0], (2, 3))):
        np.testing.assert_array_equal(xp.to_numpy(xp.from_numpy(view)), view)


def test_ascontiguous_gives_rows_in_order(xp):
    transposed = xp.permute_dims(array(xp, [[1, 2], [3, 4]]), (1, 0))
    assert xp.to_numpy(xp.ascontiguous(transposed)).flags.c_contiguous


def test_python_scalars_do_not_change_a_dtype(xp):
    for dtype in ("float16", "float32"):
        for shape in ((), (2,)):
            assert xp.dtype_name(array(xp, np.ones(shape), dtype) * 2.5 + 1) == dtype


def test_a_kernel_placed_on_a_device_gets_its_inputs_there_and_makes_new_arrays_there():
    torch = pytest.importorskip("torch")
    seen = []

    def kernel(xp, X, *, n):
        seen.extend([X.device.type, xp.zeros(n).device.type, xp.from_numpy(np.ones(n)).device.type])
        return X + xp.ones(n)

    placed = backends.get("torch").on_device(kernel, torch.device("meta"))
    assert placed(backends.get("torch").xp, torch.ones(3), n=3).device.type == "meta"
    assert seen == ["meta"] * 3


def test_every_override_serves_a_declared_operator_with_the_reference_signature(backend):
    from netgrad.graph import registry
    from netgrad.runtime.binding import signature_of

    for (type, _), kernel in backends.get(backend).overrides.every().items():
        declaration = registry.find(type)
        assert declaration is not None, type
        assert set(signature_of(kernel).keywords) <= {a.keyword for a in declaration.arguments}, type
