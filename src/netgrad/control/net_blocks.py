"""Blocks of a net builder that become one net with an If or While: `ops.IfNet`, `Else`, `WhileNet`, `Condition`."""

from __future__ import annotations

from typing import Any

from netgrad.control.net_builder import NetBuilder
from netgrad.control.operators import add_if_op, add_while_op
from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net


class _Block(NetBuilder):
    """A block whose nets are merged into one when it ends."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name=name, _use_control_ops=True)

    def _take_body(self, name: str) -> Net:
        """All that was written in the block as one net; an empty one of that name if that is nothing."""
        body = self._merged()
        self._children = []
        return body or Net(name)

    def _merged(self) -> Net | None:
        return NetBuilder.merge_nets(self._children, self._initial_scope)

    def _become(self, net: Net) -> None:
        self._current_net = net
        self._children = [net]


class RunIfNet(_Block):
    """A block that runs if a blob is true."""

    def __init__(self, cond_blob: Any, name: str | None = None) -> None:
        super().__init__(name)
        if not cond_blob:
            raise AssertionError("ops.IfNet needs a condition: a boolean blob")
        self._cond_blob = cond_blob
        self._then_net: Net | None = None

    def _finish(self) -> None:
        self._then_net = self._take_body("empty_then_net")
        self._write(f"{self.name}/if_net", None)

    def _write(self, name: str, else_net: Net | None) -> None:
        assert self._then_net is not None
        net = Net(name)
        add_if_op(net, self._cond_blob, self._initial_scope, self._then_net, else_net)
        self._become(net)


class RunElseNet(_Block):
    """The other branch of the `RunIfNet` right before it."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        parent: NetBuilder | None = NetBuilder.current(required=False)
        before = parent._children[-1] if parent and parent._children else None
        if not isinstance(before, RunIfNet):
            raise AssertionError("ops.Else() must come right after the block of an ops.IfNet")
        self._if_builder = before

    def _finish(self) -> None:
        body = self._merged()
        if body:
            self._if_builder._write(f"{self.name}/if_else_net", body)


class RunWhileNet(_Block):
    """A block that runs again and again, while its `RunWhileCondition` is true."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._cond_builder: RunWhileCondition | None = None

    def _finish(self) -> None:
        condition = self._cond_builder
        if condition is None:
            raise AssertionError("ops.WhileNet needs a condition: begin its block with `with ops.Condition():`")
        body = self._take_body("empty_loop_body_net")
        net = Net(f"{self.name}/while_net")
        add_while_op(net, condition._cond_blob, self._initial_scope, body, condition._cond_net)
        self._become(net)


class RunWhileCondition(_Block):
    """What a `RunWhileNet` runs before each round; the only output of its last operator says whether there is one."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        parent: NetBuilder | None = NetBuilder.current(required=False)
        if not isinstance(parent, RunWhileNet):
            raise AssertionError("ops.Condition() belongs into the block of an ops.WhileNet")
        if parent._cond_builder is not None:
            raise AssertionError("the ops.WhileNet has a condition already")
        if parent._children:
            raise AssertionError("ops.Condition() must come before everything else in the ops.WhileNet")
        parent._cond_builder = self
        self._cond_blob: BlobReference | None = None
        self._cond_net: Net | None = None

    def _finish(self) -> None:
        net = self._merged()
        operators = net.Proto().op if net else ()
        if not operators or len(operators[-1].output) != 1:
            raise AssertionError("the last operator of an ops.Condition must have one output, a single boolean")
        self._cond_net = net
        self._cond_blob = BlobReference(operators[-1].output[0])
