"""Collective operations among processes or devices, and the stores through which processes find each other."""

from __future__ import annotations

from netgrad.graph.arguments import Bool, Int, Str, Strs
from netgrad.graph.declaration import ANY_PAIR, Arity, In, Operator, Out, between, counts
from netgrad.graph.rules import forbidden
from netgrad.graph.shapes import same_as
from netgrad.ops._axes import side_by_side

_WORLD = In("comm_world", "opaque: the processes that take part")
_ROOT = Int("root", 0, "the rank that sends or receives")


class _Collective(Operator, abstract=True):
    """What operators among processes share."""

    effects = {"io", "state"}
    gradient = forbidden("gradients are exchanged by operators beside the backward pass")


class CreateCommonWorld(_Collective):
    """The processes that take part, met through a store."""

    inputs = [In("kv_handler", "opaque: the store", optional=True)]
    outputs = [Out("comm_world", "opaque")]
    arguments = [
        Int("size", 1, "the number of processes"), Int("rank", 0, "which of them this one is"),
        Str("interface", ""), Str("mpi_rank", ""), Str("transport", ""), Int("timeout_ms", -1),
        Bool("status_blob", False),
    ]
    host = True


class CloneCommonWorld(_Collective):
    """The same processes, for operations that run beside the others."""

    inputs = [In("existing_comm_world", "opaque")]
    outputs = [Out("comm_world", "opaque")]
    host = True


class DestroyCommonWorld(_Collective):
    """Takes leave of the other processes."""

    inputs = [In("common_world", "opaque")]
    outputs = [Out("common_world")]
    inplace_required = {(0, 0)}
    host = True


class _EachInPlace(_Collective, abstract=True):
    """Output k is input k + 1, updated in place."""

    inputs = [_WORLD, In("X", "of one shape and dtype", variadic=True)]
    outputs = [Out("Y", "the input", variadic=True)]
    num_inputs_outputs = staticmethod(lambda inputs, outputs: inputs == outputs + 1)
    inplace_required = side_by_side(1)
    inplace_keeps_shape = True


class Broadcast(_EachInPlace):
    """Every process takes the value that the root has."""

    arguments = [_ROOT]


class Allreduce(_EachInPlace):
    """Every process takes the sum over all processes."""


class ReduceScatter(_EachInPlace):
    """Every process takes its part of the sum over all processes."""


class Reduce(_Collective):
    """The root takes the sum over all processes."""

    inputs = [_WORLD, In("X")]
    outputs = [Out("Y", "like X")]
    arguments = [_ROOT]
    shape = same_as(1)


class Allgather(_Collective):
    """Every process takes the values of all, one behind the other."""

    inputs = [_WORLD, In("X", variadic=True)]
    outputs = [Out("Y", "(processes, inputs, ...)")]


class Barrier(_Collective):
    """Waits until all processes are here."""

    inputs = [_WORLD]
    num_outputs = between(0, None)


_PEER = [Int("dst", -1, "the rank to send to"), Int("tag", 0), Bool("raw_buffer", False, "only the elements travel")]


class SendTensor(_Collective):
    """Sends a tensor to another process."""

    inputs = [_WORLD, In("X"), In("dst", "one int", optional=True), In("tag", "one int", optional=True)]
    num_inputs = counts(2, 4)
    arguments = _PEER


class ReceiveTensor(_Collective):
    """Receives a tensor from another process, in place."""

    inputs = [_WORLD, In("Y"), In("src", "one int", optional=True), In("tag", "one int", optional=True)]
    outputs = [Out("Y"), Out("src", "the rank it came from"), Out("tag")]
    num_inputs = counts(2, 4)
    arguments = [Int("src", -1, "the rank to receive from; -1: any"), *_PEER[1:]]
    inplace = {(2, 1), (3, 2)}
    inplace_required = {(1, 0)}


_DEVICES = Arity(1, 16)


class _Nccl(_Collective, abstract=True):
    """Collectives among the GPUs of one process."""

    inputs = [In("X", "one per GPU", variadic=True)]
    outputs = [Out("Y", "one per GPU", variadic=True)]
    num_inputs = _DEVICES
    num_outputs = _DEVICES


class NCCLAllreduce(_Nccl):
    """Every GPU takes the sum over all."""

    inplace = side_by_side(0, 8)
    inplace_keeps_shape = True


class NCCLBroadcast(_Nccl):
    """Every GPU takes the value that the root has."""

    arguments = [_ROOT]
    inplace_required = side_by_side(0, 16)
    inplace_keeps_shape = True


class NCCLReduce(_Nccl):
    """The root takes the sum over all GPUs."""

    outputs = [Out("Y")]
    num_outputs = counts(1)
    arguments = [_ROOT]
    inplace = ANY_PAIR


class NCCLAllGather(_Nccl):
    """Every GPU takes the values of all."""


class NCCLReduceScatter(_Nccl):
    """Every GPU takes its part of the sum over all."""


class _Store(Operator, abstract=True):
    """Operators on a store of values by name that processes share."""

    effects = {"io", "state"}
    host = True


class FileStoreHandlerCreate(_Store):
    """A store in a folder that all processes see."""

    outputs = [Out("handler", "opaque")]
    arguments = [Str("path", "", "the folder"), Str("prefix", "", "put before all names")]


class StoreSet(_Store):
    """Sets a value."""

    inputs = [In("handler"), In("data", "a string or bytes")]
    arguments = [Str("blob_name", "", "the name in the store; that of the blob unless given")]


class StoreGet(_Store):
    """A value; waits until it is there."""

    inputs = [In("handler")]
    outputs = [Out("data", "a string")]
    arguments = [Str("blob_name", "", "the name in the store; that of the output unless given")]


class StoreAdd(_Store):
    """Adds to a number, which is zero at first, and gives its new value."""

    inputs = [In("handler")]
    outputs = [Out("value", "one int64")]
    arguments = [Str("blob_name", ""), Int("add_value", 1)]


class StoreWait(_Store):
    """Waits until values of these names are there."""

    inputs = [In("handler"), In("names", "1-D strings", optional=True)]
    arguments = [Strs("blob_names", ())]
