"""Adding up the contributions to one cotangent: a Sum of dense ones, a Concat of slices, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netgrad.autodiff import encoding
from netgrad.autodiff.errors import DeviceMismatchError

if TYPE_CHECKING:
    from netgrad.autodiff.rule_context import Cotangent
    from netgrad.autodiff.walk import Contribution, Walk

#: a contribution's gradient, and whether (or which part of it) an operator emitted for it writes
Term = tuple["Cotangent", bool | tuple[bool, bool]]

AUTO_SUM_TAG = "is_auto_gen_sum_ops"
ONLY_KEEP_TAG = "only_keep_is_auto_gen_sum_ops_tag"


def add_up(walk: Walk, index: int, value: int, contributions: list[Contribution]) -> Cotangent:
    """Emits the operators that add several contributions to a forward value's gradient; returns the sum."""
    terms = [(gradient, computed) for gradient, computed, _ in contributions]
    devices: list[Any] = [None]
    if walk.has_devices:
        devices = [_device(walk, source) for _, _, source in contributions]
        terms = _on_one_device(walk, index, value, terms, devices)
    rest = _device_rest(devices)
    sparse = sum(gradient.__class__ is tuple for gradient, _ in terms)
    if sparse == len(terms):
        return _concatenate(walk, index, value, terms, rest)
    if sparse:
        terms = [_densified(walk, index, value, term, rest) for term in terms]
    return _sum(walk, index, value, terms, rest)


def _device(walk: Walk, source: Any) -> Any:
    """The DeviceOption of a contribution, or None."""
    if not isinstance(source, int):
        return source
    op = walk.forward.ops[source]
    return op.device_option if op.HasField("device_option") else None


def _sum(walk: Walk, index: int, value: int, terms: list[Term], rest: str) -> int:
    names = walk.names
    computed: list[int] = [gradient for gradient, here in terms if here is True]  # type: ignore[misc]
    for count, term in enumerate(computed[1:]):
        names[term] = name = f"_{names[term]}_autosplit_{count}"
        for earlier in walk.rewritten.get(term, ()):
            names[earlier] = name
    total = walk.new_value(names[computed[0]] if computed else walk.gradient_name(names[value]))
    walk.sums.append(len(walk.emitted))
    if computed:
        walk.totals.add(total)
    walk.emitted.add("Sum", [gradient for gradient, _ in terms], [total], rest, index)  # type: ignore[misc]
    return total


def _concatenate(walk: Walk, index: int, value: int, terms: list[Term], rest: str) -> Cotangent:
    parts: list[list[int]] = [[], []]
    counters = [0, 0]
    base: str | None = None
    for gradient, computed in terms:
        here = computed if isinstance(computed, tuple) else (False, False)
        sides: tuple[int, int] = gradient  # type: ignore[assignment]
        for side, (suffix, part) in enumerate(zip(("_indices", "_values"), sides)):
            if here[side]:
                if base is None:
                    base = walk.names[part].removesuffix(suffix)
                walk.names[part] = f"_{walk.names[part]}_autosplit_{counters[side]}"
                counters[side] += 1
            parts[side].append(part)
    if base is None:
        base = walk.gradient_name(walk.names[value])
    joined = []
    for suffix, blobs in zip(("_indices", "_values"), parts):
        whole, split = walk.new_value(f"{base}{suffix}_concat"), walk.new_value(f"{base}{suffix}_concat_split")
        walk.emitted.add("Concat", blobs, [whole, split], encoding.argument_fields({"axis": 0}) + rest, index)
        joined.append(whole)
    return joined[0], joined[1]


def _densified(walk: Walk, index: int, value: int, term: Term, rest: str) -> Term:
    """A slice as a dense gradient of the forward value's shape."""
    gradient, _ = term
    if not isinstance(gradient, tuple):
        return term
    dense = walk.new_value(walk.gradient_name(walk.names[value]) + "_dense")
    walk.emitted.add("SparseToDense", [*gradient, value], [dense], rest, index)
    return dense, False


def _on_one_device(walk: Walk, index: int, value: int, terms: list[Term], devices: list[Any]) -> list[Term]:
    """All contributions on the first one's device: as they are, bridged by copies, or refused."""
    from netgrad.graph.device import device_option_equal
    from netgrad.proto import caffe2_pb2

    anywhere = caffe2_pb2.DeviceOption()
    first = devices[0]
    placed = []
    for term, device in zip(terms, devices):
        if device is first or device_option_equal(device or anywhere, first or anywhere):
            placed.append(term)
        elif walk.save:
            placed.append(_bridged(walk, index, term, first))
        else:
            name = walk.names[value]
            raise DeviceMismatchError(
                f"Gradients for param {name!r} failed to verify: its contributions lie on different devices "
                f"({_device_words(first)} and {_device_words(device)}: they do not have the same device option). Copy "
                "the blob to each device once and use the copies, or ask with overwritten=\"save\", which inserts the "
                "copies")
    return placed


def _bridged(walk: Walk, index: int, term: Term, device: Any) -> Term:
    """A contribution copied to another device."""
    rest = (encoding.device_field(device) if device is not None else "") + encoding.IS_GRADIENT
    gradient, _ = term
    moved = []
    for part in gradient if isinstance(gradient, tuple) else (gradient,):
        copy = walk.new_value(walk.names[part] + "_moved")
        walk.emitted.add("Copy", [part], [copy], rest, index)
        moved.append(copy)
    return ((moved[0], moved[1]) if len(moved) == 2 else moved[0]), False


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
