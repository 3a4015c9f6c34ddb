"""Operator graphs on named, mutable blobs, and their backward passes as more of the same.

A net is a list of operators; `backward` appends the operators of its derivative; a `Workspace` runs it all::

    net = netgrad.Net("line")
    y = net.FC(["x", "w", "b"], "y")
    loss = net.AveragedLoss(net.SquaredL2Distance([y, "target"]), "loss")
    gradients = netgrad.backward(net, loss)

    workspace = netgrad.Workspace()
    workspace.feed(x=x, w=w, b=b, target=target)
    workspace.run(net)
    dw = workspace.fetch(gradients["w"])

Importing this package loads nothing else: what is named here loads its module when it is first asked for, and an array
library only when something runs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from netgrad._version import __version__

if TYPE_CHECKING:
    from netgrad.api import (
        Workspace,
        backward,
        check,
        explain,
        hessian_vector,
        load,
        load_parameters,
        save,
        save_parameters,
        seed,
        use_backend,
        verify,
    )
    from netgrad.graph.arguments import Bool, DType, Float, Floats, Int, Ints, Str, Strs
    from netgrad.graph.declaration import In, Operator, Out
    from netgrad.graph.function_operators import operator
    from netgrad.graph.net import Net
    from netgrad.graph.rules import Rule, emits, forbidden, no_gradient, pass_through, through_kernel
    from netgrad.graph.shapes import TensorType, data_dependent, same_as
    from netgrad.tools.console import show

__all__ = ["Bool", "DType", "Float", "Floats", "In", "Int", "Ints", "Net", "Operator", "Out", "Rule", "Str", "Strs",
           "TensorType", "Workspace", "__version__", "backward", "check", "data_dependent", "emits", "explain",
           "forbidden", "hessian_vector", "load", "load_parameters", "no_gradient", "operator", "pass_through",
           "same_as", "save", "save_parameters", "seed", "show", "through_kernel", "use_backend", "verify"]

_OWNERS = {name: owner for owner, names in {
    "netgrad.graph.arguments": "Bool DType Float Floats Int Ints Str Strs",
    "netgrad.graph.declaration": "In Operator Out",
    "netgrad.graph.function_operators": "operator",
    "netgrad.graph.net": "Net",
    "netgrad.graph.rules": "Rule emits forbidden no_gradient pass_through through_kernel",
    "netgrad.graph.shapes": "TensorType data_dependent same_as",
    "netgrad.tools.console": "show",
}.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = globals()[name] = getattr(importlib.import_module(_OWNERS.get(name, "netgrad.api")), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
