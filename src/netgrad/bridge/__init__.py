"""netgrad and PyTorch, both ways. Importing this package imports torch; nothing else of netgrad needs it.

- `NetFunction`: a net as a differentiable function of torch tensors; its backward is the net's own backward pass.
- `NetModule`: a net as a ``torch.nn.Module``.
- `from_torch`: an exported module as a net.
- `share`: tensors as blobs, without a copy.
"""

from netgrad.bridge.exported import TranslatedModule, UntranslatableError, from_torch
from netgrad.bridge.function import NetFunction, share
from netgrad.bridge.module import NetModule

__all__ = ["NetFunction", "NetModule", "TranslatedModule", "UntranslatableError", "from_torch", "share"]
