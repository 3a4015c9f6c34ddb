"""Control flow: conditions, loops, scopes. Nets are arguments."""

from __future__ import annotations

from netgrad.graph.arguments import Net
from netgrad.graph.declaration import ANY_PAIR, In, Operator, Out
from netgrad.graph.rules import not_implemented


class If(Operator):
    """Runs one of two nets, by a condition."""

    inputs = [In("condition", "a single bool"), In("blobs", "whatever the nets read", variadic=True, optional=True)]
    outputs = [Out("blobs", "whatever the nets write", variadic=True, optional=True)]
    arguments = [Net("then_net"), Net("else_net")]
    inplace = ANY_PAIR
    effects = {"blobs"}
    gradient = not_implemented("the gradient of control flow comes with the control room")
