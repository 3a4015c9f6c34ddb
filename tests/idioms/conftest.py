"""Scripts as people write them, in a workspace of their own on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from caffe2.python import workspace
from netgrad.runtime import backends
from netgrad.runtime.workspace import Workspace


@pytest.fixture(params=backends.available(), autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The workspace that `caffe2.python.workspace` acts on."""
    before = workspace.CurrentWorkspace()
    monkeypatch.setitem(Workspace.by_name, "idiom", Workspace(backend=request.param))
    workspace.SwitchWorkspace("idiom")
    yield str(request.param)
    workspace.SwitchWorkspace(before)
