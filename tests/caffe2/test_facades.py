"""Caffe2's module names: assignment reaches the owner, whatever way a script goes."""

import copyreg
import importlib
import importlib.abc
import importlib.util
import inspect
import pickle
import sys
from unittest import mock

import pytest

import caffe2.python.core as c
import netgrad.graph.blob
import netgrad.graph.operator
from caffe2.python import (
    context,
    core,
    dyndep,
    extension_loader,
    lazy,
    lazy_dyndep,
    net_builder,
    net_drawer,
    predictor_constants,
    schema,
    scope,
    task,
    utils,
)
from netgrad.facade import facade

FACADES = [core, scope, context, utils, lazy, schema, task, net_builder, net_drawer, dyndep, lazy_dyndep,
           extension_loader, predictor_constants]


@pytest.mark.parametrize("module", FACADES, ids=lambda module: module.__name__)
def test_every_name_has_an_owner(module):
    names = module.__dict__["_owners"]
    assert names and all(hasattr(module, name) for name in names)
    assert set(names) <= set(dir(module))
    inspect.getmembers(module)


def test_ways_to_import():
    from caffe2.python.core import Net

    assert c is core and Net is core.Net
    namespace = {}
    exec("from caffe2.python.core import *", namespace)
    assert namespace["Net"] is Net and "_RectifyInputOutput" not in namespace


def test_patches_reach_the_owner_and_end():
    before = netgrad.graph.operator.CreateOperator
    with mock.patch("caffe2.python.core.CreateOperator") as patched:
        assert netgrad.graph.operator.CreateOperator is patched is core.CreateOperator
    assert netgrad.graph.operator.CreateOperator is before is core.CreateOperator
    with mock.patch.object(scope, "CurrentNameScope", lambda: "patched"):
        assert netgrad.graph.scope.CurrentNameScope() == "patched"
    assert scope.CurrentNameScope() == ""


def test_names_of_a_script_are_kept():
    core.something_of_mine = 3
    assert core.something_of_mine == 3
    del core.something_of_mine
    with pytest.raises(AttributeError, match="something_of_mine"):
        core.something_of_mine  # noqa: B018


def test_reloading_changes_nothing():
    net = core.Net
    assert importlib.reload(core) is core and core.Net is net


def test_pickles_that_name_caffe2():
    by_old_name = b"ccaffe2.python.core\nBlobReference\n(S'x'\ntR."
    assert pickle.loads(by_old_name) == core.BlobReference("x")
    assert pickle.loads(pickle.dumps(core.GradientSlice("i", "v"))) == ("i", "v")
    assert copyreg.dispatch_table.get(core.Net) is None


def test_other_finders_supply_modules_of_the_package(tmp_path):
    (tmp_path / "supplied.py").write_text("from caffe2.python import core\nNET = core.Net\n")

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "caffe2.python.supplied":
                return importlib.util.spec_from_file_location(name, tmp_path / "supplied.py")
            return None

    finder = Finder()
    sys.meta_path.insert(0, finder)
    try:
        from caffe2.python import supplied

        assert supplied.NET is core.Net
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop("caffe2.python.supplied", None)


def test_names_may_differ_from_the_owners():
    module = type(sys)("facade_of_a_test")
    sys.modules[module.__name__] = module
    try:
        facade(module.__name__, {"netgrad.graph.blob": "Theirs=BlobReference"}, {"whole": "netgrad.graph.blob"})
        assert module.Theirs is netgrad.graph.blob.BlobReference and module.whole is netgrad.graph.blob
        module.whole = 3
        assert module.whole == 3 and "Theirs" in dir(module)
    finally:
        del sys.modules[module.__name__]


def test_lazy_imports_declare_operators_when_asked_for():
    calls = []
    lazy.RegisterLazyImport(lambda: calls.append(1))
    assert not core.IsOperator("NoSuchOperatorOfATest") and calls == [1]
    lazy.TriggerLazyImport()
    assert calls == [1]
    assert core.IsOperatorWithEngine("Relu", "DEFAULT") and not core.IsOperatorWithEngine("Relu", "NOEXIST")


def test_engine_preferences():
    from netgrad.graph.engines import preferred_engines

    core.SetEnginePref({0: {"Conv": ["A", "B"]}}, {0: ["C"]})
    core.SetOpEnginePref("FC", {0: ["D"]})
    try:
        assert [preferred_engines(op, 0) for op in ("Conv", "FC", "Relu")] == [["A", "B"], ["D"], ["C"]]
        assert preferred_engines("Conv", 1) == []
    finally:
        core.SetEnginePref({}, {})


def test_text_or_binary_messages(tmp_path):
    from netgrad.proto import caffe2_pb2

    net = caffe2_pb2.NetDef(name="n")
    (tmp_path / "net.pbtxt").write_text('name: "n"')
    utils.ConvertProtoToBinary(caffe2_pb2.NetDef, str(tmp_path / "net.pbtxt"), str(tmp_path / "net.pb"))
    content = (tmp_path / "net.pb").read_bytes()
    assert content == net.SerializeToString() and utils.TryReadProtoWithClass(caffe2_pb2.NetDef, content) == net
    assert utils.GetContentFromProtoString('name: "n"', {caffe2_pb2.NetDef: lambda n: n.name}) == "n"
    assert utils.GetContentFromProto(net, {caffe2_pb2.NetDef: lambda n: n.name}) == "n"
    assert utils.GetContentFromProto(net, {}) is None
