"""A RecurrentNetwork written out: the step net's operators once for each time step, as ordinary operators.

Nothing here is shared with the way netgrad runs recurrent networks or differentiates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caffe2.python import core


def unrolled(net: Any, length: int, batch: int, ranks: Mapping[str, int]) -> Any:
    """The net, forward operators only, with each RecurrentNetwork written out for sequences of that length.

    ``ranks``: the number of dimensions of the states' first values.
    """
    result = core.Net("unrolled")
    result.Proto().external_input.extend(net.Proto().external_input)
    for position, op in enumerate(net.Proto().op):
        if op.is_gradient_op:
            continue
        if op.type == "RecurrentNetwork":
            _write_out(result, op, f"unrolled{position}", length, batch, ranks)
        else:
            result.Proto().op.append(op)
    return result


def _b(name: str) -> Any:
    return core.BlobReference(name)


def _write_out(net: Any, op: Any, prefix: str, length: int, batch: int, ranks: Mapping[str, int]) -> None:
    arguments = {a.name: a for a in op.arg}
    step = arguments["step_net"].n
    states = _strings(arguments, "recurrent_states")
    rows: dict[str, list[Any]] = {}
    for state, k in zip(states, arguments["initial_recurrent_state_ids"].ints):
        rows[state] = [_first(net, op.input[k], f"{prefix}/{state}", batch, ranks[op.input[k]])]
    links = list(zip(_strings(arguments, "link_internal"), _strings(arguments, "link_external"),
                     arguments["link_offset"].ints))
    written = {name for each in step.op for name in each.output}
    for t in range(length):
        names: dict[str, str] = {}
        for internal, external, offset in links:
            if internal in written or internal in names:
                continue
            names[internal] = f"{prefix}/{internal}@{t}"
            if external in rows:
                net.Copy(_b(rows[external][t + offset]), _b(names[internal]))
            else:
                net.Slice(_b(external), _b(names[internal]), starts=[t, 0, 0], ends=[t + 1, -1, -1])
        timestep = arguments["timestep"].s.decode()
        names[timestep] = f"{prefix}/{timestep}@{t}"
        net.GivenTensorIntFill([], _b(names[timestep]), shape=[1], values=[t])
        for each in step.op:
            copy = net.Proto().op.add()
            copy.CopyFrom(each)
            copy.input[:] = [names.get(name, name) for name in each.input]
            for name in each.output:
                names.setdefault(name, f"{prefix}/{name}@{t}")
            copy.output[:] = [names[name] for name in each.output]
        for internal, external, offset in links:
            if external in rows and t + offset == len(rows[external]):
                row = _b(f"{prefix}/{external}/{t + offset}")
                net.Reshape(_b(names[internal]), [row, row + "_shape"], shape=[1, batch, -1])
                rows[external].append(str(row))
    for source, name, offset in zip(_strings(arguments, "alias_src"), op.output, arguments["alias_offset"].ints):
        net.Concat([_b(row) for row in rows[source][offset:]], [_b(name), _b(f"{prefix}/{name}_rows")], axis=0)


def _strings(arguments: Any, name: str) -> list[str]:
    return [value.decode() for value in arguments[name].strings]


def _first(net: Any, name: str, row: str, batch: int, rank: int) -> str:
    """The first row of a state: the blob itself, or made of one for all sequences alike."""
    if rank == 3:
        return name
    if rank == 2:
        return str(net.ExpandDims(_b(name), _b(f"{row}/first"), dims=[0]))
    wide = net.ExpandDims(_b(name), _b(f"{row}/wide"), dims=[0, 1])
    return str(net.Tile(wide, _b(f"{row}/first"), tiles=batch, axis=1))
