"""`Net`: a NetDef and everything one does to it."""

from __future__ import annotations

from netgrad.graph.net_building import NetBuilding
from netgrad.graph.net_interface import NetInterface


class Net(NetBuilding, NetInterface):
    """A list of operators on named blobs, to which calling ``net.X(inputs, outputs, **arguments)`` appends operator X."""
