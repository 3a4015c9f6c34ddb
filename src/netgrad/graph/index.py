"""Which names a net defines, kept beside its NetDef and in step with what scripts do to it by hand."""

from __future__ import annotations

from typing import Any


class NetIndex:
    """Names that the operators of a NetDef write, and its external inputs.

    The NetDef is the truth. Operators and inputs that were appended or deleted are noticed by the lists' lengths at the
    next look; where the NetDef has been in other hands, a hit is verified against the operator or input it stands for.
    So building stays linear whatever is read or edited in between.
    """

    __slots__ = ("external", "handed_out", "held", "n_external", "n_ops", "net", "written")

    def __init__(self, net: Any) -> None:
        self.handed_out = False
        self.rebuild(net)

    def rebuild(self, net: Any) -> None:
        """Reads the whole NetDef anew."""
        self.forget(net)
        self.catch_up(net)

    def forget(self, net: Any) -> None:
        """Forgets all names; the next look reads the whole NetDef."""
        self.net = net
        #: the position of the last operator that writes a name
        self.written: dict[str, int] = {}
        #: the position of a name among the external inputs
        self.external: dict[str, int] = {}
        self.n_ops = self.n_external = 0
        #: looked up anew each time; that somebody holds them makes the look-up twice as fast
        self.held = net.op, net.external_input

    def in_step(self, net: Any) -> bool:
        return self.net is net and self.n_ops == len(net.op) and self.n_external == len(net.external_input)

    def catch_up(self, net: Any) -> None:
        """Takes in what was appended since the last look; everything, where something was deleted."""
        ops, inputs = net.op, net.external_input
        n_ops, n_external = len(ops), len(inputs)
        if self.net is not net or n_ops < self.n_ops or n_external < self.n_external:
            self.rebuild(net)
            return
        if self.handed_out and self.check_tail():
            return
        written = self.written
        for k in range(self.n_ops, n_ops):
            for name in ops[k].output:
                written[name] = k
        for k, name in enumerate(inputs[self.n_external:], self.n_external):
            self.external.setdefault(name, k)
        self.n_ops, self.n_external = n_ops, n_external

    def defines(self, net: Any, name: str) -> bool:
        """Whether an operator writes the name or it is an external input."""
        if not self.in_step(net):
            self.catch_up(net)
        return self.is_written(name) or self.is_external(name)

    def is_written(self, name: str) -> bool:
        k = self.written.get(name)
        if k is None:
            return self.handed_out and self.check_tail() and name in self.written
        if not self.handed_out or name in self.net.op[k].output:
            return True
        self.rebuild(self.net)
        return name in self.written

    def is_external(self, name: str) -> bool:
        k = self.external.get(name)
        if k is None:
            return False
        if not self.handed_out or self.net.external_input[k] == name:
            return True
        self.rebuild(self.net)
        return name in self.external

    def check_tail(self) -> bool:
        """Rebuilds, and says so, where the last operator is not the one that was seen last: removed and another put."""
        if not self.n_ops:
            return False
        k = self.n_ops - 1
        if all(self.written.get(name) == k for name in self.net.op[k].output):
            return False
        self.rebuild(self.net)
        return True
