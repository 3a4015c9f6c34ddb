"""If and While operators from nets: which blobs are outside, which local, and the Do around each net.

What a net reads before it writes it, and what it writes under a name that is visible outside, are blobs outside; all
others live in a workspace of the Do and are gone for the rest of the net, not for the gradient.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.ssa import get_ssa, get_undefined_blobs
from netgrad.proto import caffe2_pb2


def get_external_blob_names(net: Net, lexical_scope: Collection[str]) -> tuple[set[str], set[str]]:
    """The blobs from outside that a net reads, and the blobs outside that it writes.

    Raises:
        AssertionError: it reads a blob that neither it makes nor is in ``lexical_scope``.
    """
    reads, writes = _external(net, lexical_scope)
    return set(reads), set(writes)


def _external(net: Net, lexical_scope: Collection[str]) -> tuple[list[str], list[str]]:
    """The same in the order of first use."""
    proto = net.Proto()
    undefined = {str(name) for name in get_undefined_blobs(get_ssa(proto)[0])}
    reads = list(dict.fromkeys(name for op in proto.op for name in op.input if name in undefined))
    for name in reads:
        if name not in lexical_scope:
            raise AssertionError(f"Input blob {name} is undefined: net {net.Name()!r} reads it, and it is not visible "
                                 "there; make it before, or correct the name")
    return reads, list(dict.fromkeys(name for op in proto.op for name in op.output if name in lexical_scope))


class _Wrapped:
    """A net with one Do that runs another net on the blobs outside that it names alike.

    Attributes:
        net: the net with the Do.
        inputs, outputs: blobs outside, the workspaces' blob last.
    """

    def __init__(self, name: str, body: Net, reads: list[str], writes: list[str], workspace: BlobReference,
                 **arguments: Any) -> None:
        self.workspace = workspace
        self.inputs = [*map(BlobReference, reads), workspace]
        self.outputs = [*map(BlobReference, writes), workspace]
        bound = list(dict.fromkeys([*reads, *writes]))
        order = [*reads, *writes]
        self.net = Net(name)
        self.net.Do(self.inputs, self.outputs, net=body.Proto(), inner_blobs=bound,
                    outer_blobs_idx=[order.index(blob) for blob in bound], **arguments)
        self.net.AddExternalOutput(*self.outputs)


def add_if_op(if_net: Net, cond_blob: Any, lexical_scope: Collection[str], then_net: Net,
              else_net: Net | None = None) -> None:
    """Adds an If to a net.

    Args:
        cond_blob: a single boolean.
        lexical_scope: names of the blobs that are visible to the branches.
        then_net, else_net: the branches; their local blobs stay in workspaces of their own.

    Raises:
        AssertionError: a branch reads a blob that is not visible.
    """
    branches = [(role, net, *_external(net, lexical_scope))
                for role, net in (("then", then_net), ("else", else_net)) if net]
    wrapped = {role: _Wrapped(f"do_{role}_net", net, reads, writes, _workspace(if_net, f"if_{role}"))
               for role, net, reads, writes in branches}
    scopes = [each.workspace for each in wrapped.values()]
    reads = dict.fromkeys(name for branch in branches for name in branch[2])
    writes = dict.fromkeys(name for branch in branches for name in branch[3])
    outputs = [*map(BlobReference, writes), *scopes]
    for scope in scopes:
        if_net.CreateScope([], [scope])
    if_net.If([cond_blob, *map(BlobReference, reads), *scopes], outputs,
              **{f"{role}_net": each.net.Proto() for role, each in wrapped.items()})
    if_net.AddExternalOutput(*outputs)


def add_while_op(while_net: Net, cond_blob: Any, lexical_scope: Collection[str], loop_body_net: Net,
                 condition_body_net: Net | None = None) -> None:
    """Adds a While to a net; see `add_if_op`.

    Args:
        loop_body_net: what is repeated.
        condition_body_net: what is run before each round, and writes ``cond_blob``; None: the body does.

    Raises:
        AssertionError: a blob that is read is not visible; the condition net does not write the condition.
    """
    reads, writes = _external(loop_body_net, lexical_scope)
    reads = list(dict.fromkeys([*reads, *writes]))  # without a single round, the blobs stay as they are
    body = _Wrapped("do_loop_body_net", loop_body_net, reads, writes, _workspace(while_net, "loop_body"),
                    copy_external_blobs=True)
    arguments = {"loop_net": body.net.Proto()}
    scopes, inputs, outputs = [body.workspace], [cond_blob, *body.inputs], list(body.outputs)
    if condition_body_net:
        name = str(cond_blob)
        if not any(name in op.output for op in condition_body_net.Proto().op):
            raise AssertionError(f"Condition net {condition_body_net.Name()!r} does not write into the condition blob "
                                 f"{name!r}")
        cond_reads, cond_writes = _external(condition_body_net, lexical_scope)
        if name not in cond_writes:
            cond_writes.append(name)
        condition = _Wrapped("do_loop_condition_net", condition_body_net, cond_reads, cond_writes,
                             _workspace(while_net, "loop_cond"))
        scopes.append(condition.workspace)
        arguments["cond_net"] = condition.net.Proto()
        inputs += [blob for blob in condition.inputs if str(blob) not in reads]
        outputs += [blob for blob in condition.outputs if str(blob) not in writes]
        if name not in lexical_scope:
            while_net.ConstantFill([], cond_blob, dtype=caffe2_pb2.TensorProto.BOOL, value=False)
    for scope in scopes:
        while_net.CreateScope([], [scope])
    while_net.While(inputs, outputs, **arguments)
    while_net.AddExternalOutput(*outputs)


def _workspace(net: Net, role: str) -> BlobReference:
    """A blob for the workspaces of a Do, whose name says which net it belongs to."""
    return net.NextScopedBlob(f"{net.Name()}/workspace_{role}")  # type: ignore[no-any-return]
