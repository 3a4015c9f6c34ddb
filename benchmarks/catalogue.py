"""All nets by name, in the order of the table."""

from __future__ import annotations

from benchmarks import dense, images, sequences, sparse

_FOUND = {net.name: net for module in (dense, images, sequences, sparse) for net in module.NETS}
NETS = {name: _FOUND[name] for name in ("mlp", "lenet", "resnet50", "lstm", "dlrm", "transformer", "video", "wide",
                                        "tiny")}
