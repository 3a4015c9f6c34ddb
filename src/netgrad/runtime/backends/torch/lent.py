"""The type of tensors that a user and a workspace hold in common (`netgrad.runtime.lending`)."""

from __future__ import annotations

import torch

from netgrad.runtime.lending import Joined, Lent, Visible


class LentTensor(Lent, torch.Tensor):
    """A tensor that shares the storage of a user's."""


class JoinedTensor(Joined, torch.Tensor):
    """A tensor that shares its storage with other blobs."""


class VisibleTensor(Visible, torch.Tensor):
    """A tensor on a storage that others may write into."""
