"""The rules that the house is built by: what imports what, what loads when, that output depends on nothing else."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import netgrad

ROOT = Path(netgrad.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
FACADES = [path for path in sorted((ROOT.parent / "caffe2").rglob("*.py")) if path.name != "__init__.py"]
GENERATED = ("_pb2.py", "_index.py")

#: imports point down; rooms of one height do not import each other
HEIGHT = {"proto": 0, "graph": 1, "autodiff": 2, "ops": 2, "runtime": 3}
TOP = 4
ARRAY_LIBRARIES = {"numpy", "torch", "array_api_compat", "scipy"}


def room(module):
    """The folder of netgrad that a module belongs to; an empty string for netgrad itself and what lies beside it."""
    parts = module.split(".")
    return parts[1] if parts[0] == "netgrad" and len(parts) > 1 else ""


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """The modules that a file imports when it is imported itself: not in functions, not for type checkers only."""
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    waiting = list(ast.parse(path.read_text()).body)
    for node in waiting:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If):
            waiting += node.orelse if "TYPE_CHECKING" in ast.unparse(node.test) else [*node.body, *node.orelse]
        elif isinstance(node, ast.Try):
            waiting += [*node.body, *node.orelse, *node.finalbody, *(n for h in node.handlers for n in h.body)]
        elif isinstance(node, (ast.ClassDef, ast.With)):
            waiting += node.body


def test_the_import_finder_finds():
    found = set(imports(ROOT / "runtime" / "workspace.py"))
    assert {"difflib", "netgrad.graph.scope", "netgrad.runtime.executor.BoundNet"} <= found
    assert "netgrad.proto.files.FormatError" in set(imports(ROOT / "proto" / "__init__.py"))  # from .files
    assert not any("graph.net_base" in module for module in found)  # in a function


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_point_one_way(path):
    here = room(module_name(path))
    height = HEIGHT.get(here, TOP)
    for module in imports(path):
        there = room(module)
        if not module.startswith("netgrad") or there in ("", here, "_version", "__version__"):
            continue
        assert HEIGHT.get(there, TOP) < height or height == TOP, f"netgrad.{here} imports {module}"
        assert there != "cli" or here == "__main__", f"{module_name(path)} imports the command"


BELOW_THE_RUNTIME = [path for path in SOURCES if HEIGHT.get(room(module_name(path)), TOP) < HEIGHT["runtime"]]


@pytest.mark.parametrize("path", BELOW_THE_RUNTIME, ids=module_name)
def test_no_array_library_is_imported_below_the_runtime(path):
    found = ARRAY_LIBRARIES.intersection(module.partition(".")[0] for module in imports(path))
    # records hold arrays; nets load them when somebody asks for a record
    assert found <= ({"numpy"} if module_name(path).startswith("netgrad.graph.record") else set())


@pytest.mark.parametrize("path", FACADES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_facades_hold_names_only(path):
    """Caffe2's modules define nothing: they say which netgrad objects stand behind their names."""
    assert not any(isinstance(node, (ast.ClassDef, ast.FunctionDef)) for node in ast.parse(path.read_text()).body)


@pytest.mark.parametrize("path", [path for path in SOURCES if not path.name.endswith(GENERATED)], ids=module_name)
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 640, "a room that outgrows its name is split by what it does"


def python(program, **environment):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_netgrad_loads_nothing_else():
    program = "import sys; before = set(sys.modules); import netgrad; print(*(set(sys.modules) - before))"
    loaded = python(program).split()
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert foreign == {"netgrad"}
    assert {name for name in loaded if name.startswith("netgrad")} == {"netgrad", "netgrad._version"}


BUILD = """
import netgrad.graph.net, sys
net = netgrad.graph.net.Net("rich")
x, w, b, rows, table = net.AddExternalInput("x", "w", "b", "rows", "table")
layers = [net.Relu(net.FC([x, w, b])) for _ in range(7)]
shared = net.Sum([*layers, x], "shared")
parts = net.Split(shared, ["p", "q", "r"], axis=1)
mixed = net.Concat([parts[2], parts[0], parts[0]], ["mixed", "mixed_info"], axis=1)[0]
looked_up = [net.Gather([table, rows]) for _ in range(3)]
net.Sqr("shared", "shared")
ys = [mixed, *looked_up, "shared"]
"""


def test_nets_are_built_and_differentiated_without_an_array_library():
    loaded = python(BUILD + "net.AddGradientOperators(ys, overwritten='save')\nprint(*sys.modules)").split()
    assert "netgrad.autodiff.backward" in loaded
    assert not {"torch", "numpy", "array_api_compat"} & set(loaded)


def test_output_does_not_depend_on_the_hash_seed():
    program = BUILD + """
gradients = net.AddGradientOperators(ys, overwritten='save')
print(net.Proto().SerializeToString().hex(), [(str(blob), str(gradients[blob])) for blob in gradients])
"""
    first, *others = (python(program, PYTHONHASHSEED=seed) for seed in ("0", "1", "4242"))
    assert len(first) > 2000
    assert all(other == first for other in others)


def test_the_index_of_operators_is_up_to_date():
    python("from netgrad.ops import index, _index\nassert index.build() == _index.INDEX, 'python -m netgrad.ops.index'")


# what `netgrad` offers


def test_every_public_name_is_there_and_documented():
    assert set(netgrad.__all__) <= set(dir(netgrad))
    for name in netgrad.__all__:
        assert getattr(netgrad, name) is not None
        assert name == "__version__" or getattr(netgrad, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'Nett'"):
        _ = netgrad.Nett


@pytest.fixture
def line():
    net = netgrad.Net("line")
    y = net.FC(["x", "w", "b"], "y")
    net.AveragedLoss(net.SquaredL2Distance([y, "target"]), "loss")
    return net


def feeds():
    import numpy as np

    rng = np.random.default_rng(0)
    return {name: rng.normal(size=size).astype(np.float32)
            for name, size in {"x": (5, 3), "w": (2, 3), "b": 2, "target": (5, 2)}.items()}


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_net_is_built_differentiated_saved_loaded_and_run(line, tmp_path, backend):
    import numpy as np

    gradients = netgrad.backward(line, "loss", wrt=["w", "b"])
    assert set(map(str, gradients)) == {"w", "b"}
    assert netgrad.verify(line) == [] and netgrad.check(line) == []
    netgrad.save(line, tmp_path / "line.pbtxt")
    loaded = netgrad.load(tmp_path / "line.pbtxt")
    assert list(loaded.Proto().op) == list(line.Proto().op)
    workspace, values = netgrad.Workspace(backend=backend), feeds()
    workspace.feed(values)
    workspace.run(loaded)
    residual = values["x"] @ values["w"].T + values["b"] - values["target"]
    np.testing.assert_allclose(workspace.fetch(gradients["w"]), residual.T @ values["x"] / 5, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(workspace[gradients["b"]], residual.mean(0), rtol=1e-4, atol=1e-6)


def test_of_may_be_a_blob_several_or_given_gradients(line):
    import numpy as np

    def gradient(of):
        net = netgrad.Net(line.Proto())
        found = netgrad.backward(net, of, "w")
        workspace = netgrad.Workspace()
        workspace.feed(feeds(), dy=np.full((5, 2), 2, np.float32))
        workspace.run(net)
        return workspace[found["w"]]

    loss, y = gradient("loss"), gradient(["y"])
    np.testing.assert_allclose(gradient(("loss", "y")), loss + y, rtol=1e-5)
    np.testing.assert_allclose(gradient({"y": "dy"}), 2 * y, rtol=1e-5)
    np.testing.assert_allclose(gradient({"y": "dy", "loss": None}), 2 * y + loss, rtol=1e-5)


def test_a_workspace_binds_a_net_anew_when_it_has_changed():
    import numpy as np

    net = netgrad.Net("growing")
    net.Scale("x", "y", scale=2.0)
    workspace = netgrad.Workspace()
    workspace.feed(x=np.ones(2, np.float32))
    workspace.run(net)
    net.Scale("y", "y", scale=5.0)
    workspace.run(net, times=2)
    assert workspace["y"].tolist() == [10, 10]
    assert "y" in workspace and "z" not in workspace


def test_fetching_a_gradient_of_rows_gives_a_pair():
    import numpy as np

    net = netgrad.Net("lookup")
    net.Gather(["table", "rows"], "picked")
    gradients = netgrad.backward(net, {"picked": "d"})
    workspace = netgrad.Workspace()
    workspace.feed(table=np.eye(3, dtype=np.float32), rows=np.array([2, 0]), d=np.ones((2, 3), np.float32))
    workspace.run(net)
    rows, values = workspace.fetch(gradients["table"])
    assert rows.tolist() == [2, 0] and values.shape == (2, 3)


def test_a_seed_makes_random_numbers_repeatable():
    def draw(n):
        netgrad.seed(n)
        net = netgrad.Net("random")
        net.GaussianFill([], "r", shape=[4])
        workspace = netgrad.Workspace()
        workspace.run(net)
        return workspace["r"].tolist()

    assert draw(1) == draw(1) != draw(2)


def test_a_missing_gradient_says_why(line):
    line.StopGradient("x0", "x1")
    line.Mul(["y", "x1"], "z")
    gradients = netgrad.backward(line, "z")
    with pytest.raises(KeyError, match="StopGradient"):
        _ = gradients["x0"]
    assert "StopGradient" in str(netgrad.explain(line, "x0", of="z"))
