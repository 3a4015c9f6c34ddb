"""``python -m netgrad.demo.predict FOLDER``: loads what the demo saved, and predicts. It builds no net."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from netgrad.demo.artifacts import PARAMETERS, PREDICT_NET, read_held_out, save_arrays
from netgrad.proto.files import read_net
from netgrad.runtime.workspace import Workspace

PREDICTIONS = "predictions.npz"


def main(folder: str) -> None:
    """Writes ``predictions.npz`` with the probabilities of the held-out digits and the id of this process."""
    where = Path(folder)
    net = read_net(where / PREDICT_NET)
    workspace = Workspace()
    with np.load(where / PARAMETERS, allow_pickle=False) as parameters:
        for name in parameters.files:
            workspace.feed_blob(name, parameters[name])
    workspace.feed_blob("image", read_held_out(where).images)
    workspace.run_net_once(net)
    save_arrays(
        where / PREDICTIONS, {"probability": workspace.fetch_blob("probability"), "process": np.array(os.getpid())}
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(130)
