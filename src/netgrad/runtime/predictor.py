"""`Predictor`: a net with its parameters, called like a function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import BlobNotFound, NetError
from netgrad.runtime.workspace import Workspace, definition_of


class Predictor:
    """A net to be run on inputs again and again.

    Its parameters and results lie in a workspace of its own; what that lacks is looked up, and written, in ``parent``.

    Args:
        init_net: makes the parameters, once.
        predict_net: its external outputs are the results.
        parent: the current workspace unless given.
    """

    def __init__(self, init_net: Any, predict_net: Any, parent: Workspace | None = None) -> None:
        self.workspace = Workspace(Workspace.current if parent is None else parent)
        self.definition = caffe2_pb2.NetDef()
        self.definition.CopyFrom(definition_of(predict_net, caffe2_pb2.NetDef))
        init = definition_of(init_net, caffe2_pb2.NetDef)
        self.workspace.run_net_once(init)
        made = {name for op in init.op for name in op.output}
        #: external inputs that the initial net does not make, in order
        self.inputs = [name for name in self.definition.external_input if name not in made]
        for name in self.definition.external_input:
            self.workspace.create_blob(name)
        self._net = self.workspace.create_net(self.definition)

    def run(self, inputs: Mapping[str, Any] | Sequence[Any]) -> list[np.ndarray]:
        """The external outputs of the net for some inputs.

        Args:
            inputs: blob -> value; or values, in the order of the external inputs of the net.

        Raises:
            BlobNotFound: there is no blob of that name.
            NetError: there are more values than external inputs, or they are no list.
        """
        if not isinstance(inputs, Mapping):
            if not isinstance(inputs, (list, tuple)):
                raise NetError(f"the inputs are a {type(inputs).__name__}; give a list of arrays, or a dict by name")
            names = list(self.definition.external_input)
            if len(inputs) > len(names):
                raise NetError(f"there are {len(inputs)} inputs; the net has {len(names)} external ones: "
                               f"{', '.join(names)}")
            inputs = dict(zip(names, inputs))
        for name, value in inputs.items():
            if not self.workspace.has_blob(name):
                raise BlobNotFound(f"there is no blob {name!r}; the net's inputs are {', '.join(self.inputs)}")
            self.workspace.feed_blob(name, value)
        self._net.run()
        return [self.workspace.fetch_blob(name) for name in self.definition.external_output]
