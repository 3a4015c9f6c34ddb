"""From a net that trains or tests, the part that predicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netgrad.graph.net import Net


def ExtractPredictorNet(
    net_proto: Any,
    input_blobs: Iterable[Any],
    output_blobs: Iterable[Any],
    device: Any = None,
    renames: Mapping[str, str] | None = None,
    disabled_inputs: Iterable[str] | None = None,
) -> tuple[Net, list[str]]:
    """The operators that lead from some blobs to others, as a net of their own.

    Args:
        net_proto: the NetDef; it is not changed.
        input_blobs: what the predictor is given.
        output_blobs: what it is to compute.
        device: if given, the device of all its operators.
        renames: blob -> its name in the predictor.
        disabled_inputs: external inputs that count as missing: operators that need them are left out.

    Returns:
        The net, named ``*_predict``, and the other blobs that it needs: its parameters.

    Raises:
        ValueError: no operator reads an input, none writes an output, an operator has ``is_test=0`` (the net is one for
            training), or an output cannot be computed from the inputs.
    """
    inputs = dict.fromkeys(map(str, input_blobs))
    outputs = dict.fromkeys(map(str, output_blobs))
    external_inputs, external_outputs = set(net_proto.external_input), set(net_proto.external_output)
    known = (external_inputs | inputs.keys()) - set(disabled_inputs or ())
    needed, given = dict(inputs), dict(outputs)
    names = dict(renames or {})

    predictor = Net(net_proto.name + "_predict")
    proto = predictor.Proto()
    first, last = _range(net_proto, inputs, outputs)
    missing: dict[str, list[str]] = {}
    for position in range(first, last + 1):
        original = net_proto.op[position]
        if unknown := [name for name in original.input if name not in known]:
            missing.update((name, unknown) for name in original.output if name not in known)
            continue
        op = proto.op.add()
        op.CopyFrom(original)
        _refuse_training(op, position)
        if op.type == "RecurrentNetwork":
            _prepare_steps(op, names, device, external_inputs, needed)
        _place(op, device)
        known.update(op.output)
        needed.update(dict.fromkeys(name for name in op.input if name in external_inputs))
        given.update(dict.fromkeys(name for name in op.output if name in external_outputs))
        _rename(op.input, names)
        _rename(op.output, names)
    if lost := [name for name in outputs if name not in known]:
        reasons = "; ".join(f"{name!r} needs {', '.join(map(repr, missing.get(name, [])))}" for name in lost)
        raise ValueError(
            f"net {net_proto.name!r}: from {', '.join(map(repr, inputs))} the outputs cannot be computed: {reasons}"
        )
    proto.external_input.extend(names.get(name, name) for name in needed)
    proto.external_output.extend(names.get(name, name) for name in given)
    predictor.refresh()
    own = {names.get(name, name) for name in inputs}
    return predictor, [name for name in proto.external_input if name not in own]


def _range(net_proto: Any, inputs: Mapping[str, None], outputs: Mapping[str, None]) -> tuple[int, int]:
    """The first operator that reads an input and the last that writes an output."""
    readers = [
        k for k, op in enumerate(net_proto.op) if op.type != "StopGradient" and any(b in inputs for b in op.input)
    ]
    writers = [k for k, op in enumerate(net_proto.op) if any(b in outputs for b in op.output)]
    if not readers:
        raise ValueError(f"net {net_proto.name!r}: no operator reads {', '.join(map(repr, inputs))}")
    if not writers:
        raise ValueError(f"net {net_proto.name!r}: no operator writes {', '.join(map(repr, outputs))}")
    return readers[0], writers[-1]


def _refuse_training(op: Any, position: int) -> None:
    if any(arg.name == "is_test" and arg.i == 0 for arg in op.arg):
        raise ValueError(
            f"operator {position}, {op.type} writing {', '.join(map(repr, op.output))}, has is_test=0: it trains. "
            "Extract the predictor from the net of the test model"
        )


def _prepare_steps(
    op: Any, names: Mapping[str, str], device: Any, outer_inputs: set[str], needed: dict[str, None]
) -> None:
    """Renames and places the step net of a recurrent operator; a predictor needs no backward steps."""
    for arg in op.arg:
        if arg.name == "backward_step_net":
            arg.ClearField("n")
        elif arg.name == "step_net":
            needed.update(dict.fromkeys(name for name in arg.n.external_input if name in outer_inputs))
            for step in arg.n.op:
                _rename(step.input, names)
                _rename(step.output, names)
                _place(step, device)
            _rename(arg.n.external_input, names)
            _rename(arg.n.external_output, names)


def _place(op: Any, device: Any) -> None:
    if device is not None:
        op.device_option.device_type = device.device_type
        op.device_option.device_id = device.device_id


def _rename(field: Any, names: Mapping[str, str]) -> None:
    field[:] = [names.get(name, name) for name in field]
