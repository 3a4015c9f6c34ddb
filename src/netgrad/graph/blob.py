"""References to blobs. A blob is a name; a reference also knows the net that it came from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from netgrad.graph.scope import _NAMESCOPE_SEPARATOR, _threadlocal_scope

if TYPE_CHECKING:
    from netgrad.graph.net import Net


class BlobReference:
    """A blob's name, bound to a net. Equal to, and hashed as, the name itself.

    ``blob.Relu([], "y")`` writes an operator into its net with the blob as the first input.
    """

    _name: str
    _from_net: Any

    def __init__(self, name: Any, net: Any = None) -> None:
        """Makes a reference; no scope is put before the name (see `ScopedBlobReference`).

        Args:
            name: a string, bytes in UTF-8, or anything whose ``str`` is the name.
            net: the `Net` that operators called on the reference go to.
        """
        if type(name) is str:
            self._name = name
        else:
            self._name = name.decode("utf-8") if isinstance(name, bytes) else str(name)
        self._from_net = net

    @cached_property
    def meta(self) -> dict[Any, Any]:
        """A dictionary in which helpers may keep what they like."""
        return {}

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BlobReference):
            return self._name == other._name
        if isinstance(other, str):
            return self._name == other
        return isinstance(other, bytes) and self._name.encode("utf-8") == other

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f'BlobReference("{self._name}")'

    def __add__(self, suffix: str) -> BlobReference:
        if not isinstance(suffix, str):
            raise RuntimeError(f"a name is extended by a string, not by {suffix!r}; net.Add adds blobs")
        return BlobReference(self._name + suffix, self._from_net)

    def __radd__(self, prefix: str) -> BlobReference:
        if not isinstance(prefix, str):
            raise RuntimeError(f"a name is extended by a string, not by {prefix!r}; net.Add adds blobs")
        return BlobReference(prefix + self._name, self._from_net)

    def Net(self) -> Net | None:
        return self._from_net  # type: ignore[no-any-return]

    def GetNameScope(self) -> str:
        """The part of the name up to its last slash, slash included."""
        return self._name[:self._name.rfind(_NAMESCOPE_SEPARATOR) + 1]

    def GetUnscopedName(self) -> str:
        """The part of the name after its last slash."""
        return self._name[self._name.rfind(_NAMESCOPE_SEPARATOR) + 1:]

    def _CreateAndAddToNet(self, op_type: str, inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
        if inputs is None:
            inputs = []
        elif not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        return getattr(self._from_net, op_type)([self, *inputs], *args, **kwargs)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        from netgrad.graph.operator import IsOperator, UnknownOperatorError

        if self.__dict__.get("_from_net") is None:
            raise AttributeError(
                f"{op_type}: blob {self.__dict__.get('_name')!r} belongs to no net, so no operator can be "
                f"written through it; "
                "call the operator on a net")
        if not IsOperator(op_type):
            raise UnknownOperatorError(op_type)
        return lambda *args, **kwargs: self._CreateAndAddToNet(op_type, *args, **kwargs)

    def __dir__(self) -> list[str]:
        from netgrad.graph import registry

        return sorted({*dir(type(self)), *self.__dict__, *registry.names()})


def ScopedName(name: str | bytes) -> str:
    """The name with the current name scope before it."""
    if isinstance(name, bytes):
        name = name.decode("ascii")
    return _threadlocal_scope.namescope + name


def ScopedBlobReference(name: str | bytes, *args: Any, **kwargs: Any) -> BlobReference:
    """A reference to a name with the current name scope before it."""
    return BlobReference(ScopedName(name), *args, **kwargs)


def _get_blob_ref(blob_name_or_ref: Any) -> BlobReference:
    return blob_name_or_ref if isinstance(blob_name_or_ref, BlobReference) else BlobReference(blob_name_or_ref)


def _RectifyInputOutput(blobs: Any, net: Any = None) -> list[BlobReference]:
    """References for what was given as inputs or outputs: one blob or a list; strings receive the name scope."""
    if isinstance(blobs, (str, bytes)):
        return [ScopedBlobReference(blobs, net=net)]
    if isinstance(blobs, BlobReference):
        return [blobs]
    if not isinstance(blobs, (list, tuple)):
        raise TypeError(f"inputs and outputs are a blob or a list of blobs, not {blobs!r} of type "
                        f"{type(blobs).__name__}")
    return [b if isinstance(b, BlobReference) else BlobReference(scoped_name(b, k), net) for k, b in enumerate(blobs)]


def scoped_name(blob: Any, position: int) -> str:
    """The full name of what was given as the input or output at ``position``."""
    if isinstance(blob, BlobReference):
        return blob._name
    if isinstance(blob, (str, bytes)):
        return ScopedName(blob)
    raise TypeError(f"blob {position} of the list is {blob!r} of type {type(blob).__name__}; expected a string or a "
                    f"BlobReference")


def rectified_names(blobs: Any) -> list[str]:
    """The full names of what was given as inputs or outputs (see `_RectifyInputOutput`)."""
    if isinstance(blobs, (list, tuple)):
        return [scoped_name(b, k) for k, b in enumerate(blobs)]
    return [b._name for b in _RectifyInputOutput(blobs)]


def output_to_list(op_output: Any) -> list[BlobReference]:
    """What ``net.X(...)`` returned, always as a list."""
    if isinstance(op_output, BlobReference):
        return [op_output]
    if not isinstance(op_output, (list, tuple)):
        raise AssertionError(f"expected a BlobReference or a list of them, found {op_output!r}")
    return list(op_output)
