"""A workspace of its own for every test, on every backend."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from caffe2.python import workspace
from netgrad.runtime import backends
from netgrad.runtime.workspace import Workspace


@pytest.fixture(params=backends.available())
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The workspace that `caffe2.python.workspace` acts on."""
    before = workspace.CurrentWorkspace()
    monkeypatch.setitem(Workspace.by_name, "layers", Workspace(backend=request.param))
    workspace.SwitchWorkspace("layers")
    yield str(request.param)
    workspace.SwitchWorkspace(before)


@pytest.fixture(scope="session")
def layer_models() -> ModuleType:
    spec = importlib.util.spec_from_file_location("layer_models", Path(__file__).parent / "layer_models.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
