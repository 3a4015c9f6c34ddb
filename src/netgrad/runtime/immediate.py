"""Immediate mode: every operator that is written also runs, in a workspace of its own. For looking at things."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netgrad.graph import operator
from netgrad.runtime import current
from netgrad.runtime.workspace import Workspace

log = logging.getLogger("netgrad")

_NAME = "_CAFFE2_IMMEDIATE"
#: where its operators put files; "" outside of immediate mode
_root_folder = ""


def IsImmediate() -> bool:
    return operator.immediate is not None


@contextmanager
def WorkspaceGuard(workspace_name: str) -> Iterator[None]:
    """Another workspace is the current one while the block lasts; it is made if there is none of that name."""
    before = current.CurrentWorkspace()
    current.SwitchWorkspace(workspace_name, True)
    try:
        yield
    finally:
        current.SwitchWorkspace(before)


def StartImmediate(i_know: bool = False) -> None:
    """From now on every operator runs when it is written, on what was fed by `FeedImmediate` or made before."""
    StopImmediate()
    global _root_folder
    workspace = Workspace.by_name[_NAME] = Workspace()
    _root_folder = workspace.root_folder = tempfile.mkdtemp()
    operator.immediate = RunOperatorImmediate
    if not i_know:
        log.warning("immediate mode runs every operator as it is written, in order, in one workspace: operators whose "
                    "inputs do not exist yet will fail (StartImmediate(i_know=True) says this no more)")


def StopImmediate() -> None:
    """Ends it, and forgets its blobs and files."""
    global _root_folder
    if IsImmediate():
        shutil.rmtree(_root_folder)
        _root_folder = ""
        operator.immediate = None
        del Workspace.by_name[_NAME]


def ImmediateBlobs() -> list[str]:
    return _immediate().names()


def RunOperatorImmediate(op: Any) -> None:
    _immediate().run_operator(op)


def FetchImmediate(name: Any) -> Any:
    return _immediate().fetch_blob(name)


def FeedImmediate(name: Any, arr: Any, device_option: Any = None) -> bool:
    return _immediate().feed_blob(name, arr, device_option)


def _immediate() -> Workspace:
    return Workspace.by_name.setdefault(_NAME, Workspace())
