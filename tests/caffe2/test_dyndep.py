"""Libraries of compiled operators: accepted where their operators are here, else told what to write."""

import contextlib
import sys
import textwrap

import numpy as np
import pytest

from caffe2.python import core, dyndep, extension_loader, lazy_dyndep, workspace
from netgrad.graph import lazy_imports, libraries, registry


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch):
    for name in ("_loaded", "_OPERATORS", "_waiting"):
        monkeypatch.setattr(libraries, name, type(getattr(libraries, name))(getattr(libraries, name)))
    monkeypatch.setattr(libraries, "_error_handler", None)
    monkeypatch.setattr(lazy_imports, "_pending", [])
    yield
    for name in ("ZeroEven", "ZeroEvenGradient", "MyOperator", "MyOperatorGradient"):
        registry.unregister(name)


@pytest.mark.parametrize("library", sorted(libraries._OPERATORS))
def test_operators_of_known_libraries_are_declared(library):
    dyndep.InitOpsLibrary(library)
    assert library in dyndep.GetImportedOpsLibraries()


@pytest.mark.parametrize("name", [
    "/usr/lib/libcaffe2_detectron_ops_gpu.so", "@/caffe2/caffe2/distributed:file_store_handler_ops",
    "//caffe2/caffe2/quantization/server:dnnlowp_ops", "@/caffe2/modules/detectron:detectron_ops",
    "build\\caffe2_detectron_ops.dll", "@/caffe2/caffe2/contrib/gloo:gloo_ops_gpu", "libcaffe2_detectron_ops.so.1.8",
])
def test_libraries_are_known_by_whatever_name(name):
    dyndep.InitOpsLibrary(name)
    assert dyndep.GetImportedOpsLibraries() == {name}


def test_an_unknown_library_is_refused_with_the_python_that_takes_its_place():
    with pytest.raises(OSError, match=r"libmy_ops_gpu\.so.*holds compiled operators") as caught:
        dyndep.InitOpsLibrary("/opt/libmy_ops_gpu.so")
    assert "/opt/libmy_ops_gpu.so" not in dyndep.GetImportedOpsLibraries()
    lines = [line for line in str(caught.value).splitlines() if not line or line.startswith("    ")]
    exec(textwrap.dedent("\n".join(lines)), {})
    dyndep.InitOpsLibrary("/opt/libmy_ops_gpu.so")
    net = core.Net("custom")
    net.MyOperator("x", "y", scale=3.0)
    net.AddGradientOperators(["y"])
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("y").tolist() == workspace.FetchBlob("x_grad").tolist() == [3, 3]


def test_build_targets_of_caffe2_are_passed_over_as_ever(caplog):
    dyndep.InitOpsLibrary("@/caffe2/caffe2/distributed:redis_store_handler_ops")
    assert "redis_store_handler_ops is passed over" in caplog.text
    assert dyndep.GetImportedOpsLibraries() == set()


def test_operators_that_a_library_lacks_are_named():
    libraries.provide("caffe2_detectron_custom_ops", ["ZeroEven", "Relu"])
    with pytest.raises(libraries.UnknownLibraryError, match="def ZeroEven") as caught:
        dyndep.InitOpsLibrary("libcaffe2_detectron_custom_ops_gpu.so")
    assert "Relu" not in str(caught.value)


def test_loading_that_is_put_off_happens_when_an_operator_is_missing():
    lazy_dyndep.RegisterOpsLibrary("gloo_ops")
    lazy_dyndep.RegisterOpsLibrary("libmy_ops.so")
    net = core.Net("lazy")
    net.Relu("x", "y")
    with pytest.raises(libraries.UnknownLibraryError):
        net.NoSuchOperator("x", "y")
    assert lazy_dyndep.GetImportedOpsLibraries() == {"gloo_ops"}


def test_errors_of_loading_that_is_put_off_reach_the_handler():
    errors = []
    lazy_dyndep.SetErrorHandler(errors.append)
    lazy_dyndep.RegisterOpsLibrary("libmy_ops.so")
    core.RefreshRegisteredOperators()
    lazy_dyndep.RegisterOpsLibrary("libothers.so")
    with contextlib.suppress(TypeError):
        workspace.CreateNet("fake")
    assert [type(error) for error in errors] == [libraries.UnknownLibraryError] * 2


@pytest.mark.skipif(not hasattr(sys, "setdlopenflags"), reason="the system has no such flags")
def test_symbols_are_shared_within_the_guard():
    before = sys.getdlopenflags()
    with pytest.raises(KeyError), extension_loader.DlopenGuard(0x100):
        assert sys.getdlopenflags() == before | 0x100
        raise KeyError
    assert sys.getdlopenflags() == before
