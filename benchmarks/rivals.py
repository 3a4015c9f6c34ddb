"""Who is measured against whom: the contenders, and how each is started."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OURS = "netgrad"


@dataclass(frozen=True)
class Contender:
    """Somebody who trains the nets.

    Attributes:
        title: for the table.
        environment: variables that its process is started with.
        usual: whether it takes part unless others are named.
        nets: those it takes part in unless it is named itself; empty: all.
        tolerance: how far the losses of the first step, and of later ones, may be from ours, relative to them.
    """

    name: str
    title: str
    environment: Mapping[str, str] = field(default_factory=dict)
    usual: bool = True
    nets: tuple[str, ...] = ()
    tolerance: tuple[float, float] = (1e-3, 1e-2)

    @property
    def missing(self) -> str | None:
        """What it lacks on this machine; None if nothing."""
        if self.name == "caffe2" and not os.environ.get("CAFFE2_PYTHON"):
            return "CAFFE2_PYTHON does not name an interpreter that has it"
        if self.name == "netgrad-keep":
            from caffe2.python import workspace

            if "keep" not in inspect.signature(workspace.CreateNet).parameters:
                return "CreateNet takes no keep= here"
        if self.name == "torch-compile" and not any(shutil.which(c) for c in ("c++", "g++", "clang++")):
            return "there is no C++ compiler"
        return None

    @property
    def python(self) -> str:
        return os.environ["CAFFE2_PYTHON"] if self.name == "caffe2" else sys.executable


_IMAGES = ("lenet", "resnet50", "video")
_LOW = ("resnet50",)
CONTENDERS = {contender.name: contender for contender in (
    Contender(OURS, "netgrad"),
    Contender("netgrad-plain", "plain plan", {"NETGRAD_PASSES": "none"}, usual=False),
    Contender("netgrad-keep", "`keep=`", usual=False),
    Contender("netgrad-numpy", "on NumPy", {"NETGRAD_BACKEND": "numpy"}, usual=False),
    Contender("netgrad-bfloat16", "in bfloat16", {"NETGRAD_PASSES": "+bfloat16"}, nets=_LOW, tolerance=(0.1, 0.2)),
    Contender("torch", "PyTorch"),
    Contender("torch-last", "PyTorch, channels last", nets=_IMAGES),
    Contender("torch-bfloat16", "PyTorch, autocast", nets=_LOW, tolerance=(0.1, 0.2)),
    Contender("torch-compile", "torch.compile", usual=False),
    Contender("caffe2", "Caffe2"),
)}


def chosen(named: Sequence[str], compiled: bool) -> list[Contender]:
    """Ourselves, and the rivals that are named, or that usually take part and are there.

    Raises ValueError for an unknown name, and for one that is named and cannot take part here.
    """
    for name in named:
        if name not in CONTENDERS:
            raise ValueError(f"there is no contender {name!r}; there are {', '.join(CONTENDERS)}")
        if why := CONTENDERS[name].missing:
            raise ValueError(f"{name} cannot take part: {why}")
    names = {OURS, *named} if named else {c.name for c in CONTENDERS.values() if c.usual and c.missing is None}
    if compiled:
        if why := CONTENDERS["torch-compile"].missing:
            raise ValueError(f"torch-compile cannot take part: {why}")
        names.add("torch-compile")
    return [c for c in CONTENDERS.values() if c.name in names]


def takes_part(contender: Contender, net: str, named: Sequence[str]) -> bool:
    if contender.name == "torch-last":
        return net in contender.nets
    return not contender.nets or net in contender.nets or contender.name in named
