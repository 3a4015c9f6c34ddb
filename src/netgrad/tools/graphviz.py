"""Nets and plans as Graphviz graphs, by pydot.

The functions return pydot graphs: ``GetPydotGraph(net).write_pdf("net.pdf")``. Pictures of them are made by the program
``dot``; `netgrad.tools.drawing.draw` needs neither.
"""

from __future__ import annotations

import importlib
import json
import logging
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from netgrad.proto import caffe2_pb2

OP_STYLE = {"shape": "box", "color": "#0F9D58", "style": "filled", "fontcolor": "#FFFFFF"}
BLOB_STYLE = {"shape": "octagon"}
SUBSTEP_STYLE = {"arrowhead": "dot", "style": "dashed"}

#: of substeps that run at once, so many are drawn
MOST_CONCURRENT_STEPS = 3

logger = logging.getLogger(__name__)

#: the version of a blob: its name, and how often it was written before
Version = tuple[str, int]


def _pydot() -> Any:
    try:
        return importlib.import_module("pydot")
    except ImportError as error:
        raise ImportError("Graphviz graphs are made by pydot, which is not installed: pip install 'netgrad[draw]'. "
                          "netgrad.tools.drawing.draw(net) makes an SVG without it") from error


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _operators_and_name(operators_or_net: Any, name: str | None) -> tuple[Sequence[caffe2_pb2.OperatorDef], str]:
    net = operators_or_net.Proto() if hasattr(operators_or_net, "Proto") else operators_or_net
    if isinstance(net, caffe2_pb2.NetDef):
        return net.op, name or net.name
    if isinstance(net, caffe2_pb2.PlanDef):
        raise TypeError(f"expected a net or operators, found the plan {net.name!r}; GetPlanGraph draws plans")
    return net, name or "unnamed"


def _versions(operators: Iterable[Any]) -> Iterator[tuple[int, Any, list[Version], list[Version]]]:
    """Positions and operators, with the versions that they read and write."""
    last: dict[str, int] = {}
    for position, op in enumerate(operators):
        reads = [(name, last.setdefault(name, 0)) for name in op.input]
        writes = []
        for name in op.output:
            last[name] = last.get(name, -1) + 1
            writes.append((name, last[name]))
        yield position, op, reads, writes


def GetOpNodeProducer(append_output: bool, **style: Any) -> Callable[[Any, int], Any]:
    """How operators are drawn: a function from an operator and its position to a pydot node.

    Args:
        append_output: whether the names of its outputs stand below its type.
        style: attributes of the node.
    """
    def operator_node(op: caffe2_pb2.OperatorDef, position: int) -> Any:
        title = f"{op.name}/{op.type}" if op.name else op.type
        lines = [f"{title} (op#{position})", *(op.output if append_output else ())]
        return _pydot().Node(_quoted("\n".join(lines)), **style)

    return operator_node


def GetBlobNodeProducer(**style: Any) -> Callable[[str, str], Any]:
    """How blobs are drawn: a function from a node's name and its label to a pydot node."""
    def blob_node(node_name: str, label: str) -> Any:
        return _pydot().Node(node_name, label=label, **style)

    return blob_node


def GetPydotGraph(
    operators_or_net: Any,
    name: str | None = None,
    rankdir: str = "LR",
    op_node_producer: Callable[[Any, int], Any] | None = None,
    blob_node_producer: Callable[[str, str], Any] | None = None,
) -> Any:
    """The graph of operators and the blobs between them; a blob that is written again is another node.

    Args:
        operators_or_net: a net, its NetDef, or OperatorDefs.
        name: of the graph; else the net's.
        rankdir: the direction of flow: "LR", "TB", ...
        op_node_producer: see `GetOpNodeProducer`.
        blob_node_producer: see `GetBlobNodeProducer`.

    Returns:
        A ``pydot.Dot``.

    Raises:
        ImportError: pydot is not installed.
    """
    pydot = _pydot()
    operator_node = op_node_producer or GetOpNodeProducer(False, **OP_STYLE)
    blob_node = blob_node_producer or GetBlobNodeProducer(**BLOB_STYLE)
    operators, name = _operators_and_name(operators_or_net, name)
    graph = pydot.Dot(name, rankdir=rankdir)
    blobs: dict[Version, Any] = {}

    def blob(version: Version) -> Any:
        if version not in blobs:
            blobs[version] = blob_node(_quoted(f"{version[0]} {version[1]}"), _quoted(version[0]))
            graph.add_node(blobs[version])
        return blobs[version]

    for position, op, reads, writes in _versions(operators):
        node = operator_node(op, position)
        graph.add_node(node)
        for version in reads:
            graph.add_edge(pydot.Edge(blob(version), node))
        for version in writes:
            graph.add_edge(pydot.Edge(node, blob(version)))
    return graph


def GetPydotGraphMinimal(
    operators_or_net: Any,
    name: str | None = None,
    rankdir: str = "LR",
    minimal_dependency: bool = False,
    op_node_producer: Callable[[Any, int], Any] | None = None,
) -> Any:
    """The graph of operators alone, each joined to those whose outputs it reads.

    Args:
        minimal_dependency: leaves out what follows from the rest: from a to c where a goes to b and b to c.

    The others are those of `GetPydotGraph`, as are result and error.
    """
    pydot = _pydot()
    operator_node = op_node_producer or GetOpNodeProducer(False, **OP_STYLE)
    operators, name = _operators_and_name(operators_or_net, name)
    graph = pydot.Dot(name, rankdir=rankdir)
    nodes: list[Any] = []
    above: list[set[int]] = []
    writers: dict[str, int] = {}
    for position, op in enumerate(operators):
        nodes.append(operator_node(op, position))
        graph.add_node(nodes[-1])
        parents = list(dict.fromkeys(writers[name] for name in op.input if name in writers))
        if minimal_dependency:
            above.append(set(parents).union(*(above[parent] for parent in parents)))
            parents = [parent for parent in parents if not any(parent in above[other] for other in parents)]
        for parent in parents:
            graph.add_edge(pydot.Edge(nodes[parent], nodes[position]))
        writers.update(dict.fromkeys(op.output, position))
    return graph


def GetOperatorMapForPlan(plan_def: caffe2_pb2.PlanDef) -> dict[str, Sequence[caffe2_pb2.OperatorDef]]:
    """The operators of a plan's nets, by ``plan_net``, or ``plan_network_position`` for nets without a name."""
    return {f"{plan_def.name}_{net.name if net.HasField('name') else f'network_{k}'}": net.op
            for k, net in enumerate(plan_def.network)}


def GetPlanGraph(plan_def: Any, name: str | None = None, rankdir: str = "TB") -> Any:
    """The graph of a plan's steps, substeps and nets; of concurrent substeps the first few.

    Args:
        plan_def: a plan, or its PlanDef.
        name: of the graph; else the plan's.
        rankdir: the direction of flow.

    Returns:
        A ``pydot.Dot``.

    Raises:
        ImportError: pydot is not installed.
    """
    plan = plan_def.Proto() if hasattr(plan_def, "Proto") else plan_def
    graph = _pydot().Dot(name or plan.name, rankdir=rankdir)
    _draw_steps(plan.execution_step, graph)
    return graph


def _draw_steps(steps: Sequence[caffe2_pb2.ExecutionStep], graph: Any, concurrent: bool = False) -> list[Any]:
    nodes: list[Any] = []
    for step in steps:
        node = _add_node(graph, _label(step), OP_STYLE, nodes[-1] if nodes and not concurrent else None)
        nodes.append(node)
        if step.network:
            below: list[Any] = []
            for net in step.network:
                below.append(_add_node(graph, net, {}, below[-1] if below else None))
        elif step.concurrent_substeps:
            below = _draw_steps(step.substep[:MOST_CONCURRENT_STEPS], graph, concurrent=True)
            left_out = len(step.substep) - MOST_CONCURRENT_STEPS
            if left_out > 0:
                below.append(_add_node(graph, f"{left_out} more steps", OP_STYLE))
        else:
            below = _draw_steps(step.substep, graph)
        for child in below if step.concurrent_substeps else below[:1]:
            graph.add_edge(_pydot().Edge(node, child, **SUBSTEP_STYLE))
    return nodes


def _label(step: caffe2_pb2.ExecutionStep) -> str:
    lines = [step.name]
    if step.report_net:
        lines.append(f"Reporter: {step.report_net}")
    if step.should_stop_blob:
        lines.append(f"Stopper: {step.should_stop_blob}")
    if step.concurrent_substeps:
        lines.append("Concurrent")
    if step.only_once:
        lines.append("Once")
    return "\n".join(lines)


def _add_node(graph: Any, label: str, style: Mapping[str, str], after: Any = None) -> Any:
    """Adds a node of its own, for labels may repeat, and an edge from the one before it."""
    pydot = _pydot()
    node = pydot.Node(f"node{len(graph.get_node_list())}", label=_quoted(label), **style)
    graph.add_node(node)
    if after is not None:
        graph.add_edge(pydot.Edge(after, node))
    return node


def GetGraphInJson(operators_or_net: Any, output_filepath: str | Path) -> None:
    """Writes the graph of operators and blobs as JSON.

    ``nodes`` have ``id``, ``label``, ``type`` ("op" or "blob") and, for operators, ``op_id``, the position; ``edges``
    have the ids ``source`` and ``target``.
    """
    operators, _ = _operators_and_name(operators_or_net, None)
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, int]] = []
    blobs: dict[Version, int] = {}

    def add(**node: Any) -> int:
        nodes.append({"id": len(nodes), **node})
        return len(nodes) - 1

    def blob(version: Version) -> int:
        if version not in blobs:
            blobs[version] = add(label=version[0], type="blob")
        return blobs[version]

    for position, op, reads, writes in _versions(operators):
        node = add(label=f"{op.name}/{op.type}" if op.name else op.type, op_id=position, type="op")
        edges += [{"source": blob(version), "target": node} for version in reads]
        edges += [{"source": node, "target": blob(version)} for version in writes]
    Path(output_filepath).write_text(json.dumps({"nodes": nodes, "edges": edges}))


def GetGraphPngSafe(func: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    """The picture of the graph that a function makes (`GetPydotGraph` or a like one), as PNG.

    Whatever fails is logged, and the picture is a white pixel then.
    """
    try:
        graph = func(*args, **kwargs)
        if not isinstance(graph, _pydot().Dot):
            raise TypeError(f"{func.__name__} returned {graph!r}; expected a pydot.Dot")
        return bytes(graph.create_png())
    except Exception as error:
        logger.error("no picture of the graph: %s", error)
        return _white_pixel()


def _white_pixel() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)  # width, height, bits, greyscale, then the only methods
    row = b"\x00\xff"  # unfiltered, white
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
