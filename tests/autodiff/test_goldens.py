"""Backward passes as text: each file of ``goldens`` holds a forward net, how it is differentiated, and what came of it.

After a change that is meant, ``NETGRAD_GOLDENS=write pytest tests/autodiff/test_goldens.py`` writes the files anew; the
diff is what there is to review.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.operator import CreateOperator, GradientSlice
from netgrad.proto import caffe2_pb2
from netgrad.tools.printing import format_operator

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "data"))

from net_lines import read_operator, read_ys  # noqa: E402

GOLDENS = sorted((HERE / "goldens").glob("*.txt"))
LINE = "-" * 40


def derive(head: str) -> str:
    """The whole net after differentiation, and the map, for the upper part of a golden file.

    Lines that begin with ``#`` are remarks, ``ys:`` lines differentiate what was read so far, ``with:`` lines hold
    options of the next one as JSON; all others are operators.
    """
    net = Net("golden")
    options: dict[str, object] = {}
    maps = []
    for line in head.splitlines():
        if line.startswith("with: "):
            options = json.loads(line.removeprefix("with: "))
        elif line.startswith("ys: "):
            gradients = net.AddGradientOperators(read_ys(line.removeprefix("ys: "), sys.modules[__name__]), **options)
            maps.append(gradients)
        elif line and not line.startswith("#"):
            net.Proto().op.append(read_operator(line, CreateOperator, caffe2_pb2))
    lines = [("  " if op.is_gradient_op else "") + format_operator(op) for op in net.Proto().op]
    for gradients in maps:
        pairs = sorted((str(blob), gradients[blob]) for blob in gradients)
        lines += ["", *(f"d {blob} = {_name(g)}" for blob, g in pairs)]
    return "\n".join(lines)


def _name(gradient: object) -> str:
    if isinstance(gradient, GradientSlice):
        return f"slice({gradient.indices}, {gradient.values})"
    assert isinstance(gradient, BlobReference)
    return str(gradient)


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_golden(path):
    head, _, expected = path.read_text().partition(f"{LINE}\n")
    found = derive(head)
    if os.environ.get("NETGRAD_GOLDENS") == "write":
        path.write_text(f"{head.rstrip()}\n{LINE}\n{found}\n")
    else:
        assert found.splitlines() == expected.splitlines()


def test_there_are_goldens():
    assert len(GOLDENS) >= 15
