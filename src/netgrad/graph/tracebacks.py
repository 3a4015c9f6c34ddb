"""`operator_tracebacks`: the Python lines of operators, in the form that Caffe2's scripts read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netgrad.graph.net_base import live_nets

#: file, line, function
Frame = tuple[str, int, str]


class OperatorTracebacks(Mapping[str, dict[int, list[Frame]]]):
    """For each net alive, by name: position of an operator -> its frames, of which there is one."""

    def __getitem__(self, net_name: str) -> dict[int, list[Frame]]:
        net = live_nets[net_name]
        lines = {position: net._provenance.line_of(position, op) for position, op in enumerate(net._net.op)}
        return {position: [line] for position, line in lines.items() if line is not None}

    def __iter__(self) -> Iterator[str]:
        return iter(list(live_nets))

    def __len__(self) -> int:
        return len(live_nets)


operator_tracebacks = OperatorTracebacks()
