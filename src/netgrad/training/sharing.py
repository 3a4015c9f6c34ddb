"""Parameter sharing: parameters made in one name scope are those of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from netgrad.graph import scope
from netgrad.graph.scope import _NAMESCOPE_SEPARATOR


class ParameterSharingContext:
    """The active overrides: scope -> the scope whose parameters it uses. Inner blocks win over outer ones."""

    def __init__(self) -> None:
        self._scope_overrides: dict[str, str] = {}
        self._contexts: list[Mapping[str, str]] = []

    def _resolve_scope_overrides(self, candidate_scope: str) -> str:
        """Follows overrides, the longest matching scope first, until none applies."""
        parts = candidate_scope.split(_NAMESCOPE_SEPARATOR)
        best, depth, prefix = candidate_scope, 0, ""
        for k, part in enumerate(parts):
            prefix += part + _NAMESCOPE_SEPARATOR
            if prefix in self._scope_overrides:
                best, depth = self._scope_overrides[prefix], k
        if best == candidate_scope:
            return candidate_scope
        return self._resolve_scope_overrides(best) + _NAMESCOPE_SEPARATOR.join(parts[depth + 1 :])

    def get_parameter_name(self, name: str) -> str:
        """The full name of a parameter made in the current name scope."""
        return self._resolve_scope_overrides(scope.CurrentNameScope()) + name

    def add_scope_overrides(self, shared_scopes: Mapping[str, str]) -> None:
        self._contexts.append(shared_scopes)
        self._scope_overrides.update(shared_scopes)

    def pop(self) -> None:
        if not self._contexts:
            raise AssertionError("no parameter sharing is active")
        self._contexts.pop()
        self._scope_overrides = {scope: shared for context in self._contexts for scope, shared in context.items()}


parameter_sharing_context = ParameterSharingContext()


def _normalize_namescope(namescope: str) -> str:
    if namescope and not namescope.endswith(_NAMESCOPE_SEPARATOR):
        return namescope + _NAMESCOPE_SEPARATOR
    return namescope


@contextmanager
def ParameterSharing(shared_scopes: Mapping[str, str]) -> Iterator[None]:
    """Within the block, parameters created in scope ``k`` are those of scope ``shared_scopes[k]``.

    Both are relative to the current name scope; ``''`` is that scope itself.

    Raises:
        AssertionError: a scope would share with a scope inside itself.
    """
    if not isinstance(shared_scopes, dict):
        raise AssertionError(f"ParameterSharing takes a dictionary, scope -> shared scope, not {shared_scopes!r}")
    current = scope.CurrentNameScope()
    overrides = {}
    for name, shared in shared_scopes.items():
        if shared.startswith(name):
            raise AssertionError(f"scope {name!r} cannot share the parameters of {shared!r}, which starts with it")
        overrides[_normalize_namescope(current + name)] = _normalize_namescope(current + shared)
    parameter_sharing_context.add_scope_overrides(overrides)
    try:
        yield
    finally:
        parameter_sharing_context.pop()
