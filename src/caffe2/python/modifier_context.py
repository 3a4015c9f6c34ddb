"""Caffe2's `modifier_context`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.modifiers": "DEFAULT_MODIFIER ModifierContext UseModifierBase"})
