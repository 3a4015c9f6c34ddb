"""Pictures of nets, as SVG, made without any other program.

`draw` shows the forward pass flowing down, the backward pass flowing up beside it, and the updates beside the gradients
that they use (see `netgrad.tools.diagram`). Pointing at something shows what it is, where it was written, who reads it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from netgrad.tools.diagram import (
    BACKWARD,
    BEND,
    FORWARD,
    READ,
    REWRITE,
    UPDATE,
    BlobPill,
    Diagram,
    OperatorBox,
    diagram,
)
from netgrad.tools.layers import Node, arrange
from netgrad.tools.printing import OperatorLine, operator_lines

FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, sans-serif"
TITLES = {FORWARD: "Forward", BACKWARD: "Backward", UPDATE: "Updates"}
ARROWS = {FORWARD: "↓", BACKWARD: "↑", UPDATE: "↓"}

BOX_HEIGHT, PILL_HEIGHT = 40, 22
ROW_GAP, GAP = 24, 14
LANE_GAP, LANE_PADDING, MARGIN = 28, 26, 28
HEADER, LANE_HEADER, LEGEND = 58, 40, 52
BOX_FONT, DETAIL_FONT, PILL_FONT = 13.0, 10.0, 11.0
LONGEST_LABEL, LONGEST_DETAIL = 30, 34

_RULES = """
.f .box { fill: #eef4ff; stroke: #3b6fd4 }
.b .box { fill: #fff1e6; stroke: #d9660b }
.u .box { fill: #e9f8ef; stroke: #22915a }
.f .lane { fill: #f6f9ff }
.b .lane { fill: #fff9f3 }
.u .lane { fill: #f4fbf7 }
.f .head { fill: #2f5bb3 }
.b .head { fill: #b5530a }
.u .head { fill: #1b7549 }
.box { stroke-width: 1.4 }
.pill { stroke-width: 1.1 }
.blob .pill { fill: #fff; stroke: #aab4c3 }
.gradient .pill { fill: #fff; stroke: #eba05c }
.parameter .pill { fill: #f1ebfe; stroke: #8b63d9 }
.input .pill { fill: #e8edf3; stroke: #5c6b80 }
.copy .pill { stroke-dasharray: 3 2.5; fill-opacity: .55 }
.result .pill { stroke-width: 2.4 }
.edge { fill: none; stroke: #97a3b4; stroke-width: 1.2 }
.b .edge { stroke: #dba576 }
.u .edge { stroke: #8fc3a6 }
.tip { fill: #97a3b4 }
.b .tip { fill: #dba576 }
.u .tip { fill: #8fc3a6 }
.title { font-weight: 700; fill: #16202e }
.type { font-weight: 600; fill: #16202e }
.detail { fill: #647084 }
.name { fill: #2b3648 }
.copy .name { fill: #66728a }
.count { fill: #647084 }
.key { fill: #46526a }
.op:hover .box { stroke-width: 2.6 }
.bl:hover .pill { stroke-width: 2.6 }
"""
# A page may hold several pictures, and things of its own with such names.
STYLE = "\n".join(f".netgrad {rule}" for rule in _RULES.strip().splitlines())
CLASSES = {FORWARD: "f", BACKWARD: "b", UPDATE: "u"}
KEYS = {FORWARD: "operator", BACKWARD: "gradient operator", UPDATE: "update"}
BLOB_KEYS = (("input", "from outside"), ("parameter", "parameter"), ("blob", "blob"), ("gradient", "gradient"))

#: arguments that say nothing about what an operator computes
_QUIET = {"order", "use_cudnn", "cudnn_exhaustive_search", "exhaustive_search", "ws_nbytes_limit"}


def draw(net: Any, *, parameters: Collection[str] | None = None, title: str | None = None) -> str:
    """The picture of a net, as the text of an SVG document.

    Args:
        net: a `Net`, a NetDef or a model; a `Net` also knows the Python lines of its operators.
        parameters: the blobs that are marked as parameters; without them a model's are taken, else they are guessed.
        title: what stands above the picture; else the net's name.
    """
    if parameters is None and hasattr(net, "GetAllParams"):
        parameters = [str(param) for param in net.GetAllParams("")]
    net = getattr(net, "net", net)
    proto = net.Proto() if hasattr(net, "Proto") else net
    return _Picture(
        diagram(proto, parameters), operator_lines(net), title or proto.name or "net", set(proto.external_output)
    ).svg()


@dataclass
class _Lane:
    """The placed nodes of a lane; `left` and `width` are those of its background."""

    lane: int
    left: float = 0.0
    width: float = 0.0
    boxes: dict[int, Node] = field(default_factory=dict)
    pills: dict[int, Node] = field(default_factory=dict)


class _Picture:
    def __init__(self, shown: Diagram, lines: Sequence[OperatorLine], title: str, outputs: set[str]) -> None:
        self.shown = shown
        self.lines = lines
        self.title = title
        self.outputs = outputs
        self.details = [_detail(line) for line in lines]
        self.parts: list[str] = []
        self.lanes: list[_Lane] = []
        left = float(MARGIN)
        for lane in shown.lanes:
            self.lanes.append(self._lay_out(lane, left))
            left += self.lanes[-1].width + LANE_GAP
        rows = max((box.row for box in shown.operators), default=0) + 1
        self.bottom = self._y(2 * rows) + PILL_HEIGHT / 2 + LANE_PADDING
        self.legend, end = self._legend()
        self.width = max(left - LANE_GAP + MARGIN, end)
        self.height = self.bottom + LEGEND

    def _lay_out(self, lane: int, left: float) -> _Lane:
        placed = _Lane(lane, left)
        nodes: list[Node] = []
        for k, box in enumerate(self.shown.operators):
            if box.lane == lane:
                width = (
                    max(_text_width(box.op.type, BOX_FONT, bold=True), _text_width(self.details[k], DETAIL_FONT)) + 26
                )
                placed.boxes[k] = Node(width, 2 * box.row + 1)
                nodes.append(placed.boxes[k])
        for k, pill in enumerate(self.shown.blobs):
            if pill.lane == lane:
                label = _short(pill.label, LONGEST_LABEL)
                placed.pills[k] = Node(2 if pill.kind == BEND else _text_width(label, PILL_FONT) + 20, pill.line)
                nodes.append(placed.pills[k])
        number = {id(node): k for k, node in enumerate(nodes)}
        edges = [
            (number[id(placed.pills[pill])], number[id(placed.boxes[box])])
            for pill, box, _ in self.shown.edges
            if box in placed.boxes
        ] + [
            (number[id(placed.pills[start])], number[id(placed.pills[bend])])
            for start, bend in self.shown.links
            if bend in placed.pills
        ]
        arrange(nodes, edges, GAP)
        for node in nodes:
            node.x += left + LANE_PADDING
        right = max((node.x + node.width / 2 for node in nodes), default=left)
        placed.width = max(right - left + LANE_PADDING, 150.0)
        return placed

    @staticmethod
    def _y(line: int) -> float:
        """The middle of a line: even ones hold blobs, odd ones operators."""
        pitch = BOX_HEIGHT + PILL_HEIGHT + 2 * ROW_GAP
        return HEADER + LANE_HEADER + PILL_HEIGHT / 2 + pitch * (line // 2) + (pitch / 2) * (line % 2)

    def svg(self) -> str:
        counts = f"{len(self.lines)} operators, {len({pill.version[0] for pill in self.shown.blobs})} blobs"
        size = f"{self.width:.0f}", f"{self.height:.0f}"
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="netgrad" width="{size[0]}" height="{size[1]}" '
            f'viewBox="0 0 {size[0]} {size[1]}" font-family={quoteattr(FONT)}>',
            f"<title>{escape(self.title)}</title>",
            f"<style>\n{STYLE}\n</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            _text(MARGIN, 36, self.title, "title", 20, "start"),
            _text(MARGIN + _text_width(self.title, 20, bold=True) + 14, 36, counts, "count", 12, "start"),
        ]
        for lane in self.lanes:
            self._draw_lane(lane)
        self.parts += [*self.legend, "</svg>"]
        return "\n".join(self.parts) + "\n"

    def _draw_lane(self, lane: _Lane) -> None:
        middle = lane.left + lane.width / 2
        heading = f"{TITLES[lane.lane]} {ARROWS[lane.lane]}" if len(self.lanes) > 1 else ""
        self.parts.append(f'<g class="{CLASSES[lane.lane]}">')
        self.parts.append(
            f'<rect class="lane" x="{lane.left:.1f}" y="{HEADER}" width="{lane.width:.1f}" '
            f'height="{self.bottom - HEADER:.1f}" rx="14"/>'
        )
        if heading:
            self.parts.append(_text(middle, HEADER + 25, heading, "head", 13, bold=True))
        for pill, box, kind in self.shown.edges:
            if box in lane.boxes:
                self._draw_edge(pill, lane.pills[pill], lane.boxes[box], kind)
        for start, bend in self.shown.links:
            if bend in lane.pills:
                self._draw_link(start, bend, lane)
        for k, node in lane.pills.items():
            if self.shown.blobs[k].kind != BEND:
                self._draw_pill(self.shown.blobs[k], node)
        for k, node in lane.boxes.items():
            self._draw_box(k, self.shown.operators[k], node)
        self.parts.append("</g>")

    def _draw_edge(self, k: int, pill: Node, box: Node, kind: int) -> None:
        down = 1 if pill.line < box.line else -1
        edge_of_pill = self._y(pill.line) + down * self._half(k)
        edge_of_box = self._y(box.line) - down * BOX_HEIGHT / 2
        reach = box.width / 2 - 12
        foot = box.x + max(-reach, min(reach, pill.x - box.x))
        start, end = (pill.x, edge_of_pill), (foot, edge_of_box)
        if kind == REWRITE:
            self.parts.append(_curve(*start, *end) + _tip(*end, down) + _tip(*start, -down))
        elif kind == READ:
            self.parts.append(_curve(*start, *end) + _tip(*end, down))
        else:
            self.parts.append(_curve(*end, *start) + _tip(*start, -down))

    def _draw_link(self, start: int, bend: int, lane: _Lane) -> None:
        a, b = lane.pills[start], lane.pills[bend]
        down = 1 if a.line < b.line else -1
        self.parts.append(_curve(a.x, self._y(a.line) + down * self._half(start), b.x, self._y(b.line)))

    def _half(self, blob: int) -> float:
        return 0 if self.shown.blobs[blob].kind == BEND else PILL_HEIGHT / 2

    def _draw_pill(self, blob: BlobPill, node: Node) -> None:
        classes = f"bl {blob.kind}" + " copy" * blob.copy
        if blob.version[0] in self.outputs or not (blob.readers or blob.copy):
            classes += " result"
        self.parts.append(
            f'<g class="{classes}"><title>{escape(self._about_blob(blob))}</title>'
            + _rect("pill", node, self._y(node.line), PILL_HEIGHT, PILL_HEIGHT / 2)
            + _text(node.x, self._y(node.line) + 4, _short(blob.label, LONGEST_LABEL), "name", PILL_FONT)
            + "</g>"
        )

    def _draw_box(self, k: int, box: OperatorBox, node: Node) -> None:
        y = self._y(node.line)
        detail = self.details[k]
        self.parts.append(
            f'<g class="op"><title>{escape(self._about_operator(k, box))}</title>'
            + _rect("box", node, y, BOX_HEIGHT, 7)
            + _text(node.x, y + (-2 if detail else 5), box.op.type, "type", BOX_FONT)
            + (_text(node.x, y + 13, detail, "detail", DETAIL_FONT) if detail else "")
            + "</g>"
        )

    def _about_operator(self, k: int, box: OperatorBox) -> str:
        about = f"#{k}  {self.lines[k]}"
        if box.partner is not None:
            about += f"\nbelongs to #{box.partner} {self.shown.operators[box.partner].op.type}"
        return about

    def _about_blob(self, blob: BlobPill) -> str:
        def named(k: int) -> str:
            return f"#{k} {self.shown.operators[k].op.type}"

        name, version = blob.version
        about = [f"{name}, version {version}" + (" (a parameter)" if blob.kind == "parameter" else "")]
        about.append(f"written by {named(blob.writer)}" if blob.writer is not None else "comes from outside")
        if blob.readers:
            more = f" and {len(blob.readers) - 6} more" if len(blob.readers) > 6 else ""
            about.append(f"read by {', '.join(map(named, blob.readers[:6]))}{more}")
        if blob.copy:
            about.append("(shown here again, close to where it is read)")
        return "\n".join(about)

    def _legend(self) -> tuple[list[str], float]:
        """The keys of colours and outlines, and where they end."""
        y = self.bottom + LEGEND / 2 + 2
        place = f'y="{y - 8}" width="22" height="16" rx="4"'
        entries = [
            (f'<g class="{CLASSES[lane.lane]}"><rect class="box" x="{{x}}" {place}/></g>', KEYS[lane.lane])
            for lane in self.lanes
        ]
        kinds = {pill.kind for pill in self.shown.blobs}
        entries += [(_legend_pill(kind, y), label) for kind, label in BLOB_KEYS if kind in kinds]
        if any(pill.copy for pill in self.shown.blobs):
            entries.append((_legend_pill("blob copy", y), "written elsewhere"))
        entries.append((_legend_pill("blob result", y), "read by nobody, or an output"))
        if any(kind == REWRITE for _, _, kind in self.shown.edges):
            tips = f'<path class="tip" d="M{{x}} {y}l6 -3.6v7.2zm22 0l-6 -3.6v7.2z"/>'
            arrow = f'<path class="edge" d="M{{x}} {y}h22"/>{tips}'
            entries.append((f'<g class="u">{arrow}</g>', "read and rewritten"))
        parts, x = [], float(MARGIN)
        for shape, label in entries:
            parts.append(shape.format(x=f"{x:.1f}") + _text(x + 30, y + 4, label, "key", 11, "start"))
            x += 30 + _text_width(label, 11) + 22
        return parts, x


def _legend_pill(classes: str, y: float) -> str:
    return f'<g class="{classes}"><rect class="pill" x="{{x}}" y="{y - 7}" width="24" height="14" rx="7"/></g>'


def _detail(line: OperatorLine) -> str:
    """The arguments that fit below an operator's type."""
    shown = ", ".join(f"{name}={value}" for name, value in line.arguments if name not in _QUIET)
    return shown if len(shown) <= LONGEST_DETAIL else shown[: LONGEST_DETAIL - 1].rstrip(" ,") + "…"


def _short(label: str, longest: int) -> str:
    half = (longest - 1) // 2
    return label if len(label) <= longest else f"{label[:half]}…{label[-half:]}"


def _curve(x0: float, y0: float, x1: float, y1: float) -> str:
    half = (y0 + y1) / 2
    return f'<path class="edge" d="M{x0:.1f} {y0:.1f}C{x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}"/>'


def _tip(x: float, y: float, down: int) -> str:
    """The head of an arrow that ends here."""
    return f'<path class="tip" d="M{x:.1f} {y:.1f}l-3.6 {-6.5 * down}h7.2z"/>'


def _rect(kind: str, node: Node, y: float, height: float, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{node.x - node.width / 2:.1f}" y="{y - height / 2:.1f}" width="{node.width:.1f}" '
        f'height="{height}" rx="{radius:g}"/>'
    )


def _text(x: float, y: float, text: str, kind: str, size: float, anchor: str = "middle", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )


def _text_width(text: str, size: float, bold: bool = False) -> float:
    """Roughly, and rather too wide than too narrow, since fonts differ."""
    width = sum(
        0.34 if c in "ijltfr.,:;'|!()[]/ " else 0.92 if c in "mwMW@—…" else 0.70 if c.isupper() else 0.58 for c in text
    )
    return width * size * (1.06 if bold else 1.0)


def save_drawing(net: Any, path: str | os.PathLike[str], **options: Any) -> None:
    """Writes the picture of a net (see `draw`) to a file whose name ends in ``.svg``, or in nothing.

    Raises:
        ValueError: the name ends in something else, which would say what the file does not hold.
    """
    from netgrad.proto.files import replace_file

    suffix = os.path.splitext(os.fspath(path))[1]
    if suffix.lower() not in ("", ".svg"):
        raise ValueError(f"{os.fspath(path)}: a drawing is SVG; let its name end in .svg, not in {suffix}")
    with replace_file(path) as file:
        file.write(draw(net, **options).encode())
