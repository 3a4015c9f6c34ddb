"""A workspace of its own for each test, on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from caffe2.python import workspace
from netgrad.runtime import backends
from netgrad.runtime.workspace import Workspace


@pytest.fixture(params=backends.available())
def ws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """The workspace that `caffe2.python.workspace` acts on."""
    before = workspace.CurrentWorkspace()
    monkeypatch.setitem(Workspace.by_name, "persist", Workspace(backend=request.param))
    workspace.SwitchWorkspace("persist")
    yield Workspace.current
    workspace.SwitchWorkspace(before)
