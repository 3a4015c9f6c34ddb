"""`Net`: a NetDef and everything one does to it."""

from __future__ import annotations

from typing import Any

from netgrad.graph.net_cloning import NetCloning
from netgrad.graph.net_editing import NetEditing
from netgrad.graph.net_helpers import NetHelpers
from netgrad.graph.net_records import NetRecords


class Net(NetHelpers, NetCloning, NetEditing, NetRecords):
    """A list of operators on named blobs; ``net.X(inputs, outputs, **arguments)`` appends operator X."""

    def AddObserver(self, observer_type: str) -> Any:
        """Makes an observer ("TimeObserver", "RunCountObserver", ...) watch the created net of this name."""
        from netgrad.runtime.observers import AddObserverToNet

        return AddObserverToNet(self.Name(), observer_type)

    def RemoveObserver(self, observer: Any) -> None:
        """Ends what `AddObserver` began."""
        from netgrad.runtime.observers import RemoveObserverFromNet

        RemoveObserverFromNet(self.Name(), observer)

    def NumObservers(self) -> int:
        """How many observers watch the created net of this name."""
        from netgrad.runtime.observers import NumObserversOnNet

        return NumObserversOnNet(self.Name())

    def _repr_html_(self) -> str:
        """The picture of the net, for notebooks."""
        from netgrad.tools.drawing import draw

        return draw(self)


def get_net_name(netlike: Net | object | str) -> str:
    """The name of a Net or NetDef; a name is its own."""
    if isinstance(netlike, Net):
        return netlike.Name()
    return str(getattr(netlike, "name", netlike))
