"""Batch normalization over the batches of all devices: each sees the sums of all, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from netgrad.graph.argument_values import MakeArgument
from netgrad.graph.device import CPU, DeviceOption, IsGPUDeviceType
from netgrad.graph.operator import CreateOperator
from netgrad.parallel.devices import ParallelError, stripBlobName
from netgrad.proto import caffe2_pb2


def _InterleaveOps(model: Any) -> None:
    """Puts the k-th operators of all devices side by side.

    Raises:
        ParallelError: the devices have not the same operators.
    """
    ops: dict[int, list[Any]] = {device: [] for device in model._devices}
    for op in model.net.Proto().op:
        if op.device_option.device_id not in ops:
            raise ParallelError(f"operator {op.type} runs on device {op.device_option.device_id}, which is none of "
                                f"{list(model._devices)}: combine_spatial_bn takes operators of the devices alone")
        ops[op.device_option.device_id].append(op)
    interleaved: list[Any] = []
    if len({len(found) for found in ops.values()}) > 1:
        raise ParallelError("combine_spatial_bn: the devices have different numbers of operators: "
                            + ", ".join(f"{device}: {len(found)}" for device, found in ops.items()))
    for row in zip(*ops.values()):
        if len({op.type for op in row}) > 1:
            raise ParallelError(f"combine_spatial_bn: operators that stand side by side on the devices differ: "
                                f"{', '.join(op.type for op in row)}")
        interleaved += row
    _replace(model, interleaved)


def _replace(model: Any, ops: Sequence[Any]) -> None:
    proto = model.net.Proto()
    copies = [caffe2_pb2.OperatorDef.FromString(op.SerializeToString()) for op in ops]
    del proto.op[:]
    proto.op.extend(copies)
    model.net.refresh()


def combine(model: Any) -> None:
    """Lets SpatialBN and its gradient, in a net with interleaved operators, use the sums over all devices."""
    result: list[Any] = []
    ops, count = list(model.net.Proto().op), len(model._devices)
    k = 0
    while k < len(ops):
        if ops[k].type not in ("SpatialBN", "SpatialBNGradient"):
            result.append(ops[k])
            k += 1
            continue
        row = ops[k:k + count]
        result += (_forward if ops[k].type == "SpatialBN" else _backward)(model, row)
        k += count
    _replace(model, result)


def _forward(model: Any, row: Sequence[Any]) -> Iterator[Any]:
    """Sums and sums of squares of each device, those of all, and the normalizations, which divide by all batches."""
    names = [op.input[0] for op in row]
    for op, name in zip(row, names):
        yield CreateOperator("ChannelStats", name, [f"{name}_sums", f"{name}_sumsq"], device_option=op.device_option)
    gpus = IsGPUDeviceType(model._device_type)
    combined = [[f"{name}{suffix}_combined" for suffix in ("_sums", "_sumsq")]
                for name in (names if gpus else names[:1] * len(names))]
    for which, suffix in enumerate(("_sums", "_sumsq")):
        sources = [name + suffix for name in names]
        if gpus:
            yield from _reduce(model, row, sources, [pair[which] for pair in combined])
        else:  # all devices are the host and read one blob
            yield CreateOperator("Sum", sources, combined[0][which], device_option=row[0].device_option)
    for op, pair in zip(row, combined):
        op.input.extend(pair)
        op.arg.append(MakeArgument("num_batches", len(row)))
        yield op


def _backward(model: Any, row: Sequence[Any]) -> Iterator[Any]:
    """Gradients of scale and bias on each device, those of all in their place, and the gradients of the images."""
    for op in row:
        image, _, gradient, mean, deviation = op.input[:5]
        yield CreateOperator("ChannelBackpropStats", [image, mean, deviation, gradient], op.output[1:3],
                             device_option=op.device_option)
    for which in (1, 2):
        names = [op.output[which] for op in row]
        yield from _reduce(model, row, names, names)
    for op in row:
        op.input.extend(op.output[1:3])
        op.arg.append(MakeArgument("num_batches", len(row)))
        yield op


def _reduce(model: Any, row: Sequence[Any], sources: Sequence[str], targets: Sequence[str]) -> Iterator[Any]:
    """The sum of one blob per device, in one blob per device; through the host where they are on GPUs."""
    host, total = DeviceOption(CPU), f"cpu_0/{stripBlobName(sources[0])}_combined"
    if not IsGPUDeviceType(model._device_type):
        yield CreateOperator("Sum", sources, total, device_option=row[0].device_option)
        for op, target in zip(row, targets):
            yield CreateOperator("Copy", total, target, device_option=op.device_option)
        return
    on_host = [f"cpu_0/{stripBlobName(name)}_gpu_{device}_copy" for device, name in zip(model._devices, sources)]
    for op, source, copied in zip(row, sources, on_host):
        yield CreateOperator("CopyGPUToCPU", source, copied, device_option=op.device_option)
    yield CreateOperator("Sum", on_host, total, device_option=host)
    for op, target in zip(row, targets):
        yield CreateOperator("CopyCPUToGPU", total, target, device_option=op.device_option)
