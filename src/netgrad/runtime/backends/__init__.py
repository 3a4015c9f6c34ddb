"""What computes. A backend is an array type, a namespace `xp` of functions on it, and faster kernels of some operators.

``NETGRAD_BACKEND`` (``numpy`` or ``torch``), read at first use, names the default; without it that is torch where it is
installed and NumPy elsewhere. Backends load when they are first asked for, and NumPy's never imports torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from netgrad.graph import registry
from netgrad.runtime.errors import BackendError

Kernel = Callable[..., Any]

NAMES = ("numpy", "torch")


class Backend(Protocol):
    """What the executor needs to know of a backend."""

    name: str
    #: the functions that kernels receive
    xp: Any
    #: the class of its arrays
    array_type: type
    overrides: Overrides

    def from_numpy(self, array: Any, device: Any = None) -> Any:
        """Its own array with a copy of the values of a numeric NumPy array."""

    def to_numpy(self, array: Any) -> Any:
        """A NumPy array of an array's values, which may share them."""

    def as_array(self, value: Any) -> Any:
        """What a kernel returned, as an array of this backend; None where it is no tensor (strings, opaque)."""

    def running(self) -> AbstractContextManager[Any]:
        """The context in which kernels run: no floating-point warnings, no tape."""

    def device(self, device_option: Any) -> Any:
        """The device that a DeviceOption means here; None for the host."""

    def on_device(self, kernel: Kernel, device: Any) -> Kernel:
        """A kernel that computes on that device."""

    def vector_jacobian(self, function: Callable[[Any, list[Any]], tuple[Any, ...]], inputs: Sequence[Any],
                        by: Sequence[int], cotangents: Sequence[Any]) -> tuple[Any, ...]:
        """The cotangents of a function's outputs times its derivatives by some of its inputs.

        Inside of another such function this is itself differentiable.

        Args:
            function: ``function(xp, inputs)`` gives the outputs, by functions of ``xp`` alone.
            inputs: arrays, or None.
            by: positions of the (floating-point) inputs whose derivatives are asked for.
            cotangents: one per output; None: zero.

        Raises:
            NoDerivative: the function leaves ``xp``, so that it cannot be followed.
        """


class Overrides:
    """The faster kernels of one backend: (operator type, engine) -> kernel. A family's module loads when needed."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._kernels: dict[tuple[str, str], Kernel] = {}
        self._loaded: set[str] = set()

    def __call__(self, type: str, engine: str = "") -> Callable[[Kernel], Kernel]:
        """Decorates the kernel that serves operators of ``type`` (and ``engine``) on this backend."""

        def register(kernel: Kernel) -> Kernel:
            self._kernels[type, engine] = kernel
            return kernel

        return register

    def find(self, type: str, engine: str = "") -> Kernel | None:
        family = registry.family_index().get(type)
        if family is not None and family not in self._loaded:
            self._loaded.add(family)
            module = f"{self._package}.{family}"
            if importlib.util.find_spec(module) is not None:
                importlib.import_module(module)
        return self._kernels.get((type, engine))

    def every(self) -> dict[tuple[str, str], Kernel]:
        """All overrides, every family loaded."""
        for type in registry.family_index():
            self.find(type)
        return dict(self._kernels)


_loaded: dict[str, Backend] = {}
_default: str | None = None


def available() -> tuple[str, ...]:
    """The backends that can be used here, without importing them."""
    return tuple(name for name in NAMES if importlib.util.find_spec(name) is not None)


def default_name() -> str:
    """The name of the backend that is used where nobody says which."""
    global _default
    if _default is None:
        asked = os.environ.get("NETGRAD_BACKEND", "")
        if asked and asked not in NAMES:
            raise BackendError(f"NETGRAD_BACKEND is {asked!r}; it may be {' or '.join(NAMES)}, or unset")
        if asked and asked not in available():
            raise BackendError(f"NETGRAD_BACKEND is {asked!r}, which is not installed; `pip install netgrad[{asked}]`")
        _default = asked or ("torch" if "torch" in available() else "numpy")
    return _default


def use(name: str) -> None:
    """Makes a backend the default one, before anything has asked for it: see `netgrad.use_backend`."""
    global _default
    _default = get(name).name


def get(name: str | None = None) -> Backend:
    """The backend of that name, or the default one; raises `BackendError` when there is none."""
    name = name or default_name()
    if name not in _loaded:
        if name not in NAMES:
            raise BackendError(f"there is no backend {name!r}; there are {' and '.join(NAMES)}")
        if name not in available():
            raise BackendError(f"backend {name!r} is not installed; `pip install netgrad[{name}]`")
        _loaded[name] = importlib.import_module(f"netgrad.runtime.backends.{name}").BACKEND
    return _loaded[name]
