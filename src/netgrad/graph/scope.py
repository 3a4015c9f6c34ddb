"""Name scopes and device scopes: what is put before names and onto operators while a ``with`` block lasts.

Scopes belong to a thread; a new thread starts with none.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from netgrad.proto import caffe2_pb2

_NAMESCOPE_SEPARATOR = "/"


class _Scopes(threading.local):
    namescope: str = ""
    devicescope: caffe2_pb2.DeviceOption | None = None


_threadlocal_scope = _Scopes()


def CurrentNameScope() -> str:
    """The prefix of this thread, with its closing slash; "" outside all scopes."""
    return _threadlocal_scope.namescope


def CurrentDeviceScope() -> caffe2_pb2.DeviceOption | None:
    """The device option that operators of this thread receive; None outside all scopes."""
    return _threadlocal_scope.devicescope


@contextlib.contextmanager
def NameScope(prefix: str | None, reset: bool = False) -> Iterator[None]:
    """Puts ``prefix/`` before the names of blobs given as strings; with ``reset`` in place of the outer prefix."""
    if prefix is not None and not isinstance(prefix, str):
        raise AssertionError(f"NameScope takes a string or None, not {prefix!r}")
    outer = _threadlocal_scope.namescope
    own = prefix + _NAMESCOPE_SEPARATOR if prefix else ""
    _threadlocal_scope.namescope = own if reset else outer + own
    try:
        yield
    finally:
        _threadlocal_scope.namescope = outer


@contextlib.contextmanager
def EmptyNameScope() -> Iterator[None]:
    """No prefix while the block lasts."""
    outer = _threadlocal_scope.namescope
    _threadlocal_scope.namescope = ""
    try:
        yield
    finally:
        _threadlocal_scope.namescope = outer


@contextlib.contextmanager
def DeviceScope(scope: caffe2_pb2.DeviceOption | None, node_name: str | None = None) -> Iterator[None]:
    """Operators written in the block receive this device option.

    An inner scope replaces the outer one, except that it inherits ``node_name`` where it names none, and that the
    ``extra_info`` entries of both are merged (sorted, each once).

    Args:
        scope: the option; may be None or 0 where ``node_name`` is given.
        node_name: overrides the option's.
    """
    option = caffe2_pb2.DeviceOption()
    if scope:
        if not isinstance(scope, caffe2_pb2.DeviceOption):
            raise AssertionError(f"DeviceScope takes a DeviceOption, not {scope!r}; core.DeviceOption(type, id) "
                                 f"makes one")
        option.CopyFrom(scope)
    elif not node_name:
        raise AssertionError("DeviceScope needs a device option or a node name")
    if node_name:
        option.node_name = node_name
    outer = _threadlocal_scope.devicescope
    if outer is not None:
        if outer.HasField("node_name") and not option.HasField("node_name"):
            option.node_name = outer.node_name
        merged = sorted({*option.extra_info, *outer.extra_info})
        del option.extra_info[:]
        option.extra_info.extend(merged)
    _threadlocal_scope.devicescope = option
    try:
        yield
    finally:
        _threadlocal_scope.devicescope = outer


@contextlib.contextmanager
def EmptyDeviceScope() -> Iterator[None]:
    """No device option is put on operators while the block lasts, so that the net's own decides."""
    outer = _threadlocal_scope.devicescope
    _threadlocal_scope.devicescope = None
    try:
        yield
    finally:
        _threadlocal_scope.devicescope = outer
