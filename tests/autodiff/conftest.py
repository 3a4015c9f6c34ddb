"""Fixtures of the tests of differentiation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netgrad.autodiff import python_rules
from netgrad.runtime import backends


@pytest.fixture(params=backends.available())
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def rules_registered_for_one_test() -> Iterator[None]:
    """Gradient functions that a test registers are forgotten when it ends."""
    registered, overriding = dict(python_rules.registered), set(python_rules._overriding)
    yield
    python_rules.registered.clear()
    python_rules.registered.update(registered)
    python_rules._overriding.clear()
    python_rules._overriding.update(overriding)
