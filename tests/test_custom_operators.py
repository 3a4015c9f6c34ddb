"""Operators of one's own: the short form, the class, packages that bring them, and docs/custom_operators.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netgrad
from netgrad.graph import plugins, registry
from netgrad.graph.arguments import REQUIRED
from netgrad.graph.registry import BuiltInOperatorError
from netgrad.runtime import backends
from netgrad.runtime.numeric import check_gradient, evaluate

DOC = Path(__file__).parents[1] / "docs" / "custom_operators.md"


@pytest.fixture(autouse=True)
def forget_operators():
    before = set(registry._declared)
    yield
    for name in {*registry._declared} - before - {*registry.family_index()} | {*registry._covered}:
        registry.unregister(name)


def test_the_page_runs_as_it_stands(tmp_path):
    text = DOC.read_text()
    program = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    printed = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    assert program.count("print(") == 1 and printed
    program += """
net.WeightedDifference(["a", "b", "w"], "d", scale=3.0)
check_gradient(net.Proto().op[-1], {"a": np.ones(3), "b": np.arange(3.0), "w": np.array(2.0)}, wrt=["a", "b"])
"""
    for backend in backends.available():
        done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True,
                              cwd=tmp_path, env={**os.environ, "NETGRAD_BACKEND": backend}, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == printed


def slots(declared):
    return [(s.name, s.optional, s.variadic) for s in declared]


def test_the_signature_says_inputs_outputs_and_arguments():
    @netgrad.operator
    def CustomMix(xp, X, Y=None, *, low: float, axes: list[int] | None = None, name="mix", on=True,
                  op) -> tuple[Any, Any]:
        """Doc."""

    assert CustomMix.type == "CustomMix" and CustomMix.__doc__ == "Doc." and CustomMix.__module__ == __name__
    assert slots(CustomMix.inputs) == [("X", False, False), ("Y", True, False)]
    assert slots(CustomMix.outputs) == [("Y0", False, False), ("Y1", False, False)]
    assert [(type(a).__name__, a.name, a.default) for a in CustomMix.arguments] == [
        ("Float", "low", REQUIRED), ("Ints", "axes", None), ("Str", "name", "mix"), ("Bool", "on", True)]

    @netgrad.operator(type="CustomSum", outputs="total", inplace={(0, 0)})
    def whatever(xp, *terms):
        return sum(terms)

    assert registry.find("CustomSum") is whatever and slots(whatever.inputs) == [("terms", False, True)]
    assert slots(whatever.outputs) == [("total", False, False)] and whatever.may_be_inplace(0, 0)


@pytest.mark.parametrize(("function", "options", "says"), [
    (lambda xp, X, *, alpha: X, {}, "'alpha' .* does not say what kind"),
    (lambda xp, X, *, shape=(): X, {}, "'shape' .* does not say what kind"),
    (lambda *, alpha=1: alpha, {}, "should take xp"),
    (lambda xp, X: X, {"in_place": {(0, 0)}}, "no attribute in_place"),
])
def test_what_the_short_form_cannot_make_out_is_refused(function, options, says):
    with pytest.raises(TypeError, match=says):
        netgrad.operator(type="CustomRefused", **options)(function)
    assert registry.find("CustomRefused") is None


@pytest.fixture
def scaled_product():
    @netgrad.operator(shape=netgrad.same_as(0), outputs="P")
    def ScaledProduct(xp, A, B, *, scale: float = 1.0):
        return A * B * scale

    @netgrad.operator(gradient_of=ScaledProduct)
    def ScaledProductGradient(xp, A, B, dP, *, scale: float = 1.0):
        return dP * B * scale, dP * A * scale

    return ScaledProduct


@pytest.mark.parametrize("backend", backends.available())
def test_a_gradient_reads_what_its_parameters_name(scaled_product, backend):
    net = netgrad.Net("product")
    net.ScaledProduct(["a", "b"], "p", scale=3.0)
    feeds = {"a": np.arange(4.0), "b": np.array([2.0, -1.0, 0.0, 5.0])}
    np.testing.assert_array_equal(evaluate(net, feeds, backend=backend)["p"], feeds["a"] * feeds["b"] * 3)
    check_gradient(net, feeds, backend=backend)
    net.AddGradientOperators(["p"])
    gradient = net.Proto().op[-1]
    assert list(gradient.input) == ["a", "b", "p_autogen_grad"] and list(gradient.output) == ["a_grad", "b_grad"]
    assert registry.find("ScaledProductGradient").shape(1, 2, 3) == (1, 2)


def test_a_gradient_may_be_partial_and_have_a_gradient(scaled_product):
    @netgrad.operator(outputs="Y")
    def CustomCube(xp, X):
        return X * X * X

    @netgrad.operator(gradient_of="CustomCube", outputs="dX")
    def CustomCubeGradient(xp, X, dY):
        return 3 * X * X * dY

    @netgrad.operator(gradient_of=CustomCubeGradient, outputs="dX", type="CustomCubeSecond")
    def second(xp, X, dY, ddX):
        return 6 * X * dY * ddX

    net = netgrad.Net("cube")
    net.CustomCube("x", "y")
    net.CustomCubeGradient(["x", "d"], "g")
    check_gradient(net, {"x": np.array([1.0, -2.0]), "d": np.array([1.0, 0.5])}, ys=["y", "g"], wrt=["x"])


def test_gradients_that_do_not_fit_are_refused(scaled_product):
    def declare(function, **options):
        netgrad.operator(type="CustomNoGradient", **options)(function)

    with pytest.raises(ValueError, match="ScaledProduct has a gradient already; replace=True"):
        declare(lambda xp, dP: dP, gradient_of=scaled_product)
    with pytest.raises(ValueError, match="'Q' is none of dP, P, A, B"):
        declare(lambda xp, Q: Q, gradient_of=scaled_product, replace=True)
    with pytest.raises(ValueError, match="'dP' is none of dA, dB"):
        declare(lambda xp, dP: dP, outputs="dP", gradient_of=scaled_product, replace=True)
    with pytest.raises(ValueError, match="no operator 'ScaledProdukt'"):
        declare(lambda xp, dP: dP, gradient_of="ScaledProdukt")
    with pytest.raises(ValueError, match="Concat has optional or repeated"):
        declare(lambda xp, dP: dP, gradient_of="Concat", replace=True)
    assert scaled_product.gradient.type == "ScaledProductGradient" and registry.find("CustomNoGradient") is None


# over built-in operators


@pytest.mark.parametrize("backend", backends.available())
def test_a_built_in_operator_is_replaced_only_on_request(backend):
    before = registry.find("Relu")
    with pytest.raises(BuiltInOperatorError, match="replace=True"):
        type("Relu", (netgrad.Operator,), {})
    with pytest.raises(BuiltInOperatorError, match="Relu is a built-in"):
        netgrad.operator(lambda xp, X: X, type="Relu")
    assert registry.find("Relu") is before

    class Relu(netgrad.Operator, replace=True):
        """Not what it was: X + 1."""

        inputs = [netgrad.In("X")]
        outputs = [netgrad.Out("Y")]

        def kernel(xp, X):
            return X + 1

    net = netgrad.Net("relu")
    net.Relu("x", "y")
    assert evaluate(net, {"x": np.array([-5.0])}, backend=backend)["y"].tolist() == [-4]
    registry.unregister("Relu")
    assert registry.find("Relu") is before
    assert evaluate(net, {"x": np.array([-5.0])}, backend=backend)["y"].tolist() == [0]


def test_a_replacement_outlives_the_loading_of_its_family():
    program = """
import netgrad
from netgrad.graph import registry
ours = netgrad.operator(lambda xp, X: X, type="Relu", replace=True)
assert "netgrad.ops.activations" not in __import__("sys").modules
assert registry.find("LeakyRelu") and registry.find("Relu") is ours
registry.unregister("Relu")
assert registry.find("Relu").__module__ == "netgrad.ops.activations"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# in packages


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs entry points (type -> module) and the source of these modules."""

    def install(entries, **modules):
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        found = {name: EntryPoint(name, module, plugins.GROUP) for name, module in entries.items()}
        monkeypatch.setattr(plugins, "_entries", lambda: found)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_imported", set())
    return install


ADD_ONE = "import netgrad\n\n@netgrad.operator\ndef {}(xp, X):\n    return X + 1\n"


def test_packages_are_imported_when_their_operator_is_asked_for(package):
    package({"CustomFromPackage": "ng_one", "CustomOther": "ng_two"},
            ng_one=ADD_ONE.format("CustomFromPackage") + ADD_ONE.format("CustomUnlisted"),
            ng_two=ADD_ONE.format("CustomOther"))
    assert {"CustomFromPackage", "CustomOther"} <= registry.names()
    assert "ng_one" not in sys.modules
    net = netgrad.Net("from_package")
    net.CustomFromPackage("x", "y")
    assert "ng_one" in sys.modules and "ng_two" not in sys.modules
    assert evaluate(net, {"x": np.zeros(1, np.float32)})["y"].tolist() == [1]
    assert registry.find("CustomUnlisted") and registry.find("CustomNowhere") is None


def test_a_package_that_cannot_be_imported_is_named(package):
    package({"CustomBroken": "ng_broken"}, ng_broken="raise ValueError('half installed')")
    with pytest.raises(plugins.PluginError, match=r"ng_broken.*CustomBroken.*half installed"):
        registry.find("CustomBroken")
    with pytest.warns(plugins.PluginWarning, match="CustomElsewhere.*ng_broken"):
        assert registry.find("CustomElsewhere") is None


def test_installed_packages_are_found_by_their_metadata(tmp_path):
    (tmp_path / "ng_installed.py").write_text(ADD_ONE.format("CustomInstalled"))
    info = tmp_path / "ng_installed-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ng-installed\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[netgrad.operators]\nCustomInstalled = ng_installed\n")
    program = """
import netgrad
net = netgrad.Net("installed")
net.CustomInstalled("x", "y")
print(net.Proto().op[0].type)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.stdout == "CustomInstalled\n", done.stderr
