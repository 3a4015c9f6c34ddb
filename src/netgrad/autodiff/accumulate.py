"""Adding up the contributions to one cotangent: a Sum of dense ones, a Concat of slices, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netgrad.autodiff import encoding
from netgrad.autodiff.encoding import Record
from netgrad.autodiff.errors import DeviceMismatchError

if TYPE_CHECKING:
    from netgrad.autodiff.rule_context import Cotangent
    from netgrad.autodiff.walk import Contribution, Walk

AUTO_SUM_TAG = "is_auto_gen_sum_ops"
ONLY_KEEP_TAG = "only_keep_is_auto_gen_sum_ops_tag"


def add_up(walk: Walk, index: int, value: int, contributions: list[Contribution]) -> Cotangent:
    """Emits the operators that add several contributions to a forward value's gradient; returns the sum."""
    contributions = _on_one_device(walk, index, value, contributions)
    rest = _device_rest([c.device for c in contributions])
    sparse = [c for c in contributions if isinstance(c.gradient, tuple)]
    if len(sparse) == len(contributions):
        return _concatenate(walk, index, value, contributions, rest)
    if sparse:
        contributions = [_densified(walk, index, value, c, rest) for c in contributions]
    return _sum(walk, index, value, contributions, rest)


def _sum(walk: Walk, index: int, value: int, contributions: list[Contribution], rest: str) -> int:
    terms: list[int] = [c.gradient for c in contributions]  # type: ignore[misc]
    named = next((c.gradient for c in contributions if c.computed is True), None)
    name = walk.names[named] if isinstance(named, int) else walk.gradient_name(walk.names[value])
    total = walk.new_value(name)
    walk.sums.append(len(walk.records))
    walk.records.append(Record("Sum", terms, [total], encoding.type_field("Sum") + rest, index))
    return total


def _concatenate(walk: Walk, index: int, value: int, contributions: list[Contribution], rest: str) -> Cotangent:
    parts: list[list[int]] = [[], []]
    counters = [0, 0]
    base: str | None = None
    for contribution in contributions:
        here = contribution.computed if isinstance(contribution.computed, tuple) else (False, False)
        for side, (suffix, part) in enumerate(zip(("_indices", "_values"), contribution.gradient)):  # type: ignore[arg-type]
            if here[side]:
                if base is None:
                    base = walk.names[part].removesuffix(suffix)
                walk.names[part] = f"_{walk.names[part]}_autosplit_{counters[side]}"
                counters[side] += 1
            parts[side].append(part)
    if base is None:
        base = walk.gradient_name(walk.names[value])
    joined = []
    for suffix, part in zip(("_indices", "_values"), parts):
        whole, split = walk.new_value(f"{base}{suffix}_concat"), walk.new_value(f"{base}{suffix}_concat_split")
        walk.records.append(Record("Concat", part, [whole, split], encoding.type_field("Concat")
                                   + encoding.argument_fields({"axis": 0}) + rest, index))
        joined.append(whole)
    return joined[0], joined[1]


def _densified(walk: Walk, index: int, value: int, contribution: Contribution, rest: str) -> Contribution:
    """A slice as a dense gradient of the forward value's shape."""
    if not isinstance(contribution.gradient, tuple):
        return contribution
    dense = walk.new_value(walk.gradient_name(walk.names[value]) + "_dense")
    walk.records.append(Record("SparseToDense", [*contribution.gradient, value], [dense],
                               encoding.type_field("SparseToDense") + rest, index))
    return contribution._replace(gradient=dense, computed=False)


def _on_one_device(walk: Walk, index: int, value: int, contributions: list[Contribution]) -> list[Contribution]:
    """All contributions on the first one's device: as they are, bridged by copies, or refused."""
    from netgrad.graph.device import device_option_equal
    from netgrad.proto import caffe2_pb2

    first = contributions[0].device
    placed = [contributions[0]]
    for contribution in contributions[1:]:
        device = contribution.device
        same = device is first or device_option_equal(device if device is not None else caffe2_pb2.DeviceOption(),
                                                      first if first is not None else caffe2_pb2.DeviceOption())
        if same:
            placed.append(contribution)
        elif walk.bridge_devices:
            placed.append(_bridged(walk, index, contribution, first))
        else:
            name = walk.names[value]
            raise DeviceMismatchError(
                f"Gradients for param {name!r} failed to verify: its contributions lie on different devices "
                f"({_device_words(first)} and {_device_words(device)}: they do not have the same device option). Copy the "
                f"blob to each device once and use the copies, or ask with overwritten=\"save\", which inserts the copies")
    return placed


def _bridged(walk: Walk, index: int, contribution: Contribution, device: Any) -> Contribution:
    """A contribution copied to another device."""
    rest = encoding.type_field("Copy") + (encoding.device_field(device) if device is not None else "") \
        + encoding.IS_GRADIENT
    parts = contribution.gradient if isinstance(contribution.gradient, tuple) else (contribution.gradient,)
    moved = []
    for part in parts:
        copy = walk.new_value(walk.names[part] + "_moved")
        walk.records.append(Record("Copy", [part], [copy], rest, index))
        moved.append(copy)
    gradient: Cotangent = (moved[0], moved[1]) if len(moved) == 2 else moved[0]
    return contribution._replace(gradient=gradient, computed=False, device=device)


def _device_words(device: Any) -> str:
    from netgrad.proto import caffe2_pb2

    if device is None:
        return "CPU"
    kind = caffe2_pb2.DeviceTypeProto.Name(device.device_type).removeprefix("PROTO_")
    return kind if kind == "CPU" else f"{kind}:{device.device_id}"


def _device_rest(devices: list[Any]) -> str:
    """The device option of an automatic Sum: the first contribution's, tagged; or, if one says so, the tag alone."""
    from netgrad.graph import scope
    from netgrad.proto import caffe2_pb2

    keep_tag_only = any(device is not None and f"{ONLY_KEEP_TAG}:1" in device.extra_info for device in devices)
    option = caffe2_pb2.DeviceOption()
    source = scope.CurrentDeviceScope() if keep_tag_only else devices[0]
    if source is not None:
        option.CopyFrom(source)
    option.extra_info.append(f"{AUTO_SUM_TAG}:1")
    return encoding.device_field(option)
