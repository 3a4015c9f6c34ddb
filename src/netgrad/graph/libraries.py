"""Caffe2's libraries of compiled operators: which of them need not be loaded, because their operators are here.

Compiled code cannot run here. A script that loads a library whose operators netgrad declares goes on as if it had been
loaded; for any other it is told how to declare the operators in Python. Names of Caffe2's own build targets
(``@/caffe2/caffe2/mpi:mpi_ops``) never were files, and were passed over wherever Caffe2 came from a package: so here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator

from netgrad.graph import registry
from netgrad.graph.lazy_imports import RegisterLazyImport

log = logging.getLogger("netgrad")

_ADAGRAD = "SparseAdagradFusedWithSparseLengthsSumGradient"
#: library, without "lib", ending and device -> operators that it holds
_OPERATORS: dict[str, tuple[str, ...]] = {
    library: tuple(operators.split()) for library, operators in {
        "caffe2_detectron_ops": "GroupSpatialSoftmax PSRoIPool RoIPoolF SampleAs SelectSmoothL1Loss SigmoidFocalLoss "
                                "SmoothL1Loss SoftmaxFocalLoss SpatialNarrowAs UpsampleNearest",
        "detectron_ops": "SmoothL1Loss UpsampleNearest",
        "dnnlowp_ops": "Int8FCPackWeight Int8ConvPackWeight",
        "file_store_handler_ops": "FileStoreHandlerCreate",
        "gloo_ops": "Allreduce Broadcast CreateCommonWorld",
        "nccl_ops": "NCCLAllreduce NCCLBroadcast",
        "sgd_simd_ops": f"{_ADAGRAD} SparseAdagrad",
    }.items()
}

_loaded: set[str] = set()
_waiting: list[str] = []
_error_handler: Callable[[BaseException], None] | None = None


class UnknownLibraryError(OSError):
    """A compiled library whose operators are not here. An OSError, as a library that cannot be opened always was."""


def stem(name: str) -> str:
    """What a library is called: the name without folder, "lib", ending, version and device.

    Takes paths (``build/libfoo_ops_gpu.so``) and build targets (``@/caffe2/contrib/foo:foo_ops``).
    """
    short = re.split(r"[/\\:]", name)[-1]
    short = re.sub(r"\.(so|dylib|dll|pyd)(\.\d+)*$", "", short)
    return re.sub(r"_(gpu|cuda|hip)$", "", short.removeprefix("lib"))


def provide(library: str, operators: str | Iterable[str]) -> None:
    """Says which operators, declared in Python, stand for a compiled library, so that loading it succeeds."""
    _OPERATORS[stem(library)] = tuple(operators.split() if isinstance(operators, str) else operators)


def InitOpsLibrary(name: str, trigger_lazy: bool = True) -> None:
    """Does nothing for a library whose operators are declared here; a build target of Caffe2's that is none is logged.

    Raises:
        UnknownLibraryError: they are not; the message shows how to declare them.
    """
    operators = _OPERATORS.get(stem(name), ())
    missing = [operator for operator in operators if registry.find(operator) is None]
    if missing or not operators:
        if not name.startswith(("@/caffe2/", "//caffe2/")):
            raise UnknownLibraryError(_advice(name, missing))
        log.warning("%s is passed over: netgrad has no operators of that name", name)
        return
    _loaded.add(name)


def RegisterOpsLibrary(name: str) -> None:
    """As `InitOpsLibrary`, when an operator is first asked for that is not declared."""
    _waiting.append(name)
    RegisterLazyImport(_load_waiting)


def SetErrorHandler(handler: Callable[[BaseException], None]) -> None:
    """The function that receives what goes wrong with libraries whose loading was put off."""
    global _error_handler
    _error_handler = handler


def GetImportedOpsLibraries() -> set[str]:
    """The names that `InitOpsLibrary` has accepted."""
    _load_waiting()
    return _loaded


def _load_waiting() -> None:
    while _waiting:
        try:
            InitOpsLibrary(_waiting.pop(0))
        except UnknownLibraryError as error:
            if _error_handler is None:
                raise
            _error_handler(error)


@contextlib.contextmanager
def DlopenGuard(extra_flags: int = getattr(os, "RTLD_GLOBAL", 0)) -> Iterator[None]:
    """Compiled modules that are imported within share their symbols (``RTLD_GLOBAL``), where the system knows that."""
    if not hasattr(sys, "setdlopenflags"):
        yield
        return
    before = sys.getdlopenflags()
    sys.setdlopenflags(before | extra_flags)
    try:
        yield
    finally:
        sys.setdlopenflags(before)


def _advice(name: str, missing: Iterable[str]) -> str:
    what = "it would bring, which are not declared" if missing else "that it would bring"
    named = " ".join(missing) or "MyOperator"
    example = named.split()[0]
    return f"""the library {name!r} holds compiled operators, and netgrad runs none.
Declare the operators {what}, in Python:

    import netgrad
    from netgrad.graph import libraries

    @netgrad.operator(shape=netgrad.same_as(0))
    def {example}(xp, X, *, scale: float = 1.0):
        return X * scale

    @netgrad.operator(gradient_of={example})
    def {example}Gradient(xp, dY, *, scale: float = 1.0):
        return dY * scale

    libraries.provide({stem(name)!r}, {named!r})

The last line says that they stand for the library, so that loading it succeeds; docs/custom_operators.md tells more."""
